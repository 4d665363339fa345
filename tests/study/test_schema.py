import typing

from breadth.difficulty.sampling import STRATEGIES
from breadth.difficulty.sampling import Order as SamplerOrder
from breadth.study import schema
from breadth.study.reference import PARTS


def test_strategies_and_orders_are_those_of_the_sampler():
    assert set(typing.get_args(schema.Strategy)) == set(STRATEGIES)
    assert set(typing.get_args(schema.Order)) == set(typing.get_args(SamplerOrder))


def test_every_key_is_described():
    assert [
        f"{prefix}{name}"
        for prefix, part in PARTS.items()
        for name, f in part.model_fields.items()
        if not f.description
    ] == []


def test_defaults_pass_their_own_checks_and_keep_their_type():
    """A default of 32 for a float would hash differently from 32.0 in a file."""
    recipe = schema.Recipe()
    again = schema.Recipe.model_validate(recipe.model_dump())
    assert recipe.model_dump_json() == again.model_dump_json()
