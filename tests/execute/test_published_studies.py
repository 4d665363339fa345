"""Both published designs as they are shipped, at toy size, on a tiny model of every family that they name.

What is changed is listed here: models, sizes and the data, which is written by the tests. Recipe, prompts, precision,
chat templates, losses and scoring are those of the shipped files.
"""

import copy

import polars as pl
import pytest
import yaml

from breadth.execute import run
from breadth.sources import open_study
from breadth.study import StudySpec, expand, read_study_file, resolved_yaml

from ..families import CHATTING, FAMILIES, write_family

ENTAILED = ("entailment", "not_entailment")
LABELS = {"snli": ("entailment", "contradiction"), "mnli": ("entailment", "contradiction")}
LABELS |= {"anli": ("entailment", "contradiction"), "scitail": ("entails", "neutral")}
INFERENCE = ("mnli", "snli", "scitail", "wnli", "rte", "paws", "hans", "anli")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Small files of every set that the two studies use, in the form of the public ones."""
    folder = tmp_path_factory.mktemp("data")
    for name in INFERENCE:
        rows = []
        for k in range(40):  # half of them are for training
            label = LABELS.get(name, ENTAILED)[k % 2]
            rows.append({"premise": f"{name} {k} sat.", "hypothesis": f"It sat {k}.", "label": label})
        pl.DataFrame(rows).write_parquet(folder / f"{name}.parquet")
    sums = [{"id": f"q{k}", "question": f"{k} + 1?", "answer": f"<<{k}+1>>It is.\n#### {k + 1}"} for k in range(40)]
    pl.DataFrame(sums).write_parquet(folder / "gsm8k.parquet")
    difficulty = pl.DataFrame({"item": [f"q{k}" for k in range(40)], "difficulty": [k / 10 for k in range(40)]})
    difficulty.write_parquet(folder / "gsm8k-calibration.parquet")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = {}

    def write(family):
        if family not in made:
            folder = tmp_path_factory.mktemp("families") / family
            made[family] = write_family(folder, family, pickled=family == "opt")
        return made[family]

    return write


def shrunk(name, changes):
    """A shipped study with some keys changed, section by section."""
    values = yaml.safe_load(resolved_yaml(read_study_file(name).study))
    values = copy.deepcopy(values)
    for section, keys in changes.items():
        if isinstance(keys, dict) and isinstance(values.get(section), dict):
            values[section] |= keys
        else:
            values[section] = keys
    return resolved_yaml(StudySpec.model_validate(values))


@pytest.mark.parametrize("family", FAMILIES)
def test_generalisation(family, model, data, tmp_path):
    folder = model(family)
    entry = {"name": str(folder), **({"weights": "bin"} if family == "opt" else {})}
    text = shrunk(
        "generalisation",
        {
            "models": [entry],
            "train": {"set": ["mnli", "snli"], "examples": [4], "seeds": [0]},
            "recipe": {"steps": 4, "batch": 4},
            "evaluate": {"every": 2},
        },
    )
    (tmp_path / "s.yaml").write_text(text)
    outcome = run(str(tmp_path / "s.yaml"), into=tmp_path / "study", data=data)
    assert outcome.failed == {}
    study = open_study(tmp_path / "study")
    assert sorted(study.testsets) == sorted(INFERENCE)
    assert study.subjects.group_by("run").len()["len"].to_list() == [3, 3]  # steps 0, 2 and 4
    assert study.margin is not None


@pytest.mark.parametrize("family", FAMILIES)
def test_level_transfer(family, model, data, tmp_path):
    folder = model(family)
    entry = {"name": str(folder), **({"weights": "bin"} if family == "opt" else {})}
    text = shrunk(
        "level-transfer",
        {
            "models": [entry],
            # Gemma's template takes no system prompt, and models without a template have no place for one.
            "system": "" if family in CHATTING and family != "gemma3" else None,
            "train": {
                "levels": 3,
                "train_levels": [0, 2],
                "strategies": [],
                "examples": [4],
                "seeds": [42],
                "difficulty": {"calibration": str(data / "gsm8k-calibration.parquet")},
            },
            "recipe": {"epochs": 1, "batch": 4, "context": 256},
            "sets": {"gsm8k": {"max_tokens": 4}},
        },
    )
    (tmp_path / "s.yaml").write_text(text)
    notes = []
    runs = expand(read_study_file(tmp_path / "s.yaml"))
    assert {each.train_level for each in runs} == {0, 2}
    assert all(each.chat is not None and each.recipe.dtype == "bfloat16" for each in runs)

    from breadth.execute import Events

    class Listening(Events):
        def note(self, text):
            notes.append(text)

    outcome = run(str(tmp_path / "s.yaml"), into=tmp_path / "study", data=data, events=Listening())
    assert outcome.failed == {}
    chosen = [note for note in notes if note.startswith(("chat form", "plain text"))]
    assert chosen
    assert all(note.startswith("chat form" if family in CHATTING else "plain text") for note in chosen)
    study = open_study(tmp_path / "study")
    assert study.subjects["step"].to_list().count(0) == 2
    assert sorted(study.items["level"].unique()) == [0, 1, 2]
