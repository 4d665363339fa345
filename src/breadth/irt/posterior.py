"""What the answers say about ability: the E step of every model.

In the 1PL and 2PL a subject's likelihood is exp(s theta - A(theta)) up to a factor, with s the sum of slopes over right
answers and A(theta) the sum of log(1 + exp(a theta + d)) over answered items. With complete data A is the same for all,
so that a subject's posterior depends on the single number s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Floats
from breadth.irt.quadrature import KNOTS, Grid

#: Quadrature points on either side of a posterior's mode, in steps of 0.33 to 0.67 of its standard deviations.
REACH = 24

#: Numbers held at once in each of the tables of subjects x grid points.
TABLE_CELLS = 1_000_000


class Posterior(NamedTuple):
    """Mean and variance of ability [N], log of the marginal likelihood [N], and weights on the knots.

    ``weights`` is [N, K], or None where only their total over subjects, ``total`` [K], was needed.
    """

    mean: Floats
    variance: Floats
    log_evidence: Floats
    total: Floats
    weights: Floats | None


def from_scores(scores: Floats, normaliser: Floats, grid: Grid, counts: Floats) -> Posterior:
    """Posteriors when A(theta), given on the knots, is common to all subjects.

    The log posterior is concave, so its mode is where the slope of A(theta) + theta^2 / 2 passes s: a search in a
    sorted list. Around the mode the integral is a sum over grid points, in strides fitted to each posterior's width.
    """
    points = grid.points
    spacing = points[1] - points[0]
    convex = grid.spread @ normaliser - grid.log_prior
    slopes = np.maximum.accumulate(np.diff(convex) / spacing)
    mode = np.searchsorted(slopes, scores)
    bend = np.pad(np.diff(slopes) / spacing, 1, mode="edge")
    width = 1 / np.sqrt(np.maximum(bend[mode], 1.0))
    stride = np.clip(np.rint(0.5 * width / spacing).astype(np.int64), 1, None)
    where = mode[:, None] + stride[:, None] * np.arange(-REACH, REACH + 1)
    inside = (where >= 0) & (where < points.size)
    where = np.clip(where, 0, points.size - 1)
    theta = points[where]
    log_density = scores[:, None] * theta - convex[where]
    peak = log_density[:, REACH]
    density = np.exp(log_density - peak[:, None]) * inside
    norm = density.sum(axis=1)
    density /= norm[:, None]
    mean = (density * theta).sum(axis=1)
    variance = (density * (theta - mean[:, None]) ** 2).sum(axis=1)
    on_grid = np.bincount(where.ravel(), weights=(density * counts[:, None]).ravel(), minlength=points.size)
    return Posterior(mean, variance, peak + np.log(norm * stride), grid.spread.T @ on_grid, None)


def from_table(log_likelihood: Floats, grid: Grid, counts: Floats, scores: Floats | None = None) -> Posterior:
    """Posteriors from each subject's log-likelihood on the knots [N, K].

    ``scores`` times theta, if given, is added on the grid itself.
    """
    n = log_likelihood.shape[0]
    mean, variance, evidence = np.empty(n), np.empty(n), np.empty(n)
    weights = np.empty((n, KNOTS.size))
    points = grid.points
    step = max(1, TABLE_CELLS // points.size)
    refined = points.size > KNOTS.size
    moments = np.column_stack([np.ones(points.size), points, points**2])
    for start in range(0, n, step):
        rows = slice(start, start + step)
        density = log_likelihood[rows] @ grid.spread.T if refined else log_likelihood[rows].copy()
        if scores is not None:
            density += scores[rows, None] * points
        density += grid.log_prior
        peak = density.max(axis=1)
        density -= peak[:, None]
        np.exp(density, out=density)
        first = density @ moments
        mean[rows] = first[:, 1] / first[:, 0]
        variance[rows] = np.maximum(first[:, 2] / first[:, 0] - mean[rows] ** 2, 1e-12)
        evidence[rows] = peak + np.log(first[:, 0])
        weights[rows] = (density @ grid.spread if refined else density) / first[:, :1]
    return Posterior(mean, variance, evidence, counts @ weights, weights)
