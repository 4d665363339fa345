"""`models:` of checkpoints that are there already: their names, runs and problems."""

import shutil

import pytest

from breadth.errors import InputError
from breadth.study import expand, parse_study, start_key
from breadth.study.schema import ModelEntry, name_of_checkpoints

STUDY = """\
name: s
models:
  - {{{entry}}}
recipe: {{method: {method}}}
evaluate: {{on: [plain, negation], items: 8{more}}}
"""


@pytest.fixture
def read(tmp_path, adapters):
    shutil.copytree(adapters, tmp_path / "runs" / "lora", dirs_exist_ok=True)

    def parse(entry, method="evaluate", more=""):
        text = STUDY.format(entry=entry, method=method, more=more)
        return parse_study(text, tmp_path / "s.yaml", tmp_path)

    return parse


def test_an_entry_is_one_run_with_the_steps_that_are_there(read):
    (run,) = expand(read("checkpoints: runs/lora/checkpoint-*, trained_on: plain"))
    assert (run.model, run.train_set, run.method, run.checkpoints()) == ("lora", "plain", "evaluate", [10, 20, 30])
    assert (run.total_steps(), run.is_trained) == (0, False)


def test_checkpoints_that_appear_do_not_change_the_name_of_a_run(read, tmp_path):
    (before,) = expand(read("checkpoints: runs/lora"))
    shutil.copytree(tmp_path / "runs/lora/checkpoint-30", tmp_path / "runs/lora/checkpoint-40")
    (after,) = expand(read("checkpoints: runs/lora"))
    assert (before.checkpoints(), after.checkpoints()) == ([10, 20, 30], [10, 20, 30, 40])
    assert before.name == after.name


def test_name_base_and_evaluation_make_another_run(read, tmp_path, tiny_base):
    shutil.copytree(tiny_base, tmp_path / "base")
    entry = "checkpoints: runs/lora"
    files = [read(entry), read(f"{entry}, base: base"), read(f"{entry}, name: b"), read(entry, more=", seed: 1")]
    runs = [run for file in files for run in expand(file)]
    assert len({run.name for run in runs}) == 4
    assert len({start_key(run) for run in runs}) == 4  # step 0 of one is never that of another


def test_revisions_are_expanded_without_a_network(read):
    (run,) = expand(read('revisions: "EleutherAI/pythia-160m@step{1000..3000..1000}"'))
    assert (run.model, run.checkpoints()) == ("EleutherAI/pythia-160m", [1000, 2000, 3000])
    assert run.source.at(2000).place == "EleutherAI/pythia-160m@step2000"


def test_names_that_are_not_given():
    assert name_of_checkpoints(["runs/a/checkpoint-*"]) == name_of_checkpoints("runs/a") == "a"
    assert name_of_checkpoints("../../runs/my-model/step_5") == "my-model"
    assert name_of_checkpoints("checkpoint-*") == ""
    assert ModelEntry(name="x", checkpoints="a").checkpoints == ["a"]


@pytest.mark.parametrize(
    ("entry", "options", "message"),
    [
        ("checkpoints: nowhere/checkpoint-*", {}, "line 3, models.checkpoints: .*matches no directory"),
        ("checkpoints: runs/lora", {"method": "zero-shot"}, "set recipe.method to evaluate"),
        ("name: smollm2-135m", {}, "method evaluate needs checkpoints"),
        ("checkpoints: runs/lora, revisions: a/b@step1", {}, "both checkpoints and revisions are given"),
        ("revisions: pythia@step1", {}, "is not OWNER/REPO@REVISION"),
        ("checkpoints: runs/lora, base: smolm2-135m", {}, "models.base: unknown model 'smolm2-135m'. Did you mean"),
        ("checkpoints: runs/lora, trained_on: mnli", {}, "'mnli' is not evaluated"),
        ("checkpoints: runs/lora", {"more": ", every: 2"}, "nothing is trained"),
    ],
)
def test_problems(read, entry, options, message):
    with pytest.raises(InputError, match=message):
        read(entry, **options)
