import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.importers.values import entries, log_odds, mapping, number, numbered, plain, text_item, words

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1.0),
        (0, 0.0),
        (0.25, 0.25),
        (10**400, None),
        (math.nan, None),
        (-math.inf, None),
        ("1", None),
        ([1], None),
    ],
)
def test_a_number_is_finite(value, expected):
    assert number(value) == expected


@given(ANY)
def test_values_of_any_type_are_taken_for_what_they_are(value):
    assert number(value) is None or math.isfinite(number(value))
    assert words(value) is None or words(value).strip()
    assert mapping(value) == (value if isinstance(value, dict) else {})
    assert list(entries(value)) == (value if isinstance(value, list) else [])
    assert plain(value) is None or isinstance(plain(value), str | bool | float)


def test_a_truth_value_that_describes_a_subject_stays_one():
    assert plain(True) is True
    assert plain(3) == 3.0


@given(st.lists(st.sampled_from(["a", "b", "a#2", "a#2#2", "a#3"])))
def test_repeated_items_get_names_of_their_own(items):
    names = numbered(items)
    assert len(set(names)) == len(items)
    assert all(name.startswith(item) for name, item in zip(names, items, strict=True))


def test_repeats_are_counted():
    assert numbered(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]
    assert numbered(["a", "a", "a#2"]) == ["a", "a#2", "a#2#2"]
    assert numbered(["a#2", "a", "a"]) == ["a#2", "a", "a#3"]


def test_texts_identify_items():
    assert text_item("a", "b") != text_item("b", "a")
    assert text_item("a") == text_item("a")
    assert text_item("\ud800") != text_item("\udfff")


@given(st.lists(st.floats(-50, 0), min_size=2, max_size=6), st.data())
def test_log_odds_are_those_of_the_softmax(scores, data):
    gold = data.draw(st.integers(0, len(scores) - 1))
    total = sum(map(math.exp, scores))
    right = math.exp(scores[gold]) / total
    if 1e-9 < right < 1 - 1e-9:
        assert log_odds(scores, [gold]) == pytest.approx(math.log(right / (1 - right)), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("scores", "gold"),
    [
        ([], [0]),
        ([0.0], [0]),
        ([0.0, -1.0], []),
        ([0.0, -1.0], [0, 1]),
        ([-math.inf, -math.inf], [0]),
        ([0, math.nan], [0]),
    ],
)
def test_log_odds_that_are_not_finite_are_missing(scores, gold):
    assert log_odds(scores, gold) is None


def test_several_right_options_count_together():
    assert log_odds([0.0, 0.0, 0.0, 0.0], [0, 1, 2]) == pytest.approx(math.log(3))
    assert log_odds([-1000.0, 0.0], [0]) == -1000.0
