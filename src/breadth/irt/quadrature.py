"""Where functions of ability are evaluated: a coarse set of knots for items, a finer grid for posteriors.

Curves of items bend on the scale of 1/a, posteriors of subjects on the scale of 1/sqrt(information), which is far
finer when there are many items. So items are evaluated on few knots and carried to the grid by a quintic spline, a
fixed matrix. Its transpose carries posterior weights back to the knots, which makes the EM step the exact gradient of
the interpolated likelihood.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from breadth.irt.answers import Floats

SPACING = 0.25
HALF_RANGE = 6.5

#: Abilities, in standard deviations of their distribution, at which items are evaluated.
KNOTS: Floats = np.linspace(-HALF_RANGE, HALF_RANGE, round(2 * HALF_RANGE / SPACING) + 1)

#: The grid's spacing in the narrowest posterior's standard deviations. The error of the trapezoidal rule for a normal
#: density is exp(-2 pi^2 / spacing^2): below 1e-15 here.
RESOLUTION = 0.75
FINEST = 64


class Grid(NamedTuple):
    """Points of ability [Q], log of prior density times spacing, and the matrix [Q, K] from knots to points."""

    points: Floats
    log_prior: Floats
    spread: Floats


@lru_cache(maxsize=FINEST)
def _grid(refinement: int) -> Grid:
    points = np.linspace(-HALF_RANGE, HALF_RANGE, (KNOTS.size - 1) * refinement + 1)
    spacing = points[1] - points[0]
    log_prior = -(points**2) / 2 - np.log(2 * np.pi) / 2 + np.log(spacing)
    identity = np.eye(KNOTS.size)
    spread = identity if refinement == 1 else np.asarray(make_interp_spline(KNOTS, identity, k=5)(points))
    return Grid(points, log_prior, spread)


def grid_for(information: float) -> Grid:
    """Choose a grid fine enough for subjects about whom the items hold at most this information."""
    wanted = SPACING * np.sqrt(1 + information) / RESOLUTION
    return _grid(int(np.clip(np.ceil(wanted), 1, FINEST)))
