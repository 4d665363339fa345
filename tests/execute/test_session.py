"""Every method and scoring kind, from a study file to stored responses, with a model that takes milliseconds."""

import json

import polars as pl
import pytest
import yaml

from breadth.execute import run
from breadth.lm.tiny import write_tiny_model
from breadth.records import open_study

EVALUATE = {"on": ["plain", "science"], "items": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))


@pytest.fixture
def study(tmp_path, model):
    def execute(**keys):
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({"name": "methods", "models": model, "evaluate": EVALUATE, **keys}))
        run(path, into=tmp_path / "study")
        return open_study(tmp_path / "study")

    return execute


def test_zero_shot_evaluates_once(study):
    measured = study(recipe={"method": "zero-shot"})
    assert measured.subjects["step"].to_list() == [0]
    assert measured.subjects["method"].to_list() == ["zero-shot"]
    assert measured.responses.collect().height == 16
    assert measured.responses.collect()["margin"].is_finite().all()
    assert ((measured.responses.collect()["margin"] > 0) == (measured.responses.collect()["correct"] == 1)).all()


def test_few_shot_examples_change_the_answers(study, tmp_path):
    train = {"set": "plain", "seeds": [0, 1]}
    measured = study(recipe={"method": "few-shot", "num_fewshot": 2}, train=train)
    assert measured.subjects["seed"].to_list() == [0, 1]
    by_seed = [
        frame["margin"].to_list() for frame in measured.responses.collect().partition_by("subject", maintain_order=True)
    ]
    assert by_seed[0] != by_seed[1]


@pytest.mark.parametrize("layers", ["all", 2])
def test_full_tuning_changes_the_margins(study, layers):
    recipe = {"method": "full", "layers": layers, "steps": 3, "batch": 4, "lr": 0.01}
    measured = study(recipe=recipe, train={"set": "plain", "examples": 8})
    assert measured.subjects["step"].to_list() == [0, 3]
    before, after = measured.responses.collect().partition_by("subject", maintain_order=True)
    assert before["margin"].to_list() != after["margin"].to_list()


def test_an_own_set_of_choices(study, tmp_path):
    rows = [{"q": f"Which word is number {i}?", "o": ["red", "green", "blue"], "right": "ABC"[i % 3]} for i in range(9)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    own = {"file": "own.jsonl", "kind": "choice", "fields": {"question": "q"}, "label": "right", "options": "o"}
    measured = study(
        recipe={"method": "zero-shot"},
        sets={"words": {**own, "pattern": "{question}\n{choices}\nAnswer:", "normalise": True}},
        evaluate={"on": ["words"]},
    )
    assert set(measured.responses.collect()["answer"]) <= {"A", "B", "C"}
    assert measured.responses.collect()["margin"].is_finite().all()


def test_an_own_set_of_numbers_to_write(study, tmp_path):
    pl.DataFrame({"question": [f"{i} + 1 =" for i in range(6)], "label": [str(i + 1) for i in range(6)]}).write_csv(
        tmp_path / "sums.csv"
    )
    own = {"file": "sums.csv", "kind": "generate", "pattern": "{question}", "metric": "number", "max_tokens": 4}
    measured = study(recipe={"method": "zero-shot"}, sets={"sums": own}, evaluate={"on": ["sums"]})
    assert measured.responses.collect()["margin"].null_count() == measured.responses.collect().height > 0
    assert measured.responses.collect()["answer"].str.len_chars().max() > 0


def test_completion_loss_trains_what_is_written(study):
    recipe = {"method": "lora", "rank": 2, "loss": "completion", "steps": 2, "batch": 4, "lr": 0.01}
    measured = study(recipe=recipe, train={"set": "plain", "examples": 8})
    assert measured.subjects["step"].to_list() == [0, 2]


def test_levels_and_strategies_are_held_out(study, tmp_path):
    rows = [
        {"id": i, "text": f"Item {i} of kind {i % 7}.", "label": "yes" if i % 2 else "no", "hardness": (i * 37) % 101}
        for i in range(200)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "own.csv")
    own = {"file": "own.csv", "item": "id", "pattern": "{text} Yes or No?", "answers": {"yes": " Yes", "no": " No"}}
    train = {"set": "own", "examples": 8, "levels": 2, "strategies": ["spiral"], "difficulty": {"column": "hardness"}}
    measured = study(
        recipe={"method": "lora", "rank": 2, "layers": 2, "steps": 2, "batch": 4},
        sets={"own": own},
        train=train,
        evaluate={"on": ["own"], "items": 40},
    )
    assert measured.items.group_by("level").len().sort("level").rows() == [(0, 20), (1, 20)]
    assert measured.subjects.select("train_level", "strategy").unique().height == 3
    starts = measured.subjects.filter(step=0)["subject"]
    margins = [measured.responses.filter(subject=subject).collect()["margin"].to_list() for subject in starts]
    assert margins[0] == margins[1] == margins[2]  # the untrained model is evaluated on the same test halves
