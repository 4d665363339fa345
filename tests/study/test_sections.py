import pytest
from pydantic import ValidationError

from breadth.study.schema import Recipe, StudySpec
from breadth.study.sections import field_at, plain_problems, sections


def test_sections_follow_the_schema():
    assert [prefix for prefix, _ in sections(StudySpec)] == [
        "", "models[].", "models[].resources.", "train.", "train.difficulty.", "train.start.", "recipe.", "evaluate.",
        "sets.NAME.", "resources.",
    ]  # fmt: skip


def test_a_place_inside_another_file():
    """A model's own recipe is checked by itself, and its problems are placed in the file."""
    with pytest.raises(ValidationError) as caught:
        Recipe.model_validate({"lr": "fast", "epoch": 1})
    problems = plain_problems(caught.value, Recipe, ("models", 1, "recipe"))
    assert [(problem.place, problem.message) for problem in problems] == [
        (("models", 1, "recipe", "lr"), "'fast' is not a number"),
        (("models", 1, "recipe", "epoch"), "unknown key. Did you mean epochs?"),
    ]


def test_values_of_other_tools():
    with pytest.raises(ValidationError) as caught:
        Recipe.model_validate({"dtype": "fp16", "schedule": "constant_with_warmup", "method": "QLoRA"})
    hints = [problem.message.partition(". ")[2] for problem in plain_problems(caught.value, Recipe)]
    assert hints == ["Did you mean lora?", "Did you mean constant?", "Did you mean float16?"]


def test_the_field_of_a_place():
    assert "learning rate" in field_at(StudySpec, ("recipe", "lr")).description
    assert "levels" in field_at(StudySpec, ("train", "levels")).description
    assert field_at(StudySpec, ("models", 0, "recipe", "lr")) is None
    assert field_at(StudySpec, ("sets", "mine")) is None
    assert "table of test items" in field_at(StudySpec, ("sets", "mine", "file")).description
