import typing

from breadth.difficulty import STRATEGIES, Strategy
from breadth.study.schema import Recipe, StudySpec
from breadth.study.sections import sections


def test_strategies_are_those_of_the_sampler():
    assert set(typing.get_args(Strategy)) == set(STRATEGIES)


def test_every_key_is_described():
    missing = [
        f"{prefix}{name}"
        for prefix, section in sections(StudySpec)
        for name, field in section.all_fields().items()
        if not field.description
    ]
    assert missing == []


def test_defaults_pass_their_own_checks_and_keep_their_type():
    """A default of 32 for a float would hash differently from 32.0 in a file."""
    recipe = Recipe()
    again = Recipe.model_validate(recipe.model_dump())
    assert recipe.model_dump_json() == again.model_dump_json()
