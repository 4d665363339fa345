import os
import shutil
import time

import pytest

from breadth.records import StudyStore
from breadth.report.progress import Follower


@pytest.fixture
def folder(simulated_study, tmp_path):
    return shutil.copytree(simulated_study.folder, tmp_path / "study")


def test_a_finished_study(folder):
    state = Follower(folder).state()
    assert (state["done"], state["planned"], state["finished"]) == (96, 96, True)
    assert {run["state"] for run in state["runs"]} == {"finished"}
    assert state["runs"][0]["loss"] > 0
    assert len(state["trajectories"]) == 96 * 8
    assert all(0 <= row["accuracy"] <= 1 for row in state["trajectories"])


def test_a_study_on_its_way(folder):
    first, second, *others = StudyStore(folder).runs()
    for step, path in first.parts().items():
        if step > 160:
            path.unlink()
    for path in second.parts().values():
        path.unlink()
    now = time.time()
    for k, path in enumerate(first.parts().values()):
        os.utime(path, (now - 20 + 2 * k, now - 20 + 2 * k))
    follower = Follower(folder)
    before, state = follower.fingerprint(), follower.state()
    by_name = {run["run"]: run for run in state["runs"]}
    assert by_name[first.name]["state"] == "running"
    assert by_name[first.name]["seconds_per_checkpoint"] == pytest.approx(2)
    assert by_name[second.name]["state"] == "waiting"
    assert state["seconds_left"] > 0
    assert not state["finished"]
    next(iter(others[0].parts().values())).unlink()
    assert follower.fingerprint() != before


def test_a_run_that_stands_still_is_quiet(folder):
    run = StudyStore(folder).runs()[0]
    *earlier, last = run.parts().values()
    last.unlink()
    for path in (*earlier, run.folder / "log.jsonl"):
        os.utime(path, (1e9, 1e9))
    state = Follower(folder).state()
    assert state["runs"][0]["state"] == "quiet"
    assert not state["active"]


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"loss": 0.5}\n{"lo', b"[1]\n", b"\xff\xfe"])
def test_any_log_is_tolerated(folder, content):
    path = StudyStore(folder).runs()[0].folder / "log.jsonl"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    found = Follower(folder).state(answers=False)["runs"][0]["loss"]
    assert found == (0.5 if content and b"0.5" in content else None)


def test_damaged_parts_and_runs_are_passed_over(folder):
    first, second, *_ = StudyStore(folder).runs()
    next(iter(first.parts().values())).write_bytes(b"torn")
    (second.folder / "run.json").write_text("{")
    state = Follower(folder).state()
    assert len(state["runs"]) == 3
    assert len(state["trajectories"]) == (3 * 24 - 1) * 8
