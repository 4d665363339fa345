import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.difficulty import assign_levels, level_edges


@given(st.lists(st.floats(-5, 5), min_size=20, max_size=200, unique=True), st.integers(2, 10))
def test_levels_follow_the_quantile_rule(values, n):
    """Level i holds the items with i/n <= q < (i+1)/n, q the quantile of their difficulty; the last end is included."""
    difficulty = np.array(values)
    found = assign_levels(difficulty, np.zeros(len(values)), n)
    edges = np.quantile(difficulty, np.arange(n + 1) / n)
    for level in range(n):
        inside = difficulty[found.level == level]
        assert np.all(inside >= edges[level])
        assert np.all(inside < edges[level + 1]) or level == n - 1
    sizes = np.bincount(found.level.astype(int), minlength=n)
    assert sizes.max() - sizes.min() <= 2


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
    edges = level_edges(difficulty, 5)
    found = assign_levels(difficulty, np.full(41, 0.3), 5)
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
    assert np.isnan(level_edges(np.array([np.nan]), 3)).all()


def test_ties_share_a_level():
    found = assign_levels(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0]), np.zeros(6), 3)
    assert len(set(found.level[:4])) == 1
