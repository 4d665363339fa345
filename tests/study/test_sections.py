import pytest
from pydantic import ValidationError

from breadth.study.schema import Recipe, StudySpec
from breadth.study.sections import plain_problems, sections


def test_sections_follow_the_schema():
    assert [prefix for prefix, _ in sections(StudySpec)] == [
        "", "models[].", "train.", "train.difficulty.", "train.start.", "recipe.", "evaluate.", "sets.NAME.",
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
