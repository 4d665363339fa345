import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from breadth.correlation import Panel, Settings, partial_correlations
from breadth.correlation.intervals import (
    block_counts,
    block_length,
    dependent_interval,
    independent_interval,
    inflation,
    lost_to_smooth,
    refitted_z,
)
from breadth.correlation.smooth import make_basis, remove_control
from breadth.datasets import autoregressive


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
    result = dependent_interval(one(r), one(n_eff), one(spent))
    assert -1 <= result.low[0] <= r + 1e-9
    assert r - 1e-9 <= result.high[0] <= 1
    excludes = result.low[0] > 1e-9 or result.high[0] < -1e-9
    if abs(result.p[0] - 0.05) > 1e-6:
        assert excludes == (result.p[0] < 0.05)


def test_fewer_effective_rows_mean_wider_intervals():
    widths = [np.ptp(dependent_interval(one(0.3), one(n), one(1))[:2]) for n in (40, 20, 10, 5)]
    assert widths == sorted(widths)


ALL = np.ones((2, 21), dtype=bool)


def test_inflation_equals_its_definition():
    series = np.random.default_rng(0).standard_normal((2, 21, 3)).cumsum(axis=1)
    series -= series.mean(axis=1, keepdims=True)
    lost = np.array([[0.5, 0.0, 2.0], [9.0, 1.0, 0.3]])
    lags = np.arange(1, 6)
    for taken in (None, lost):
        result = inflation(series, ALL, taken)
        for f, a, b in np.ndindex(2, 3, 3):
            sums = []
            p, q = (np.array([y[lag:] @ y[:-lag] for lag in lags]) / (y @ y) for y in series[f, :, [a, b]])
            sums.append(1 + 2 * ((1 - lags / 21) * p * q).sum())
            first = [
                side[0] if taken is None else side[0] + (1 + side[0]) * taken[f, j] / 21 for side, j in ((p, a), (q, b))
            ]
            product = np.prod(np.minimum(first, 0.99))
            sums.append(1 + 2 * sum((1 - lag / 21) * product**lag for lag in lags))
            assert result[f, a, b] == pytest.approx(max(*sums, 1))


def test_a_smooth_takes_out_what_its_hat_matrix_says():
    """Residuals of independent rows have the covariance (I - S)^2; below its diagonal stand the lagged products."""
    generator = np.random.default_rng(5)
    control = np.sort(generator.uniform(0, 1, (2, 40, 1)), axis=1)
    rows = np.ones((2, 40), dtype=bool)
    series = np.sin(9 * control) + 0.2 * generator.standard_normal((2, 40, 2))
    basis = make_basis(control, rows, "gam")
    factors = remove_control(basis, series - series.mean(axis=1, keepdims=True), rows).factors
    lost = lost_to_smooth(basis, factors)
    for f, j in np.ndindex(2, 2):
        flat, phi = np.linalg.qr(np.column_stack([np.ones(40), control[f]]))[0], basis.phi[f]
        left = [np.eye(40) - flat @ flat.T, np.eye(40) - phi * factors[f, :, j] @ phi.T]
        without, full = (np.trace(side @ side, offset=1) for side in left)
        assert lost[f, j] == pytest.approx(without - full, abs=1e-6)
        assert lost[f, j] > 1
    straight = make_basis(control, rows, "linear")
    assert not lost_to_smooth(straight, remove_control(straight, series, rows).factors).any()


def test_dependence_under_a_smooth_is_not_underestimated():
    """Fluctuations with AR 0.8 over 100 rows under a smooth of time, of which it follows the slowest part."""
    generator = np.random.default_rng(6)
    series = autoregressive(generator, 400, 100, np.eye(2), 0.8)
    series -= series.mean(axis=1, keepdims=True)
    rows = np.ones((400, 100), dtype=bool)
    basis = make_basis(np.broadcast_to(np.linspace(0, 1, 100)[:, None], (400, 100, 1)), rows, "gam")
    fit = remove_control(basis, series, rows)
    plain, corrected = (
        inflation(fit.residuals, rows, lost)[:, 0, 1].mean() for lost in (None, lost_to_smooth(basis, fit.factors))
    )
    # The variance of z over that of independent rows, with about as many rows left as the smooth leaves.
    size = np.sqrt((fit.residuals**2).sum(axis=1))
    z = np.arctanh((fit.residuals.prod(axis=2)).sum(axis=1) / size.prod(axis=1))
    actual = z.var() * (100 - 3 - fit.edf.mean())
    assert plain < corrected
    assert abs(corrected - actual) < abs(plain - actual)


def test_missing_rows_are_skipped():
    generator = np.random.default_rng(1)
    long = autoregressive(generator, 1, 40_000, np.eye(2), 0.8)
    rows = generator.random((1, 40_000)) < 0.7
    result = inflation(long * rows[:, :, None], rows)
    assert result[0, 0, 1] == pytest.approx((1 + 0.64) / (1 - 0.64), rel=0.06)


def test_each_entry_has_its_own_longest_lag():
    rows = np.ones((2, 40), dtype=bool)
    rows[1, 12:] = False
    series = np.random.default_rng(2).standard_normal((2, 40, 2)).cumsum(axis=1) * rows[:, :, None]
    alone = inflation(series[1:, :12], rows[1:, :12])
    assert np.allclose(inflation(series, rows)[1:], alone)
    assert alone.min() > 1


def test_constant_and_empty_series_are_not_inflated():
    assert np.all(inflation(np.zeros((2, 21, 2)), ALL) == 1)
    assert np.all(inflation(np.zeros((2, 21, 2)), ~ALL) == 1)


def test_inflation_is_right_for_long_autoregressions():
    series = autoregressive(np.random.default_rng(3), 1, 100_000, np.eye(2), 0.7)
    result = inflation(series, np.ones((1, 100_000), dtype=bool))
    assert result[0, 0, 1] == pytest.approx((1 + 0.49) / (1 - 0.49), rel=0.05)


@given(st.integers(0, 1000), st.floats(0, 0.95))
def test_inflation_is_at_least_one_and_symmetric(seed, rho):
    result = inflation(autoregressive(np.random.default_rng(seed), 2, 21, np.eye(3), rho), ALL)
    assert np.all(result >= 1)
    assert np.allclose(result, result.transpose(0, 2, 1))


def test_blocks_are_consecutive_and_as_many_as_rows():
    counts = block_counts(np.random.default_rng(0), 20, 5, 300)
    assert np.all(counts.sum(axis=1) == 20)
    assert counts.mean(axis=0) == pytest.approx(np.ones(20), abs=0.25)
    single = block_counts(np.random.default_rng(0), 20, 20, 1)
    assert np.all(single == 1), "one block of full length is the run itself"


def test_blocks_grow_with_dependence():
    lengths = [block_length(41, growth) for growth in (1.0, 1.5, 3.0, 9.0)]
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert lengths[-1] <= 10


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_a_resample_of_every_row_once_is_the_fit_itself(adjust):
    generator = np.random.default_rng(1)
    z = generator.uniform(0, 1, (1, 40, 1))
    y = np.sin(5 * z) + 0.3 * generator.standard_normal((1, 40, 3))
    y -= y.mean(axis=1, keepdims=True)
    rows = np.ones((1, 40), dtype=bool)
    basis = make_basis(z, rows, adjust)
    left = remove_control(basis, y, rows).residuals[0]
    keep = basis.ease[0] > 0
    ease = basis.ease[0][keep]
    z_resampled = refitted_z(basis.phi[0][:, keep], (1 - ease) / ease, y[0], np.ones((2, 40)))
    expected = np.arctanh(np.corrcoef(left.T)[np.triu_indices(3, 1)])
    assert np.allclose(z_resampled, expected, atol=1e-5)


def test_resamples_equal_fitting_the_repeated_rows():
    """Weights stand for repeated rows: a linear fit to the rows written out gives the same correlations."""
    generator = np.random.default_rng(2)
    z = generator.standard_normal((1, 30, 1))
    y = generator.standard_normal((30, 2)) + z[0]
    y -= y.mean(axis=0)
    rows = np.ones((1, 30), dtype=bool)
    basis = make_basis(z, rows, "linear")
    counts = block_counts(generator, 30, 4, 5)
    result = refitted_z(basis.phi[0], np.zeros(2), y, counts)
    for i, count in enumerate(counts.astype(int)):
        index = np.repeat(np.arange(30), count)
        design = np.column_stack([np.ones(30), z[0, index, 0]])
        left = y[index] - design @ np.linalg.lstsq(design, y[index], rcond=None)[0]
        assert np.tanh(result[i, 0]) == pytest.approx(np.corrcoef(left.T)[0, 1], abs=1e-8)


def test_errors_are_about_right_for_independent_rows():
    generator = np.random.default_rng(3)
    scores = autoregressive(generator, 40, 60, np.array([[1, 0.5], [0.5, 1]]), 0.0)
    panel = Panel(scores, generator.standard_normal((40, 60, 1)))
    result = partial_correlations(panel, Settings("linear", ci="block", resamples=400))
    assert np.median(result.n_eff) == pytest.approx(58, abs=6)


def test_seed_decides_and_threads_do_not():
    generator = np.random.default_rng(4)
    panel = Panel(generator.standard_normal((5, 30, 3)), generator.standard_normal((5, 30, 1)))
    first, again, other = (
        partial_correlations(panel, Settings(ci="block", resamples=100, seed=seed)).ci_low for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
