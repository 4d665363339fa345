import json

import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records import RunRecord, StudyStore, open_study

ITEMS = pl.DataFrame({"item": ["a-1", "a-2"], "testset": ["a", "a"], "shift": ["domain"] * 2, "label": ["yes", "no"]})
ANSWERS = pl.DataFrame(
    {"testset": ["a", "a"], "item": ["a-1", "a-2"], "correct": [1, 0], "margin": [0.5, -0.25], "answer": ["yes", "yes"]}
)


@pytest.fixture
def store(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", ITEMS)
    run = store.run("tiny-0")
    run.write_record(RunRecord("tiny", "a", 8, 0))
    run.write_part(0, ANSWERS)
    run.write_part(16, ANSWERS.with_columns(correct=pl.lit(1)))
    return store


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda _: b""]
)
def test_a_damaged_part_is_set_aside(store, damage):
    run = store.run("tiny-0")
    path = run.part_path(16)
    path.write_bytes(damage(path.read_bytes()))
    assert run.sound_steps() == [0]
    assert path.exists(), "looking changes nothing"
    run.repair()
    assert "checksum" in run.warnings[0]
    assert len(list((store.folder / "aside").iterdir())) == 1
    assert list(run.parts()) == [0]


def test_unfinished_writes_are_removed_and_other_files_kept(store):
    run = store.run("tiny-0")
    for name in (".step-000032.abc.parquet.partial-xyz.parquet", "notes.txt"):
        (run.folder / name).write_text("x")
    run.repair()
    assert sorted(path.name[:5] for path in run.folder.iterdir()) == ["notes", "run.j", "step-", "step-"]


def test_the_same_answers_give_the_same_bytes(store):
    run = store.run("tiny-0")
    before = run.part_path(0)
    assert run.write_part(0, ANSWERS) == before


def test_items_are_stored_once(store):
    store.write_items("a", ITEMS)
    with pytest.raises(InputError, match=r"1 gone \(such as a-1\) and 1 new \(such as a-3\)"):
        store.write_items("a", ITEMS.with_columns(item=pl.Series(["a-3", "a-2"])))
    with pytest.raises(InputError, match="texts, labels or columns have changed"):
        store.write_items("a", ITEMS.with_columns(label=pl.lit("yes")))


def test_damaged_items_are_written_again(store):
    path = store.folder / store.item_files()["a"][0]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"a\.\w+\.parquet: is damaged"):
        open_study(store.folder)
    store.write_items("a", ITEMS)
    assert "moved to" in store.warnings[0]
    assert store.read_items("a").equals(ITEMS)


def test_a_changed_record_is_set_aside(store):
    run = store.run("tiny-0")
    run.write_record(RunRecord("tiny", "a", 8, 0))
    assert not run.warnings
    run.write_record(RunRecord("tiny", "a", 8, 1))
    assert "was changed" in run.warnings[0]
    assert run.record().seed == 1


def test_a_lock_is_held_by_one(store):
    with store.store.lock("runs/tiny-0", wait=False) as mine:
        assert mine
        with store.store.lock("runs/tiny-0", wait=False) as again:
            assert not again
    with store.store.lock("runs/tiny-0", wait=False) as mine:
        assert mine


def test_a_torn_line_stays_alone(tmp_path):
    store = StudyStore(tmp_path).run("r")
    store.folder.mkdir(parents=True)
    log = store.folder / "log.jsonl"
    log.write_text('{"step": 0}\n{"st')
    store.log(step=2)
    store.log(step=4)
    first, torn, *rest = log.read_text().splitlines()
    assert (first, torn) == ('{"step": 0}', '{"st')
    assert [json.loads(line)["step"] for line in rest] == [2, 4]
