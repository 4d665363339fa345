"""The E step: posteriors of ability, and the sums over subjects that the M step needs.

Curves of items bend on the scale of 1/a, posteriors of subjects on the scale of 1/sqrt(information), which is far finer
when there are many items. So items are evaluated on few knots and interpolated to a finer grid by a quintic spline, a
fixed matrix. Its transpose carries posterior weights back to the knots, which makes the EM step the exact gradient of
the interpolated likelihood.

Without guessing, a subject's likelihood is exp(s theta - A(theta)) up to a factor, with s the sum of slopes over right
answers and A(theta) the sum of log(1 + exp(a theta + d)) over answered items. With complete data A is the same for all,
so that a subject's posterior depends on the single number s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from breadth.irt.answers import Answers, Floats
from breadth.irt.models import Model
from breadth.irt.parameters import HALF_RANGE, Curves, Parameters, curves, log_answers

#: The grid's spacing in the narrowest posterior's standard deviations. The error of the trapezoidal rule for a normal
#: density is exp(-2 pi^2 / spacing^2): below 1e-15 here.
RESOLUTION = 0.75
FINEST = 1 / 256

#: Quadrature points on either side of a posterior's mode, in steps of 0.33 to 0.67 of its standard deviations.
REACH = 24

#: Subjects x grid points up to which posteriors are summed over the whole grid.
WHOLE_CELLS = 4_000_000

#: Numbers held at once in each of the tables of subjects x grid points.
TABLE_CELLS = 1_000_000


class Grid(NamedTuple):
    """Points of ability [Q], log of prior density times spacing, and the matrix [Q, K] from the knots [K] to points."""

    points: Floats
    log_prior: Floats
    spread: Floats
    knots: Floats


#: Grids made so far, by numbers of knots and of points; the last few of them.
GRIDS: dict[tuple[int, int], Grid] = {}
MOST_GRIDS = 16


def grid_for(information: float, knots: Floats) -> Grid:
    """Choose a grid fine enough for subjects about whom the items hold at most this information."""
    apart = knots[1] - knots[0]
    refinement = np.clip(np.ceil(apart * np.sqrt(1 + information) / RESOLUTION), 1, round(apart / FINEST))
    key = (knots.size, int(knots.size - 1) * int(refinement) + 1)
    if key not in GRIDS:
        points = np.linspace(-HALF_RANGE, HALF_RANGE, key[1])
        log_prior = -(points**2) / 2 - np.log(2 * np.pi) / 2 + np.log(points[1] - points[0])
        identity = np.eye(knots.size)
        spread = identity if refinement == 1 else np.asarray(make_interp_spline(knots, identity, k=5)(points))
        while len(GRIDS) >= MOST_GRIDS:
            GRIDS.pop(next(iter(GRIDS)))
        GRIDS[key] = Grid(points, log_prior, spread, knots)
    return GRIDS[key]


class Posterior(NamedTuple):
    """Mean and variance of ability [N], log of the marginal likelihood [N], and weights on the knots.

    ``weights`` is [N, K], or None where only their total over subjects, ``total`` [K], was needed.
    """

    mean: Floats
    variance: Floats
    log_evidence: Floats
    total: Floats
    weights: Floats | None


def posterior(
    answers: Answers,
    items: Parameters,
    at: Curves,
    score: Floats | None,
    weights: Floats | None = None,
    with_weights: bool = False,
) -> Posterior:
    """Posteriors of ability given items and their curves.

    ``score`` is the sum of slopes over each subject's right answers, or None with guessing: there is no sufficient
    statistic then, and the whole likelihood is computed on the knots. ``weights`` are those of the scores where they
    are not the subjects' own; ``with_weights`` keeps every subject's posterior weights.
    """
    grid = grid_for(float(((items.slope**2) @ (at.logistic * (1 - at.logistic))).max()), at.knots)
    weights = answers.weights if weights is None else weights
    if score is None:
        log_odds, log_wrong = log_answers(items, at)
        return from_table(answers.sums(log_odds) + answers.sums(log_wrong, seen=True), grid, weights)
    if answers.seen is None and not with_weights:
        return from_scores(score, at.log_one_plus.sum(axis=0), grid, weights)
    return from_table(-answers.sums(at.log_one_plus, seen=True), grid, weights, score)


def from_scores(scores: Floats, normaliser: Floats, grid: Grid, counts: Floats) -> Posterior:
    """Posteriors when A(theta), given on the knots, is common to all subjects.

    The integral is a sum over the grid if that is small. Else there are many items, and posteriors are near normal.
    The log posterior is concave, so its mode is where the slope of A(theta) + theta^2 / 2 passes s: a search in a
    sorted list. Around the mode the integral is a sum over grid points, in strides fitted to each posterior's width.
    """
    points = grid.points
    convex = grid.spread @ normaliser - grid.log_prior
    if scores.size * points.size <= WHOLE_CELLS:
        density = scores[:, None] * points - convex
        peak = density.max(axis=1)
        density -= peak[:, None]
        np.exp(density, out=density)
        norm = density.sum(axis=1)
        mean, square = (density @ np.column_stack([points, points**2]) / norm[:, None]).T
        total = grid.spread.T @ ((counts / norm) @ density)
        return Posterior(mean, np.maximum(square - mean**2, 1e-12), peak + np.log(norm), total, None)
    spacing = points[1] - points[0]
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
    weights = np.empty((n, grid.knots.size))
    points = grid.points
    step = max(1, TABLE_CELLS // points.size)
    refined = points.size > grid.knots.size
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


class Expectation(NamedTuple):
    """What an E step gives.

    ``counts``
        Expected number of subjects at each knot, [1, K]; or of those that answered each item, [J, K].
    ``right``
        Expected sums over right answers: of 1 alone, [J, 1] (equal slopes); of theta and of 1, [J, 2] (a slope per
        item); of being at each knot, [J, K] (guessing).
    ``mean``, ``square``
        First two moments of ability, averaged over subjects.
    ``missing``
        Share of the variance of ability that the answers leave open.
    """

    posterior: Posterior
    counts: Floats
    right: Floats
    log_likelihood: float
    mean: float
    square: float
    missing: float
    curves: Curves


def expect(model: Model, answers: Answers, items: Parameters, with_weights: bool = False) -> Expectation:
    """Take the E step of a model; ``with_weights`` keeps every subject's posterior weights.

    The sum of slopes over right answers is sufficient for ability. With equal slopes raw scores are, and subjects that
    answered everything and have equal scores are one.
    """
    at, weights, score = curves(items), answers.weights, None
    if model.slope == "item" and not model.bounded:
        score = answers.sums(items.slope[:, None])[:, 0]
    elif not model.bounded:
        raw = answers.subject_sums
        if answers.seen is None and not with_weights:
            raw, same = np.unique(raw, return_inverse=True)
            weights = np.bincount(same, weights=weights).astype(np.float64)
        score = items.slope[0] * raw
    about = posterior(answers, items, at, score, weights, with_weights)
    # What the M step needs: expected sums over right answers, and expected counts.
    right, counts = answers.weighted_item_sums[:, None], about.total[None]
    if model.bounded and about.weights is not None:
        right = answers.sums(weights[:, None] * about.weights, axis=0)
    elif model.slope == "item":
        right = np.column_stack([answers.sums((weights * about.mean)[:, None], axis=0), right])
    if answers.seen is not None and about.weights is not None:
        counts = answers.sums(weights[:, None] * about.weights, axis=0, seen=True)
    total = weights.sum()
    mean, missing = (float(weights @ moment / total) for moment in (about.mean, about.variance))
    square = missing + float(weights @ about.mean**2 / total)
    # Scores leave out the intercepts of right answers, a factor of the likelihood that does not depend on ability.
    constant = 0.0 if score is None else answers.weighted_item_sums @ items.intercept
    log_likelihood = float(weights @ about.log_evidence + constant)
    return Expectation(about, counts, right, log_likelihood, mean, square, missing, at)


def knot_sums(expectation: Expectation, *tables: Floats) -> Floats:
    """Sum tables [J, K] over the knots by expected counts, times theta to the power of 0, 1, ...: [J, len(tables)].

    Table number i is weighted by theta^i.
    """
    counts, knots = expectation.counts, expectation.curves.knots
    powers = [knots**i for i in range(len(tables))]
    if counts.shape[0] == 1:
        return np.column_stack([table @ (counts[0] * power) for table, power in zip(tables, powers, strict=True)])
    return np.column_stack(
        [np.einsum("jk,jk,k->j", table, counts, power) for table, power in zip(tables, powers, strict=True)]
    )
