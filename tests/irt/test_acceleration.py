from __future__ import annotations

import numpy as np
import pytest

from breadth.irt.acceleration import EMStep, fixed_point


def test_a_slow_linear_iteration_is_finished_in_few_steps() -> None:
    rates = np.array([0.99, 0.9, 0.5])
    target = np.array([1.0, -2.0, 3.0])

    def step(point: np.ndarray) -> EMStep:
        after = target + rates * (point - target)
        return EMStep(after, np.ones(3), float(np.abs(after - point).max()), 0.99)

    found = fixed_point(step, np.zeros(3), 100)
    assert found.converged
    assert found.iterations < 12
    np.testing.assert_allclose(found.point, target, atol=1e-3)


def test_a_step_that_overshoots_is_damped() -> None:
    def step(point: np.ndarray) -> EMStep:
        return EMStep(-2.5 * point, np.ones(1), float(np.abs(3.5 * point).max()), 0.0)

    found = fixed_point(step, np.ones(1), 200)
    assert found.converged
    assert found.point[0] == pytest.approx(0.0, abs=1e-3)


def test_an_endless_iteration_says_so() -> None:
    def step(point: np.ndarray) -> EMStep:
        return EMStep(point + 1, np.ones(1), 1.0, 0.0)

    found = fixed_point(step, np.zeros(1), 5)
    assert not found.converged
    assert found.iterations == 5


def test_an_item_with_two_maxima_follows_its_own_step() -> None:
    """The first number has a fixed point at 0 that its own step leaves; combined with the others it would end there."""
    target, rate = np.array([1.0, -2.0, 3.0]), 0.9

    def step(point: np.ndarray) -> EMStep:
        after = np.append(np.tanh(3 * point[0]), target + rate * (point[1:] - target))
        return EMStep(after, np.ones(4), float(np.abs(after - point).max()), 0.9)

    found = fixed_point(step, np.array([0.01, 0.0, 0.0, 0.0]), 100, np.arange(4))
    assert found.converged
    assert found.iterations < 30
    assert found.point[0] == pytest.approx(0.9949, abs=1e-3)
    np.testing.assert_allclose(found.point[1:], target, atol=2e-3)
