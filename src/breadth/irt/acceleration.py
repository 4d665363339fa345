"""Find the fixed point of an EM step in few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Floats

#: Earlier steps that are combined.
MEMORY = 6

#: A fit is finished when no parameter is further than this share of its standard error from where it will end.
TOLERANCE = 1e-3


class Step(NamedTuple):
    """One EM step from a point: where it leads, the objective at the point, and what its size means.

    ``precision`` is the square root of each parameter's information, so that precision x step is in standard errors;
    ``rate`` is the share of information that is missing, by which successive EM steps shrink.
    """

    after: Floats
    objective: float
    precision: Floats
    rate: float


class Found(NamedTuple):
    """Where the iteration ended, whether it had converged, and after how many EM steps."""

    point: Floats
    converged: bool
    iterations: int


def fixed_point(step: Callable[[Floats], Step], start: Floats, most: int, noise: float) -> Found:
    """Iterate an EM step with Anderson acceleration until it stands still, never accepting a worse objective.

    The next point is the combination of the last few EM results whose steps cancel best (Anderson 1965; for EM:
    Henderson and Varadhan 2019). If it has a lower objective than the last accepted point, the plain EM result is
    taken instead, and if even that is lower (the M step is a Newton step, which may overshoot), half the way.
    ``noise`` is the relative rounding error of the objective.
    """
    point, taken = start, step(start)
    points, residuals = [point], [taken.after - point]
    if _finished(taken, residuals[-1]):
        return Found(taken.after, True, 1)
    candidate, halvings = taken.after, 0
    for iteration in range(2, most + 1):
        tried = step(candidate)
        if not tried.objective >= taken.objective - noise * abs(taken.objective):
            halvings += 1
            candidate = point + 0.5**halvings * (taken.after - point)
            points, residuals = points[-1:], residuals[-1:]
            continue
        point, taken = candidate, tried
        points = [*points[-MEMORY:], point]
        residuals = [*residuals[-MEMORY:], taken.after - point]
        if _finished(taken, residuals[-1]):
            return Found(taken.after, True, iteration)
        # An accelerated candidate counts as minus one halving: the first thing to fall back on is the whole EM step.
        candidate, halvings = _combine(points, residuals, taken.precision), -1
    return Found(taken.after, False, most)


def _finished(taken: Step, residual: Floats) -> bool:
    return float(np.max(np.abs(residual) * taken.precision)) < TOLERANCE * (1 - taken.rate)


def _combine(points: list[Floats], residuals: list[Floats], precision: Floats) -> Floats:
    """Combine the last results so that the combined step, in standard errors, is smallest.

    No parameter moves by more than 1, or by more than EM itself would move it: far jumps land where nothing is known.
    """
    if len(points) < 2:
        return points[-1] + residuals[-1]
    steps = np.diff(np.array(residuals), axis=0)
    moves = np.diff(np.array(points), axis=0)
    scaled = steps * precision
    gram = scaled @ scaled.T
    gram[np.diag_indices_from(gram)] *= 1 + 1e-10
    share = np.linalg.lstsq(gram, scaled @ (residuals[-1] * precision), rcond=None)[0]
    move = residuals[-1] - share @ (moves + steps)
    farthest = max(1.0, float(np.abs(residuals[-1]).max()))
    combined: Floats = points[-1] + move / max(1.0, float(np.abs(move).max()) / farthest)
    return combined
