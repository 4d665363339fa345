from __future__ import annotations

import numpy as np
import pytest

from breadth.irt.acceleration import Step, fixed_point


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
