from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from breadth.datasets import simulate_answers as simulate
from breadth.errors import InputError
from breadth.irt import MODELS, Answers, Parameters, score


def test_eap_by_hand_for_one_item() -> None:
    theta = np.linspace(-8, 8, 4001)
    prior = np.exp(-(theta**2) / 2)
    right = 0.2 + 0.8 / (1 + np.exp(-1.5 * (theta - 0.5)))
    for answer, chance in ((1, right), (0, 1 - right)):
        weight = prior * chance
        mean = float(theta @ weight / weight.sum())
        sd = float(np.sqrt((theta - mean) ** 2 @ weight / weight.sum()))
        found = score(
            Answers.of(np.array([[answer]])), Parameters.of(np.array([0.5]), np.array([1.5]), np.array([0.2]))
        )
        assert found.ability[0] == pytest.approx(mean, abs=1e-6)
        assert found.standard_error[0] == pytest.approx(sd, abs=1e-6)
        assert found.log_likelihood[0] == pytest.approx(np.log(weight.sum() / prior.sum()), abs=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_errors_are_calibrated(missing: float) -> None:
    truth = simulate(2000, 50, 1, "2pl", missing)
    found = score(Answers.of(truth.matrix), Parameters.of(truth.difficulty, truth.discrimination))
    z = (found.ability - truth.ability) / found.standard_error
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.015)
    assert z.std() == pytest.approx(1.0, abs=0.05)
    assert found.reliability == pytest.approx(np.corrcoef(found.ability, truth.ability)[0, 1] ** 2, abs=0.02)


def test_scoring_adds_up_to_the_marginal_likelihood_of_the_fit() -> None:
    answers = Answers.of(simulate(200, 25, 2, "2pl", 0.1).matrix)
    fit = MODELS["2pl"].fit(answers)
    found = score(answers, fit.items)
    assert found.log_likelihood.sum() == pytest.approx(fit.log_likelihood, abs=1e-5)


def test_wle_maximises_warms_criterion() -> None:
    truth = simulate(6, 15, 3, "2pl", 0.2)
    found = score(Answers.of(truth.matrix), Parameters.of(truth.difficulty, truth.discrimination), method="wle")
    for i, row in enumerate(truth.matrix):
        seen = row >= 0
        a, b, r = truth.discrimination[seen], truth.difficulty[seen], row[seen]

        def loss(theta: float, a: np.ndarray = a, b: np.ndarray = b, r: np.ndarray = r) -> float:
            p = 1 / (1 + np.exp(-a * (theta - b)))
            return -float(np.log(np.where(r == 1, p, 1 - p)).sum() + np.log((a**2 * p * (1 - p)).sum()) / 2)

        best = optimize.minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-8})
        assert found.ability[i] == pytest.approx(best.x, abs=2e-3)


def test_wle_is_less_biased_than_eap_far_out() -> None:
    rng = np.random.default_rng(4)
    b = rng.normal(size=30)
    matrix = (rng.random((3000, 30)) < 1 / (1 + np.exp(-(2.0 - b)))).astype(np.int8)
    eap = score(Answers.of(matrix), Parameters.of(b, np.ones(30)))
    wle = score(Answers.of(matrix), Parameters.of(b, np.ones(30)), method="wle")
    assert abs(wle.ability.mean() - 2) < 0.05 < abs(eap.ability.mean() - 2)
    assert np.isfinite(wle.ability).all()


def test_the_population_may_lie_elsewhere() -> None:
    truth = simulate(100, 20, 5)
    moved = Parameters.of(2 * truth.difficulty + 3, truth.discrimination / 2)
    shifted = score(Answers.of(truth.matrix), moved, mean=3.0, sd=2.0)
    plain = score(Answers.of(truth.matrix), Parameters.of(truth.difficulty, truth.discrimination))
    np.testing.assert_allclose(shifted.ability, 3 + 2 * plain.ability, atol=1e-9)
    np.testing.assert_allclose(shifted.standard_error, 2 * plain.standard_error, atol=1e-9)


def test_unknown_items_are_skipped_and_silent_subjects_are_unknown() -> None:
    matrix = np.array([[1, 0, 1], [-1, -1, 1], [0, 0, 1]], dtype=np.int8)
    found = score(Answers.of(matrix), Parameters.of(np.array([0.0, 1.0, np.nan]), np.ones(3)))
    assert np.isnan(found.ability[1])
    known = score(Answers.of(matrix[[0, 2], :2]), Parameters.of(np.array([0.0, 1.0]), np.ones(2)))
    np.testing.assert_allclose(found.ability[[0, 2]], known.ability)


def test_nothing_known_is_refused() -> None:
    answers = Answers.of(np.ones((2, 2), dtype=np.int8))
    with pytest.raises(InputError, match="No item"):
        score(answers, Parameters.of(np.full(2, np.nan), np.ones(2)))
    with pytest.raises(InputError, match="2 items but parameters of 3"):
        score(answers, Parameters.of(np.zeros(3), np.ones(3)))
    with pytest.raises(InputError, match="choose eap, wle"):
        score(answers, Parameters.of(np.zeros(2), np.ones(2)), method="map")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0"):
        score(answers, Parameters.of(np.zeros(2), np.ones(2)), sd=0.0)
    unseen = Answers.of(np.full((2, 2), -1, dtype=np.int8))
    assert np.isnan(score(unseen, Parameters.of(np.zeros(2), np.ones(2))).reliability)
