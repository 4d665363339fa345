"""Effects of runs and pairs, regression over few units, and permutation tests, against what they reduce to."""

import numpy as np
import pytest
from scipy import stats

from breadth.correlation.regression import (
    additive_effects,
    fit_over_units,
    fit_within_units,
    orders,
    permutation_p,
    sign_flip_p,
    solve_tau2,
    variance_of_mean,
)


def test_effects_of_a_complete_table_are_its_means():
    z = np.random.default_rng(0).standard_normal((5, 6)) / 3
    effects = additive_effects(z, np.ones_like(z))
    assert np.allclose(effects.runs, z.mean(axis=1) - z.mean())
    assert np.allclose(effects.pairs, z.mean(axis=0))


def test_effects_are_recovered_where_pairs_are_missing_and_noise_hides_part():
    generator = np.random.default_rng(1)
    pairs, runs = generator.normal(0.4, 0.2, 15), generator.normal(0, 0.1, 8)
    runs -= runs.mean()
    size = generator.uniform(0.5, 1, (8, 15))
    r = np.tanh(pairs)
    # Linear in the run effect, as the model is.
    slope = size * (1 - r**2) / (1 - size**2 * r**2)
    z = np.arctanh(size * r) + slope * runs[:, None]
    size[generator.random(size.shape) < 0.3] = np.nan
    effects = additive_effects(z, size)
    assert np.allclose(effects.runs, runs, atol=1e-5)
    assert np.allclose(effects.pairs, pairs, atol=1e-5)
    assert (np.isnan(effects.slopes) == np.isnan(size)).all()


def test_runs_that_share_no_pair_have_no_common_scale():
    z = np.full((5, 4), np.nan)
    z[:3, :2], z[3:, 2:] = 0.1, 0.9
    effects = additive_effects(z, np.ones_like(z))
    assert np.isnan(effects.runs).tolist() == [False] * 3 + [True] * 2
    assert np.isnan(effects.pairs).tolist() == [False] * 2 + [True] * 2


@pytest.mark.parametrize("r", [0.0, 0.6])
def test_the_variance_of_a_mean_over_pairs_allows_for_shared_test_sets(r):
    generator = np.random.default_rng(2)
    matrix = np.full((4, 4), r) + (1 - r) * np.eye(4)
    rows = generator.standard_normal((4000, 100, 4)) @ np.linalg.cholesky(matrix).T
    a, b = np.triu_indices(4, 1)
    each = np.array([np.corrcoef(block.T)[a, b] for block in rows])
    simulated = np.arctanh(each).mean(axis=1).var() * 97
    assert variance_of_mean(np.arctanh(np.full(6, r)), 4) == pytest.approx(simulated, rel=0.08)
    independent = 1 / 6
    assert variance_of_mean(np.zeros(6), 4) == pytest.approx(independent)


def test_with_equal_weights_it_is_the_regression_of_the_textbook():
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal(9), generator.standard_normal(9)
    design = np.stack([np.ones(9), x], axis=1)
    fitted = fit_over_units(y, np.full(9, 0.1), design, np.array([[0.0, 1.0]]))
    known = stats.linregress(x, y)
    assert fitted.estimate[0] == pytest.approx(known.slope)
    assert fitted.se[0] == pytest.approx(known.stderr)
    assert fitted.p[0] == pytest.approx(known.pvalue)
    assert fitted.p_any == pytest.approx(known.pvalue)
    assert fitted.df[0] == 7


def test_levels_are_the_analysis_of_variance_of_the_textbook():
    generator = np.random.default_rng(4)
    groups = [generator.normal(mean, 1, size) for mean, size in ((0, 4), (0.5, 5), (1, 3))]
    level = np.repeat([0, 1, 2], [4, 5, 3])
    design = np.stack([np.ones(12), level == 1, level == 2], axis=1).astype(float)
    contrasts = np.array([[0.0, 1, 0], [0, 0, 1], [0, 1, -1]])
    fitted = fit_over_units(np.concatenate(groups), np.full(12, 0.1), design, contrasts)
    assert fitted.p_any == pytest.approx(stats.f_oneway(*groups).pvalue)


def test_between_variance_solves_its_equation_and_is_not_negative():
    generator = np.random.default_rng(5)
    design = np.stack([np.ones(12), np.arange(12.0)], axis=1)
    variance = generator.uniform(0.01, 0.05, 12)
    y = generator.standard_normal(12)
    tau2 = solve_tau2(y, variance, design)
    weight = 1 / (tau2 + variance)
    root = np.sqrt(weight)
    left = y - design @ np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    assert (weight * left**2).sum() == pytest.approx(10, rel=1e-6)
    assert solve_tau2(design[:, 1], variance, design) == 0


def test_alike_designs_within_units_give_the_t_test_over_their_slopes():
    generator = np.random.default_rng(6)
    x = np.tile([0.0, 1.0, 2.5], 5)
    unit = np.repeat(np.arange(5), 3)
    y = generator.standard_normal(15) + 3 * unit
    fitted = fit_within_units(y, x[:, None], unit, np.eye(1))
    own = [stats.linregress(x[unit == index], y[unit == index]).slope for index in range(5)]
    known = stats.ttest_1samp(own, 0)
    assert fitted.estimate[0] == pytest.approx(np.mean(own))
    assert fitted.df[0] == pytest.approx(4)
    assert fitted.p[0] == pytest.approx(known.pvalue)
    assert fitted.p_any == pytest.approx(known.pvalue)


def test_a_unit_in_which_nothing_varies_changes_nothing():
    generator = np.random.default_rng(7)
    x, unit, y = np.tile([0.0, 1.0], 6), np.repeat(np.arange(6), 2), generator.standard_normal(12)
    alone = fit_within_units(y, x[:, None], unit, np.eye(1))
    x, unit, y = (np.append(values, more) for values, more in ((x, [1, 1]), (unit, [6, 6]), (y, [5.0, -5.0])))
    more = fit_within_units(y, x[:, None], unit, np.eye(1))
    assert more.estimate == pytest.approx(alone.estimate)
    assert more.df == pytest.approx(alone.df)


def test_all_orders_are_tried_where_they_are_few():
    generator = np.random.default_rng(0)
    ways, exact = orders(np.zeros(4, dtype=np.intp), generator)
    assert exact
    assert len(np.unique(ways, axis=0)) == 24
    ways, exact = orders(np.array([0, 0, 0, 1, 1]), generator)
    assert len(np.unique(ways, axis=0)) == 12
    assert (np.sort(ways[:, :3], axis=1) == [0, 1, 2]).all()
    ways, exact = orders(np.zeros(12, dtype=np.intp), generator)
    assert not exact
    assert (np.sort(ways, axis=1) == np.arange(12)).all()


def test_the_permutation_test_counts_orders_by_hand():
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 4.1])
    fixed = np.ones((4, 1))
    share, share_any = permutation_p(
        y, fixed, x[:, None], np.eye(1), np.ones(4), np.zeros(4, dtype=np.intp), np.random.default_rng(0)
    )
    # Of 24 orders, the given one and its reverse are as extreme.
    assert share[0] == pytest.approx(2 / 24)
    assert share_any == pytest.approx(2 / 24)


def test_turning_the_signs_of_five_slopes_that_agree():
    x, unit = np.tile([-1.0, 1.0], 5), np.repeat(np.arange(5), 2)
    y = x * np.repeat([1.0, 2, 1.5, 1, 3], 2)
    share, share_any = sign_flip_p(y, x[:, None], unit, np.eye(1), np.random.default_rng(0))
    assert share[0] == pytest.approx(2 / 32)
    assert share_any == pytest.approx(2 / 32)
