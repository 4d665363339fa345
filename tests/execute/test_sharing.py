"""Several processes at one study, and studies that change between calls."""

import time

import pytest

from breadth.errors import InputError
from breadth.execute import StudyData
from breadth.execute.directory import begin_run, open_directory
from breadth.records.store import StudyStore
from breadth.study import expand, read_study_file

from .conftest import LORA, parts, refused

pytestmark = pytest.mark.slow
FOUR = [("seeds: [0, 1]", "seeds: [0, 1, 2, 3]")]


def evaluated(folder):
    """How often each checkpoint was evaluated, by the logs."""
    return [len(path.read_text().splitlines()) for path in folder.glob("runs/*/log.jsonl")]


def test_several_at_once_make_what_one_makes(command, forks, study, tmp_path):
    path = study(LORA, FOUR)
    assert forks.run(path, tmp_path / "one")["code"] == 0
    assert forks.run(path, tmp_path / "three", together=[None, None, None])["code"] == 0
    assert forks.run(path, tmp_path / "shards", together=["1/2", "2/2"])["code"] == 0
    commands = [command("run", path, "--into", tmp_path / "commands", wait=False) for _ in range(2)]
    ends = [process.communicate() for process in commands]
    assert {process.returncode for process in commands} <= {0, 4}, ends  # 4: a run was left to the other process
    for folder in (tmp_path / "three", tmp_path / "shards", tmp_path / "commands"):
        assert parts(folder) == parts(tmp_path / "one")
        assert all(4 <= count <= 5 for count in evaluated(folder))  # step 0 may be copied from another run


def test_two_studies_that_start_together_do_not_mix(study, tmp_path):
    """Both find the directory empty; the one that writes the study file last has it, and the other begins nothing."""
    store, into = {}, tmp_path / "s"
    for name, lr in (("first", "1.0e-2"), ("second", "2.0e-2")):
        file = read_study_file(study(LORA, [("lr: 1.0e-2", f"lr: {lr}")], f"{name}.yaml"))
        store[name] = file, StudyData(file), StudyStore(into)
    for file, data, own in store.values():
        open_directory(file, expand(file), data, own, print)
    for name, (file, _, own) in store.items():
        run = expand(file)[0]
        if name == "first":
            with pytest.raises(InputError, match="another study was started in this directory"):
                begin_run(run, own.run(run.name), file, own)
        else:
            begin_run(run, own.run(run.name), file, own)
    assert [run.name for run in StudyStore(into).runs()] == [expand(store["second"][0])[0].name]
    file, data, own = store["first"]
    with pytest.raises(InputError, match="would orphan 1 of its runs"):
        open_directory(file, expand(file), data, own, print)


def test_a_study_that_grows_while_it_runs(study, tmp_path):
    """Seeds that another process adds do not stop the first one."""
    store = StudyStore(tmp_path / "s")
    file = read_study_file(study())
    more = read_study_file(study(LORA, FOUR, "more.yaml"))
    for each in (file, more):
        open_directory(each, expand(each), StudyData(each), store, print)
    for run in expand(file):
        begin_run(run, store.run(run.name), file, store)
    assert len(store.runs()) == 2


def test_a_shard_does_its_share(forks, study, tmp_path):
    path = study(LORA)
    assert forks.run(path, tmp_path / "s", shard="2/2")["code"] == 0
    assert {name.split("-s")[1][0] for name in parts(tmp_path / "s")} == {"1"}


def test_a_study_that_changes(forks, study, tmp_path):
    into = tmp_path / "s"
    assert forks.run(study(), into)["code"] == 0
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in into.rglob("*") if path.is_file()}
    for change, said in (
        (("lr: 1.0e-2", "lr: 2.0e-2"), "recipe.lr: 0.01 -> 0.02"),
        (("items: 24", "items: 12"), "evaluate.items: 24 -> 12"),
        (("seeds: [0, 1]", "seeds: [0]"), "train.seeds: 1 removed"),
    ):
        result = forks.run(study(LORA, [change]), into)
        assert result["code"] == 2
        assert said in result["said"]
        assert "Undo the change" in result["said"]
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in into.rglob("*") if p.is_file()}
    time.sleep(0.01)
    assert forks.run(study(LORA, [("seeds: [0, 1]", "seeds: [0, 1, 2]")]), into)["code"] == 0
    kept = {path: value for path, value in before.items() if path.name not in ("study.yaml", ".lock")}
    assert kept == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in kept}
    assert len(parts(into)) == 15


def test_an_own_file_that_changes(forks, command, study, tmp_path):
    rows = "".join(f"a{k} {k},b{k},{'yes' if k % 2 else 'no'}\n" for k in range(12))
    (tmp_path / "own.csv").write_text("first,second,label\n" + rows)
    text = LORA.replace("[plain, negation]", "[plain, mine]") + (
        "sets:\n  mine: {{file: own.csv, pattern: '{{first}} Question: {{second}} Yes or No?', "
        "answers: {{'yes': ' Yes', 'no': ' No'}}}}\n"
    )
    path, into = study(text), tmp_path / "s"
    result = forks.run(path, into)
    assert result["code"] == 0, result["said"]
    before = parts(into)
    (tmp_path / "own.csv").write_text("first,second,label\n" + rows.replace("b3", "b99"))
    assert "Changed: the content of own.csv. Undo the change" in refused(command("run", path, "--into", into))
    assert parts(into) == before
