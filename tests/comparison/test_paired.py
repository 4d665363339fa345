"""Paired differences: the exact test against independent implementations, clustered and crossed standard errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from breadth.comparison import exact_p, mean_spread, paired_difference, run_spread, score_interval
from breadth.comparison.paired import EXACT, MeanVariance, add_runs


@given(st.integers(0, 400), st.integers(0, 400))
def test_exact_test_agrees_with_scipy(only_first, only_second):
    if only_first + only_second == 0:
        assert exact_p(0, 0) == 1
        return
    expected = stats.binomtest(only_first, only_first + only_second, 0.5).pvalue
    assert exact_p(only_first, only_second) == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("both", "first", "second", "neither"), [(10, 3, 12, 5), (0, 0, 7, 0), (50, 20, 20, 9)])
def test_exact_test_agrees_with_statsmodels(both, first, second, neither):
    mcnemar = pytest.importorskip("statsmodels.stats.contingency_tables").mcnemar
    expected = mcnemar([[both, first], [second, neither]], exact=True).pvalue
    counts = (both, first, second, neither)
    one, two = (np.repeat(answers, counts)[None].astype(float) for answers in ([1, 1, 0, 0], [1, 0, 1, 0]))
    gap = paired_difference(one, two)
    assert gap.exact
    assert gap.p == pytest.approx(expected, rel=1e-12)
    assert (gap.only_first, gap.only_second) == (first, second)


def test_interval_of_bonett_and_price():
    """By hand: (12 - 3) / 102, and 1.96 sqrt((17 - 81 / 102) / 102 / 102)."""
    low, high = score_interval(3, 12, 100)
    assert (low + high) / 2 == pytest.approx(9 / 102)
    assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt((17 / 102 - (9 / 102) ** 2) / 102), rel=1e-6)
    alike = score_interval(0, 0, 100)
    assert -alike[0] == alike[1] == pytest.approx(1.959964 * np.sqrt(2 / 102 / 102), rel=1e-6)


def test_many_discordant_items_take_the_normal_test():
    one = np.repeat([[1.0, 0.0]], 2 * EXACT, axis=0).T.reshape(1, -1)
    gap = paired_difference(one, 1 - one)
    assert not gap.exact
    assert gap.p == pytest.approx(1)


@pytest.mark.parametrize("n", [3, 8, 20, 100, 1500])
def test_the_interval_of_single_runs_agrees_with_their_test(n):
    for only_first in range(0, min(n, 14)):
        for only_second in range(0, min(n - only_first, 30) + 1):
            one, two = np.zeros((1, n)), np.zeros((1, n))
            one[0, :only_first] = 1
            two[0, only_first : only_first + only_second] = 1
            gap = paired_difference(one, two)
            assert gap.low <= gap.estimate <= gap.high
            assert (gap.low > 0 or gap.high < 0) == (gap.p < 0.05)


def test_the_interval_of_many_discordant_items_agrees_with_its_test():
    for ahead in range(600, 760, 3):
        one, two = np.zeros((1, 4000)), np.zeros((1, 4000))
        one[0, :600] = 1
        two[0, 600 : 600 + ahead] = 1
        gap = paired_difference(one, two)
        assert not gap.exact
        assert (gap.low > 0 or gap.high < 0) == (gap.p < 0.05)


def test_clusters_of_one_item_change_nothing():
    values = np.random.default_rng(0).normal(size=40)
    assert mean_spread(values, np.arange(40)) == pytest.approx(mean_spread(values))


def test_equal_clusters_are_the_t_interval_of_their_means():
    values = np.random.default_rng(1).normal(size=(8, 5)) + np.random.default_rng(2).normal(size=(8, 1))
    spread = mean_spread(values.ravel(), np.repeat(np.arange(8), 5))
    assert spread.variance == pytest.approx(values.mean(axis=1).var(ddof=1) / 8)
    assert spread.df == pytest.approx(7)


def test_unequal_clusters_leave_fewer_degrees_of_freedom():
    values = np.random.default_rng(1).normal(size=100)
    assert mean_spread(values, np.repeat([0, 1, 2, 3, 4], [80, 5, 5, 5, 5])).df < 3
    assert np.isnan(mean_spread(values, np.zeros(100, dtype=int)).variance)


def test_run_spread_is_unbiased_under_no_effect():
    generator = np.random.default_rng(0)
    draws = [run_spread(generator.normal(size=(3, 50))) for _ in range(2000)]
    spread, noise = np.mean([draw[:2] for draw in draws], axis=0)
    assert spread == pytest.approx(1 / 50, rel=0.05)
    assert noise == pytest.approx(1 / 50, rel=0.05)


def test_runs_alone_give_the_t_interval_of_their_means():
    """Where all that items add is noise of single answers, the interval is that of a t test on run means."""
    total = add_runs(MeanVariance(1.0, np.inf), MeanVariance(1.3, 4.0), 1.0)
    assert total.variance == pytest.approx(1.3)
    assert total.df == pytest.approx(4, rel=1e-6)


def test_runs_that_hardly_count_do_not_cost_degrees_of_freedom():
    total = add_runs(MeanVariance(1.0, 500.0), MeanVariance(0.01, 2.0), 0.01)
    assert total.variance == pytest.approx(1.0)
    assert total.df > 100


def test_runs_that_lie_close_by_chance_narrow_the_interval_only_so_far():
    total = add_runs(MeanVariance(1.0, np.inf), MeanVariance(0.0, 4.0), 1.0)
    assert total.variance == pytest.approx(0.25)


def test_runs_widen_the_interval_and_a_single_run_borrows_the_others():
    generator = np.random.default_rng(0)
    shifts = generator.normal(0, 0.1, (3, 1))
    runs = (generator.random((3, 400)) < 0.6 + shifts).astype(float)
    one = (generator.random((1, 400)) < 0.6).astype(float)
    gap, single = paired_difference(one, runs), paired_difference(one, runs[:1])
    assert gap.runs_se > 0 == single.runs_se
    assert gap.df < 10
    assert gap.runs_se**2 > run_spread(runs)[0] / 3, "the single run varies as well"


def test_no_variation_has_no_interval():
    gap = paired_difference(np.full((2, 5), 0.5), np.ones((2, 5)))
    assert gap.estimate == 0.5
    assert np.isnan([gap.low, gap.high, gap.p]).all()


def test_order_of_items_and_exchange_of_models():
    generator = np.random.default_rng(3)
    one, two, cluster = generator.random((2, 60)), generator.random((3, 60)), generator.integers(0, 9, 60)
    order = generator.permutation(60)
    gap = paired_difference(one, two, cluster)
    assert paired_difference(one[:, order], two[:, order], cluster[order]) == pytest.approx(gap)
    back = paired_difference(two, one, cluster)
    assert (back.estimate, back.low, back.high) == pytest.approx((-gap.estimate, -gap.high, -gap.low))
