import errno
import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets import SETS
from breadth.errors import InputError
from breadth.records.store import RunRecord
from breadth.study import Evaluate, Recipe, checkpoints, expand, read_study_file, start_key, total_steps

BASE = """\
name: s
models: [smollm2-135m, facebook/opt-2.7b]
train: {set: [plain, science], examples: [16, 32], seeds: [0, 1, 2]}
recipe: {epochs: 2, batch: 8}
evaluate: {on: [plain, science, negation], every: 2, items: 10}
"""


@pytest.fixture
def names(study):
    return lambda text: [run.name for run in expand(study(text))]


def test_the_grid(study):
    runs = expand(study(BASE))
    assert len(runs) == 2 * 2 * 2 * 3
    assert [run.model for run in runs] == ["smollm2-135m"] * 12 + ["facebook/opt-2.7b"] * 12
    assert len({run.name for run in runs}) == 24
    first = runs[0]
    assert re.fullmatch(r"smollm2-135m-plain-16-s0-[0-9a-f]{8}", first.name)
    assert re.fullmatch(r"facebook-opt-2\.7b-plain-16-s0-[0-9a-f]{8}", runs[12].name)
    assert first.checkpoints() == [0, 2, 4]
    assert first.total_steps() == 4
    assert set(first.tasks) == {"plain", "science", "negation"}


def test_a_name_is_the_same_everywhere(names, tmp_path):
    """Names are directories of finished work: if this fails, every study that exists would be run again."""
    (tmp_path / "m.csv").write_bytes(b"q,label\nx,1\ny,0\n")
    text = """\
name: s
models: a/b
train: {set: mine}
recipe: {steps: 4}
evaluate: {on: mine}
sets: {mine: {file: m.csv, train_file: m.csv, pattern: "{q}", answers: {1: " Yes", 0: " No"}}}
"""
    assert names(text) == ["a-b-mine-128-s0-e3d9e998"]


def test_levels_and_strategies(study):
    change = "difficulty: {column: steps}, levels: 3, train_levels: [0, 2], strategies: [spiral]}"
    text = BASE.replace("seeds: [0, 1, 2]}", change).replace(
        "[plain, science], examples: [16, 32]", "plain, examples: 16"
    )
    runs = expand(study(text))
    assert [(run.train_level, run.strategy) for run in runs[:3]] == [(0, None), (2, None), (None, "spiral")]
    assert [run.name.split("-")[-2] for run in runs[:3]] == ["level0", "level2", "spiral"]
    every = expand(study(text.replace("train_levels: [0, 2], ", "")))
    assert [run.train_level for run in every[:4]] == [0, 1, 2, None]
    assert {run.name for run in runs} < {run.name for run in every}


def test_zero_and_few_shot(study):
    zero = expand(study(BASE.replace("epochs: 2", "method: zero-shot").replace("every: 2, ", "")))
    assert [(run.train_set, run.examples, run.seed) for run in zero] == [(None, None, None)] * 2
    assert zero[0].checkpoints() == [0]
    assert re.fullmatch(r"smollm2-135m-zero-shot-[0-9a-f]{8}", zero[0].name)
    few = expand(study(BASE.replace("epochs: 2", "method: few-shot, num_fewshot: 3").replace("every: 2, ", "")))
    assert len(few) == 2 * 2 * 3
    assert re.fullmatch(r"smollm2-135m-plain-few-shot-3-s0-[0-9a-f]{8}", few[0].name)
    assert len({start_key(run) for run in few}) == 12


def test_the_record_is_plain_and_reads_back(study):
    record = expand(study(BASE))[0].record()
    assert RunRecord.parse(record.to_json(), "run.json") == record
    spec = record.specification()
    assert json.loads(json.dumps(spec)) == spec
    expected = {"model": "smollm2-135m", "train_set": "plain", "examples": 16, "seed": 0, "method": "lora"}
    assert spec | expected == spec
    assert (record.train_level, record.strategy, record.start) == (None, None, None)
    assert record.recipe["epochs"] == 2
    assert record.checkpoints == (0, 2, 4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch: 8", "batch: 8, device: cuda, trunk: 'off'"),
        ("batch: 8", "batch: 8, micro_batch: 2"),
        ("batch: 8", "batch: 8, alpha: 32, rank: 8, clip: 1, betas: [0.9, 0.999]"),
        ("batch: 8", "batch: 8, num_fewshot: 9"),
        ("batch: 8", "batch: 8, keep: best"),
        ("[plain, science, negation]", "[negation, science, plain]"),
        ("epochs: 2", "epochs: 2.0"),
        ("name: s", "name: t\ndescription: for people"),
    ],
)
def test_what_changes_no_answer_changes_no_name(names, old, new):
    assert old in BASE
    assert names(BASE.replace(old, new)) == names(BASE)


def test_the_order_of_models_changes_no_name(names):
    turned = BASE.replace("[smollm2-135m, facebook/opt-2.7b]", "[facebook/opt-2.7b, smollm2-135m]")
    assert set(names(turned)) == set(names(BASE))
    assert names(turned) != names(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(
            ("batch: 8", f"batch: 8, {change}")
            for change in (
                "method: full", "rank: 4", "alpha: 16", "dropout: 0.1", "targets: mlp", "targets: [q_proj]",
                "layers: 4", "optimiser: sgd", "lr: 1e-3",
                "betas: [0.9, 0.99]", "weight_decay: 0.1", "clip: null", "warmup: 0.1",
                "schedule: cosine", "loss: completion", "context: 64", "dtype: float32", "quantise: 8bit",
            )
        ),
        ("batch: 8", "batch: 4"),
        ("epochs: 2", "epochs: 3"),
        ("epochs: 2", "steps: 4"),
        ("[plain, science, negation]", "[plain, science]"),
        ("every: 2", "every: 1"),
        ("items: 10", "items: 11"),
        ("items: 10", "items: 10, seed: 1"),
        ("name: s", "name: s\npattern: '{premise} {hypothesis}?'"),
        ("name: s", "name: s\nanswers: {entailment: ' true', not_entailment: ' false'}"),
    ],
)  # fmt: skip
def test_what_changes_answers_changes_the_name(names, old, new):
    assert old in BASE
    assert not set(names(BASE.replace(old, new))) & set(names(BASE))


def test_micro_batches_count_with_dropout(names):
    dropped = BASE.replace("batch: 8", "batch: 8, dropout: 0.1")
    assert names(dropped.replace("dropout", "micro_batch: 2, dropout")) != names(dropped)


def test_a_models_own_recipe(study, names):
    text = BASE.replace("facebook/opt-2.7b", "{name: facebook/opt-2.7b, recipe: {steps: 7, device: cpu}}")
    runs = expand(study(text))
    assert runs[0].recipe.epochs == 2
    assert (runs[-1].recipe.steps, runs[-1].recipe.epochs, runs[-1].recipe.batch) == (7, None, 8)
    assert names(text)[:12] == names(BASE)[:12]
    assert not set(names(text)[12:]) & set(names(BASE))


def test_one_model_may_stay_untrained(study):
    text = BASE.replace("facebook/opt-2.7b", "{name: facebook/opt-2.7b, recipe: {method: zero-shot}}")
    runs = expand(study(text))
    assert [run.method for run in runs] == ["lora"] * 12 + ["zero-shot"]
    assert runs[-1].checkpoints() == [0]


def test_own_files_count_by_content(study, tmp_path):
    text = BASE.replace("negation]", "mine]") + (
        "sets:\n  mine: {file: FILE, pattern: '{claim}?', answers: {1: ' Yes', 0: ' No'}}\n"
    )
    (tmp_path / "a.csv").write_text("claim,label\nx,1\ny,0\n")
    (tmp_path / "b.csv").write_text("claim,label\nx,1\ny,0\n")
    (tmp_path / "c.csv").write_text("claim,label\nx,1\ny,1\n")
    a, b, c = (expand(study(text.replace("FILE", name)))[0] for name in ("a.csv", "b.csv", "c.csv"))
    assert a.name == b.name
    assert a.name != c.name
    assert start_key(a) != start_key(c)


def test_own_files_that_the_system_refuses_do_not_make_other_runs(study, tmp_path, monkeypatch):
    """Taken for missing, a file gave its runs other names, and they would have been computed again."""
    text = BASE.replace("seeds: [0, 1, 2]", "levels: 2, difficulty: {calibration: c.csv}")
    (tmp_path / "c.csv").write_text("item,difficulty\na,1\n")
    file = study(text)
    system_stat = os.stat

    def refused_stat(name, **options):
        if os.path.basename(name) == "c.csv":
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
        return system_stat(name, **options)

    monkeypatch.setattr(os, "stat", refused_stat)
    with pytest.raises(InputError, match=r"c\.csv: cannot be read \(Stale file handle\)"):
        expand(file)


def test_a_calibration_counts_by_content(study, tmp_path):
    text = BASE.replace("seeds: [0, 1, 2]", "levels: 2, difficulty: {calibration: c.csv}")
    before = expand(study(text))[0].name
    (tmp_path / "c.csv").write_text("item,difficulty\na,1\n")
    between = expand(study(text))[0].name
    (tmp_path / "c.csv").write_text("item,difficulty\na,2\n")
    assert len({before, between, expand(study(text))[0].name}) == 3


def test_another_studys_answers_count(study, tmp_path):
    text = BASE.replace("seeds: [0, 1, 2]", "levels: 2, difficulty: {study: old}")
    before = expand(study(text))[0].name
    (tmp_path / "old" / "runs" / "r").mkdir(parents=True)
    (tmp_path / "old" / "runs" / "r" / "step-000000.0123456789abcdef.parquet").touch()
    assert expand(study(text))[0].name != before


def test_runs_that_start_alike(study):
    keys = [start_key(run) for run in expand(study(BASE))]
    assert len(set(keys[:12])) == len(set(keys[12:])) == 1
    assert keys[0] != keys[-1]
    other = expand(study(BASE.replace("every: 2", "every: 1").replace("epochs: 2", "epochs: 3, lr: 1e-2, rank: 2")))
    assert start_key(other[0]) == keys[0]
    for old, new in (("items: 10", "items: 11"), ("batch: 8", "batch: 8, dtype: bfloat16"), ("negation]", "chat]")):
        assert start_key(expand(study(BASE.replace(old, new)))[0]) != keys[0]


def test_names_in_half_precision(names):
    """Training with dtype bfloat16 is not what it was, so its runs have other names; all others keep theirs."""
    text = "name: s\nmodels: a/b\n{train}recipe: {{{method}, dtype: {dtype}}}\nevaluate: {{on: plain}}\n"

    def name(dtype, method="steps: 4", train="train: {set: plain}\n"):
        return names(text.format(train=train, method=method, dtype=dtype))[0]

    assert name("auto") == "a-b-plain-128-s0-20494e6b"
    assert name("float32") == "a-b-plain-128-s0-bc242e9e"
    assert name("bfloat16") != "a-b-plain-128-s0-ba44ef63"  # which it was
    assert name("bfloat16", "method: full, steps: 4") != name("pure-bfloat16", "method: full, steps: 4")
    assert name("float16", "method: zero-shot", "") == "a-b-zero-shot-8ce0fc4e"
    for dtype in ("bfloat16", "pure-bfloat16"):
        assert name(dtype, "method: zero-shot", "") == "a-b-zero-shot-2a5c913e"


def test_starts_in_half_precision(study):
    """Training computes under autocast, so step 0 of a run that trains is not that of the untrained model."""
    keys = {}
    for method in ("zero-shot", "lora, epochs: 2"):
        for dtype in ("bfloat16", "pure-bfloat16"):
            recipe = f"recipe: {{method: {method}, batch: 8, dtype: {dtype}}}"
            text = BASE.replace("recipe: {epochs: 2, batch: 8}", recipe)
            if method == "zero-shot":
                text = text.replace(", every: 2", "")
            keys[method, dtype] = start_key(expand(study(text))[0])
    assert keys["zero-shot", "bfloat16"] == keys["zero-shot", "pure-bfloat16"]
    assert len(set(keys.values())) == 3


@given(st.text(min_size=1, max_size=120))
def test_names_are_safe_whatever_the_model(model):
    from dataclasses import replace

    run = replace(expand(read_study_file("small"))[0], model=model)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}", run.name)
    assert run.name == replace(run).name


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 20), st.integers(1, 50))
def test_checkpoints(examples, batch, epochs, every):
    recipe = Recipe(epochs=epochs, batch=batch)
    last = total_steps(recipe, examples)
    assert (last - 1) * batch < epochs * examples <= last * batch
    points = checkpoints(recipe, Evaluate(on=["plain"], every=every), examples)
    assert points[0] == 0
    assert points[-1] == last
    assert points == sorted(set(points))
    assert all(point % every == 0 for point in points[:-1])
    assert checkpoints(recipe, Evaluate(on=["plain"]), examples) == [0, last]


def test_small():
    runs = expand(read_study_file("small"))
    assert [run.recipe.layers for run in runs] == [8, 6]
    assert all(run.checkpoints() == list(range(0, 49, 4)) for run in runs)
    assert set(runs[0].evaluate.on) < set(SETS)
    assert runs[0].evaluate.on[0] == runs[0].train_set


def test_the_published_study_of_shifts():
    runs = expand(read_study_file("generalisation"))
    assert len(runs) == len({run.name for run in runs}) == 48
    assert {len(run.checkpoints()) for run in runs} == {41}
    assert len({start_key(run) for run in runs}) == 8
    recipe = runs[0].recipe
    assert (recipe.rank, recipe.alpha, recipe.dropout, recipe.targets) == (8, 32, 0.1, "attention")
    assert (recipe.lr, recipe.schedule, recipe.warmup, recipe.batch, recipe.dtype) == (
        1e-5,
        "constant",
        0.1,
        32,
        "bfloat16",
    )
    assert total_steps(recipe.model_copy(update={"steps": None, "epochs": 160.0}), 128) == recipe.steps == 640


def test_the_published_study_of_difficulty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = read_study_file("level-transfer")
    assert len(file.warnings) == 1
    runs = expand(file)
    assert len(runs) == len({run.name for run in runs}) == 7 * (10 + 4) * 3
    assert {run.method for run in runs} == {"full"}
    assert runs[0].checkpoints() == [0, 40]


BY_PATH = """\
name: s
models: {name}
recipe: {{method: zero-shot}}
evaluate: {{on: plain}}
"""


@pytest.mark.parametrize("name", ["models/tiny", "./models/tiny", "../beside/models/tiny"])
def test_a_path_is_relative_to_the_study_file(tmp_path, monkeypatch, name):
    folder, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    (folder / "models" / "tiny").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "study.yaml").write_text(BY_PATH.format(name=name))
    names = set()
    for here in (folder, elsewhere, tmp_path):
        monkeypatch.chdir(here)
        file = read_study_file(os.path.relpath(folder / "study.yaml"))
        [run] = expand(file)
        assert run.loads == str(folder / "models" / "tiny")
        assert run.model == run.record().model == name
        assert not file.warnings
        names.add(run.name)
    assert len(names) == 1


def test_a_path_that_only_the_current_directory_has_is_taken_with_a_warning(tmp_path, monkeypatch):
    (tmp_path / "studies").mkdir()
    (tmp_path / "tiny").mkdir()
    path = tmp_path / "studies" / "s.yaml"
    path.write_text(BY_PATH.format(name="./tiny"))
    monkeypatch.chdir(tmp_path)
    file = read_study_file(path)
    [warning] = file.warnings
    assert "line 2" in warning
    assert "'../tiny'" in warning
    assert expand(file)[0].loads == str(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path / "studies")
    with pytest.raises(InputError, match="relative to the study file"):
        read_study_file(path)


def test_the_directory_beside_the_study_comes_before_that_of_the_current_directory(tmp_path, monkeypatch):
    for folder in ("studies", "here"):
        (tmp_path / folder / "org" / "tiny").mkdir(parents=True)
    path = tmp_path / "studies" / "s.yaml"
    path.write_text(BY_PATH.format(name="org/tiny"))
    monkeypatch.chdir(tmp_path / "here")
    assert expand(read_study_file(path))[0].loads == str(tmp_path / "studies" / "org" / "tiny")


@pytest.mark.parametrize("name", ["smollm2-135m", "org/model"])
def test_built_in_models_and_those_of_the_hub_keep_their_names(tmp_path, monkeypatch, name):
    (tmp_path / "smollm2-135m").mkdir()
    path = tmp_path / "s.yaml"
    path.write_text(BY_PATH.format(name=name))
    assert expand(read_study_file(path))[0].loads == name
    # With dots in front it is the directory, from wherever the study is read.
    path.write_text(BY_PATH.format(name="./smollm2-135m"))
    monkeypatch.chdir(tmp_path)
    assert expand(read_study_file("s.yaml"))[0].loads == str(tmp_path / "smollm2-135m")


SEVERAL = """\
name: s
models:
  - {{name: smollm2-135m, recipe: {first}}}
  - {{name: smollm2-135m, recipe: {second}}}
train: {{set: plain, examples: 16, seeds: [0, 1]{start}}}
recipe: {{lr: 1.0e-3, steps: 4}}
evaluate: {{on: [plain, negation]}}
"""


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        ("{method: few-shot}", "{method: lora}", ["(few-shot)", "(lora)"]),
        ("{method: zero-shot}", "{method: few-shot, num_fewshot: 2}", ["(zero-shot)", "(few-shot)"]),
        ("{lr: 1.0e-2}", "{}", ["(lora, lr 0.01)", "(lora, lr 0.001)"]),
        ("{epochs: 1}", "{}", ["(lora, epochs 1.0)", "(lora, steps 4)"]),
    ],
)
def test_a_model_may_be_listed_with_several_recipes(study, first, second, labels):
    runs = expand(study(SEVERAL.format(first=first, second=second, start="")))
    assert len({run.name for run in runs}) == len(runs)
    assert {run.model for run in runs} == {"smollm2-135m"}
    assert list(dict.fromkeys(run.label for run in runs)) == [f"smollm2-135m {label}" for label in labels]


@pytest.mark.parametrize("second", ["{}", "{method: lora}", "{trunk: 'off'}", "{device: cpu, lr: 0.001}"])
def test_entries_that_would_give_the_same_runs_are_refused(problems, second):
    """Neither a default that is spelt out nor the device makes another run."""
    [line] = problems(SEVERAL.format(first="{}", second=second, start=""))
    assert line.startswith("line 4, models: 'smollm2-135m' is listed more than once")


@pytest.mark.parametrize("first", ["{method: zero-shot}", "{lr: 1.0e-2}"])
def test_the_untrained_model_before_a_start_is_evaluated_once(study, first):
    text = SEVERAL.format(first=first, second="{}", start=", start: {examples: 8}")
    runs = expand(study(text))
    assert [run.method for run in runs].count("zero-shot") == 1
    assert len({run.name for run in runs}) == len(runs)


def test_answers_of_one_endpoint_are_not_taken_for_those_of_another(study):
    text = """\
name: s
models:
  - {name: m, endpoint: "http://localhost:1/v1", model: m}
  - {name: m, endpoint: "http://localhost:2/v1", model: m}
recipe: {method: zero-shot}
evaluate: {on: plain}
"""
    first, second = expand(study(text))
    assert first.name != second.name
    assert start_key(first) != start_key(second)
    assert "http://localhost:2/v1" in second.label


def test_a_label_is_no_part_of_a_run(study):
    alone = study(
        SEVERAL.format(first="{}", second="{lr: 5}", start="").replace(
            "  - {name: smollm2-135m, recipe: {lr: 5}}\n", ""
        )
    )
    both = study(SEVERAL.format(first="{}", second="{lr: 5}", start=""))
    assert [run.name for run in expand(alone)] == [run.name for run in expand(both)][:2]


@pytest.mark.parametrize("method", ["ia3", "bitfit"])
def test_keys_of_lora_are_no_part_of_other_methods(study, method):
    text = f"{BASE.replace('epochs: 2', f'method: {method}, epochs: 2')}"
    plain, file = study(text), study(text.replace("epochs: 2", "epochs: 2, rank: 4, alpha: 8, dropout: 0.1"))
    assert [run.name for run in expand(plain)] == [run.name for run in expand(file)]
    run = expand(plain)[0]
    assert run.is_trained
    assert run.total_steps() == 4
    assert not {"rank", "alpha", "dropout", "targets"} & set(run.record().recipe)
    assert not plain.warnings
    assert [line for line in file.warnings if "recipe.rank: is not used" in line]
