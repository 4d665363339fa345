"""Names are unique: what tells two things apart stands in their names."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from breadth.records.naming import distinguish_names, name_rows


def test_names_that_differ_stay_as_they_are():
    frame = pl.DataFrame({"model": ["opt", "opt", "olmo"], "examples": [32, 64, None], "train_set": ["a", "b", "c"]})
    assert name_rows(frame, ["model", "examples"], labelled=["examples"]).to_list() == [
        "opt / examples 32",
        "opt / examples 64",
        "olmo",
    ]


def test_equal_names_get_the_column_that_tells_them_apart():
    frame = pl.DataFrame(
        {"model": ["opt", "opt", "olmo"], "examples": [32, 32, 32], "train_set": ["mnli", None, "mnli"]}
    )
    names = name_rows(frame, ["model", "examples"]).to_list()
    assert names == ["opt / 32 (train_set mnli)", "opt / 32 (no train_set)", "olmo / 32"]


def test_a_column_that_tells_all_apart_is_preferred():
    about = pl.DataFrame({"seed": [0, 0, 1], "run": ["x", "y", "z"]})
    assert distinguish_names(pl.Series(["m"] * 3), about).to_list() == ["m (run x)", "m (run y)", "m (run z)"]


def test_nothing_that_is_known_tells_them_apart():
    about = pl.DataFrame({"train_set": ["mnli"] * 3})
    assert distinguish_names(pl.Series(["m"] * 3), about).to_list() == ["m", "m #2", "m #3"]


values = st.one_of(st.none(), st.sampled_from(["a", "b", "a / b"]))


@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=8, unique=True))
def test_different_rows_never_share_a_name(rows):
    frame = pl.DataFrame(rows, schema=dict.fromkeys("xyz", pl.String), orient="row")
    assert name_rows(frame, ["x", "y"]).n_unique() == frame.height
