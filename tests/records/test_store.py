import io
import json

import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records.files import checksum
from breadth.records.store import RunRecord, StudyStore
from breadth.sources import open_study

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


@pytest.mark.parametrize(
    "change",
    [
        {"shift": pl.lit(b"\xff")},
        {"shift": pl.concat_list(pl.lit("domain"))},
        {"label": pl.struct(pl.lit(1).alias("a"))},
        {"level": pl.lit("two")},
        {"difficulty": pl.lit("2020-01-01").str.to_date()},
        {"item": pl.concat_list("item")},
        {"item": pl.lit("a-1")},
    ],
)
def test_items_that_breadth_would_not_write_are_refused_and_stay(store, change):
    path = store.folder / store.item_files()["a"][0]
    changed = io.BytesIO()
    pl.read_parquet(path).with_columns(**change).write_parquet(changed)
    path.unlink()
    path = path.with_name(f"a.{checksum(changed.getvalue())}.parquet")
    path.write_bytes(changed.getvalue())
    with pytest.raises(InputError, match=rf"{path.name}: .* not one of breadth's"):
        open_study(store.folder)
    # Its checksum is right: nothing is damaged, so nothing is moved.
    with pytest.raises(InputError, match="not one of breadth's"):
        store.write_items("a", ITEMS)
    assert path.exists()
    assert store.warnings == []


@pytest.mark.parametrize("step", ["100000000000000000000", "9223372036854775808", "9" * 200])
def test_a_step_that_no_table_can_hold_is_refused(store, step):
    path = store.run("tiny-0").part_path(16)
    path.rename(path.with_name(path.name.replace("000016", step)))
    with pytest.raises(InputError, match=f"step-{step}.* not one of breadth's"):
        open_study(store.folder)


@pytest.mark.parametrize("step", ["-16", "٣٢"])
def test_what_is_no_step_is_no_part(store, step):
    path = store.run("tiny-0").part_path(16)
    path.rename(path.with_name(path.name.replace("000016", step)))
    assert open_study(store.folder).subjects["step"].to_list() == [0]


def test_items_of_two_sets_that_do_not_go_together(store):
    store.write_items("a", ITEMS)
    store.write_items("b", ITEMS.with_columns(testset=pl.lit("b"), question=pl.concat_list(pl.lit(1))))
    store.write_items("c", ITEMS.with_columns(testset=pl.lit("c"), question=pl.struct(pl.lit(1).alias("a"))))
    with pytest.raises(InputError, match="items: cannot be read"):
        open_study(store.folder)


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


RECORD = RunRecord("m", "mnli", 8, 0, method="lora", recipe={"lr": 1e-3}, start={"examples": 5}, checkpoints=(0, 4))


def test_what_is_written_is_read():
    assert RunRecord.parse(RECORD.to_json(), "run.json") == RECORD
    assert RECORD.start_examples == 5


def test_checkpoints_are_no_part_of_what_a_name_is_made_of():
    assert "checkpoints" not in RECORD.specification()
    assert "start" not in RunRecord("m").specification()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "does not describe a run"),
        (rb'{"model": "\ud800"}', "is not JSON"),
        (b"{}", "model is missing"),
        (b'{"model": "m", "seed": "0"}', "seed is '0'"),
        (b'{"model": "m", "seed": true}', "seed is True"),
        (b'{"model": "m", "checkpoints": [0, "4"]}', "checkpoints is"),
        (b'{"model": "m", "checkpoints": [0, -4]}', "checkpoints is"),
        (b'{"model": "m", "checkpoints": null}', "checkpoints is None"),
        (b'{"model": "m", "checkpoints": [18446744073709551616]}', "checkpoints is"),
        (b'{"model": "m", "seed": 1%s}' % (b"0" * 400), "seed is 1000000"),
        (b'{"model": "m", "colour": 1}', "'colour' is not a key of a run"),
        (b'{"model": "m", "shots": 8}', "written by breadth 0.1.*run the study again into a new directory"),
    ],
)
def test_bad_records(content, message):
    with pytest.raises(InputError, match=message):
        RunRecord.parse(content, "x/run.json")


def test_the_file_is_readable():
    assert json.loads(RECORD.to_json())["checkpoints"] == [0, 4]
