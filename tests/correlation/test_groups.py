import itertools

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from breadth.correlation import compare_groups, summarise_units


def test_equals_statsmodels():
    generator = np.random.default_rng(0)
    z = 0.3 + 0.4 * generator.standard_normal((3, 12))
    variance = generator.uniform(0.02, 0.2, (3, 12))
    ours = summarise_units(z, variance)
    for pair in range(3):
        theirs = combine_effects(z[pair], variance[pair], method_re="iterated", atol=1e-12)
        assert ours.tau2[pair] == pytest.approx(theirs.tau2, rel=1e-6)
        assert ours.r_mean[pair] == pytest.approx(np.tanh(theirs.mean_effect_re), rel=1e-6)
        assert ours.p_differ[pair] == pytest.approx(theirs.test_homogeneity().pvalue, rel=1e-9)


def test_mean_over_groups_is_covered_and_new_groups_are_predicted():
    generator = np.random.default_rng(1)
    groups, pairs, mu, tau = 16, 3000, 0.3, 0.25
    variance = generator.uniform(0.03, 0.15, (pairs, groups))
    truth = mu + tau * generator.standard_normal((pairs, groups))
    result = summarise_units(truth + np.sqrt(variance) * generator.standard_normal(truth.shape), variance)
    covered = np.mean((np.arctanh(result.ci_low) <= mu) & (mu <= np.arctanh(result.ci_high)))
    assert 0.93 < covered < 0.985
    new = mu + tau * generator.standard_normal(pairs)
    predicted = np.mean((np.arctanh(result.predict_low) <= new) & (new <= np.arctanh(result.predict_high)))
    assert 0.90 < predicted < 0.985
    assert np.median(result.tau2) == pytest.approx(tau**2, rel=0.2)


def test_identical_groups_do_not_differ():
    result = summarise_units(np.full((1, 5), 0.4), np.full((1, 5), 0.1))
    assert result.tau2[0] == 0
    assert result.i2[0] == 0
    assert result.sign_agreement[0] == 1
    assert result.p_differ[0] == pytest.approx(1)


def test_few_groups():
    z = np.array([[0.4, np.nan, np.nan], [0.4, -0.2, np.nan], [np.nan] * 3])
    result = summarise_units(z, np.full((3, 3), 0.05))
    assert result.k.tolist() == [1, 2, 0]
    assert result.ci_low[0] == pytest.approx(np.tanh(0.4 - 1.959964 * np.sqrt(0.05)))
    assert np.isnan(result.tau2[0])
    assert np.isnan(result.predict_low[1])
    assert result.sign_agreement[1] == 0.5
    assert np.isnan(result.r_mean[2])


def matrices(generator, groups, m):
    return np.tanh(0.5 * generator.standard_normal((groups, m * (m - 1) // 2)))


def brute_force(x, y, m):
    a, b = np.triu_indices(m, 1)
    square = np.zeros((m, m))
    square[a, b] = square[b, a] = y
    observed = np.corrcoef(x, y)[0, 1]
    others = [np.corrcoef(x, square[np.ix_(order, order)][a, b])[0, 1] for order in itertools.permutations(range(m))]
    return observed, np.mean(np.array(others) >= observed - 1e-12)


def test_equals_brute_force_over_all_relabellings():
    r = matrices(np.random.default_rng(0), 3, 5)
    result = compare_groups(r, np.arctanh(r), 5)
    for i, (first, second) in enumerate(zip(result.first, result.second, strict=True)):
        similarity, p = brute_force(np.arctanh(r[first]), np.arctanh(r[second]), 5)
        assert result.similarity[i] == pytest.approx(similarity)
        assert result.p[i] == pytest.approx(p)
        assert result.difference[i] == pytest.approx(np.abs(r[first] - r[second]).mean())


def test_same_structure_is_found_and_none_is_not():
    generator = np.random.default_rng(1)
    shared = matrices(generator, 1, 9)
    alike = np.tanh(np.arctanh(shared) + 0.1 * generator.standard_normal((2, shared.shape[1])))
    assert compare_groups(alike, np.arctanh(alike), 9).p[0] < 0.01
    unlike = matrices(generator, 40, 6)
    assert np.mean(compare_groups(unlike, np.arctanh(unlike), 6).p < 0.05) == pytest.approx(0.05, abs=0.03)


def test_test_sets_without_numbers_are_left_out():
    r = matrices(np.random.default_rng(2), 3, 6)
    a, b = np.triu_indices(6, 1)
    r[0, (a == 2) | (b == 2)] = np.nan
    r[1, (a < 3)] = np.nan
    result = compare_groups(r, np.arctanh(r), 6)
    assert result.testsets.tolist() == [3, 5, 3]
    assert np.isnan(result.similarity[0])
    keep = (a != 2) & (b != 2)
    assert result.similarity[1] == pytest.approx(np.corrcoef(np.arctanh(r[0][keep]), np.arctanh(r[2][keep]))[0, 1])


def test_no_groups():
    assert compare_groups(np.zeros((0, 3)), np.zeros((0, 3)), 3).p.size == 0


def test_the_mean_has_a_p_value():
    """With one group normal, with several t; the same as the interval of the mean."""
    z, variance = np.array([[0.4, np.nan, np.nan], [0.5, 0.3, 0.1]]), np.full((2, 3), 0.04)
    summary = summarise_units(z, variance)
    assert summary.p[0] == pytest.approx(2 * stats.norm.sf(0.4 / 0.2))
    error = (np.arctanh(summary.ci_high[1]) - 0.3) / stats.t.ppf(0.975, 2)
    assert summary.p[1] == pytest.approx(2 * stats.t.sf(0.3 / error, 2))
    assert np.isnan(summarise_units(np.full((1, 2), np.nan), np.ones((1, 2))).p).all()
    without = summarise_units(z, variance, predict=False)
    assert np.isnan(without.predict_low).all()
    assert without.p == pytest.approx(summary.p)
