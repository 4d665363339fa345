from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import Anchors, Answers, Priors
from breadth.irt.acceleration import fixed_point
from breadth.irt.problem import Model, make_problem


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("model", ["1pl", "2pl", "3pl"])
def test_the_fixed_point_is_a_maximum_of_the_objective_priors_included(model: Model, anchored: bool) -> None:
    matrix = simulate(25, 8, 1, "1pl", 0.1).matrix
    matrix[:, 4:] |= 1  # mostly easy items, so that the prior pulls hard
    fixed = None
    if anchored:
        nan = np.full(5, np.nan)
        fixed = Anchors(np.append(np.zeros(3), nan), np.append(np.ones(3), nan), np.append(np.zeros(3), nan))
    problem = make_problem(Answers.of(matrix), model, Priors(), fixed and fixed.checked(8), np.ones(8, dtype=np.bool_))
    found = fixed_point(problem.step, problem.start(), 2000, 1e-13)
    gradient = np.empty(found.point.size)
    for i in range(found.point.size):
        nudge = np.zeros(found.point.size)
        nudge[i] = 1e-4
        up, down = problem.step(found.point + nudge).objective, problem.step(found.point - nudge).objective
        gradient[i] = (up - down) / 2e-4
    assert found.converged
    assert np.abs(gradient / problem.step(found.point).precision).max() < 2e-3
