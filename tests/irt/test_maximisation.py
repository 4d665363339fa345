from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Answers, Parameters, Priors, maximisation
from breadth.irt.expectation import expect
from breadth.irt.parameters import Common


@pytest.mark.parametrize("model", list(MODELS))
def test_an_m_step_raises_the_likelihood(model: str) -> None:
    truth = simulate(300, 12, 2, "1pl", 0.1)
    answers = Answers.of(truth.matrix)
    chosen = MODELS[model]
    items = Parameters(
        np.ones(12), np.zeros(12), np.full(12, 0.1 * chosen.guessing), np.full(12, 0.05 * chosen.ceiling)
    )
    free = np.tile([[chosen.slope == "item"], [True], [chosen.guessing], [chosen.ceiling]], 12)
    before = expect(MODELS[model], answers, items)
    better = maximisation.improve(MODELS[model], items, before, Priors.none(), free, Common(1.0, 1.0, 0.0))
    assert expect(MODELS[model], answers, better.items).log_likelihood > before.log_likelihood + 10
    assert all((information >= 0).all() for information in better.information)


def bounded(model: str, slope: list[float], intercept: list[float], guessing: list[float]):
    """An expectation of 500 subjects as such items would make them answer, and what is free."""
    n = len(slope)
    truth = Parameters(np.array(slope), np.array(intercept), np.array(guessing), np.zeros(n))
    chosen = MODELS[model]
    free = np.tile([[True], [True], [True], [chosen.ceiling]], n)
    ability = np.random.default_rng(0).normal(0, 1, 500)
    matrix = (np.random.default_rng(1).random((500, n)) < truth.probability(ability)).astype(np.int8)
    return truth, expect(chosen, Answers.of(matrix), truth), free


def test_the_m_step_ends_where_the_gradient_is_gone() -> None:
    items, expectation, free = bounded("3pl", [1.0, 2.0, 4.0, 0.5], [0.0, -1.0, 3.0, -2.0], [0.2, 0.1, 0.3, 0.2])
    common = Common(1.5, 1.0, 0.0)
    away = items._replace(slope=items.slope * 0.6, intercept=items.intercept + 0.4)
    better = maximisation.improve(MODELS["3pl"], away, expectation, Priors(), free, common)
    derivatives = maximisation._item_derivatives(better.items, expectation, Priors(), free, common)
    gradient = derivatives[0] + np.outer(better.released, [1, 0, 0])
    assert np.abs(gradient / np.sqrt(np.einsum("jpp->jp", derivatives[1]))).max() < 1e-3
    assert not better.stuck.any()


def test_the_prior_does_not_pull_on_the_scale_of_slopes() -> None:
    slope, common = np.array([0.5, 1.0, -0.3, 2.5, 1.7]), Common(0.9, 0.8, 0.0)
    power = maximisation._power(slope, np.array([0.1, 0.2, 0.1, 0.5, 0.3]), common)
    along = slope @ (power / slope - (slope - common.slope_mean) / common.slope_sd**2)
    assert along == pytest.approx(0)
    assert (power >= 0).all()
    assert power[4] > power[2], "the more is known about a slope"


@pytest.mark.parametrize("model", ["3pl", "4pl"])
def test_items_leave_a_lower_maximum(model: str) -> None:
    """An item that is steep above a high floor also has a maximum where it is flat and the floor is low."""
    chosen, slopes, intercepts = MODELS[model], [3.0, *[1.5] * 29], [-5.0, *np.linspace(-2, 2, 29)]
    items, expectation, free = bounded(model, slopes, intercepts, [0.6, *[0.2] * 29])
    common, may = Common(0.5, 1.5, 0.0), np.ones(30, dtype=np.bool_)
    items = items._replace(slip=np.full(30, 0.03 * chosen.ceiling))
    items.slope[0], items.intercept[0], items.guessing[0] = 0.0, -0.2, 0.2
    for _ in range(3):
        items = maximisation.improve(chosen, items, expectation, Priors(), free, common).items
    assert items.slope[0] < 0.5
    before = items.slope.copy()
    moved = maximisation.elsewhere(chosen, items, expectation, Priors(), free, common, may)
    assert moved.tolist() == [True, *[False] * 29]
    assert items.slope[0] > 2
    np.testing.assert_array_equal(items.slope[1:], before[1:])
    assert not maximisation.elsewhere(chosen, items, expectation, Priors(), free, common, may & ~moved).any()
