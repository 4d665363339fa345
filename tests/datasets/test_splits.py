"""Train and test never share an item, whatever the file's splits are called."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets.splits import halve, part
from breadth.errors import InputError


def frame(**sizes):
    names = [name for name, size in sizes.items() for _ in range(size)]
    return pl.DataFrame({"item": [f"s-{i}" for i in range(len(names))], "split": names})


@given(st.sets(st.text(min_size=1, max_size=8), max_size=60), st.randoms())
def test_halves_share_nothing_and_depend_on_ids_alone(ids, order):
    rows = sorted(ids)
    train, test, _ = halve(pl.DataFrame({"item": rows}, schema={"item": pl.String}))
    assert not set(train["item"]) & set(test["item"])
    assert set(train["item"]) | set(test["item"]) == ids
    order.shuffle(rows)
    fewer = rows[: len(rows) // 2]
    again = halve(pl.DataFrame({"item": fewer}, schema={"item": pl.String}))
    assert set(again.train["item"]) == set(train["item"]) & set(fewer)


def test_halves_are_about_equal():
    assert abs(halve(frame(test=4000)).train.height - 2000) < 150


@pytest.mark.parametrize(
    ("sizes", "test_split", "train_split", "test", "train"),
    [
        ({"train": 5, "dev": 3, "test": 4}, "test", "train", 4, 5),
        ({"dev": 3, "test": 4}, "test", "train", 4, 3),
        ({"train": 5, "dev_matched": 3}, "validation_matched", "train", 3, 5),
        ({"train": 5, "dev": 3}, "train", "validation", 5, 3),
        ({"train": 5, "test": 3}, "test_r3", "train_r3", 3, 5),
        ({"test_r1": 5, "test_r3": 3, "train_r3": 6}, "test_r3", "train_r3", 3, 6),
        ({"Train": 5, "Test": 3}, "test", "train", 3, 5),
    ],
)
def test_names_and_their_kin(sizes, test_split, train_split, test, train):
    parts = part(frame(**sizes), test_split, train_split, "file")
    assert (parts.test.height, parts.train.height) == (test, train)


@pytest.mark.parametrize("sizes", [{"unknown": 40}, {"train": 40}, {"test": 40}, {"left": 20, "right": 20}])
def test_one_split_or_names_that_say_nothing_are_halved(sizes):
    parts = part(frame(**sizes), "test", "train", "file")
    assert parts.test.height + parts.train.height == 40
    assert "half of the items" in parts.how
    assert 5 < parts.test.height < 35


def test_a_train_split_beside_an_unknown_one_is_an_error():
    with pytest.raises(InputError, match=r"file: none of the splits \(heldout, train\) is the test split 'test'"):
        part(frame(train=4, heldout=4), "test", "train", "file")
