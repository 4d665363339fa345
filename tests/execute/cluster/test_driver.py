"""The driver with workers in this process: the same bytes as a local run, whatever happens on the way."""

import contextlib
import json
import random
import subprocess
import sys

import pytest

from breadth.execute import Events, run
from breadth.execute.cluster.driver import Fault
from breadth.execute.cluster.executor import group_of
from breadth.study import expand, read_study_file

from ..conftest import FULL, LORA, START, parts
from .in_process import run_in_process

pytestmark = pytest.mark.slow

MIXED = """\
name: s
models: [{model}]
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{method: few-shot, num_fewshot: 2}}
evaluate: {{on: [negation, plain], items: 24}}
"""


def test_the_driver_needs_no_torch():
    code = "import sys, breadth.execute.cluster.driver, breadth.execute.cluster.pool; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.fixture(scope="module")
def local(tmp_path_factory, tiny, tiny_opt):
    """Studies as this process runs them, once for all tests of the module."""
    folder, known = tmp_path_factory.mktemp("local"), {}

    def get(name, text):
        if name not in known:
            path = folder / f"{name}.yaml"
            path.write_text(text.format(model=tiny_opt if "bitfit" in text else tiny))
            run(path, into=folder / name)
            known[name] = (path, parts(folder / name))
        return known[name]

    return get


STUDIES = {
    **{"lora": LORA, "full": FULL, "start": START, "few-shot": MIXED},
    "lora in bfloat16": LORA.replace("method: lora", "method: lora, dtype: bfloat16"),
    "full in bfloat16": FULL.replace("method: full", "method: full, dtype: bfloat16"),
    "ia3": LORA.replace("lora", "ia3"),
    "bitfit": START.replace("lora", "bitfit"),
}


@pytest.mark.parametrize("name", STUDIES)
def test_the_bytes_of_a_local_run(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    outcome, _, _ = run_in_process(path, tmp_path / "s", workers=3)
    assert parts(tmp_path / "s") == whole
    assert not outcome.failed
    # Nothing but the results stays: no states, no pieces.
    names = {file.name.partition("-")[0] for file in tmp_path.glob("s/runs/*/*")}
    assert names <= {".lock", "environment.json", "log.jsonl", "run.json", "step"}
    assert json.loads((tmp_path / "s" / "cluster.json").read_text())["finished"]
    again, pool, _ = run_in_process(path, tmp_path / "s")
    assert (again.complete, pool.number) == ([], 0)


@pytest.mark.parametrize("name", ["lora", "full", "start", "ia3", "bitfit"])
def test_workers_and_their_objects_lost_at_random(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    chance = random.Random(5)
    outcome, pool, driver = run_in_process(
        path, tmp_path / "s", 3, lambda *_: Fault.NODE if chance.random() < 0.2 else None
    )
    assert pool.gone
    assert driver.schedule.retries
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole
    assert list(tmp_path.glob("s/runs/*/failures.log"))


class StopError(Exception):
    """The driver is interrupted."""


@pytest.mark.parametrize("name", ["lora", "full", "start"])
def test_a_driver_that_stops_after_any_task_resumes(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    done = []
    for stop in (2, 3, 5, 4, 6, 1000):

        def fault(number, worker, method, stop=stop):
            if number > stop:
                raise StopError

        with contextlib.suppress(StopError):
            run_in_process(path, tmp_path / "s", 2, fault)
        # What was written stays as it was.
        now = parts(tmp_path / "s")
        assert all(now[key] == value for key, value in dict(done).items())
        done = list(now.items())
    assert dict(done) == whole


def test_finished_units_of_an_unfinished_checkpoint_are_not_computed_again(local, tmp_path):
    path, whole = local("full", FULL)

    def fault(number, worker, method):
        if method == "score":
            raise StopError

    with pytest.raises(StopError):
        run_in_process(path, tmp_path / "s", 1, fault)
    assert list(tmp_path.glob("s/runs/*/piece-*"))
    _, pool, _ = run_in_process(path, tmp_path / "s", 1)
    assert parts(tmp_path / "s") == whole
    assert ("evaluate", 0) not in [(method, step) for method, _, step in pool.calls]
    assert not list(tmp_path.glob("s/runs/*/piece-*"))


def test_a_unit_that_always_fails(local, tmp_path):
    path, whole = local("lora", LORA)
    names = [each.name for each in expand(read_study_file(path))]
    warned = []

    class Heard(Events):
        def warn(self, text):
            warned.append(text)

    from breadth.execute.cluster import worker as module

    evaluate = module.Worker.evaluate

    def broken(self, run, step, cells, weights):
        if (run, step) == (names[1], 4):
            raise RuntimeError("this one never works")
        return evaluate(self, run, step, cells, weights)

    module.Worker.evaluate = broken
    try:
        outcome, _, _ = run_in_process(path, tmp_path / "s", 2, events=Heard())
    finally:
        module.Worker.evaluate = evaluate
    assert (outcome.complete, list(outcome.failed)) == (names[:1], names[1:])
    reason = outcome.failed[names[1]]
    assert reason.startswith("RuntimeError: this one never works (step 4; see ")
    assert "Traceback" not in reason
    missing = {name for name in whole if name.startswith(f"runs/{names[1]}/step-000004")}
    assert parts(tmp_path / "s") == {name: content for name, content in whole.items() if name not in missing}
    assert len(warned) == 1
    assert "step 4" in warned[0]
    assert "this one never works" in (tmp_path / "s" / "runs" / names[1] / "failures.log").read_text()
    # The same command tries again, and only that.
    again, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert again.complete == names[1:]
    assert parts(tmp_path / "s") == whole


def test_a_run_that_another_process_works_on(local, tmp_path):
    from breadth.records import StudyStore

    path, _ = local("lora", LORA)
    names = [each.name for each in expand(read_study_file(path))]
    own = StudyStore(tmp_path / "s").run(names[0])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ".lock").touch()
    with own.store.lock(own.key, wait=True):
        outcome, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert (outcome.elsewhere, outcome.complete) == (names[:1], names[1:])


def test_what_runs_have_in_common_on_a_worker(study):
    runs = expand(read_study_file(study(LORA)))
    assert group_of(runs[0]) == group_of(runs[1])
    other = expand(read_study_file(study(LORA, [("layers: 2", "layers: 1")])))
    assert group_of(other[0]) != group_of(runs[0])
    faster = expand(read_study_file(study(LORA, [("lr: 1.0e-2", "lr: 1.0e-3")])))
    assert group_of(faster[0]) == group_of(runs[0])
