from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Answers, marginal


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_fast_standard_errors_are_close_to_exact_ones(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers.of(simulate(500, 100, 14, "2pl", 0.1).matrix)
    exact = MODELS[model].fit(answers)
    monkeypatch.setattr(marginal, "EXACT_WORK", 0)
    fast = MODELS[model].fit(answers)
    np.testing.assert_allclose(fast.difficulty_se, exact.difficulty_se, rtol=0.05)
    np.testing.assert_allclose(fast.discrimination_se, exact.discrimination_se, rtol=0.05)
