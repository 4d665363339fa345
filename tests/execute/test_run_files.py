"""Saved states of a run, and what is left to do with them."""

import pytest
import torch
from safetensors.torch import load, save

from breadth.execute import plan_study
from breadth.execute.run_files import States, remaining_work
from breadth.records.files import LocalStore, checksum
from breadth.records.store import StudyStore
from breadth.study import read_study_file

TENSORS = {"step": torch.tensor(3), "weight/a.b": torch.arange(6.0, dtype=torch.bfloat16).reshape(2, 3)}
STATE = save(TENSORS)


@pytest.fixture
def states(tmp_path):
    return States(LocalStore(tmp_path), "runs/r")


def test_a_state_reads_back(states):
    states.write(3, STATE)
    assert list(states.saved()) == [3]
    step, content = states.latest(3)
    state = load(content)
    assert step == 3
    assert set(state) == set(TENSORS)
    assert all(torch.equal(state[name], TENSORS[name]) for name in TENSORS)
    assert states.latest(2) is None
    states.clear()
    assert states.saved() == {}


def test_other_files_are_not_states(states):
    assert states.saved() == {}
    for name in ("state-000001.safetensors", "state-1.0123456789abcdef.safetensors.tmp", "step-000001.parquet"):
        states.store.write(f"{states.key}/{name}", b"x")
    assert states.saved() == {}


@pytest.mark.parametrize("fault", ["torn", "flipped", "empty", "longer", "not tensors"])
def test_a_damaged_state_is_set_aside(states, tmp_path, fault):
    states.write(3, STATE)
    path = tmp_path / "runs" / "r" / states.saved()[3]
    content = bytearray(path.read_bytes())
    if fault == "flipped":
        content[-3] ^= 1
    path.write_bytes({"torn": content[:-9], "empty": b"", "longer": content + b"\0"}.get(fault, content))
    if fault == "not tensors":
        path.unlink()
        path = path.with_name(f"state-000003.{checksum(b'x')}.safetensors")
        path.write_bytes(b"x")
    assert states.latest(3) is None
    assert not path.exists()
    assert states.warnings[-1].startswith(f"{path}: is damaged; moved to {tmp_path / 'aside'}")
    assert 3 not in states.saved()


def test_older_states_go_once_the_new_one_is_there(states, monkeypatch):
    states.write(1, STATE)
    write, seen = LocalStore.write, []

    def fails(self, key, content):
        raise OSError("no space left")

    monkeypatch.setattr(LocalStore, "write", fails)
    with pytest.raises(OSError, match="no space"):
        states.write(2, STATE)
    assert list(states.saved()) == [1]

    def watched(self, key, content):
        write(self, key, content)
        seen.extend(states.saved())

    monkeypatch.setattr(LocalStore, "write", watched)
    states.write(2, STATE)
    assert seen == [1, 2]
    assert list(states.saved()) == [2]
    states.write(2, STATE)
    assert list(states.saved()) == [2]


def test_remaining_work(study, tmp_path):
    plan = plan_study(read_study_file(study()), tmp_path / "s")
    planned, store = plan.units[0].run, StudyStore(tmp_path).run("r")
    work = remaining_work(planned, plan.study_data, (4, 6), store, resumed=True)
    assert (work.steps, work.steps_done, work.items, work.items_done, work.resumed) == (6, 0, 240, 144, True)
    for step in (2, 6):
        store.store.write(f"{store.key}/state-{step:06d}.0123456789abcdef.safetensors", b"")
    assert remaining_work(planned, plan.study_data, (4, 6), store).steps_done == 2  # that of step 6 is too late
