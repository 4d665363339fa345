"""`breadth run`: errors in one line, dry runs, with and without a terminal."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys

import polars as pl
import pytest

from breadth.execute import plan_study
from breadth.records.store import StudyStore
from breadth.sources import open_study
from breadth.study import read_study_file

STUDY = """\
name: s
models: {model}
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{method: lora, layers: 2, lr: 1.0e-2, batch: 8, steps: 4}}
evaluate: {{on: [plain, negation], every: 2, items: 12}}
"""
OWN = """\
sets:
  mine: {file: own.csv, pattern: '{first} Yes or No?', answers: {'yes': ' Yes', 'no': ' No'}, MORE}
"""
ROWS = "".join(f"text {k},{'yes' if k % 2 else 'no'}\n" for k in range(12))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from breadth.lm import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def done(tiny, breadth, tmp_path_factory):
    """A finished study, which no mistake may harm, and what its command said."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "study.yaml").write_text(STUDY.format(model=tiny))
    out = breadth("run", folder / "study.yaml", "--into", folder / "s", fresh=True)
    return folder / "s", out


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def own(text, more="label: label"):
    return text.replace("[plain, negation]", "[plain, mine]") + OWN.replace("MORE", more)


def test_a_run_of_another_process_is_left_to_it(done, breadth, tmp_path):
    folder, _ = done
    copy = shutil.copytree(folder, tmp_path / "s")
    first, second = StudyStore(copy).runs()
    for run in (first, second):
        run.part_path(4).unlink()
    with first.store.lock(first.key, wait=False):
        out = breadth("run", folder.parent / "study.yaml", "--into", copy, ok=False)
    assert out.returncode == 4, out.stderr
    assert f"{copy}: runs: 1 done now, 1 running in another process." in out.stdout
    assert out.stdout.splitlines()[-1] == f"  breadth view {copy}"
    assert (list(first.parts()), list(second.parts())) == ([0, 2], [0, 2, 4])


def test_plain_lines_without_a_screen(done):
    folder, out = done
    assert out.stdout.splitlines()[-3:] == [f"{folder}: runs: 2 done now.", "Next:", f"  breadth report {folder}"]
    assert out.stdout.count(f"breadth view {folder}") == 1
    assert "\x1b" not in out.stdout + out.stderr
    assert "(resumed)" not in out.stderr  # step 0 of the second run is the first one's
    lines = [line for line in out.stderr.splitlines() if line.startswith("  step ")]
    assert len(lines) == 5
    assert all(re.search(r"\(about \d+ s left\)$", line) for line in lines[:-1])
    assert lines[-1].endswith("(done)")


@pytest.mark.parametrize(
    ("change", "csv", "said"),
    [
        (lambda t: t.replace("models: ", "models: smolm2-135m #"), "", "smollm2-135m"),
        (lambda t: t.replace("negation]", "negatoin]"), "", "negation"),
        (lambda t: own(t).replace("{first} Yes", "Yes"), "first,label\n" + ROWS, "pattern"),
        (own, "first,label\n" + ROWS.replace("no", "yes"), "every item has the label 'yes'"),
        (own, "", "own.csv"),
        (own, "first,label\n" + ROWS.replace("text 3", "te\0xt"), "own.csv"),
        (
            own,
            "first,label\n" + ROWS.replace("3,yes", "3,maybe"),
            "own.csv, row 4 (line 5), column 'label': label 'maybe' has no answer",
        ),
        (
            lambda t: own(t, "labels: {'yes': 'yes', 'no': 'no'}"),
            "first,label\n" + ROWS.replace("3,yes", "3,maybe"),
            "own.csv, row 4",
        ),
        (lambda t: own(t).replace("own.csv", "nowhere.csv"), "", "nowhere.csv"),
    ],
    ids=["model", "set", "pattern", "label", "empty", "nul", "unanswered", "outside", "missing"],
)
def test_bad_input_is_one_message(breadth, tiny, done, tmp_path, change, csv, said):
    finished, _ = done
    before = files(finished)
    (tmp_path / "own.csv").write_text(csv)
    path = tmp_path / "study.yaml"
    path.write_text(change(STUDY.format(model=tiny)))
    for into in (tmp_path / "new", finished):
        out = breadth("run", path, "--into", into, ok=False)
        assert out.returncode == 2, out.stderr
        assert "Traceback" not in out.stderr
        assert "breadth: " in out.stderr
        assert said in out.stderr or into == finished
    assert not (tmp_path / "new").exists()
    assert files(finished) == before


@pytest.fixture
def unreachable(tmp_path, monkeypatch):
    """The Hub is out of reach, and nothing is in its cache."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there; read when the library is loaded
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("BREADTH_DATA", raising=False)


@pytest.mark.usefixtures("unreachable")
def test_a_data_set_out_of_reach(breadth, tiny, done, tmp_path):
    finished, _ = done
    before = files(finished)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(model=tiny).replace("negation]", "mnli]"))
    for into in (tmp_path / "new", finished):
        out = breadth("run", path, "--into", into, ok=False, fresh=True)
        assert out.returncode == 2, out.stderr
        assert "Traceback" not in out.stderr
    assert files(finished) == before


@pytest.mark.usefixtures("unreachable")
def test_a_run_that_fails_is_named_and_the_others_run(breadth, tiny, tmp_path):
    path, into = tmp_path / "study.yaml", tmp_path / "new"
    path.write_text(STUDY.format(model=f"[nowhere/model, {tiny}]"))
    out = breadth("run", path, "--into", into, ok=False, fresh=True)
    assert out.returncode == 1, out.stderr
    assert "Traceback" not in out.stderr
    assert f"{into}: runs: 2 done now, 2 failed." in out.stdout
    assert "Next:" not in out.stdout
    assert re.search(r"^failed: nowhere-model-plain-8-s0-\w+: nowhere/model: ", out.stderr, re.MULTILINE)
    last = out.stderr.splitlines()[-1]
    assert re.match(r"breadth: nowhere-model-plain-8-s0-\w+, nowhere-model-plain-8-s1-\w+: nowhere/model: ", last)
    assert "not timed (on the Hugging Face Hub): nowhere/model" in out.stderr
    assert "for 1 of 2 models" in out.stdout


def test_wrong_places(breadth, done, tiny, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(model=tiny))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    for into, said in (
        (path, "is a file; choose a directory"),
        (tmp_path / "full", "contains other files"),
        (path / "below", "cannot be written"),
        ("/proc/study", "cannot be written"),
    ):
        out = breadth("run", path, "--into", into, ok=False)
        assert out.returncode == 2, out.stderr
        assert said in out.stderr.splitlines()[-1]
    for shard, said in (("3", "such as 3/16"), ("3/2", "counted from 1")):
        out = breadth("run", path, "--into", tmp_path / "new", "--shard", shard, ok=False)
        assert out.returncode == 2
        assert said in out.stderr.splitlines()[-1]
    assert not (tmp_path / "new").exists()


def test_dry_runs_write_nothing(breadth, done, tiny, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(model=tiny))
    out = breadth("run", path, "--into", tmp_path / "new", "--dry-run")
    assert "120 answers and 8 training" in " ".join(out.stdout.split())  # the second run takes step 0 from the first
    assert "It should take about" in out.stdout
    assert "breadth view" not in out.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["study.yaml"]
    # Not even what is damaged is moved.
    finished, _ = done
    part = next(finished.glob("runs/*/step-000002*"))
    content = part.read_bytes()
    part.write_bytes(b"torn")
    before = files(finished)
    out = breadth("run", path, "--into", finished, "--dry-run")
    assert "Checkpoints: 6, 5 of them done" in out.stdout
    assert files(finished) == before
    part.write_bytes(content)


@pytest.mark.usefixtures("unreachable")
def test_dry_runs_of_many_models_fit_on_a_screen(breadth, tiny, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(model=f"[{', '.join(f'owner/model-{k}' for k in range(48))}]"))
    out = breadth("run", path, "--into", tmp_path / "new", "--dry-run")
    lines = (out.stdout + out.stderr).splitlines()
    assert len(lines) < 20
    assert len(set(lines)) > len(lines) - 3  # blank lines
    assert "owner/model-0 and 47 more" in out.stdout
    assert "not timed (on the Hugging Face Hub): owner/model-0, owner/model-1, ... (48 in all)" in out.stderr
    assert "How long it takes is not known" in out.stdout


def test_answers_that_begin_alike_are_said(breadth, tiny, tmp_path):
    text = own(STUDY.format(model=tiny)).replace("' Yes'", "' No more'")
    (tmp_path / "own.csv").write_text("first,label\n" + ROWS)
    (tmp_path / "study.yaml").write_text(text)
    out = breadth("run", tmp_path / "study.yaml", "--into", tmp_path / "s")
    assert re.search("mine: .*same token", out.stderr), out.stderr


def test_without_the_extra(tiny, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY.format(model=tiny))
    code = (
        "import sys, importlib.util as u, importlib.abc as a\n"
        "class Hide(a.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else real(name, *rest)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "from breadth.cli import main\n"
        "sys.argv = ['breadth', 'run', sys.argv[1], '--into', sys.argv[2]]\n"
        "main()"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "study.yaml"), str(tmp_path / "s")]
    out = subprocess.run(words, capture_output=True, text=True, check=False)
    assert out.returncode == 2
    assert out.stderr.count("\n") == 1
    assert "pip install 'breadth[lm]'" in out.stderr


def test_bars_on_a_screen(tiny, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY.format(model=tiny))
    words = [sys.executable, "-m", "breadth", "run", str(tmp_path / "study.yaml"), "--into", str(tmp_path / "s")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"answers +━+ *72/72", text)
    assert re.search(r"steps +━+ *4/4 +loss \d", text)
    assert "run 2 of 2" in text
    assert "Traceback" not in text


def test_a_study_is_announced_before_its_models_are_timed_and_can_still_be_changed(breadth, tiny, tmp_path):
    broken = shutil.copytree(tiny, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    into = tmp_path / "s"
    (tmp_path / "study.yaml").write_text(STUDY.format(model=broken))
    out = breadth("run", tmp_path / "study.yaml", "--into", into, ok=False)
    assert out.returncode == 2
    assert {path.name for path in into.iterdir()} == {".lock", "study.yaml"}
    (tmp_path / "study.yaml").write_text(STUDY.format(model=tiny).replace("items: 12", "items: 6"))
    assert plan_study(read_study_file(tmp_path / "study.yaml"), into, dry=False).checkpoints_left == 6


def test_a_dry_run_on_a_cluster_forecasts_and_needs_none(breadth, tiny, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY.format(model=tiny))
    into = tmp_path / "s"
    out = breadth(
        "run", tmp_path / "study.yaml", "--into", into, "--dry-run", "--on", "ray", "--workers", 8, "--price", 3
    )
    assert out.returncode == 0, out.stderr
    said = " ".join(out.stdout.split())
    assert re.search(r"On 8 workers like this machine: .* worker-hours, [\d.]+ at 3 per hour", said)
    assert "What limits it: the" in said
    assert not into.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "2"], "--workers is for a cluster; add --on ray"),
        (["--price", "2"], "--price is for a cluster; add --on ray"),
        (["--on", "slurm"], "--on slurm: give local, ray, or the address of a Ray cluster, such as ray://HOST:10001"),
    ],
)
def test_options_of_a_cluster(breadth, tiny, tmp_path, options, message):
    (tmp_path / "study.yaml").write_text(STUDY.format(model=tiny))
    out = breadth("run", tmp_path / "study.yaml", "--into", tmp_path / "s", *options, ok=False)
    assert out.returncode == 2
    assert message in " ".join(out.stderr.split())


@pytest.fixture
def command(breadth, tmp_path, tiny_base):
    def call(*arguments, ok=True, base=tiny_base):
        given = [*arguments, "--on", "plain,negation", "--items", 8, "--into", tmp_path / "study"]
        return breadth("evaluate", *given, *([] if base is None else ["--base", base]), ok=ok)

    return call


@pytest.fixture
def own_checkpoints(tmp_path, adapters):
    return shutil.copytree(adapters, tmp_path / "lora")


def refused(out):
    assert out.returncode == 2, out.stderr
    assert "Traceback" not in out.stderr
    assert sum(line.startswith("breadth: ") for line in out.stderr.splitlines()) == 1, out.stderr
    return out.stderr


def test_a_shells_glob_is_evaluated_and_reported(command, breadth, own_checkpoints, tmp_path):
    out = command(*sorted(own_checkpoints.glob("checkpoint-*")), "--trained-on", "plain")
    assert "Checkpoints: 3, 0 of them done" in out.stdout.replace("\n", " ")
    assert "runs: 1 done now" in out.stdout
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10, 20, 30]
    again = command(own_checkpoints, "--trained-on", "plain")
    assert "runs: 1 done before" in again.stdout
    page = tmp_path / "page.html"
    breadth("report", tmp_path / "study", "--out", page)
    assert "lora" in page.read_text()


def test_a_dry_run_writes_nothing(command, own_checkpoints, tmp_path):
    out = command(own_checkpoints, "--dry-run")
    assert "Nothing was run" in out.stdout
    assert "It should take about" in out.stdout
    assert not (tmp_path / "study").exists()


def test_following_ends_at_a_step(command, own_checkpoints, tmp_path):
    out = command(own_checkpoints / "checkpoint-10", "--follow", "--until", 30)
    assert "runs: 1 done now" in out.stdout
    assert "checkpoints: [../lora/checkpoint-*]" in (tmp_path / "study" / "study.yaml").read_text()


def test_a_glob_that_matches_nothing(command, tmp_path):
    assert "matches no directory" in refused(command(tmp_path / "nothing-*", ok=False))


def test_checkpoints_of_different_shapes(command, own_checkpoints, tiny_base, write_adapters):
    write_adapters(tiny_base, own_checkpoints, steps=(40,), rank=8)
    assert "have different shapes" in refused(command(own_checkpoints, ok=False))


def test_an_adapter_without_its_base(command, own_checkpoints):
    for path in own_checkpoints.glob("*/adapter_config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": "someone/gone"}))
    assert "adapter of 'someone/gone', which is not here; give its base model" in refused(
        command(own_checkpoints, ok=False, base=None)
    )


@pytest.mark.usefixtures("unreachable")
def test_a_base_that_cannot_be_reached(command, own_checkpoints):
    out = refused(command(own_checkpoints, ok=False, base="someone/gone"))
    assert out.count("someone/gone: ") == 1


def test_a_checkpoint_with_numbers_that_are_not_finite(command, own_checkpoints, tmp_path):
    from safetensors.torch import load_file, save_file

    path = own_checkpoints / "checkpoint-20" / "adapter_model.safetensors"
    save_file({name: tensor * float("nan") for name, tensor in load_file(path).items()}, path)
    out = refused(command(own_checkpoints, ok=False))
    assert "checkpoint-20: the weights of " in out
    assert out.count("are not finite numbers") == 1
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10]  # the one before is kept


def test_an_adapter_of_another_base(command, own_checkpoints, tmp_path):
    from breadth.lm import write_tiny_model

    other = write_tiny_model(tmp_path / "opt", "opt")
    assert "is not an adapter of" in refused(command(own_checkpoints, ok=False, base=other))


def test_pickled_weights(command, own_checkpoints):
    (own_checkpoints / "checkpoint-20" / "adapter_model.safetensors").rename(
        own_checkpoints / "checkpoint-20" / "adapter_model.bin"
    )
    assert "its weights are pickled" in refused(command(own_checkpoints, ok=False))


def test_two_checkpoints_with_the_same_step(command, own_checkpoints):
    shutil.copytree(own_checkpoints / "checkpoint-10", own_checkpoints / "step-10")
    assert "are both step 10" in refused(command(own_checkpoints, ok=False))


def test_a_path_whose_step_cannot_be_told(command, own_checkpoints):
    (own_checkpoints / "checkpoint-10").rename(own_checkpoints / "final")
    (own_checkpoints / "final" / "trainer_state.json").unlink()
    assert "final: its step is unknown" in refused(command(own_checkpoints / "final", ok=False))


def test_options_of_following_without_it(command, own_checkpoints):
    assert "--until is for --follow" in refused(command(own_checkpoints, "--until", 5, ok=False))


def test_a_model_beside_the_study_is_found_from_anywhere(breadth, tmp_path, monkeypatch):
    """show and run resolve a path alike; a study that was stopped resumes from another directory."""
    from breadth.lm.tiny import write_tiny_model

    write_tiny_model(tmp_path / "beside" / "models" / "tiny")
    path = tmp_path / "beside" / "study.yaml"
    text = "name: s\nmodels: ./models/tiny\nrecipe: {method: zero-shot}\nevaluate: {on: plain, items: 8}\n"
    path.write_text(text)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    for words in (["show", path], ["run", path, "--dry-run"]):
        assert breadth(*words).stderr.count("warning") == 0
    breadth("run", path, "--into", tmp_path / "out")
    [first] = (tmp_path / "out" / "runs").iterdir()
    assert json.loads((first / "run.json").read_text())["model"] == "./models/tiny"

    path.write_text(text.replace("./models/tiny", "[./models/tiny, ../beside/models/tiny]"))
    monkeypatch.chdir(tmp_path / "two")
    out = breadth("run", "../beside/study.yaml", "--into", "../out")
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2
    assert out.returncode == 0

    path.write_text(text.replace("./models/tiny", "./models/other"))
    for words in (["show", path], ["run", path, "--dry-run"], ["run", path]):
        out = breadth(*words, ok=False)
        assert out.returncode == 2
        assert "relative to the study file" in out.stderr


def test_one_model_with_and_without_training_in_one_study(breadth, tiny, tmp_path):
    """Zero-shot, few-shot and two recipes of lora: no result averages over them."""
    path = tmp_path / "study.yaml"
    path.write_text(
        f"""\
name: s
models:
  - {{name: {tiny}, recipe: {{method: zero-shot}}}}
  - {{name: {tiny}, recipe: {{method: few-shot, num_fewshot: 2}}}}
  - {{name: {tiny}, recipe: {{method: lora, steps: 4}}}}
  - {{name: {tiny}, recipe: {{method: lora, steps: 4, lr: 1.0e-2}}}}
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{layers: 2, lr: 1.0e-3, batch: 8}}
evaluate: {{on: [plain, negation], items: 12}}
"""
    )
    folder = tmp_path / "out"
    breadth("run", path, "--into", folder)
    assert "7 done before" in breadth("run", path, "--into", folder).stdout
    names = {f"{tiny} ({words})" for words in ("zero-shot", "few-shot", "lora, lr 0.001", "lora, lr 0.01")}
    subjects = open_study(folder).subjects
    assert set(subjects["model"]) == names
    assert dict(subjects.group_by("model").agg(runs=pl.col("run").n_unique()).iter_rows()) == {
        name: 1 if "zero-shot" in name else 2 for name in names
    }
    breadth("scores", folder, "--out", tmp_path / "scores.csv")
    assert set(pl.read_csv(tmp_path / "scores.csv")["model"]) == names
    breadth("report", folder, "--out", tmp_path / "report.json")
    profile = json.loads((tmp_path / "report.json").read_text())["tables"]["profile"]
    assert {row["model"] for row in profile} == names
    # Before training they are one model, which calibration counts once: the zero-shot run, and step 0 of the others.
    untrained = open_study(folder).distinct().subjects.filter(pl.col("step") == 0, pl.col("method") != "few-shot")
    assert untrained.height == 1
