"""`weights: bin` of a model: where it may stand, and that it changes no run."""

import pickle
import shutil

import pytest
import yaml

from breadth.errors import InputError
from breadth.study import expand, parse_study, resolved_yaml, start_key

STUDY = """\
name: s
models:
  - {{{entry}}}
train: {{set: plain, examples: 16}}
recipe: {{method: {method}{steps}}}
evaluate: {{on: [plain, negation], items: 8}}
"""


@pytest.fixture
def read(tmp_path, tiny_base):
    shutil.copytree(tiny_base, tmp_path / "model")

    def parse(entry, method="lora"):
        text = STUDY.format(entry=entry, method=method, steps=", steps: 2" if method == "lora" else "")
        return parse_study(text, tmp_path / "s.yaml", tmp_path)

    return parse


def problem(read, *entry):
    with pytest.raises(InputError) as caught:
        read(*entry)
    return str(caught.value)


def test_a_run_keeps_its_name(read):
    (plain,) = expand(read("name: ./model"))
    (default,) = expand(read("name: ./model, weights: safetensors"))
    (pickled,) = expand(read("name: ./model, weights: bin"))
    assert (plain.weights, default.weights, pickled.weights) == ("safetensors", "safetensors", "bin")
    assert plain.name == default.name == pickled.name
    assert start_key(plain) == start_key(pickled)


def test_a_resolved_study_lists_it_where_it_was_given(read):
    def models(entry):
        return yaml.safe_load(resolved_yaml(read(entry).study))["models"]

    assert "weights" not in models("name: ./model")[0]
    assert "weights" not in models("name: ./model, weights: safetensors")[0]
    assert models("name: ./model, weights: bin")[0]["weights"] == "bin"


def test_other_words(read):
    assert "line 3, models.weights: " in problem(read, "name: ./model, weights: pickle")


@pytest.mark.parametrize(
    ("entry", "method", "said"),
    [
        ("name: smollm2-135m, weights: bin", "lora", "smollm2-135m is a built-in model"),
        ("endpoint: 'http://localhost:1/v1', model: m, weights: bin", "zero-shot", "behind an endpoint"),
        ("checkpoints: runs/lora, base: smollm2-135m, weights: bin", "evaluate", "smollm2-135m is a built-in model"),
    ],
)
def test_where_there_are_no_pickles(read, tmp_path, adapters, entry, method, said):
    shutil.copytree(adapters, tmp_path / "runs" / "lora")
    message = problem(read, entry, method)
    assert "line 3, models.weights: " in message
    assert said in message


def test_for_the_base_of_adapters(read, tmp_path, adapters):
    shutil.copytree(adapters, tmp_path / "runs" / "lora")
    (run,) = expand(read("checkpoints: runs/lora, base: ./model, weights: bin", "evaluate"))
    assert run.weights == "bin"
    (plain,) = expand(read("checkpoints: runs/lora, base: ./model", "evaluate"))
    assert run.name == plain.name


class Hostile:
    """A pickle that would write a file when loaded."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_a_pickle_with_code_is_named_with_its_line_and_not_run(read, tmp_path):
    folder, marker = tmp_path / "model", tmp_path / "ran"
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Hostile(marker)}))
    assert "line 3, models.weights: " in problem(read, "name: ./model, weights: bin")
    assert not marker.exists()
