"""The seam between plans and executors."""

import shutil
import subprocess
import sys

import pytest

from breadth.errors import InputError
from breadth.execute import (
    EXECUTORS,
    Events,
    Executor,
    Outcome,
    Status,
    UnitResult,
    execute_plan,
    execute_unit,
    plan_study,
    run,
)
from breadth.records.store import StudyStore
from breadth.study import read_study_file

from .conftest import LORA, parts


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
    with pytest.raises(InputError, match=r'on="slurm": give local, ray, or the address of a Ray cluster'):
        run(study(), into=tmp_path / "s", on="slurm")
    assert not (tmp_path / "s").exists()


def test_a_unit_that_another_process_works_on(study, tmp_path):
    plan = plan_study(read_study_file(study()), tmp_path / "s")
    store = StudyStore(tmp_path / "s")
    own = store.run(plan.units[0].run.name)
    with own.store.lock(own.key, wait=True):
        result = execute_unit(plan.units[0], store, plan.study_data, Events())
    assert result == UnitResult(own.name, Status.ELSEWHERE)


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
    outcome = Outcome(tmp_path)
    for status in Status:
        outcome.add(UnitResult(f"run {status}", status, (f"warning {status}",), "reason"))
    assert outcome.complete == [f"run {Status.COMPLETE}"]
    assert outcome.done_before == [f"run {Status.DONE_BEFORE}"]
    assert outcome.elsewhere == [f"run {Status.ELSEWHERE}"]
    assert outcome.stopped == {f"run {Status.STOPPED}": "reason"}
    assert outcome.failed == {"run failed": "reason"}
    assert len(outcome.warnings) == len(Status)


def test_a_run_that_fails_leaves_the_others_to_run(study, tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "wild")
    wild = f"[{{name: {tmp_path / 'wild'}, recipe: {{lr: 1.0e+30}}}}, {tiny}]"
    path = study(LORA, [(f"models: {tiny}", f"models: {wild}"), ("seeds: [0, 1]", "seeds: 0")])
    failures = []

    class Watch(Events):
        def failed(self, run, reason):
            failures.append((run.name, reason))

    plan = plan_study(read_study_file(path), tmp_path / "s")
    first, second = (unit.run.name for unit in plan.units)
    outcome = execute_plan(plan, events=Watch())
    assert (list(outcome.failed), outcome.complete) == ([first], [second])
    assert failures == list(outcome.failed.items())
    assert "the loss is" in failures[0][1]
    with pytest.raises(InputError, match=f"^{first}: step .*the loss is"):
        run(path, into=tmp_path / "s")


def test_equal_failures_are_told_once(tmp_path):
    outcome = Outcome(tmp_path, failed={"a": "no space", "b": "no space", "c": "the loss is nan"})
    assert outcome.failures() == ["a, b: no space", "c: the loss is nan"]
