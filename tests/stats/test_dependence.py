import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets import autoregressive
from breadth.stats.dependence import autocorrelation, inflation


def test_autocorrelation_equals_its_definition():
    series = np.random.default_rng(0).standard_normal((2, 21, 3))
    found = autocorrelation(series, np.ones((2, 21), dtype=bool))
    assert found.shape == (2, 5, 3)
    for lag in range(1, 6):
        expected = (series[:, lag:] * series[:, :-lag]).sum(axis=1) / (series**2).sum(axis=1)
        assert np.allclose(found[:, lag - 1], expected)


def test_missing_rows_are_stepped_over():
    generator = np.random.default_rng(1)
    long = autoregressive(generator, 1, 4000, np.eye(1), 0.8)
    rows = generator.random((1, 4000)) < 0.7
    found = autocorrelation(long * rows[:, :, None], rows)
    assert found[0, 0, 0] == pytest.approx(0.8, abs=0.04)
    assert found[0, 1, 0] == pytest.approx(0.64, abs=0.06)


def test_each_entry_has_its_own_longest_lag():
    rows = np.ones((2, 40), dtype=bool)
    rows[1, 12:] = False
    series = np.random.default_rng(2).standard_normal((2, 40, 1)) * rows[:, :, None]
    found = autocorrelation(series, rows)
    assert np.all(found[0] != 0)
    assert np.all(found[1, 3:] == 0)


def test_constant_and_empty_series_have_none():
    assert not autocorrelation(np.zeros((1, 9, 2)), np.ones((1, 9), dtype=bool)).any()
    assert not autocorrelation(np.zeros((1, 9, 2)), np.zeros((1, 9), dtype=bool)).any()


def test_inflation_is_right_for_long_autoregressions():
    series = autoregressive(np.random.default_rng(3), 1, 100_000, np.eye(2), 0.7)
    found = inflation(autocorrelation(series, np.ones((1, 100_000), dtype=bool)), np.array([100_000.0]))
    assert found[0, 0, 1] == pytest.approx((1 + 0.49) / (1 - 0.49), rel=0.05)


@given(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_inflation_is_at_least_one_and_symmetric(p, q):
    lags = np.arange(1, 6)
    correlations = np.stack([p**lags, q**lags], axis=1)[None]
    found = inflation(correlations, np.array([24.0]))
    assert np.all(found >= 1)
    assert found[0, 0, 1] == found[0, 1, 0]
    assert found[0, 0, 1] >= (1 + p * q) / (1 - p * q) - 1e-12
