from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import Anchors, Answers, Priors, fit_2pl, fit_rasch
from breadth.irt import answers as answers_module
from breadth.irt import information as information_module


@pytest.mark.parametrize(
    ("data", "key", "masked"),
    [
        ("LSAT7", "LSAT7_2PL", False),
        ("LSAT7", "LSAT7_2PL", True),
        ("LSAT6", "LSAT6_2PL_own_fit", False),
        ("SAT12_scored_key5", "SAT12_2PL_own_fit", False),
        ("SAT12_scored_key5", "SAT12_2PL_own_fit", True),
    ],
)
def test_published_values(
    classic: Callable[[str], Any], published: dict[str, Any], data: str, key: str, masked: bool
) -> None:
    answers = Answers.of(classic(data))
    found = fit_2pl(answers.with_mask() if masked else answers, Priors.none())
    assert found.converged
    assert found.log_likelihood == pytest.approx(published[key]["logLik"], abs=0.005)
    np.testing.assert_allclose(found.discrimination, published[key]["a"], atol=0.01)
    np.testing.assert_allclose(-found.discrimination * found.difficulty, published[key]["d"], atol=0.01)


def test_published_standard_errors(classic: Callable[[str], Any], published: dict[str, Any]) -> None:
    found = fit_2pl(Answers.of(classic("LSAT7")), Priors.none())
    low, high = np.array(published["LSAT7_2PL"]["a_ci95_Richardson"]).T
    np.testing.assert_allclose(found.discrimination_se, (high - low) / 2 / 1.959964, rtol=0.01)


def brute_force(matrix: np.ndarray, a: np.ndarray, d: np.ndarray) -> float:
    """Marginal log-likelihood by adaptive numerical integration, missing cells skipped."""
    total = 0.0
    for row in matrix:
        seen = row >= 0

        def density(theta: float, row: np.ndarray = row, seen: np.ndarray = seen) -> float:
            p = 1 / (1 + np.exp(-(a[seen] * theta + d[seen])))
            value = np.prod(np.where(row[seen] == 1, p, 1 - p)) * np.exp(-(theta**2) / 2) / np.sqrt(2 * np.pi)
            return float(value)

        total += np.log(integrate.quad(density, -9, 9, epsabs=1e-12, limit=200)[0])
    return float(total)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_estimates_maximise_the_likelihood_found_by_brute_force(missing: float) -> None:
    matrix = simulate(80, 4, 11, "2pl", missing).matrix
    matrix = matrix[(matrix >= 0).any(axis=1)]
    priors = Priors(intercept_sd=2.0, slope_sd=0.7)
    found = fit_2pl(Answers.of(matrix), priors)
    a, d = found.discrimination, -found.discrimination * found.difficulty
    assert found.log_likelihood == pytest.approx(brute_force(matrix, a, d), abs=1e-4)

    def posterior(point: np.ndarray) -> float:
        slope, intercept = point[:4], point[4:]
        prior = np.sum((slope - 1) ** 2) / (2 * 0.7**2) + np.sum(intercept**2) / (2 * 2.0**2)
        return brute_force(matrix, slope, intercept) - float(prior)

    gradient = optimize.approx_fprime(np.concatenate([a, d]), posterior, 1e-4)
    assert np.abs(gradient).max() < 0.02


def test_recovers_parameters() -> None:
    truth = simulate(1000, 200, 12)
    found = fit_2pl(Answers.of(truth.matrix))
    error = found.difficulty - truth.difficulty
    assert np.sqrt(np.mean((error - error.mean()) ** 2)) < 0.13
    assert np.sqrt(np.mean((found.discrimination - truth.discrimination) ** 2)) < 0.15
    assert np.corrcoef(found.difficulty, truth.difficulty)[0, 1] > 0.99


def test_more_parameters_fit_better() -> None:
    answers = Answers.of(simulate(400, 40, 13).matrix)
    assert fit_2pl(answers).log_likelihood > fit_rasch(answers).log_likelihood


@pytest.mark.slow
@pytest.mark.parametrize(("n", "j", "missing", "repeats"), [(400, 30, 0.0, 25), (400, 30, 0.3, 25), (500, 250, 0.0, 8)])
def test_intervals_cover(n: int, j: int, missing: float, repeats: int) -> None:
    difficulty, slope = [], []
    for seed in range(repeats):
        truth = simulate(n, j, seed, "2pl", missing)
        found = fit_2pl(Answers.of(truth.matrix))
        difficulty.append(np.abs(found.difficulty - truth.difficulty) < 1.96 * found.difficulty_se)
        slope.append(np.abs(found.discrimination - truth.discrimination) < 1.96 * found.discrimination_se)
    assert 0.92 < np.mean(difficulty) < 0.98
    assert 0.92 < np.mean(slope) < 0.98


@pytest.mark.parametrize("fit", [fit_rasch, fit_2pl])
def test_fast_standard_errors_are_close_to_exact_ones(fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers.of(simulate(500, 100, 14, "2pl", 0.1).matrix)
    exact = fit(answers)
    monkeypatch.setattr(information_module, "EXACT_WORK", 0)
    fast = fit(answers)
    np.testing.assert_allclose(fast.difficulty_se, exact.difficulty_se, rtol=0.05)
    np.testing.assert_allclose(fast.discrimination_se, exact.discrimination_se, rtol=0.05)


def test_single_precision_and_blocks_change_no_reported_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = simulate(400, 150, 15, "2pl", 0.2).matrix
    double = fit_2pl(Answers.of(matrix))
    monkeypatch.setattr(answers_module, "SMALL_CELLS", 0)
    monkeypatch.setattr(answers_module, "DOUBLE_CELLS", 0)
    monkeypatch.setattr(answers_module, "BLOCK_CELLS", 5000)
    single = fit_2pl(Answers.of(matrix))
    assert single.log_likelihood == pytest.approx(double.log_likelihood, abs=1e-3)
    assert (np.abs(single.difficulty - double.difficulty) < 2e-3 * double.difficulty_se).all()
    assert (np.abs(single.discrimination - double.discrimination) < 2e-3 * double.discrimination_se).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_items_and_subjects_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = simulate(80, 12, seed, "2pl", 0.1).matrix
    rows, columns = rng.permutation(80), rng.permutation(12)
    found, shuffled = fit_2pl(Answers.of(matrix)), fit_2pl(Answers.of(matrix[rows][:, columns]))
    np.testing.assert_allclose(shuffled.discrimination, found.discrimination[columns], atol=1e-5)
    np.testing.assert_allclose(shuffled.discrimination_se, found.discrimination_se[columns], rtol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_missing_path_equals_complete_path(seed: int) -> None:
    answers = Answers.of(simulate(100, 15, seed).matrix)
    complete, masked = fit_2pl(answers), fit_2pl(answers.with_mask())
    assert masked.log_likelihood == pytest.approx(complete.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(masked.discrimination, complete.discrimination, atol=2e-5)


def test_a_wrong_key_shows_as_negative_discrimination() -> None:
    truth = simulate(600, 30, 16)
    matrix = truth.matrix.copy()
    matrix[:, 3] = 1 - matrix[:, 3]
    found = fit_2pl(Answers.of(matrix))
    assert found.discrimination[3] < -0.4
    assert (np.delete(found.discrimination, 3) > 0).all()
    assert found.difficulty[3] == pytest.approx(truth.difficulty[3], abs=0.4)
    assert np.isfinite(found.difficulty_se).all()


def test_scale_points_the_way_most_items_do() -> None:
    matrix = simulate(300, 10, 17).matrix
    matrix[:, :3] = 1 - matrix[:, :3]
    found = fit_2pl(Answers.of(matrix))
    assert (found.discrimination > 0).sum() == 7


def test_anchored_items_land_on_the_old_scale() -> None:
    truth = simulate(1500, 50, 18)
    nan = np.full(20, np.nan)
    fixed = Anchors(np.append(truth.difficulty[:30], nan), np.append(truth.discrimination[:30], nan))
    rng = np.random.default_rng(19)
    theta = rng.normal(-0.8, 1.3, size=1500)
    p = 1 / (1 + np.exp(-truth.discrimination * (theta[:, None] - truth.difficulty)))
    found = fit_2pl(Answers.of((rng.random(p.shape) < p).astype(np.int8)), fixed=fixed)
    assert found.converged
    np.testing.assert_array_equal(found.discrimination[:30], truth.discrimination[:30])
    inside = np.abs(found.difficulty - truth.difficulty)[30:] < 3 * found.difficulty_se[30:]
    assert inside.all()
    assert found.ability_mean == pytest.approx(-0.8, abs=0.12)
    assert found.ability_sd == pytest.approx(1.3, abs=0.12)


def test_shares_are_fitted_like_answers() -> None:
    truth = simulate(300, 20, 20)
    found = fit_2pl(Answers.of(truth.matrix * 0.999999 + 0.0000005))
    plain = fit_2pl(Answers.of(truth.matrix))
    np.testing.assert_allclose(found.difficulty, plain.difficulty, atol=1e-3)


def test_extreme_items_and_few_subjects_stay_finite() -> None:
    matrix = simulate(12, 30, 21).matrix
    matrix[:, 0], matrix[:, 1] = 1, 0
    found = fit_2pl(Answers.of(matrix))
    assert np.isfinite(found.difficulty).all()
    assert np.isfinite(found.difficulty_se).all()


def test_items_with_guessing_cannot_be_anchors_here() -> None:
    answers = Answers.of(simulate(50, 3, 22).matrix)
    nan = np.nan
    with pytest.raises(InputError, match="no guessing"):
        fit_2pl(answers, fixed=Anchors(np.array([0, nan, nan]), np.array([1, nan, nan]), np.array([0.2, nan, nan])))


def test_leaderboard(leaderboard: Any) -> None:
    answers = Answers.of(leaderboard[::6])
    one, two = fit_rasch(answers, errors=False), fit_2pl(answers, errors=False)
    assert one.converged
    assert two.converged
    assert two.log_likelihood > one.log_likelihood + 1000
    assert np.isfinite(two.difficulty).all()
