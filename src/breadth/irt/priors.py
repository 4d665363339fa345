"""What is believed about items before the data: weak, so that it only matters where the data say little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Priors(NamedTuple):
    """Weak prior distributions of item parameters, on the scale where ability is N(0, 1).

    ``intercept_sd``
        The log-odds of a right answer at average ability, -a b, are N(0, intercept_sd^2). With a = 1 this is a
        N(0, 5^2) prior on difficulty. It is put on the intercept because the posterior then stays concave, and an item
        that does not discriminate (a near 0) is not pushed to.
    ``slope_mean``, ``slope_sd``
        Discriminations are N(1, 2^2): normal rather than log-normal, because a log-normal prior forbids the negative
        slopes that betray a wrong key.
    ``spread_log_sd``
        Where the spread of ability is estimated, its log is N(0, 1): the one slope of the 1PL, or the standard
        deviation of ability beside fixed items. It cannot be negative, and few answers must not make it 0.
    ``guessing_right``, ``guessing_wrong``
        The lower asymptote is Beta(3, 9): most likely near 0.2, worth ten answers given by guessing.

    None everywhere (:meth:`none`) is pure maximum likelihood.
    """

    intercept_sd: float | None = 5.0
    slope_mean: float = 1.0
    slope_sd: float | None = 2.0
    spread_log_sd: float | None = 1.0
    guessing_right: float | None = 3.0
    guessing_wrong: float = 9.0

    @classmethod
    def none(cls) -> Priors:
        """No prior at all: maximum likelihood. Items that all or none got right then have no finite estimate."""
        return cls(None, 1.0, None, None, None)

    @property
    def intercept_precision(self) -> float:
        """Inverse variance of the intercept, 0 without a prior."""
        return _precision(self.intercept_sd)

    @property
    def slope_precision(self) -> float:
        """Inverse variance of a slope, 0 without a prior."""
        return _precision(self.slope_sd)

    @property
    def spread_precision(self) -> float:
        """Inverse variance of the log of the spread of ability, 0 without a prior."""
        return _precision(self.spread_log_sd)

    @property
    def guessing_counts(self) -> tuple[float, float]:
        """Right and wrong answers by guessing that the prior adds."""
        return (0.0, 0.0) if self.guessing_right is None else (self.guessing_right - 1, self.guessing_wrong - 1)


def _precision(sd: float | None) -> float:
    return 0.0 if sd is None else float(1 / np.square(sd))
