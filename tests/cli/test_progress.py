from breadth.cli.progress import TerminalEvents, duration
from breadth.execute import Work, plan_study
from breadth.study import read_study_file

STUDY = """\
name: s
models: a/b
train: {set: plain, examples: 16, seeds: [0, 1]}
recipe: {layers: 2, batch: 8, steps: 8}
evaluate: {on: [plain, negation], every: 2, items: 24}
"""


def test_time_left(tmp_path):
    (tmp_path / "s.yaml").write_text(STUDY)
    plan = plan_study(read_study_file(tmp_path / "s.yaml"), tmp_path / "s")
    events = TerminalEvents(plan)
    events.begun(plan.units[0].run, Work(6, 240, 0, 144, resumed=True), 1, 2)
    events.passed(plan.units[1].run)
    assert events.time_left() == "measuring"
    events.answer_seconds, events.answers, events.step_seconds, events.steps = 9.0, 9, 10.0, 1
    assert events.time_left() == f"about {duration(96 + 60)} left"


def test_durations():
    assert [duration(s) for s in (0.2, 89, 90, 3600, 5400, 400_000)] == [
        *("1 s", "89 s", "2 min", "60 min", "1 h 30 min", "5 days")
    ]
