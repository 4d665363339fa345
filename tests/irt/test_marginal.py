from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from breadth.irt import Answers, fit_2pl, fit_rasch


@pytest.mark.parametrize("fit", [fit_rasch, fit_2pl])
def test_perfectly_ordered_subjects_stay_finite(fit: Callable[..., Any]) -> None:
    for matrix in (np.tril(np.ones((30, 30), dtype=np.int8)), np.repeat(np.eye(2, dtype=np.int8)[:, :1], 6, axis=1)):
        found = fit(Answers.of(np.tile(matrix, (10, 1))))
        assert np.isfinite(found.difficulty).all()
        assert found.log_likelihood < 0
