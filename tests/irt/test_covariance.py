from __future__ import annotations

import numpy as np
import pytest

from breadth.datasets import simulate_answers as simulate
from breadth.irt import MODELS, Answers, marginal
from breadth.irt.covariance import _inverses


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_fast_standard_errors_are_close_to_exact_ones(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers.of(simulate(500, 100, 14, "2pl", 0.1).matrix)
    exact = MODELS[model].fit(answers)
    monkeypatch.setattr(marginal, "EXACT_WORK", 0)
    fast = MODELS[model].fit(answers)
    np.testing.assert_allclose(fast.difficulty_se, exact.difficulty_se, rtol=0.05)
    np.testing.assert_allclose(fast.discrimination_se, exact.discrimination_se, rtol=0.05)


def test_an_item_that_the_answers_say_nothing_about_has_no_error():
    blocks = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    inverses = _inverses(blocks)
    assert inverses[0] == pytest.approx(np.linalg.inv(blocks[0]))
    assert np.isnan(inverses[1]).all()
