"""The M step: Newton steps for every item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Bools, Floats
from breadth.irt.expectation import Expectation, knot_sums
from breadth.irt.models import Model
from breadth.irt.parameters import (
    LARGEST_LOGIT,
    Common,
    Parameters,
    Priors,
    bends,
    curves,
    likelihood_scores,
    log_answers,
)

#: Newton steps per M step. A second one is cheap beside an E step and saves some of those.
NEWTON_STEPS = 2

#: Most Newton steps per M step with asymptotes, and how close to its maximum an item ends, in standard errors.
MOST_NEWTON_STEPS = 30
NEWTON_TOLERANCE = 1e-4

#: Where else an item with asymptotes looks for a maximum: multiples of the typical slope with a chance of guessing, and
#: the slip there. It moves if the expected log-likelihood is higher by this much.
ELSEWHERE = ((0.3, 0.02), (1.0, 0.25), (2.5, 0.25), (-1.0, 0.25))
SLIP_ELSEWHERE = 0.03
WORTH_MOVING = 0.01

#: No parameter moves further in one Newton step: far from the solution the curves are flat and steps too long.
LONGEST = 1.0

#: Slopes closer to 0 count as this one where they divide.
LEAST_SLOPE = 1e-8

#: Interpolated counts may be slightly negative where there are no subjects; information may not.
LEAST_INFORMATION = 1e-9

#: Times that a step with guessing is halved before it is given up.
HALVINGS = 6


class Improved(NamedTuple):
    """Items after the M step, and where they were before it.

    ``information`` is that about each free parameter if abilities were known, ``slope_variance`` [J] what is not known
    about slopes then, ``released`` [J] what was added to their gradient (:func:`_power`). ``stuck`` [J] is how far an
    item that could not be moved is from its maximum by the gradient, in standard errors; 0 for all others.
    """

    items: Parameters
    information: Parameters
    slope_variance: Floats
    released: Floats
    stuck: Floats


def improve(
    model: Model, items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common
) -> Improved:
    """Take the M step of a model for its free items; ``free`` [4, J] says which parameters of all items are."""
    # Beside fixed items, the scale of slopes is theirs.
    hierarchical = model.slope == "item" and priors.slope_ratio is not None and bool(free[1].all())
    power = None if hierarchical else np.zeros(int(free[1].sum()))
    if not free[1].all():
        items, expectation, free = _select_items(items, expectation, free, free[1])
    if model.bounded:
        return _improve_bounded(items, expectation, priors, free, common, power)
    logistic, right = expectation.curves.logistic, expectation.right
    aa = dd = np.empty(0)
    variance_of_slope = released = np.zeros(items.slope.size)
    for repeat in range(NEWTON_STEPS):
        if repeat:
            logistic = curves(items, expectation.curves.knots).logistic
        prior = priors.at(items, free, common)
        if model.slope == "item":
            # Slope and intercept of every item, a concave problem in two variables.
            variance = logistic * (1 - logistic)
            expected = knot_sums(expectation, logistic, logistic)
            dd, ad, aa = knot_sums(expectation, variance, variance, variance).T
            dd = np.maximum(dd, LEAST_INFORMATION) + prior.curvature[:, 1, 1]
            aa = np.maximum(aa, LEAST_INFORMATION) + prior.curvature[:, 0, 0]
            ad = ad + prior.curvature[:, 0, 1]
            determinant = np.maximum(aa * dd - ad**2, 1e-12 * aa * dd)
            variance_of_slope = dd / determinant
            if power is None:
                power = _power(items.slope, variance_of_slope, common)
                released = power / _nonzero(items.slope)
            to_a = right[:, 0] - expected[:, 1] + prior.gradient[:, 0] + released
            to_d = right[:, 1] - expected[:, 0] + prior.gradient[:, 1]
            move = np.stack([dd * to_a - ad * to_d, aa * to_d - ad * to_a]) / determinant
        else:
            # Intercepts only; a common slope is the spread of ability.
            expected = knot_sums(expectation, logistic)
            spread = expected[:, 0] - knot_sums(expectation, logistic**2)[:, 0]
            dd = np.maximum(spread, LEAST_INFORMATION) + prior.curvature[:, 1, 1]
            aa = np.zeros(dd.size)
            move = np.stack([aa, (right[:, 0] - expected[:, 0] + prior.gradient[:, 1]) / dd])
        move /= np.maximum(np.abs(move).max(axis=0) / LONGEST, 1)
        items = items._replace(slope=items.slope + move[0], intercept=items.intercept + move[1])
    none = np.zeros(dd.size)
    information = Parameters(aa, dd, none, none)
    return Improved(items, information, variance_of_slope, released, none)


def _power(slope: Floats, unknown: Floats, common: Common) -> Floats:
    """Take the common scale of slopes out of their prior: the powers [J] of the slopes to multiply it with.

    A prior N(m, s^2) pulls on the scale of all slopes a with the force of all items, sum a (a - m) / s^2. But the scale
    is that of ability, and the answers alone decide on it. Powers that sum to the same number push back as much; they
    add their quotients with the slopes to the gradient. They are shared out so as to change other directions least:
    by what is known about each slope, a^2 over its variance ``unknown``.
    """
    force = max(float(slope @ (slope - common.slope_mean)) / common.slope_sd**2, 0.0)
    known = slope**2 / unknown
    power: Floats = known * (force / max(float(known.sum()), 1e-300))
    return power


def _nonzero(slope: Floats) -> Floats:
    """Slopes to divide by."""
    divisor: Floats = np.where(np.abs(slope) < LEAST_SLOPE, np.where(slope < 0, -LEAST_SLOPE, LEAST_SLOPE), slope)
    return divisor


def _select_items(
    items: Parameters, expectation: Expectation, free: Bools, some: Bools
) -> tuple[Parameters, Expectation, Bools]:
    """Some of the items, what is expected of them, and what is free of them."""
    counts, at = expectation.counts, expectation.curves
    expectation = expectation._replace(
        counts=counts if counts.shape[0] == 1 else counts[some],
        right=expectation.right[some],
        curves=at._replace(logistic=at.logistic[some], log_one_plus=at.log_one_plus[some]),
    )
    return Parameters(*(array[some] for array in items)), expectation, free[:, some]


def _improve_bounded(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common, power: Floats | None
) -> Improved:
    """Newton's method in slope, intercept and logits of the asymptotes.

    They are close to collinear for many items and the problem is not concave. Where the curvature is not downwards,
    Fisher's information takes its place, and a step that makes an item worse is halved until it does not. ``power`` is
    that of :func:`_power`, or None to compute it.
    """
    n = items.slope.size
    items = Parameters(*(array.copy() for array in items))
    moving, some, part, own = np.arange(n), items, expectation, free
    known, slope_variance, stuck = np.zeros((4, n)), np.zeros(n), np.zeros(n)
    value = np.empty(0)
    for _ in range(MOST_NEWTON_STEPS):
        gradient, expected, observed = _item_derivatives(some, part, priors, own, common)
        lowest = np.linalg.eigvalsh(observed)
        downwards = lowest[:, 0] > 1e-6 * np.maximum(lowest[:, -1], 1e-9)
        information = np.where(downwards[:, None, None], observed, expected)
        rows = gradient.shape[1]
        known[:rows, moving], slope_variance[moving] = np.einsum("jpp->pj", expected), np.linalg.inv(expected)[:, 0, 0]
        if power is None:
            power = _power(items.slope, slope_variance, common)
        if not value.size:
            value = _item_log_likelihoods(items, expectation, priors, free, common, power)
        slope = _nonzero(some.slope)
        gradient[:, 0] += power[moving] / slope
        information[:, 0, 0] += power[moving] / slope**2
        if not own[0].all():
            # A slope that is known or common to all items stays where it is, and the intercept moves without it.
            held = ~own[0]
            gradient[held, 0] = 0.0
            information[held, 0, :] = information[held, :, 0] = np.eye(rows)[0]
        for row in range(2, rows):
            # An asymptote at its bound that would go further stays there, and the others move without it.
            least = 1 / (1 + np.exp(LARGEST_LOGIT))
            low, high = some[row] < 1.001 * least, some[row] > 1 - 1.001 * least
            outward = (low & (gradient[:, row] < 0)) | (high & (gradient[:, row] > 0))
            gradient[outward, row] = 0.0
            information[outward, row, :] = information[outward, :, row] = np.eye(rows)[row]
        move = np.zeros((4, moving.size))
        move[:rows] = np.linalg.solve(information, gradient[:, :, None])[:, :, 0].T
        decrement = np.sqrt(np.maximum(np.einsum("pj,jp->j", move[:rows], gradient), 0))
        move /= np.maximum(np.abs(move).max(axis=0) / LONGEST, 1)
        for _ in range(HALVINGS):
            tried = some.moved(move, own)
            after = _item_log_likelihoods(tried, part, priors, own, common, power[moving])
            worse = ~(after >= value - 1e-13 * np.abs(value))
            if not worse.any():
                break
            move[:, worse] /= 2
        else:
            move[:, worse] = 0
            tried = some.moved(move, own)
            after = np.where(worse, value, after)
        stuck[moving] = np.where(worse, decrement, 0)
        for array, values in zip(items, tried, strict=True):
            array[moving] = values
        on = ~worse & (decrement > NEWTON_TOLERANCE)
        if not on.any():
            break
        moving, value = moving[on], after[on]
        some, part, own = _select_items(tried, part, own, on)
    released = np.zeros(n) if power is None else power / _nonzero(items.slope)
    return Improved(items, Parameters(*known), slope_variance, released, stuck)


def elsewhere(
    model: Model, items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common, may: Bools
) -> Bools:
    """Move those items that ``may`` [J] to a better maximum, in place; which of them had one?

    The M step climbs from where an item is. But with asymptotes a steep curve with a floor and a flat one without may
    both be maxima. So an item also starts from other slopes and asymptotes, and ends where the expected log-likelihood
    is highest.
    """
    released = np.zeros(items.slope.size)
    here, _, _, released[free[1]], _ = improve(model, items, expectation, priors, free, common)
    every = Parameters(*(array.copy() for array in items))
    for array, values in zip(every, here, strict=True):
        array[free[1]] = values
    moved = may & free[1]
    best, part, own = _select_items(every, expectation, free, moved)
    power = released[moved] * best.slope
    highest = _item_log_likelihoods(best, part, priors, own, common, power)
    share = (part.right.sum(axis=1) + 0.5) / (part.counts.sum(axis=1) + 1)
    typical = np.where(best.slope < 0, -1, 1) * float(np.sqrt(np.mean(items.slope**2)))
    better = np.zeros(power.size, dtype=np.bool_)
    for multiple, chance in ELSEWHERE:
        slope = np.where(own[0], multiple * typical, best.slope)
        guessing, slip = np.where(own[2], chance, best.guessing), np.where(own[3], SLIP_ELSEWHERE, best.slip)
        above = np.clip((share - guessing) / (1 - guessing - slip), 0.02, 0.98)
        intercept = np.log(above / (1 - above)) * np.sqrt(1 + 0.35 * slope**2)
        start = Parameters(slope, intercept, guessing, slip)
        tried = _improve_bounded(start, part, priors, own, common, power).items
        value = _item_log_likelihoods(tried, part, priors, own, common, power)
        higher = value > highest + WORTH_MOVING
        highest, better = np.where(higher, value, highest), better | higher
        best = Parameters(*(np.where(higher, *pair) for pair in zip(tried, best, strict=True)))
    moved[moved] = better
    for array, values in zip(items, best, strict=True):
        array[moved] = values[better]
    return np.asarray(moved)


def _item_derivatives(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common
) -> tuple[Floats, Floats, Floats]:
    """Gradient [J, p], expected and observed information [J, p, p] of every item, with priors."""
    curved = curves(items, expectation.curves.knots)
    at, prior = likelihood_scores(items, curved, free), priors.at(items, free, common)
    n = at.direction.shape[0]
    counts, right = np.maximum(expectation.counts, 0), expectation.right
    residual = right - expectation.counts * at.probability
    gradient = np.einsum("jk,pjk->jp", residual, at.direction) + prior.gradient[:, :n]
    # Second derivatives of r log P + (n - r) log (1 - P), times the squares of P and 1 - P.
    second = right * (1 - at.probability) ** 2 + (expectation.counts - right) * at.probability**2
    expected: Floats = np.empty((items.slope.size, n, n))
    observed = np.empty_like(expected)
    bent = bends(items, curved, free, n)
    for one in range(n):
        for other in range(one, n):
            product = at.direction[one] * at.direction[other]
            expected[:, one, other] = np.einsum("jk,jk->j", counts * at.variance, product)
            observed[:, one, other] = np.einsum("jk,jk->j", second, product)
            if (one, other) in bent:
                observed[:, one, other] -= np.einsum("jk,jk->j", residual, bent[one, other])
            expected[:, other, one], observed[:, other, one] = expected[:, one, other], observed[:, one, other]
    expected += prior.curvature[:, :n, :n]
    observed += prior.curvature[:, :n, :n]
    # A touch of ridge keeps the matrices invertible; it changes the step, not where the steps end.
    for diagonal in (np.einsum("jpp->jp", expected), np.einsum("jpp->jp", observed)):
        np.add(diagonal, 1e-6 * np.abs(diagonal) + 1e-9, out=diagonal)
    return gradient, expected, observed


def _item_log_likelihoods(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common, power: Floats
) -> Floats:
    """Expected complete-data log-likelihood of every item, with priors and powers of slopes (:func:`_power`)."""
    log_odds, log_wrong = log_answers(items, curves(items, expectation.curves.knots))
    value: Floats = np.einsum("jk,jk->j", expectation.right, log_odds)
    value += knot_sums(expectation, log_wrong)[:, 0]
    value += priors.at(items, free, common).log_density + power * np.log(np.abs(_nonzero(items.slope)))
    return value
