from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.sources import item_clusters
from breadth.sources.clusters import obvious_cluster

ITEMS = pl.DataFrame(
    {
        "item": ["a", "b", "c", "d", "e"],
        "passage": ["x", "x", None, None, "y"],
        "one": ["z"] * 5,
        "level": [0, 0, 1, 1, 1],
    }
)


@pytest.fixture
def study():
    table = ITEMS.with_columns(subject=pl.lit("m"), correct=1.0)
    return breadth.open(table)


def test_items_without_a_value_are_alone(study):
    numbers = dict(zip(study.items["item"], item_clusters(study, "passage"), strict=True))
    assert numbers["a"] == numbers["b"]
    assert len(set(numbers.values())) == 4


def test_columns_that_cannot_be_clusters(study):
    with pytest.raises(InputError, match=r"no column 'pasage' .*Did you mean passage"):
        item_clusters(study, "pasage")
    with pytest.raises(InputError, match="one value for all items"):
        item_clusters(replace(study, items=study.items.with_columns(one=pl.lit("z"))), "one")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"passage": ["x", "x", "y"]}, "passage"),
        ({"Template ID": ["x", "x", "y"]}, "Template ID"),
        ({"passage": ["x", "y", "z"]}, None),
        ({"passage": ["x", "x", "x"]}, None),
        ({"passage": [None, None, "x"]}, None),
        ({"level": [0, 0, 1]}, None),
        ({"topic": ["x", "x", "y"], "passage": ["x", "x", "y"]}, "passage"),
    ],
)
def test_an_obvious_column(columns, expected):
    items = pl.DataFrame({"item": ["a", "b", "c"], **columns})
    assert obvious_cluster(items, np.arange(3)) == expected


def test_only_items_that_are_compared_count():
    items = pl.DataFrame({"item": ["a", "b", "c", "d"], "passage": ["x", "x", "y", "z"]})
    assert obvious_cluster(items, [0, 1, 2]) == "passage"
    assert obvious_cluster(items, [1, 2, 3]) is None
