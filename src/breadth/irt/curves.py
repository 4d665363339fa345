"""Item characteristic curves on the knots, and what likelihoods and scores need of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Bools, Floats
from breadth.irt.quadrature import KNOTS


class Parameters(NamedTuple):
    """Items as P = g + (1 - g) / (1 + exp(-(a theta + d))), with d = -a b; arrays [J]."""

    slope: Floats
    intercept: Floats
    guessing: Floats

    @property
    def difficulty(self) -> Floats:
        """The ability b at which the curve is half way up; infinite for an item without slope."""
        with np.errstate(divide="ignore", invalid="ignore"):
            b: Floats = -self.intercept / self.slope
        return b

    def part(self, items: Bools) -> Parameters:
        """Keep some items."""
        return Parameters(self.slope[items], self.intercept[items], self.guessing[items])


class Curves(NamedTuple):
    """Tables [J, K] on the knots: the logistic curve, and log(1 + exp(a theta + d))."""

    logistic: Floats
    log_one_plus: Floats


class Scores(NamedTuple):
    """Derivatives of an item's log-likelihood: (right - probability) times ``direction``.

    ``probability`` and ``variance`` (P Q) are [J, K]; ``direction`` is [p, J, K], one table per parameter in the order
    slope, intercept, logit of guessing; ``ratio`` is that of the intercept, by which dP/dtheta = a P Q ratio.
    """

    probability: Floats
    variance: Floats
    direction: Floats
    ratio: Floats


def curves(slope: Floats, intercept: Floats) -> Curves:
    """Evaluate the logistic part of every item on the knots."""
    z = slope[:, None] * KNOTS
    z += intercept[:, None]
    small = np.exp(-np.abs(z))
    upper = 1 / (1 + small)
    logistic = np.where(z >= 0, upper, small * upper)
    # log(1 + x) rather than log1p: the absolute error is what counts in a sum, and log is vectorised.
    np.add(small, 1, out=small)
    np.log(small, out=small)
    np.maximum(z, 0, out=z)
    small += z
    return Curves(logistic, small)


def scores(items: Parameters, with_guessing: bool) -> Scores:
    """Evaluate the scores of every item on the knots."""
    logistic = curves(items.slope, items.intercept).logistic
    if not with_guessing:
        one = np.ones_like(logistic)
        return Scores(logistic, logistic * (1 - logistic), np.stack([one * KNOTS, one]), one)
    g = items.guessing[:, None]
    probability = g + (1 - g) * logistic
    ratio = logistic / probability
    direction = np.stack([ratio * KNOTS, ratio, g / probability])
    return Scores(probability, probability * (1 - g) * (1 - logistic), direction, ratio)


def peak_information(slope: Floats, logistic: Floats) -> float:
    """Return the most information about ability that all items together hold at any knot."""
    return float(((slope**2) @ (logistic * (1 - logistic))).max())
