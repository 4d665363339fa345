"""`breadth init`, `breadth show`, `breadth get` and `breadth ls`."""

import os
import subprocess
import sys

from breadth.datasets import REGISTRY


def test_datasets_fit_the_terminal(breadth, tmp_path):
    folder = tmp_path / ("a-directory-with-a-long-name-" * 4) / "nli"
    folder.mkdir(parents=True)
    (folder / "hans.parquet").touch()
    out = breadth("ls", "datasets", "--data", folder.parent).stdout
    assert max(map(len, out.splitlines())) <= 100
    words = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert set(REGISTRY) | {"Inference", "Questions", "Generated"} <= words
    hans = next(line for line in out.splitlines() if line.split()[:1] == ["hans"])
    assert "yes: " in hans
    assert "30,000" in hans.split()


def test_a_missing_directory_is_one_line(breadth, tmp_path):
    out = breadth("ls", "datasets", "--data", tmp_path / "none", ok=False)
    assert out.returncode == 2
    assert out.stderr.count("\n") == 1
    assert "not a directory" in out.stderr


def test_listing_loads_no_language_model_library(tmp_path):
    code = (
        "import sys; from breadth.datasets import describe_datasets; describe_datasets(); "
        "print(*sorted({'torch', 'datasets', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert out.stdout.strip() == ""


def test_an_unknown_model_is_one_line(breadth):
    out = breadth("get", "gema3", ok=False)
    assert out.returncode == 2
    assert out.stderr.strip() == (
        "breadth: there is no built-in model 'gema3'. Did you mean gemma3-270m? "
        "Built-in models: smollm2-135m, gemma3-270m"
    )


def test_help_names_the_models(breadth):
    out = breadth("get", "--help")
    assert "smollm2-135m" in out.stdout
    assert "gemma3-270m" in out.stdout


def test_show_says_what_would_run(breadth):
    out = breadth("show", "small")
    assert "2 runs with 26 checkpoints in all, each evaluated on 6 test sets: 600 items" in out.stdout
    assert out.stderr == ""
    large = breadth("show", "generalisation")
    assert "48 runs with 1,968 checkpoints in all, each evaluated on 8 test sets: 57,346 items" in " ".join(
        large.stdout.split()
    )
    about = large.stdout.partition("\n# ")[0]
    assert max(map(len, about.splitlines())) <= 100


def test_warnings_do_not_stop_it(breadth):
    out = breadth("show", "level-transfer")
    assert "warning: line" in out.stderr
    assert "294 runs with 588 checkpoints" in out.stdout


def test_all_problems_at_once(breadth, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nmodels: smolm2-135m\nrecipe: {method: zero-shot, lr: -1}\n")
    out = breadth("show", path, ok=False)
    assert out.returncode == 2
    assert out.stdout == ""
    first, *rest = out.stderr.splitlines()
    assert first == f"breadth: {path}: 3 problems"
    assert [line.split(":")[0] for line in rest] == ["  line 1, evaluate", "  line 2, models", "  line 3, recipe.lr"]


def test_own_files_are_counted_and_models_that_are_alike_share_a_row(breadth, tmp_path):
    (tmp_path / "mine.csv").write_text("claim,label\nx [bold],1\ny,0\nz,0\n")
    models = ", ".join(f"owner/model-{k}" for k in range(40))
    (tmp_path / "s.yaml").write_text(
        f"name: s\nmodels: [{models}]\nrecipe: {{method: zero-shot}}\nevaluate: {{on: mine}}\n"
        "sets: {mine: {file: mine.csv, pattern: '{claim}', answers: {1: ' Yes', 0: ' No'}}}\n"
    )
    out = breadth("show", tmp_path / "s.yaml")
    assert "owner/model-0 and 39 more" in out.stdout
    assert "40 runs with 40 checkpoints in all, each evaluated on 1 test set: 3 items" in out.stdout


def test_a_file_to_start_from(breadth, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = breadth("init")
    assert out.stdout.splitlines() == [
        "wrote study.yaml",
        "Next:",
        "  breadth show study.yaml",
        "  breadth run study.yaml --dry-run",
    ]
    assert "2 runs with 26 checkpoints" in breadth("show", "study.yaml").stdout
    assert breadth("init").stdout.startswith("unchanged: study.yaml\n")
    again = breadth("init", "--from", "mnli-small", ok=False)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "is not overwritten" in again.stderr
    out = breadth("init", "--from", "level-transfer", "--out", "my levels.yaml")
    assert "gsm8k-calibration.parquet does not exist yet" in out.stderr
    assert "  breadth show 'my levels.yaml'" in out.stdout.splitlines()


def test_showing_a_study(breadth, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = breadth("show", "generalisation")
    about, _, file = out.stdout.partition("\n\n# ")
    assert max(map(len, about.splitlines())) <= 100
    assert "48 (8 models x 2 training sets x 3 sizes)" in about
    assert file.startswith("Do generalisation results generalise?")
    assert "weight_decay" not in file
    resolved = breadth("show", "generalisation", "--resolved").stdout.partition("\n\n")[2]
    assert "weight_decay: 0.0" in resolved


def test_text_of_a_study_is_not_markup(breadth, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\ndescription: '[red]a[/red] [/b]'\nmodels: a/b\nrecipe: {method: zero-shot}\nevaluate: {on: plain}\n"
    )
    assert "s: [red]a[/red] [/b]" in breadth("show", tmp_path / "s.yaml").stdout


def test_keys_of_other_tools(breadth, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nmodel_name: smollm2-135m\ntrain: {set: plain, num_examples: 32}\n"
        "recipe:\n  learning_rate: 1e-3\n  num_train_epochs: 3\n  warmup_steps: 5\nevaluate: {tasks: plain}\n"
    )
    out = breadth("show", path, ok=False)
    assert out.returncode == 2
    assert out.stderr.splitlines() == [
        f"breadth: {path}: 6 problems",
        "  line 2, model_name: unknown key. Did you mean models?",
        "  line 3, train.num_examples: unknown key. Did you mean examples?",
        "  line 5, recipe.learning_rate: unknown key. Did you mean lr?",
        "  line 6, recipe.num_train_epochs: unknown key. Did you mean epochs?",
        "  line 7, recipe.warmup_steps: unknown key. Did you mean warmup? Give a share of the steps: warmup_steps "
        "divided by all steps",
        "  line 8, evaluate.tasks: unknown key. Did you mean on?",
    ]
