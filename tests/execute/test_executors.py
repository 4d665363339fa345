"""The seam between plans and executors."""

import subprocess
import sys

import pytest

from breadth.errors import InputError
from breadth.execute import EXECUTORS, Events, Executor, Status, UnitResult, execute_unit, plan_study, run
from breadth.execute.session import remaining_work
from breadth.records import StudyStore
from breadth.study import read_study_file

from .conftest import parts


class Backwards(Executor):
    """An executor from outside: the last unit first."""

    def execute(self, plan, store, study_data, events):
        for unit in reversed(plan.units):
            yield execute_unit(unit, store, study_data, events)


def test_an_executor_from_outside_gives_the_same_study(study, tmp_path, monkeypatch):
    monkeypatch.setitem(EXECUTORS, "backwards", Backwards)
    path = study()
    outcomes = [run(path, into=tmp_path / name, on=name) for name in ("local", "backwards")]
    assert outcomes[0].complete == outcomes[1].complete[::-1]
    assert len(parts(tmp_path / "local")) == 10
    assert parts(tmp_path / "local") == parts(tmp_path / "backwards")
    again = run(path, into=tmp_path / "local")
    assert (again.complete, again.done_before) == ([], outcomes[0].complete)


def test_an_unknown_executor(study, tmp_path):
    with pytest.raises(InputError, match="unknown executor 'ray'; choose one of local"):
        run(study(), into=tmp_path / "s", on="ray")
    assert not (tmp_path / "s").exists()


def test_a_unit_that_another_process_works_on(study, tmp_path):
    plan = plan_study(read_study_file(study()), tmp_path / "s")
    store = StudyStore(tmp_path / "s")
    own = store.run(plan.units[0].run.name)
    with own.store.lock(own.key, wait=True):
        result = execute_unit(plan.units[0], store, plan.study_data, Events())
    assert result == UnitResult(own.name, Status.ELSEWHERE)


def test_remaining_work(study, tmp_path):
    plan = plan_study(read_study_file(study()), tmp_path / "s")
    planned, store = plan.units[0].run, StudyStore(tmp_path).run("r")
    work = remaining_work(planned, plan.study_data, (4, 6), store, resumed=True)
    assert (work.steps, work.steps_done, work.items, work.items_done, work.resumed) == (6, 0, 240, 144, True)
    for step in (2, 6):
        store.store.write(f"{store.key}/state-{step:06d}.0123456789abcdef.safetensors", b"")
    assert remaining_work(planned, plan.study_data, (4, 6), store).steps_done == 2  # that of step 6 is too late


def test_a_directory_of_breadth_0_1_is_refused(study, tmp_path):
    folder = tmp_path / "s" / "runs" / "old-run-0123abcd"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"model": "m", "shots": 16}')
    (tmp_path / "s" / "study.yaml").write_text("name: s\nmodels: m\ntrain: {set: plain, shots: 16}\n")
    with pytest.raises(InputError, match=r"run.json: was written by breadth 0.1.*new directory"):
        run(study(), into=tmp_path / "s")


def test_nothing_needs_torch_before_a_unit_runs():
    code = "import sys, breadth; breadth.run; import breadth.execute; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_outcomes_name_every_status(tmp_path):
    from breadth.execute import Outcome

    outcome = Outcome(tmp_path)
    for status in Status:
        outcome.add(UnitResult(f"run {status}", status, (f"warning {status}",)))
    assert (outcome.complete, outcome.done_before, outcome.elsewhere) == tuple([f"run {status}"] for status in Status)
    assert len(outcome.warnings) == 3
