from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Answers, Parameters, Priors, marginal, maximisation
from breadth.irt.expectation import expect
from breadth.irt.parameters import Common


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_fast_standard_errors_are_close_to_exact_ones(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers.of(simulate(500, 100, 14, "2pl", 0.1).matrix)
    exact = MODELS[model].fit(answers)
    monkeypatch.setattr(marginal, "EXACT_WORK", 0)
    fast = MODELS[model].fit(answers)
    np.testing.assert_allclose(fast.difficulty_se, exact.difficulty_se, rtol=0.05)
    np.testing.assert_allclose(fast.discrimination_se, exact.discrimination_se, rtol=0.05)


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
