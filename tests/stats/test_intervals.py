import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from breadth.stats.intervals import dependent_interval, independent_interval


def one(value):
    return np.array([float(value)])


def test_independent_interval_is_scipys_for_a_plain_correlation():
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, 30))
    theirs = stats.pearsonr(x, y)
    ours = independent_interval(one(theirs.statistic), one(30), one(0))
    assert ours.p[0] == pytest.approx(theirs.pvalue, rel=1e-9)
    assert (ours.low[0], ours.high[0]) == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)


def test_rank_intervals_are_wider():
    plain, ranked = (independent_interval(one(0.6), one(30), one(1), rank) for rank in (False, True))
    assert ranked.low[0] < plain.low[0] < plain.high[0] < ranked.high[0]


@given(st.floats(-0.999, 0.999), st.floats(2, 200), st.floats(0, 10))
def test_dependent_interval_and_p_agree(r, n_eff, spent):
    found = dependent_interval(one(r), one(n_eff), one(spent))
    assert -1 <= found.low[0] <= r + 1e-9
    assert r - 1e-9 <= found.high[0] <= 1
    excludes = found.low[0] > 1e-9 or found.high[0] < -1e-9
    if abs(found.p[0] - 0.05) > 1e-6:
        assert excludes == (found.p[0] < 0.05)


def test_fewer_effective_rows_mean_wider_intervals():
    widths = [np.ptp(dependent_interval(one(0.3), one(n), one(1))[:2]) for n in (40, 20, 10, 5)]
    assert widths == sorted(widths)
