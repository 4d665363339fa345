import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records import StudyStore, read_answers, read_study

ITEMS = pl.DataFrame({"item": ["a-1", "a-2"], "testset": ["a", "a"], "shift": ["domain"] * 2, "label": ["yes", "no"]})
ANSWERS = pl.DataFrame(
    {"testset": ["a", "a"], "item": ["a-1", "a-2"], "correct": [1, 0], "margin": [0.5, -0.25], "answer": ["yes", "yes"]}
)


@pytest.fixture
def store(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", ITEMS)
    run = store.run("tiny-0")
    run.write_spec({"model": "tiny", "train_set": "a", "shots": 8, "seed": 0})
    run.write_part(0, ANSWERS)
    run.write_part(16, ANSWERS.with_columns(correct=pl.lit(1)))
    return store


def test_a_study_reads_as_three_tables(store):
    found = read_study(store.folder)
    assert found.subjects["subject"].to_list() == ["tiny-0/0", "tiny-0/16"]
    assert found.subjects["shots"].to_list() == [8, 8]
    assert found.responses.height == 4
    assert found.items["label"].to_list() == ["yes", "no"]
    answers = read_answers(store.folder).frame
    assert {"run", "step", "testset", "item", "correct", "margin"} <= set(answers.columns)
    assert "train_level" not in answers.columns


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda _: b""]
)
def test_a_damaged_part_is_set_aside(store, damage):
    run = store.run("tiny-0")
    path = run.parts()[16]
    path.write_bytes(damage(path.read_bytes()))
    assert list(run.sound_parts()) == [0]
    assert path.exists()  # looking changes nothing
    run.mend()
    assert "checksum" in run.warnings[0]
    assert len(list((store.folder / "aside").iterdir())) == 1
    assert list(run.parts()) == [0]


def test_damage_is_told_with_the_answers(store):
    path = store.run("tiny-0").parts()[16]
    path.write_bytes(path.read_bytes()[1:])
    table = read_answers(store.folder)
    assert "its checksum is wrong" in table.warnings[0]
    assert table.frame["step"].unique().to_list() == [0]


def test_items_of_two_sets_may_share_an_id(store):
    """A level belongs to the item of its own test set."""
    store.write_items("b", ITEMS.with_columns(testset=pl.lit("b"), level=pl.Series([3, 4])))
    part = pl.concat([ANSWERS, ANSWERS.with_columns(testset=pl.lit("b"))])
    store.run("tiny-0").write_part(32, part)
    answers = read_answers(store.folder).frame.filter(step=32)
    assert answers.height == 4
    assert answers["level"].to_list() == [None, None, 3, 4]


def test_the_last_checkpoint_that_is_to_come(store):
    run = store.run("tiny-1")
    run.write_spec({"model": "tiny", "checkpoints": [0, 16, 32]})
    run.write_part(0, ANSWERS)
    assert read_study(store.folder).planned == {"tiny-0": 16, "tiny-1": 32}


def test_the_same_answers_give_the_same_bytes(store):
    run = store.run("tiny-0")
    before = run.parts()[0]
    assert run.write_part(0, ANSWERS) == before


def test_items_are_stored_once(store):
    store.write_items("a", ITEMS)
    with pytest.raises(InputError, match=r"1 are gone \(such as a-1\) and 1 are new \(such as a-3\)"):
        store.write_items("a", ITEMS.with_columns(item=pl.Series(["a-3", "a-2"])))
    with pytest.raises(InputError, match="other texts, labels"):
        store.write_items("a", ITEMS.with_columns(label=pl.lit("yes")))


def test_no_study_no_tables(tmp_path):
    with pytest.raises(InputError, match="is not the directory of a study"):
        read_study(tmp_path)
    for name in ("runs", "items"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="no checkpoint has been evaluated"):
        read_study(tmp_path)


def test_an_unreadable_run_says_so(store):
    (store.folder / "runs" / "tiny-0" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json"):
        read_study(store.folder)
