import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from breadth.stats import summarise


def test_equals_statsmodels():
    generator = np.random.default_rng(0)
    z = 0.3 + 0.4 * generator.standard_normal((3, 12))
    variance = generator.uniform(0.02, 0.2, (3, 12))
    ours = summarise(z, variance)
    for pair in range(3):
        theirs = combine_effects(z[pair], variance[pair], method_re="iterated", atol=1e-12)
        assert ours.tau2[pair] == pytest.approx(theirs.tau2, rel=1e-6)
        assert ours.r_mean[pair] == pytest.approx(np.tanh(theirs.mean_effect_re), rel=1e-6)
        assert ours.p[pair] == pytest.approx(theirs.test_homogeneity().pvalue, rel=1e-9)


def test_mean_over_groups_is_covered_and_new_groups_are_predicted():
    generator = np.random.default_rng(1)
    groups, pairs, mu, tau = 16, 3000, 0.3, 0.25
    variance = generator.uniform(0.03, 0.15, (pairs, groups))
    truth = mu + tau * generator.standard_normal((pairs, groups))
    found = summarise(truth + np.sqrt(variance) * generator.standard_normal(truth.shape), variance)
    covered = np.mean((np.arctanh(found.low) <= mu) & (mu <= np.arctanh(found.high)))
    assert 0.93 < covered < 0.985
    new = mu + tau * generator.standard_normal(pairs)
    predicted = np.mean((np.arctanh(found.predict_low) <= new) & (new <= np.arctanh(found.predict_high)))
    assert 0.90 < predicted < 0.985
    assert np.median(found.tau2) == pytest.approx(tau**2, rel=0.2)


def test_identical_groups_do_not_differ():
    found = summarise(np.full((1, 5), 0.4), np.full((1, 5), 0.1))
    assert found.tau2[0] == 0
    assert found.i2[0] == 0
    assert found.sign_agreement[0] == 1
    assert found.p[0] == pytest.approx(1)


def test_few_groups():
    z = np.array([[0.4, np.nan, np.nan], [0.4, -0.2, np.nan], [np.nan] * 3])
    found = summarise(z, np.full((3, 3), 0.05))
    assert found.k.tolist() == [1, 2, 0]
    assert found.low[0] == pytest.approx(np.tanh(0.4 - 1.959964 * np.sqrt(0.05)))
    assert np.isnan(found.tau2[0])
    assert np.isnan(found.predict_low[1])
    assert found.sign_agreement[1] == 0.5
    assert np.isnan(found.r_mean[2])
