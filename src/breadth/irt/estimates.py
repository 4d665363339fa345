"""What a calibration returns, and what it may be told beforehand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.errors import InputError
from breadth.irt.answers import Floats


class Anchors(NamedTuple):
    """Items whose parameters are known from an earlier calibration: arrays [J], NaN where an item is free.

    With anchors the scale is theirs: nothing is standardised, and the mean and standard deviation of ability are
    estimated. ``guessing`` may also be given alone, for the 3PL with a known chance of guessing and no anchors.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats | None = None

    @classmethod
    def known_guessing(cls, guessing: Floats) -> Anchors:
        """Fix only the chance of guessing; difficulty and discrimination stay free."""
        free = np.full(guessing.size, np.nan)
        return cls(free, free, guessing)

    def checked(self, n_items: int) -> Anchors:
        """Return anchors of one length, difficulty and discrimination known together; or say what is wrong."""
        guessing = np.full(n_items, np.nan) if self.guessing is None else np.asarray(self.guessing, dtype=np.float64)
        arrays = [np.asarray(self.difficulty, np.float64), np.asarray(self.discrimination, np.float64), guessing]
        for name, array in zip(self._fields, arrays, strict=True):
            if array.shape != (n_items,):
                raise InputError(f"Fixed {name} must have one value per item ({n_items}), not {array.size}.")
        half = np.isnan(arrays[0]) != np.isnan(arrays[1])
        if half.any():
            raise InputError(
                f"Item number {int(np.argmax(half))} has a fixed difficulty or discrimination, but not both."
            )
        if (arrays[1] == 0).any() or np.isinf(arrays[0]).any():
            raise InputError("A fixed item needs a finite difficulty and a discrimination other than 0.")
        if ((guessing < 0) | (guessing >= 1)).any():
            raise InputError("Fixed guessing must be at least 0 and below 1.")
        return Anchors(*arrays)


class Estimates(NamedTuple):
    """Item parameters with standard errors, arrays [J], and how the fit went.

    P(right) = guessing + (1 - guessing) / (1 + exp(-discrimination (ability - difficulty))), ability N(0, 1) unless
    items were fixed; then it is N(ability_mean, ability_sd^2) on their scale. A fixed parameter has standard error 0.
    NaN stands for an item without answers. ``log_likelihood`` is marginal and without the priors; ``parameters`` counts
    what was estimated.
    """

    difficulty: Floats
    discrimination: Floats
    guessing: Floats
    difficulty_se: Floats
    discrimination_se: Floats
    guessing_se: Floats
    log_likelihood: float
    parameters: int
    converged: bool
    iterations: int
    ability_mean: float
    ability_sd: float
