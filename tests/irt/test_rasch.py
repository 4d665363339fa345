from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import Anchors, Answers, Priors, fit_rasch


def test_published_values(classic: Callable[[str], Any], published: dict[str, Any]) -> None:
    reference = published["LSAT6_1PL_equal_slopes"]
    found = fit_rasch(Answers.of(classic("LSAT6")), Priors.none())
    assert found.converged
    assert found.log_likelihood == pytest.approx(reference["logLik"], abs=0.005)
    assert found.parameters == 6
    np.testing.assert_allclose(found.discrimination, reference["a"], atol=0.01)
    np.testing.assert_allclose(-found.discrimination * found.difficulty, reference["d"], atol=0.01)
    np.testing.assert_allclose(found.discrimination**2, reference["rasch_latent_var"], atol=0.005)


def test_recovers_difficulties() -> None:
    truth = simulate(1000, 300, 1, "1pl")
    found = fit_rasch(Answers.of(truth.matrix))
    error = found.difficulty - truth.difficulty
    assert np.sqrt(np.mean((error - error.mean()) ** 2)) < 0.09
    assert found.discrimination[0] == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_intervals_cover(missing: float) -> None:
    inside = []
    for seed in range(25):
        truth = simulate(400, 40, seed, "1pl", missing)
        found = fit_rasch(Answers.of(truth.matrix))
        inside.append(np.abs(found.difficulty - truth.difficulty) < 1.96 * found.difficulty_se)
    assert 0.92 < np.mean(inside) < 0.98


def test_missing_path_equals_complete_path() -> None:
    answers = Answers.of(simulate(200, 30, 3, "1pl").matrix)
    complete, masked = fit_rasch(answers), fit_rasch(answers.with_mask())
    assert masked.log_likelihood == pytest.approx(complete.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(masked.difficulty, complete.difficulty, atol=1e-6)
    np.testing.assert_allclose(masked.difficulty_se, complete.difficulty_se, rtol=1e-6)


def test_block_missing_data_are_linked_through_common_items() -> None:
    truth = simulate(1200, 60, 4, "1pl")
    matrix = truth.matrix.copy()
    able = truth.ability > np.median(truth.ability)
    matrix[np.ix_(able, np.arange(60) < 20)] = -1
    matrix[np.ix_(~able, np.arange(60) >= 40)] = -1
    found = fit_rasch(Answers.of(matrix))
    assert np.mean(found.difficulty - truth.difficulty) == pytest.approx(0, abs=0.12)
    assert np.corrcoef(found.difficulty, truth.difficulty)[0, 1] > 0.98


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_items_and_subjects_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = simulate(60, 12, seed, "1pl").matrix
    rows, columns = rng.permutation(60), rng.permutation(12)
    found, shuffled = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(matrix[rows][:, columns]))
    np.testing.assert_allclose(shuffled.difficulty, found.difficulty[columns], atol=1e-7)
    np.testing.assert_allclose(shuffled.difficulty_se, found.difficulty_se[columns], atol=1e-7)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_flipping_answers_negates_difficulty(seed: int) -> None:
    matrix = simulate(60, 12, seed, "1pl").matrix
    found, flipped = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(1 - matrix))
    np.testing.assert_allclose(flipped.difficulty, -found.difficulty, atol=2e-4)
    assert flipped.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_duplicating_subjects_halves_the_variance(seed: int) -> None:
    matrix = simulate(150, 20, seed, "1pl").matrix
    matrix[0], matrix[1] = 0, 1
    once = fit_rasch(Answers.of(matrix), Priors.none())
    twice = fit_rasch(Answers.of(np.concatenate([matrix, matrix])), Priors.none())
    weighted = fit_rasch(Answers.of(matrix, weights=np.full(150, 2.0)), Priors.none())
    np.testing.assert_allclose(twice.difficulty, once.difficulty, atol=1e-4)
    np.testing.assert_allclose(twice.difficulty_se * np.sqrt(2), once.difficulty_se, rtol=1e-3)
    np.testing.assert_allclose(weighted.difficulty, twice.difficulty, atol=1e-6)
    np.testing.assert_allclose(weighted.difficulty_se, twice.difficulty_se, rtol=1e-6)


def test_weights_undo_copies() -> None:
    matrix = simulate(200, 20, 5, "1pl").matrix
    copied = np.concatenate([matrix, np.repeat(matrix[:10], 30, axis=0)])
    weights = np.concatenate([np.where(np.arange(200) < 10, 1 / 31, 1.0), np.full(300, 1 / 31)])
    plain, weighted = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(copied, weights=weights))
    np.testing.assert_allclose(weighted.difficulty, plain.difficulty, atol=1e-5)


def test_anchored_items_land_on_the_old_scale() -> None:
    old = simulate(2000, 40, 6, "1pl")
    first = fit_rasch(Answers.of(old.matrix))
    rng = np.random.default_rng(7)
    b_new = rng.normal(size=15)
    theta = rng.normal(1.0, 0.7, size=2000)
    b = np.concatenate([old.difficulty, b_new])
    matrix = (rng.random((2000, 55)) < 1 / (1 + np.exp(-(theta[:, None] - b)))).astype(np.int8)
    nan = np.full(15, np.nan)
    fixed = Anchors(np.concatenate([first.difficulty, nan]), np.concatenate([first.discrimination, nan]))
    found = fit_rasch(Answers.of(matrix), fixed=fixed)
    assert found.converged
    np.testing.assert_array_equal(found.difficulty[:40], first.difficulty)
    assert np.abs(found.difficulty[40:] - b_new).max() < 0.25
    assert found.ability_mean == pytest.approx(1.0, abs=0.1)
    assert found.ability_sd == pytest.approx(0.7, abs=0.1)
    assert (found.difficulty_se[:40] == 0).all()
    assert (found.difficulty_se[40:] > 0.03).all()


def test_items_that_all_or_none_got_right() -> None:
    matrix = simulate(300, 20, 8, "1pl").matrix
    matrix[:, 0], matrix[:, 1] = 1, 0
    found = fit_rasch(Answers.of(matrix))
    assert found.difficulty[0] == found.difficulty.min()
    assert found.difficulty[1] == found.difficulty.max()
    assert np.isfinite(found.difficulty_se).all()
    assert found.difficulty_se[0] > 5 * np.median(found.difficulty_se)
    without = fit_rasch(Answers.of(matrix), Priors.none())
    assert without.difficulty[0] == -np.inf
    assert without.difficulty[1] == np.inf
    assert np.isfinite(without.difficulty[2:]).all()


def test_items_and_subjects_without_answers_are_left_out() -> None:
    matrix = simulate(100, 10, 9, "1pl").matrix
    gaps = np.full((101, 11), -1, dtype=np.int8)
    gaps[:100, :10] = matrix
    plain, found = fit_rasch(Answers.of(matrix)), fit_rasch(Answers.of(gaps))
    assert np.isnan(found.difficulty[10])
    assert np.isnan(found.difficulty_se[10])
    np.testing.assert_allclose(found.difficulty[:10], plain.difficulty)
    assert found.log_likelihood == pytest.approx(plain.log_likelihood)


def test_subjects_that_do_not_differ_still_give_finite_difficulties() -> None:
    matrix = np.tile(np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=np.int8), (30, 1))
    found = fit_rasch(Answers.of(matrix))
    assert np.isfinite(found.difficulty).all()


@pytest.mark.parametrize(
    ("matrix", "says"),
    [(np.array([[1, 0, 1]]), "2 subjects"), (np.array([[1], [0]]), "2 items"), (np.full((2, 2), -1), "2 subjects")],
)
def test_too_little_data_is_refused(matrix: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit_rasch(Answers.of(matrix))


def test_bad_anchors_are_refused() -> None:
    answers = Answers.of(simulate(50, 4, 1).matrix)
    nan = np.nan
    with pytest.raises(InputError, match="share one discrimination"):
        fit_rasch(answers, fixed=Anchors(np.array([0, 1, nan, nan]), np.array([1, 2, nan, nan])))
    with pytest.raises(InputError, match="not both"):
        fit_rasch(answers, fixed=Anchors(np.array([0, 1, nan, nan]), np.array([1, nan, nan, nan])))
    with pytest.raises(InputError, match="nothing to calibrate"):
        fit_rasch(answers, fixed=Anchors(np.zeros(4), np.ones(4)))
    with pytest.raises(InputError, match="one value per item"):
        fit_rasch(answers, fixed=Anchors(np.zeros(3), np.ones(3)))
