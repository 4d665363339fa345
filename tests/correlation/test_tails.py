import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import breadth.correlation.partial as partial_module
from breadth.correlation import Panel, Settings, partial_correlations
from breadth.correlation.tails import robust_correlation, tail_inflation
from breadth.datasets import autoregressive
from interval_robustness import coverage, differ, power, tailed

ALL = np.ones((3, 41), dtype=bool)


def direct(x, y):
    """Definition of k, row by row."""
    n = len(x)
    u, v = (values / np.sqrt(np.mean(values**2)) for values in (x, y))
    r = np.mean(u * v)
    psi = (u * v - r * (u**2 + v**2) / 2) / (1 - r**2)
    square = (u**2 - 2 * r * u * v + v**2) / (1 - r**2)
    return max(1, np.mean(psi**2), np.mean(square**2) / 8 * (n + 1) / (n - 1))


def heavy(seed, shape=(3, 41, 4), df=2.5):
    series = np.random.default_rng(seed).standard_t(df, shape)
    series[..., 1] += 2 * series[..., 0]
    series[..., 3] = series[..., 2] - 1e-5 * series[..., 3]
    return series - series.mean(axis=1, keepdims=True)


@given(st.integers(0, 10_000))
def test_sums_of_powers_equal_the_definition(seed):
    series = heavy(seed)
    result = tail_inflation(series, ALL)
    for f, a, b in np.ndindex(3, 4, 4):
        # The last two correlate by about 1 - 1e-10; closer than 1 - 1e-12 they count as identical.
        if a != b and 1 - np.corrcoef(series[f, :, [a, b]])[0, 1] > 2e-12:
            tolerance = 1e-3 if {a, b} == {2, 3} else 1e-8
            assert result[f, a, b] == pytest.approx(direct(series[f, :, a], series[f, :, b]), rel=tolerance)


def test_dependence_multiplies_rows_and_adds_to_jumps():
    series = heavy(1)
    growth = np.full((3, 4, 4), 3.0)
    result = tail_inflation(series, ALL, growth)
    for f, a, b in [(0, 0, 1), (1, 0, 2), (2, 1, 2)]:
        x, y = series[f, :, a], series[f, :, b]
        shocks = [values[1:] - (values[1:] @ values[:-1]) / (values @ values) * values[:-1] for values in (x, y)]
        jumps = direct(*(values - values.mean() for values in shocks))
        assert result[f, a, b] == pytest.approx(max(3 * direct(x, y), 3 + jumps - 1))


def test_predictions_use_the_autocorrelation_before_the_smooth():
    series = heavy(12)
    lost = np.full((3, 4), 4.0)
    growth = np.full((3, 4, 4), 1.0)
    result = tail_inflation(series, ALL, growth, lost)
    for f, a, b in [(0, 0, 1), (1, 0, 2), (2, 1, 2)]:
        x, y = series[f, :, a], series[f, :, b]
        shocks = []
        for values in (x, y):
            first = (values[1:] @ values[:-1]) / (values @ values)
            shocks.append(values[1:] - (first + (1 + first) * 4 / 41) * values[:-1])
        jumps = direct(*(values - values.mean() for values in shocks))
        assert result[f, a, b] == pytest.approx(max(direct(x, y), jumps))


def test_missing_rows_do_not_count():
    series = heavy(2)
    rows = ALL.copy()
    rows[:, [3, 17, 18, 40]] = False
    kept = series[:, rows[0]]
    kept -= kept.mean(axis=1, keepdims=True)
    spread = np.zeros_like(series)
    spread[:, rows[0]] = kept
    assert np.allclose(tail_inflation(spread, rows), tail_inflation(kept, rows[:, rows[0]]), rtol=1e-6)


def test_constant_identical_and_empty_series_cost_nothing():
    series = heavy(3)
    series[..., 1], series[..., 2] = 0.0, -2 * series[..., 0]
    for growth in (None, np.ones((3, 4, 4))):
        result = tail_inflation(series, ALL, growth)
        assert np.isfinite(result).all()
        assert result.min() >= 1
    assert np.all(tail_inflation(series, ALL)[:, [0, 0], [1, 2]] == 1)
    assert np.all(tail_inflation(np.zeros((3, 41, 2)), ~ALL, np.ones((3, 2, 2))) == 1)


def test_normal_rows_cost_little_and_a_spike_costs_most():
    generator = np.random.default_rng(4)
    normal = generator.standard_normal((2000, 41, 2))
    rows = np.ones((2000, 41), dtype=bool)
    assert tail_inflation(normal, rows)[:, 0, 1].mean() < 1.15
    normal[:, 20] *= 8
    assert np.median(tail_inflation(normal, rows)[:, 0, 1]) > 3


@pytest.mark.parametrize("ci", ["iid", "ar", "block"])
def test_every_interval_widens(ci):
    """One row far out, the same correlation: fewer effective rows, a wider interval, a larger p."""
    generator = np.random.default_rng(5)
    scores = autoregressive(generator, 1, 60, np.array([[1, 0.5], [0.5, 1]]), 0.0)
    spiked = scores.copy()
    spiked[0, 30] = 9.0, 4.5
    control = generator.standard_normal((1, 60, 1))
    plain, out = (partial_correlations(Panel(s, control), Settings("linear", ci=ci)) for s in (scores, spiked))
    assert out.n_eff[0, 0] < 0.6 * plain.n_eff[0, 0]
    assert np.ptp([out.ci_low, out.ci_high]) > np.ptp([plain.ci_low, plain.ci_high])


@pytest.mark.parametrize("tail", ["t5", "t3", "one spike"])
def test_heavy_tails_are_covered_and_would_not_be_without(tail, monkeypatch):
    make = tailed(tail, 0.6)
    assert coverage(make, 41, "linear", 0.5, runs=800, seed=6) > 0.935
    without = lambda residuals, rows, growth=1.0, lost=None: growth  # noqa: E731
    monkeypatch.setattr(partial_module, "tail_inflation", without)
    assert coverage(make, 41, "linear", 0.5, runs=800, seed=6) < 0.915


def test_cochrans_test_holds_under_heavy_tails(monkeypatch):
    make = tailed("t3", 0.0)
    assert differ(make, 41, "linear", groups=8, calls=150) <= 0.1
    monkeypatch.setattr(partial_module, "tail_inflation", lambda residuals, rows, growth=1.0, lost=None: growth)
    assert differ(make, 41, "linear", groups=8, calls=150) > 0.2


def test_the_robust_fit_is_the_maximum_of_the_likelihood():
    """Against a general optimiser on scipy's multivariate t."""
    generator = np.random.default_rng(7)
    data = stats.multivariate_t([0, 0], [[1, 0.6], [0.6, 1]], df=3, seed=generator).rvs(80)
    data /= np.sqrt((data**2).mean(axis=0))
    x, y = data.T[:, None]
    result = robust_correlation(x, y, np.ones((1, 80), dtype=bool), np.ones(1), dependent=False)

    def loss(p):
        a, b, c = np.exp(p[2]), p[3], np.exp(p[4])
        root = np.array([[a, 0], [b, c]])
        return -stats.multivariate_t(p[:2], root @ root.T, df=result.df[0]).logpdf(data).sum()

    best = optimize.minimize(loss, [0, 0, 0, 0.5, 0], tol=1e-10).x
    b, c = best[3], np.exp(best[4])
    assert result.r[0] == pytest.approx(b / np.hypot(b, c), abs=1e-3)
    assert result.df[0] < 12


def test_the_robust_jackknife_is_that_of_leaving_rows_out():
    generator = np.random.default_rng(8)
    x, y = generator.standard_t(3, (2, 1, 30))
    y = y + x
    rows = np.ones((1, 30), dtype=bool)
    result = robust_correlation(x, y, rows, np.ones(1), dependent=False)
    z = []
    for i in range(30):
        without = rows.copy()
        without[0, i] = False
        left = robust_correlation(x * without, y * without, without, np.ones(1), dependent=False)
        assert left.df[0] <= 30
        z.append(np.arctanh(left.r[0]))
    # The degrees of freedom are chosen anew here, and kept there.
    assert result.inflation[0] == pytest.approx(max(1, np.var(z) * 29 * 26), rel=0.35)


def test_robust_ignores_a_row_that_the_plain_correlation_follows():
    generator = np.random.default_rng(9)
    scores = autoregressive(generator, 1, 60, np.array([[1, -0.7], [-0.7, 1]]), 0.0)
    scores[0, 30] = 25.0, 25.0
    control = generator.standard_normal((1, 60, 1))
    result = partial_correlations(Panel(scores, control), Settings("linear", robust=True))
    assert result.ci_high[0, 0] < 0 < result.plain.r[0, 0]
    assert result.plain.tail_df[0, 0] < 5


def test_robust_is_the_plain_correlation_where_it_cannot_be_fitted():
    generator = np.random.default_rng(10)
    scores = generator.standard_normal((2, 9, 2))
    few = partial_correlations(Panel(scores, generator.standard_normal((2, 9, 1))), Settings("linear", robust=True))
    assert np.array_equal(few.r, few.plain.r)
    # Most scores at the ceiling: nearly all rows are one point.
    ceiling = np.ones((1, 40, 2))
    ceiling[0, :6] -= generator.uniform(0, 0.1, (6, 2))
    many = partial_correlations(Panel(ceiling, generator.standard_normal((1, 40, 1))), Settings("linear", robust=True))
    assert np.array_equal(many.r, many.plain.r)
    assert not np.isnan(many.p).any()


def test_robust_covers_and_finds_more_under_heavy_tails():
    make = tailed("t3", 0.0)
    assert coverage(make, 41, "linear", 0.5, runs=400, seed=11, robust=True) > 0.93
    assert power(make, 41, "linear", 400, robust=True) > power(make, 41, "linear", 400, robust=False) + 0.15
    normal = tailed("normal", 0.3)
    assert 0.93 < coverage(normal, 41, "gam", 0.0, runs=400, seed=12, robust=True) < 0.995
