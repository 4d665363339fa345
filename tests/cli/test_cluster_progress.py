"""What the terminal shows of a cluster."""

import polars as pl
import pytest

from breadth.cli.cluster_progress import ClusterEvents, describe_status
from breadth.execute import ClusterStatus, Work, plan_study
from breadth.study import expand, parse_study

STATUS = ClusterStatus(
    workers=4, busy=3, units_done=120, units_per_minute=31.4, waiting_items=1234, runs_open=2, runs_waiting=5,
    retries=0, set_aside=0, seconds_left=None,
)  # fmt: skip


def test_the_status_in_words():
    assert describe_status(STATUS) == (
        "4 workers, 3 busy; 31 units per minute; waiting: 1,234 items, 5 runs; measuring"
    )
    worse = ClusterStatus(1, 1, 120, 0.4, 0, 1, 0, 2, 1, 300.0)
    assert describe_status(worse) == (
        "1 worker, 1 busy; 0 units per minute; waiting: 0 items, 0 runs; 2 retried; 1 checkpoints set aside; "
        "about 5 min left"
    )


@pytest.fixture
def plan(tmp_path):
    text = "name: s\nmodels: smollm2-135m\ntrain: {set: plain, examples: 8}\nrecipe: {steps: 4}\n"
    file = parse_study(text + "evaluate: {on: [plain], items: 10}\n", tmp_path / "s.yaml", tmp_path)
    return plan_study(file, tmp_path / "s")


def test_lines_without_a_terminal(plan, capsys):
    (run,) = expand(plan.file)
    with ClusterEvents(plan) as events:
        events.begun(run, Work(4, 20, resumed=True), 1, 1)
        events.note("a note")
        events.note("a note")
        events.trained(1, 0.5)
        events.answered(10)
        answers = pl.DataFrame({"testset": ["plain"] * 2, "correct": [1.0, 0.0]})
        events.checkpoint(run, 4, answers)
        events.cluster(STATUS)
        events.cluster(STATUS)
    said = capsys.readouterr().err
    assert f"run 1 of 1: {run.name} (resumed)" in said
    assert said.count("a note") == 1
    assert "step 4: plain 0.50" in " ".join(said.split())
    assert said.count("4 workers, 3 busy") == 1  # not more often than every half minute
    bars = {task.description.strip(): (task.completed, task.total) for task in events.bars.tasks}
    assert bars == {"steps": (1, 4), "answers": (10, 20)}
