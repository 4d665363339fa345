"""What is left of a study, counted without a model."""

import pytest

from breadth.errors import InputError
from breadth.execute import plan_study
from breadth.execute.plan import shard_of
from breadth.records.store import StudyStore
from breadth.study import expand, read_study_file

from .conftest import LORA, START


@pytest.fixture
def plan(study, tmp_path):
    def make(text=LORA, changes=(), **options):
        return plan_study(read_study_file(study(text, changes)), tmp_path / "s", **options)

    return make


def test_a_new_study(plan, tmp_path):
    everything = plan()
    assert [(unit.checkpoints, unit.done, unit.copies_step0, unit.steps_left) for unit in everything.units] == [
        (5, 0, False, 8),
        (5, 0, True, 8),
    ]
    assert [(unit.number, unit.total) for unit in everything.units] == [(1, 2), (2, 2)]
    assert (everything.items, everything.answers_left, everything.steps_left) == (48, 48 * 9, 16)
    assert not (tmp_path / "s").exists()


def test_what_is_there_is_not_planned_again(plan, tmp_path):
    first, second = (unit.run for unit in plan().units)
    store = StudyStore(tmp_path / "s")
    store.store.write("study.yaml", b"")
    for step in (0, 4):
        store.run(first.name).write_part_bytes(step, b"answers")
    store.run(second.name).write_part_bytes(0, b"answers")
    (store.run(second.name).folder / "step-000002.0123456789abcdef.parquet").write_bytes(b"damaged")
    one, two = plan().units
    assert one.missing == (2, 6, 8)
    assert two.missing == (2, 4, 6, 8)
    assert (one.done, one.to_evaluate, one.steps_left, one.copies_step0) == (2, 3, 8, False)
    assert one.siblings == (second.name,)


def test_a_shard(plan):
    (unit,) = plan(shard="2/2").units
    assert unit.run.seed == 1
    assert unit.siblings == (plan().units[0].run.name,)
    assert not unit.copies_step0  # the other shard may not have it yet


@pytest.mark.parametrize(
    ("shard", "message"),
    [("3", "such as 3/16"), ("a/b", "such as 3/16"), ("0/2", "counted from 1"), ("3/2", "counted from 1")],
)
def test_no_shard(study, shard, message):
    with pytest.raises(InputError, match=message):
        shard_of(expand(read_study_file(study())), shard)


def test_a_start_is_mentioned(plan):
    units, notes = plan(START).units, plan(START).notes
    model = units[0].run.model
    assert notes[-1] == f"{model} is first trained on 24 examples of plain (6 steps); step 0 comes after that"


def test_data_that_must_be_fetched(plan, monkeypatch, tmp_path):
    monkeypatch.delenv("BREADTH_DATA", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    changes = [("[plain, negation]", "[plain, hans]")]
    dry = plan(LORA, changes)
    assert dry.sizes == {"plain": 24, "hans": 24}
    assert dry.study_data is None
    assert "sizes are those of the registry" in dry.notes[0]
    with pytest.raises(InputError, match="hans"):
        plan(LORA, changes, dry=False)
