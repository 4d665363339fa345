import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.irt import ItemEstimates, assign_levels, cut_levels, level_stability
from breadth.irt.difficulty_levels import known_difficulties


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=200, unique=True), st.integers(2, 10))
def test_levels_follow_the_quantile_rule(values, n):
    """Level i holds the items with i/n <= q < (i+1)/n, where q is the share of items that are easier."""
    difficulty = np.array(values)
    found = assign_levels(difficulty, np.zeros(len(values)), n)
    n = min(n, len(values))
    for k, value in enumerate(values):
        easier = sum(other < value for other in values)
        assert found.level[k] == easier * n // len(values)


@given(
    st.lists(st.integers(-3, 3) | st.sampled_from([math.nan, -math.inf, math.inf]), min_size=1, max_size=60),
    st.integers(2, 10),
)
def test_both_functions_put_items_into_the_same_levels(values, n):
    difficulty = np.array(values, dtype=np.float64)
    found = assign_levels(difficulty, np.full(len(values), 0.2), n)
    assert np.array_equal(np.nan_to_num(found.level, nan=-1), cut_levels(difficulty, n))
    known = ~np.isnan(difficulty)
    assert np.all(found.low[known] <= found.level[known])
    assert np.all(found.high[known] >= found.level[known])
    assert np.all(found.high[known] <= found.level[known].max(initial=0))
    assert np.all((found.certainty[known] >= 0) & (found.certainty[known] <= 1))


def test_neighbouring_numbers_are_in_the_levels_they_were_put_in():
    values = np.array([1.0, np.nextafter(1.0, 2.0)])
    found = assign_levels(values, np.zeros(2), 2)
    assert found.low.tolist() == found.level.tolist() == found.high.tolist() == [0, 1]
    largest = np.finfo(float).max
    found = assign_levels(np.array([0.9 * largest, largest]), np.zeros(2), 2)
    assert found.certainty.tolist() == [1, 1]


def test_uncertainty_spreads_over_levels():
    difficulty = np.linspace(-2, 2, 100)
    sure, unsure = (assign_levels(difficulty, np.full(100, error), 10) for error in (1e-6, 0.5))
    assert np.all(sure.low == sure.level)
    assert np.all(sure.certainty > 0.99)
    middle = 50
    assert unsure.low[middle] < unsure.level[middle] < unsure.high[middle]
    assert 0.1 < unsure.certainty[middle] < 0.5


def test_certainty_is_the_share_of_simulated_difficulties_in_the_level():
    difficulty = np.linspace(-2, 2, 41)
    found = assign_levels(difficulty, np.full(41, 0.3), 5)
    hardest = np.array([difficulty[found.level == level].max() for level in range(4)])
    edges = hardest + 0.05  # halfway to the next item
    draws = difficulty[17] + 0.3 * np.random.default_rng(0).standard_normal(100_000)
    level = np.searchsorted(edges, draws, side="right")
    assert found.certainty[17] == pytest.approx(np.mean(level == found.level[17]), abs=0.01)


def test_missing_and_infinite_difficulties():
    difficulty = np.array([np.nan, -np.inf, 0.0, 1.0, 2.0, np.inf])
    found = assign_levels(difficulty, np.array([np.nan, np.inf, 0.1, 0.1, 0.1, np.inf]), 2)
    assert np.isnan(found.level[0])
    assert np.isnan(found.certainty[0])
    assert found.level[1] == 0
    assert found.level[5] == 1
    assert np.isnan(assign_levels(np.array([np.nan]), np.zeros(1), 3)).all()


def test_fewer_difficulties_than_levels():
    """There is no level without items: two difficulties are levels 0 and 1, however many are asked for."""
    found = assign_levels(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0]), np.zeros(6), 3)
    assert found.level.tolist() == [0, 0, 0, 0, 1, 1]
    assert assign_levels(np.zeros(4), np.ones(4), 10).certainty.tolist() == [1, 1, 1, 1]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=120, unique=True), st.integers(1, 12))
def test_levels_cut_without_ties_are_of_one_size(values, n):
    level = cut_levels(np.array(values), n)
    sizes = np.bincount(level)
    assert len(sizes) == min(n, len(values))
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(0, 8) | st.just(math.nan), min_size=1, max_size=120), st.integers(1, 12))
def test_levels_cut_with_ties(values, n):
    difficulty = np.array(values, dtype=np.float64)
    level = cut_levels(difficulty, n)
    known = ~np.isnan(difficulty)
    assert np.all((level == -1) == ~known)
    order = np.argsort(difficulty[known], kind="stable")
    ranked, own = difficulty[known][order], level[known][order]
    assert np.all(np.diff(own) >= 0)
    assert np.all((np.diff(own) == 0) | (np.diff(ranked) > 0))
    different = len(np.unique(ranked))
    assert sorted(set(own.tolist())) == list(range(len(set(own.tolist()))))
    assert len(set(own.tolist())) == min(n, different)
    # The rows may come in any order.
    turned = cut_levels(difficulty[::-1].copy(), n)
    assert np.array_equal(turned[::-1], level)


@pytest.mark.parametrize("heavy", [0.0, 1.0, 9.0])
def test_a_difficulty_of_many_items_is_a_level_of_its_own(heavy):
    rest = np.linspace(0.1, 8.9, 60)
    difficulty = np.concatenate([np.full(40, heavy), rest[np.abs(rest - heavy) > 1e-9]])
    level = cut_levels(difficulty, 4)
    alone = level[0]
    assert np.all((level == alone) == (difficulty == heavy))
    assert level.max() >= 3


def test_infinite_difficulties_are_cut():
    assert cut_levels(np.array([-np.inf, -np.inf, 0.0, 1.0, np.inf, np.inf]), 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert cut_levels(np.array([]), 3).tolist() == []
    assert cut_levels(np.array([np.nan]), 3).tolist() == [-1]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 6))
def test_no_other_cut_is_more_even(counts, n):
    difficulty = np.repeat(np.arange(len(counts), dtype=np.float64), counts)
    squares = int((np.bincount(cut_levels(difficulty, n)) ** 2).sum())
    groups = min(n, len(counts))
    every = [
        sum(sum(counts[a:b]) ** 2 for a, b in itertools.pairwise((0, *edges, len(counts))))
        for edges in itertools.combinations(range(1, len(counts)), groups - 1)
    ]
    assert squares == min(every)


def test_more_subjects_make_levels_stabler():
    generator = np.random.default_rng(0)
    ability, difficulty = generator.standard_normal((1200, 1)), generator.standard_normal(60)
    answers = (generator.random((1200, 60)) < 1 / (1 + np.exp(difficulty - ability))).astype(np.int8)
    found = level_stability(answers, lambda matrix: -matrix.mean(axis=0), levels=5, repeats=4)
    assert found.subjects.tolist() == [25, 50, 100, 200, 500]
    assert found.same_level[-1] > found.same_level[0] + 0.2
    assert found.rank_correlation[-1] > 0.97
    assert np.all(found.within_one >= found.same_level)


def test_few_subjects_are_split_in_two():
    answers = np.random.default_rng(1).integers(0, 2, (30, 12)).astype(np.int8)
    found = level_stability(answers, lambda matrix: -matrix.mean(axis=0), levels=3, repeats=2)
    assert found.subjects.tolist() == [15]


def estimates(**columns):
    """Estimates of items with slope 1 and error 0.1, but for what is given."""
    size = len(next(iter(columns.values())))
    given = {"difficulty": np.zeros(size), "discrimination": np.ones(size), "discrimination_se": np.full(size, 0.1)}
    given |= {"difficulty_se": np.full(size, 0.2), "ability_mean": 0.0, "ability_sd": 1.0} | columns
    fields = dict.fromkeys(ItemEstimates._fields) | {name: np.asarray(value, float) for name, value in given.items()}
    return ItemEstimates(**fields)


def test_a_difficulty_needs_a_slope_that_is_clearly_above_0():
    slopes = np.array([1.0, 0.17, 0.16, 0.0, -0.5, -0.1, np.nan])
    known = known_difficulties(estimates(discrimination=slopes), np.full(7, 0.5))
    assert (~np.isnan(known.difficulty)).tolist() == [True, True, *[False] * 5]
    assert np.isnan(known.error).tolist() == [False, False, *[True] * 5]
    assert not known.unknown.any()


def test_a_difficulty_far_out_or_without_precision_is_not_known():
    far = estimates(difficulty=[6.4, 6.6, -4000, 0, 0, 0], difficulty_se=[1, 1, 1e6, 3.2, 3.3, np.nan])
    known = known_difficulties(far, np.full(6, 0.5))
    assert known.unknown.tolist() == [False, True, True, False, True, True]
    assert np.isnan(known.difficulty).tolist() == known.unknown.tolist()
    # On the scale of an anchor the range is that of the subjects.
    able = estimates(difficulty=[8.0, -4.0, 8.0], ability_mean=3.0, ability_sd=0.9)
    assert known_difficulties(able, np.full(3, 0.5)).unknown.tolist() == [False, True, False]


def test_items_that_all_or_none_got_right_are_the_easiest_and_the_hardest():
    share = np.array([1.0, 1.0, 1.0, 0.0, 0.0, np.nan])
    given = estimates(
        difficulty=[-3.0, -300.0, 5.0, np.inf, 4.0, np.nan],
        discrimination=[0.1, 0.1, -0.1, np.nan, 1.0, np.nan],
        discrimination_se=np.full(6, 2.0),
    )
    known = known_difficulties(given, share)
    np.testing.assert_array_equal(known.difficulty, [-3.0, -6.5, -6.5, 6.5, 4.0, np.nan])
    assert np.isnan(known.error).tolist() == [False, True, True, True, False, True]
