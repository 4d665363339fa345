from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Anchors, Answers, Priors
from breadth.irt.marginal import Step, fixed_point, make_problem


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
def test_the_fixed_point_is_a_maximum_of_the_objective_priors_included(model: str, anchored: bool) -> None:
    matrix = simulate(25, 8, 1, "1pl", 0.1).matrix
    matrix[:, 4:] |= 1  # mostly easy items, so that the prior pulls hard
    fixed = None
    if anchored:
        nan = np.full(5, np.nan)
        fixed = Anchors(np.append(np.zeros(3), nan), np.append(np.ones(3), nan), np.append(np.zeros(3), nan))
    problem = make_problem(MODELS[model], Answers.of(matrix), Priors(), fixed)
    found = fixed_point(problem.step, problem.start, 2000, 1e-13)
    gradient = np.empty(found.point.size)
    for i in range(found.point.size):
        nudge = np.zeros(found.point.size)
        nudge[i] = 1e-4
        up, down = problem.step(found.point + nudge).objective, problem.step(found.point - nudge).objective
        gradient[i] = (up - down) / 2e-4
    assert found.converged
    assert np.abs(gradient / problem.step(found.point).precision).max() < 2e-3


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_perfectly_ordered_subjects_stay_finite(model: str) -> None:
    for matrix in (np.tril(np.ones((30, 30), dtype=np.int8)), np.repeat(np.eye(2, dtype=np.int8)[:, :1], 6, axis=1)):
        found = MODELS[model].fit(Answers.of(np.tile(matrix, (10, 1))))
        assert np.isfinite(found.difficulty).all()
        assert found.log_likelihood < 0


def test_a_slow_linear_iteration_is_finished_in_few_steps() -> None:
    rates = np.array([0.99, 0.9, 0.5])
    target = np.array([1.0, -2.0, 3.0])

    def step(point: np.ndarray) -> Step:
        objective = -float(np.sum((point - target) ** 2))
        return Step(target + rates * (point - target), objective, np.ones(3), 0.99)

    found = fixed_point(step, np.zeros(3), 100, noise=1e-12)
    assert found.converged
    assert found.iterations < 12
    np.testing.assert_allclose(found.point, target, atol=1e-3)


def test_a_step_that_overshoots_is_shortened() -> None:
    def step(point: np.ndarray) -> Step:
        return Step(-2.5 * point, -float(point @ point), np.ones(1), 0.0)

    found = fixed_point(step, np.ones(1), 200, noise=1e-12)
    assert found.point[0] == pytest.approx(0.0, abs=1e-3)


def test_an_endless_iteration_says_so() -> None:
    def step(point: np.ndarray) -> Step:
        return Step(point + 1, float(point[0]), np.ones(1), 0.0)

    found = fixed_point(step, np.zeros(1), 5, noise=0.0)
    assert not found.converged
    assert found.iterations == 5
