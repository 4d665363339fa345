import numpy as np
import pytest

from attenuation import corrected as analyse
from attenuation import noisy_panel
from breadth.correlation import Panel, Settings, partial_correlations


@pytest.mark.parametrize("adjust", ["linear", "gam"])
@pytest.mark.parametrize("truth", [0.0, 0.5])
def test_truth_is_recovered_where_the_plain_estimate_is_off(adjust, truth):
    result = analyse(noisy_panel(adjust, truth, items=800, runs=500, rho=0.3), adjust, 800)
    corrected = result.correction
    assert np.nanmedian(corrected.r) == pytest.approx(truth, abs=0.07)
    if truth:
        assert np.median(result.r) < truth - 0.08, "noise shrinks the plain estimate"
    known = ~np.isnan(corrected.r)
    assert known.mean() > 0.9
    covered = ((corrected.ci_low <= truth) & (truth <= corrected.ci_high))[known].mean()
    assert covered > 0.93, "cautious, never too narrow"


def test_linear_correction_is_the_partial_correlation_of_the_noise_free_covariance():
    """The textbook form: subtract noise variances from the covariance matrix, then take the partial correlation."""
    generator = np.random.default_rng(1)
    x = 0.5 + 0.1 * generator.standard_normal((4000, 3)) @ np.array([[1, 0.4, 0.5], [0, 1, 0.3], [0, 0, 1.0]])
    counts, scale = np.array([60.0, 90.0, 120.0]), np.ones(3)
    panel = Panel(x[None, :, :2], x[None, :, 2:])
    result = partial_correlations(panel, Settings("linear", counts=counts, scale=scale)).correction
    covariance = np.cov(x.T) - np.diag((x * (1 - x)).mean(axis=0) / counts)
    inverse = np.linalg.inv(covariance)
    assert result.r[0, 0] == pytest.approx(-inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1]), abs=2e-3)


def test_no_noise_means_no_change():
    generator = np.random.default_rng(2)
    panel = Panel(generator.uniform(0.3, 0.7, (5, 41, 3)), generator.uniform(0.3, 0.7, (5, 41, 1)))
    for adjust in ("linear", "gam"):
        result = partial_correlations(panel, Settings(adjust, ci="ar", counts=np.full(4, 1e12), scale=np.ones(4)))
        tolerance = 1e-6 if adjust == "linear" else 0.05  # smooths of unequal edf are weighed a little differently
        assert np.allclose(result.correction.r, result.r, atol=tolerance)
        assert np.allclose(result.correction.ci_low, result.ci_low, atol=tolerance + 1e-3)


def test_percentages_give_the_same_correction():
    scores, controls, _ = noisy_panel("linear", 0.5, items=800, runs=3, rho=0.3)
    counts = np.full(3, 800.0)
    fraction, percent = (
        partial_correlations(
            Panel(scores * scale, controls * scale), Settings("linear", counts=counts, scale=np.full(3, scale))
        )
        for scale in (1.0, 100.0)
    )
    assert np.allclose(fraction.correction.r, percent.correction.r, equal_nan=True)


def test_hopeless_reliability_is_admitted():
    generator = np.random.default_rng(3)
    scores = generator.binomial(50, 0.5, (20, 41, 2)) / 50
    panel = Panel(scores, generator.binomial(5000, np.linspace(0.5, 0.9, 41), (20, 41))[:, :, None] / 5000)
    result = partial_correlations(panel, Settings("linear", counts=np.array([50.0, 50, 5000]), scale=np.ones(3)))
    width = result.correction.ci_high - result.correction.ci_low
    assert np.median(width) > 1.9, "nothing is known, from -1 to 1"
    assert (result.correction.p < 0.05).mean() <= 0.1


def test_split_halves_estimate_the_same_noise():
    """Answers with fresh items at every checkpoint have binomial noise: halves and counts must agree."""
    scores, controls, _ = noisy_panel("linear", 0.5, items=400, runs=300, rho=0.3)
    generator = np.random.default_rng(4)
    spread = np.sqrt(scores * (1 - scores) / 400)
    halves = np.concatenate([spread, np.sqrt(controls * (1 - controls) / 400)], axis=2)
    halves = halves[..., None] * generator.standard_normal((*halves.shape, 10))
    by_halves = partial_correlations(Panel(scores, controls, halves), Settings("linear")).correction
    by_counts = partial_correlations(
        Panel(scores, controls), Settings("linear", counts=np.full(3, 400.0), scale=np.ones(3))
    ).correction
    assert np.nanmedian(by_halves.r) == pytest.approx(np.nanmedian(by_counts.r), abs=0.04)
    assert np.allclose(np.median(by_halves.reliability_a), np.median(by_counts.reliability_a), atol=0.03)
