"""Fixed points of EM steps, found in a fraction of the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from breadth.irt.answers import Floats

#: Earlier steps that are combined.
MEMORY = 6

#: A combined step may be this much longer than the last.
LONGER = 1.5

#: A fit is finished when no parameter is further than this share of its standard error from where it will end.
TOLERANCE = 1e-3


class EMStep(NamedTuple):
    """One EM step from a point: where it leads, and how far the point is from the end.

    ``precision`` is the square root of each parameter's information, so that precision x step is in standard errors;
    ``distance`` is how far the worst item or the scale is from its maximum, in standard errors and by the gradient;
    ``rate`` is the share of information that is missing, by which successive EM steps shrink.
    """

    after: Floats
    precision: Floats
    distance: float
    rate: float


class Solution(NamedTuple):
    """Where the iteration ended, whether it had converged, and after how many EM steps."""

    point: Floats
    converged: bool
    iterations: int


def fixed_point(
    step: Callable[[Floats], EMStep], start: Floats, most: int, groups: NDArray[np.int64] | None = None
) -> Solution:
    """Iterate an EM step with Anderson acceleration until the gradient is gone.

    The next point is the combination of the last few EM results whose steps cancel best (Anderson 1965; for EM:
    Henderson and Varadhan 2019). If the step from there is much longer than the last one, the plain EM result is taken
    instead. ``groups`` names the item that each of the first numbers of a point belongs to, where an item can have
    several maxima: one whose combined move points away from its EM result takes that instead, so that a single item
    between two maxima does not hold up the others.
    """
    candidate = plain = start
    last, combined = np.inf, False
    points: list[Floats] = []
    residuals: list[Floats] = []
    for iteration in range(1, most + 1):
        taken = step(candidate)
        residual = taken.after - candidate
        size = float(np.sqrt(np.mean((residual * taken.precision) ** 2)))
        if combined and not size <= LONGER * last:
            candidate, combined = plain, False
            points, residuals = points[-1:], residuals[-1:]
            continue
        if taken.distance < TOLERANCE * (1 - taken.rate):
            return Solution(taken.after, True, iteration)
        last, plain = size, taken.after
        points, residuals = [*points[-MEMORY:], candidate], [*residuals[-MEMORY:], residual]
        combined = len(points) > 1
        if not combined:
            candidate = plain
            continue
        # Combine the last results so that the combined step, in standard errors, is smallest.
        steps, moves = (np.diff(np.array(earlier), axis=0) for earlier in (residuals, points))
        scaled = steps * taken.precision
        gram = scaled @ scaled.T
        gram[np.diag_indices_from(gram)] *= 1 + 1e-10
        share = np.linalg.lstsq(gram, scaled @ (residual * taken.precision), rcond=None)[0]
        move = residual - share @ (moves + steps)
        if groups is not None:
            along = np.bincount(groups, weights=(move * residual * taken.precision**2)[: groups.size])
            move[: groups.size] = np.where(along[groups] < 0, residual[: groups.size], move[: groups.size])
        # No parameter moves by more than 1, or by more than EM itself would move it: far jumps land where nothing is
        # known.
        farthest = max(1.0, float(np.abs(residual).max()))
        candidate = candidate + move / max(1.0, float(np.abs(move).max()) / farthest)
    return Solution(plain, False, most)
