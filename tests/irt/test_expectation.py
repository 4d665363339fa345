from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Answers, Parameters, expectation
from breadth.irt.expectation import expect, from_scores, from_table, grid_for
from breadth.irt.parameters import curves

KNOTS = curves(Parameters.of(np.zeros(1), np.ones(1))).knots


@pytest.fixture(autouse=True)
def _only_short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "WHOLE_CELLS", 0)


@pytest.mark.parametrize("j", [3, 30, 300, 3000])
def test_the_short_sum_around_the_mode_equals_the_sum_over_the_whole_grid(j: int) -> None:
    truth = simulate(60, j, 1)
    slope = truth.discrimination
    items = Parameters.of(truth.difficulty, slope)
    at = curves(items)
    grid = grid_for(float((slope**2 @ (at.logistic * (1 - at.logistic))).max()), at.knots)
    score, ones = truth.matrix @ slope, np.ones(60)
    short = from_scores(score, at.log_one_plus.sum(axis=0), grid, ones)
    whole = from_table(np.tile(-at.log_one_plus.sum(axis=0), (60, 1)), grid, ones, score)
    np.testing.assert_allclose(short.mean, whole.mean, atol=1e-6)
    np.testing.assert_allclose(short.variance, whole.variance, rtol=1e-4)
    np.testing.assert_allclose(short.log_evidence, whole.log_evidence, atol=1e-6)
    # The two put their weights on different knots; only sums of smooth functions over them have a meaning.
    for function in (np.ones(KNOTS.size), KNOTS, KNOTS**2, *at.logistic[:3]):
        assert short.total @ function == pytest.approx(whole.total @ function, abs=1e-5)


@pytest.mark.parametrize("j", [3, 30, 300])
def test_subjects_with_all_right_or_all_wrong_lose_little_to_the_ends_of_the_grid(j: int) -> None:
    truth = simulate(2, j, 1)
    slope, ones = truth.discrimination, np.ones(2)
    items = Parameters.of(truth.difficulty, slope)
    at = curves(items)
    grid = grid_for(float((slope**2 @ (at.logistic * (1 - at.logistic))).max()), at.knots)
    score = np.array([0.0, slope.sum()])
    short = from_scores(score, at.log_one_plus.sum(axis=0), grid, ones)
    whole = from_table(np.tile(-at.log_one_plus.sum(axis=0), (2, 1)), grid, ones, score)
    np.testing.assert_allclose(short.mean, whole.mean, atol=1e-3)
    np.testing.assert_allclose(short.log_evidence, whole.log_evidence, atol=1e-3)


def test_interpolated_posteriors_equal_adaptive_integration() -> None:
    truth = simulate(5, 500, 2)
    a, d = truth.discrimination, -truth.discrimination * truth.difficulty
    found = expect(MODELS["2pl"], Answers.of(truth.matrix), Parameters(a, d, np.zeros(500), np.zeros(500)))
    for i, row in enumerate(truth.matrix):
        centre = float(found.posterior.mean[i])

        def log_density(theta: float, row: np.ndarray = row) -> float:
            z = a * theta + d
            return float(row @ z - np.logaddexp(0, z).sum() - theta**2 / 2 - np.log(2 * np.pi) / 2)

        top = log_density(centre)
        around = (centre - 2, centre + 2)
        area = integrate.quad(lambda t, top=top, f=log_density: np.exp(f(t) - top), *around, epsabs=1e-12)[0]
        first = integrate.quad(lambda t, top=top, f=log_density: t * np.exp(f(t) - top), *around, epsabs=1e-12)[0]
        assert found.posterior.mean[i] == pytest.approx(first / area, abs=1e-6)
        assert found.posterior.log_evidence[i] == pytest.approx(top + np.log(area) - row @ d, abs=1e-5)


def test_the_three_models_agree_where_they_coincide() -> None:
    truth = simulate(50, 20, 3, "1pl", 0.2)
    items = Parameters(np.ones(20), -truth.difficulty, np.zeros(20), np.zeros(20))
    answers = Answers.of(truth.matrix)
    one, two, three = (expect(MODELS[name], answers, items) for name in ("1pl", "2pl", "3pl"))
    assert one.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-8)
    assert three.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-8)
    np.testing.assert_allclose(three.right.sum(axis=1), two.right[:, 1], rtol=1e-9)
    np.testing.assert_allclose(three.right @ KNOTS, two.right[:, 0], atol=1e-8)
