"""The time left, on streams of events: it starts right and stays steady."""

from itertools import count, pairwise

import polars as pl
import pytest

from breadth.cli import progress
from breadth.cli.progress import ClusterEvents, TerminalEvents, describe_status, duration
from breadth.execute import ClusterStatus, Pace, Work, plan_study
from breadth.study import expand, parse_study, read_study_file

STUDY = """\
name: s
models: [a/fast, b/slow]
train: {set: plain, examples: 256}
recipe: {layers: 2, batch: 16, steps: 48}
evaluate: {on: [plain, negation], every: 4, items: 300}
"""

#: Seconds of a real run of the study `small` on two cores: to load, and at every checkpoint to train and to evaluate.
#: The model smollm2-135m had a slow spell at its 11th checkpoint.
RECORDED = {
    "a/fast": (
        24.0,
        [0, 2.05, 2.05, 2.29, 2.02, 1.79, 1.92, 2.39, 2.22, 2.01, 2.13, 2.54, 2.34],
        [8.05, 8.08, 7.88, 7.91, 7.80, 7.24, 8.45, 8.63, 8.89, 7.84, 15.94, 8.95, 9.35],
    ),
    "b/slow": (
        32.6,
        [0, 2.89, 2.71, 2.70, 2.63, 2.58, 2.99, 2.51, 2.44, 2.51, 2.61, 2.54, 2.52],
        [9.95, 9.84, 9.03, 9.33, 9.78, 9.49, 9.18, 9.23, 9.23, 9.22, 8.60, 9.47, 8.81],
    ),
}
#: What timing a few batches could have said: 10 to 20% off, in either direction.
PACES = {
    "a/fast": Pace(load=3.0, trunk=18.0, answers=7.0, step=0.6, example=0.01),
    "b/slow": Pace(load=4.0, trunk=30.0, answers=10.5, step=0.55, example=0.01),
}
BATCHES = 24


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "s.yaml").write_text(STUDY)
    return plan_study(read_study_file(tmp_path / "s.yaml"), tmp_path / "s")


@pytest.fixture
def replay(plan, monkeypatch):
    """Replay a recording; yields the seconds since the start, and the seconds left, after every event."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    answers = pl.DataFrame({"testset": ["plain"], "correct": [1]})

    def start(recorded, paces):
        clock[0] = 0.0
        events = TerminalEvents(plan, paces)
        yield 0.0, events.rest.seconds()

        def after(seconds):
            clock[0] += seconds

        def now():
            return clock[0], events.rest.seconds()

        for number, unit in enumerate(plan.units, 1):
            load, training, evaluation = recorded[unit.run.model]
            events.begun(unit.run, Work(48, 13 * 600), number, 2)
            after(load)
            events.ready(unit.run)
            yield now()
            for step, train, evaluate in zip(count(0, 4), training, evaluation, strict=False):
                for k in range(4 if step else 0):
                    after(train / 4)
                    events.trained(step + k - 3, 0.5)
                    yield now()
                for k in range(BATCHES):  # items are sorted by length: the last batch takes three times the first
                    after(evaluate / BATCHES * (0.5 + k / (BATCHES - 1)))
                    events.answered(600 // BATCHES)
                    yield now()
                events.checkpoint(unit.run, step, answers)
                yield now()
            events.ended(unit.run)
            yield now()
        assert events.time_left() == "done"

    return start


def slower(recorded, model, times):
    """The recording with one model that many times as slow."""
    return recorded | {
        model: tuple([times * s for s in each] if isinstance(each, list) else times * each for each in recorded[model])
    }


def paces_of(times):
    slow = PACES["b/slow"]
    return PACES | {"b/slow": Pace(*(times * each for each in vars(slow).values()))}


@pytest.mark.parametrize("times", [1, 6], ids=["recorded", "one model six times as slow"])
def test_the_estimate_is_steady(replay, times):
    """The duration in all that the time left implies is right from the start, and changes little."""
    recorded = slower(RECORDED, "b/slow", times)
    truth = sum(load + sum(training) + sum(evaluation) for load, training, evaluation in recorded.values())
    implied = [elapsed + left for elapsed, left in replay(recorded, paces_of(times))]
    assert implied[-1] == pytest.approx(truth)
    assert 0.85 * truth < min(implied)
    assert max(implied) < 1.15 * truth
    assert max(abs(b / a - 1) for a, b in pairwise(implied)) < 0.06


def test_a_machine_that_became_busier_corrects_the_models_to_come(replay):
    """Everything takes twice as long as measured: half-way through the first model, the second is corrected too."""
    recorded = slower(slower(RECORDED, "a/fast", 2), "b/slow", 2)
    implied = [elapsed + left for elapsed, left in replay(recorded, PACES)]
    assert implied[len(implied) // 4] > 0.75 * implied[-1]  # 0.71 if only the first were corrected
    assert max(implied) < 1.15 * implied[-1]


def test_a_model_that_was_not_timed_is_not_counted_until_it_is(plan, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    events, run = TerminalEvents(plan), plan.units[0].run
    assert events.time_left() == "measuring"
    events.begun(run, Work(48, 13 * 600), 1, 2)
    events.ready(run)
    for items in (300, 300):
        clock[0] += 5
        events.answered(items)
    events.checkpoint(run, 0, pl.DataFrame({"testset": ["plain"], "correct": [1]}))
    assert events.time_left() == "measuring"  # no step was taken yet
    clock[0] += 2
    events.trained(1, 0.5)
    assert events.time_left() == f"at least {duration(47 * 2 + 12 * 10)} left"
    events.failed(run, "the loss is nan")
    assert events.time_left() == "measuring"


def test_a_resumed_run_counts_what_it_has_left(plan):
    events = TerminalEvents(plan, dict.fromkeys(PACES, Pace(0, 0, 600, 10, 0)))
    events.passed(plan.units[1].run)
    events.begun(plan.units[0].run, Work(6, 240, 0, 144, resumed=True), 1, 2)
    events.ready(plan.units[0].run)
    assert events.time_left() == f"about {duration(96 + 60)} left"


def test_durations():
    assert [duration(s) for s in (0.2, 89, 90, 3600, 5400, 400_000)] == [
        *("1 s", "89 s", "2 min", "60 min", "1 h 30 min", "5 days")
    ]


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
def cluster_plan(tmp_path):
    text = "name: s\nmodels: smollm2-135m\ntrain: {set: plain, examples: 8}\nrecipe: {steps: 4}\n"
    file = parse_study(text + "evaluate: {on: [plain], items: 10}\n", tmp_path / "s.yaml", tmp_path)
    return plan_study(file, tmp_path / "s")


def test_lines_without_a_terminal(cluster_plan, capsys):
    (run,) = expand(cluster_plan.file)
    with ClusterEvents(cluster_plan) as events:
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
