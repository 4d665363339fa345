from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from breadth.errors import InputError
from breadth.irt import Anchors, Parameters, Priors
from breadth.irt.parameters import Common, bends, curves, likelihood_scores, log_answers

DIFFICULTY = np.array([-1.0, 0.5, 2.0])
ITEMS = Parameters.of(DIFFICULTY, np.array([0.7, 1.5, -0.4]), np.array([0.0, 0.2, 0.3]), np.array([1.0, 1.0, 0.9]))
FREE = np.array([[True] * 3, [True] * 3, [False, True, True], [False, False, True]])
KNOTS = curves(ITEMS).knots


def test_probability_and_information() -> None:
    theta = np.linspace(-4, 4, 9)
    by_hand = ITEMS.guessing + (1 - ITEMS.guessing - ITEMS.slip) / (
        1 + np.exp(-ITEMS.slope * (theta[:, None] - DIFFICULTY))
    )
    np.testing.assert_allclose(ITEMS.probability(theta), by_hand, rtol=1e-12)
    step = 1e-5
    slope = (ITEMS.probability(theta + step) - ITEMS.probability(theta - step)) / (2 * step)
    np.testing.assert_allclose(ITEMS.information(theta), slope**2 / (by_hand * (1 - by_hand)), rtol=1e-5)
    single = Parameters(*(array.astype(np.float32) for array in ITEMS))
    assert single.probability(theta.astype(np.float32)).dtype == np.float32


def test_tables_on_the_knots_follow_from_the_probability() -> None:
    p = ITEMS.probability(KNOTS).T
    log_odds, log_wrong = log_answers(ITEMS, curves(ITEMS))
    np.testing.assert_allclose(log_odds, np.log(p / (1 - p)), atol=1e-9)
    np.testing.assert_allclose(log_wrong, np.log1p(-p), atol=1e-9)
    at = likelihood_scores(ITEMS, curves(ITEMS), FREE)
    np.testing.assert_allclose(at.probability, p, rtol=1e-12)
    np.testing.assert_allclose(at.variance, p * (1 - p), rtol=1e-9)


@pytest.mark.parametrize("parameter", [0, 1, 2, 3])
def test_scores_and_bends_are_derivatives(parameter: int) -> None:
    move = np.zeros((4, 3))
    move[parameter] = 1e-6
    up, down = (ITEMS.moved(sign * move, FREE) for sign in (1, -1))
    at = likelihood_scores(ITEMS, curves(ITEMS), FREE)
    by_wrong = (log_answers(up, curves(up))[1] - log_answers(down, curves(down))[1]) / 2e-6
    np.testing.assert_allclose(by_wrong, -at.probability * at.direction[parameter], atol=1e-7)
    bent = bends(ITEMS, curves(ITEMS), FREE, 4)
    for other in range(4):
        first = [likelihood_scores(one, curves(one), FREE) for one in (up, down)]
        slopes = [one.direction[other] * one.variance for one in first]
        second = (slopes[0] - slopes[1]) / 2e-6 / at.variance
        expected = bent.get((min(parameter, other), max(parameter, other)), np.zeros_like(second))
        np.testing.assert_allclose(second, expected, atol=1e-3, rtol=1e-3)


@given(st.integers(0, 1000))
def test_packing_keeps_what_is_fixed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = rng.random((4, 3)) < 0.5
    free &= FREE
    vector = ITEMS.pack(free)
    assert vector.size == free.sum()
    for again, known in zip(ITEMS.unpack(free, vector), ITEMS, strict=True):
        np.testing.assert_allclose(again, known, rtol=1e-12)
    for changed, known, mask in zip(ITEMS.unpack(free, vector + 1), ITEMS, free, strict=True):
        np.testing.assert_array_equal(changed != known, mask)


def test_another_population_sees_the_same_curves() -> None:
    theta = np.linspace(-2, 2, 5)
    seen = ITEMS.for_population(1.5, 2.0)
    np.testing.assert_allclose(seen.probability(theta), ITEMS.probability(1.5 + 2 * theta), rtol=1e-12)
    for again, known in zip(seen.from_population(1.5, 2.0), ITEMS, strict=True):
        np.testing.assert_allclose(again, known, rtol=1e-12, atol=1e-12)


def test_prior_derivatives() -> None:
    priors, common = Priors(), Common(1.2, 0.5, 0.4)

    def density(move: np.ndarray) -> float:
        return float(priors.at(ITEMS.moved(move.reshape(4, 3), FREE), FREE, common).log_density.sum())

    gradient = optimize.approx_fprime(np.zeros(12), density, 1e-6).reshape(4, 3)
    found = priors.at(ITEMS, FREE, common)
    np.testing.assert_allclose(found.gradient.T, gradient, atol=1e-4)
    np.testing.assert_allclose(found.curvature[:, 0, 0], 1 / 0.5**2 + 0.4**2 / 25)
    np.testing.assert_allclose(found.curvature[:, 0, 1], 0.4 / 25)
    np.testing.assert_allclose(found.curvature[:, 1, 1], 1 / 25)
    assert found.curvature[0, 2, 2] == 1
    nothing = Priors.none().at(ITEMS, FREE, common)
    assert not nothing.gradient.any()
    assert nothing.log_density.tolist() == [0, 0, 0]
    assert not nothing.curvature[:, :2].any()


def test_priors_say_nothing_about_the_scale() -> None:
    here = Priors().at(ITEMS, FREE, Common(1.2, 0.5, 0.4)).log_density
    there = Priors().at(ITEMS.for_population(0.7, 2.5), FREE, Common(3.0, 1.25, (0.4 - 0.7) / 2.5)).log_density
    np.testing.assert_allclose(there, here, rtol=1e-12)


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError, match="2 values of difficulty but 3 of discrimination"):
        Parameters.of(np.zeros(2), np.ones(3))
    with pytest.raises(InputError, match="at least 0 and below 1"):
        Anchors(np.zeros(2), np.ones(2), np.ones(2)).checked(2)
    with pytest.raises(InputError, match="ceiling must be above 0 and at most 1"):
        Anchors(np.zeros(2), np.ones(2), np.zeros(2), np.full(2, 1.1)).checked(2)
    with pytest.raises(InputError, match="discrimination other than 0"):
        Anchors(np.zeros(2), np.zeros(2)).checked(2)
