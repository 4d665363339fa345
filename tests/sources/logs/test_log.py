import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.sources.logs import log as logs
from breadth.sources.logs.log import Metric, PackedColumn, pack

from ..conftest import make_log


def test_missing_answers_are_nan_and_keys_are_metrics():
    log = make_log({("acc", "strict"): [1, None, 0]}, margins={("acc", "strict"): [0.5, None, -0.5]})
    assert np.isnan(log.scores(Metric("acc", "strict"))).tolist() == [False, True, False]
    assert np.isnan(log.margins[Metric("acc", "strict")]).tolist() == [False, True, False]
    assert str(Metric("acc")) == "acc"
    assert str(Metric("acc", "strict")) == "acc (strict)"


def test_a_source_must_not_hand_over_items_twice_or_columns_of_other_lengths():
    with pytest.raises(ValueError, match="items of a log must differ"):
        make_log([1, 0], items=["a", "a"])
    for wrong in ({"answers": ["A"]}, {"texts": {"text": ["one"]}}, {"margins": {("acc", ""): [1.0]}}):
        with pytest.raises(ValueError, match="differ in length"):
            make_log([1, 0], **wrong)


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
    column = pack([f"kept {k}" for k in range(5)])
    key = next(key for key, known in logs._COLUMNS.items() if known is column)
    assert isinstance(column, PackedColumn)
    del column
    with pytest.raises(KeyError):
        logs._COLUMNS[key]


def test_names_that_are_not_utf_8_are_escaped():
    log = make_log([1.0], path="logs/\udcff.jsonl", testset="\udc80", model="m\udcfe")
    assert (log.path, log.testset, log.model) == ("logs/\\xff.jsonl", "\\x80", "m\\xfe")
