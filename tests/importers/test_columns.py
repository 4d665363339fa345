import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.importers.columns import Column, pack

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.none() | TEXTS | st.lists(TEXTS)))
def test_column_is_the_sequence_that_was_packed(values):
    column = pack(values)
    assert len(column) == len(values)
    assert list(column) == values
    assert column == values
    assert column == pack(tuple(values))
    assert [column[k] for k in range(len(values))] == values
    assert column[:2] == values[:2]


def test_equal_columns_are_one_object_here_and_after_pickling():
    first, second = pack(["a", None]), pack(["a", None])
    assert first is second
    assert pickle.loads(pickle.dumps(first)) is first
    assert hash(first) == hash(second)
    assert pack(["a", "b"]) != first
    assert first not in (None, "a", ["a"])


def test_pickle_is_small():
    assert len(pickle.dumps(pack(["the same words again and again"] * 10_000))) < 1000


def test_numbers_of_numpy_are_places():
    assert pack(["a", "b"])[np.int64(1)] == "b"


def test_halves_of_surrogate_pairs_are_replaced():
    assert list(pack(["\ud800", ["a\udc00"]])) == ["?", ["a?"]]


def test_columns_are_kept_only_while_used():
    from breadth.importers import columns

    column = pack([f"kept {k}" for k in range(5)])
    key = next(key for key, known in columns._COLUMNS.items() if known is column)
    assert isinstance(column, Column)
    del column
    with pytest.raises(KeyError):
        columns._COLUMNS[key]
