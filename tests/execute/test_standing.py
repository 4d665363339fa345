"""Plans and the log, without a model."""

import json
from types import SimpleNamespace

from breadth.cli.watch import TerminalWatcher, duration
from breadth.execute.plan import plan_study
from breadth.execute.run import work_of
from breadth.execute.standing import Standing
from breadth.records import RunStore
from breadth.study import expand, read_study_file


def test_a_torn_line_stays_alone(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 0}\n{"st')
    Standing(RunStore(tmp_path)).log(step=2)
    Standing(RunStore(tmp_path)).log(step=4)
    first, torn, *rest = log.read_text().splitlines()
    assert (first, torn) == ('{"step": 0}', '{"st')
    assert [json.loads(line)["step"] for line in rest] == [2, 4]


def test_states_take_little_of_the_time(tmp_path, monkeypatch):
    import torch

    tuner = SimpleNamespace(step=0, state=lambda: {"step": torch.tensor(0)})
    standing = Standing(RunStore(tmp_path))
    written = []
    for tuner.step in range(1, 200):
        standing.save(tuner)
        written += [path.name for path in tmp_path.glob("state-*") if path.name not in written]
    assert len(written) < 100
    assert len(list(tmp_path.glob("state-*"))) == 1  # the older ones go
    standing.cost = 0.0
    standing.save(tuner)
    assert [path.name[:12] for path in tmp_path.glob("state-*")] == ["state-000199"]


def test_work_and_plan_count_what_is_left(study, tmp_path):
    file = read_study_file(study())
    plan = plan_study(file, tmp_path / "s")
    assert [(each.checkpoints, each.done, each.borrows, each.steps_left) for each in plan.runs] == [
        (5, 0, False, 8),
        (5, 0, True, 8),
    ]
    assert (plan.items, plan.answers_left, plan.steps_left) == (48, 48 * 9, 16)
    run, store = expand(file)[0], RunStore(tmp_path)
    work = work_of(run, plan.materials, [4, 6], store, resumed=True)
    assert (work.steps, work.steps_done, work.items, work.items_done, work.resumed) == (6, 0, 240, 144, True)
    (tmp_path / "state-000002.0123456789abcdef.safetensors").touch()
    (tmp_path / "state-000006.0123456789abcdef.safetensors").touch()
    assert work_of(run, plan.materials, [4, 6], store).steps_done == 2  # that of step 6 is too late
    watcher = TerminalWatcher(plan)
    watcher.begun(run, work, 1, 2)
    watcher.passed(plan.runs[1].run)
    assert watcher.time_left() == "measuring"
    watcher.answer_seconds, watcher.answers, watcher.step_seconds, watcher.steps = 9.0, 9, 10.0, 1
    assert watcher.time_left() == f"about {duration(96 + 60)} left"


def test_durations():
    assert [duration(s) for s in (0.2, 89, 90, 3600, 5400, 400_000)] == [
        *("1 s", "89 s", "2 min", "60 min", "1 h 30 min", "5 days")
    ]
