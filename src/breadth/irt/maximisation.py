"""The M step: a Newton step or two for every item; and how sure the items then are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.expectation import Expectation, knot_sums
from breadth.irt.models import Model
from breadth.irt.parameters import Common, Parameters, Priors, Scores, bends, curves, log_answers, scores

#: Newton steps per M step. A second one is cheap beside an E step and saves some of those.
NEWTON_STEPS = 2

#: No parameter moves further in one Newton step: far from the solution the curves are flat and steps too long.
LONGEST = 1.0

#: Interpolated counts may be slightly negative where there are no subjects; information may not.
LEAST_INFORMATION = 1e-9

#: Times that a step with guessing is halved before it is given up.
HALVINGS = 6

#: Numbers in each table of subjects x parameters x knots held at once meanwhile.
BATCH_NUMBERS = 2_000_000


class Improved(NamedTuple):
    """Items after the M step, and where they were before it.

    ``information`` is that about each free parameter if abilities were known, ``slope_variance`` [J] what is not known
    about slopes then; ``stuck`` [J] is how far an item that could not be moved is from its maximum by the gradient, in
    standard errors; 0 for all others.
    """

    items: Parameters
    information: Parameters
    slope_variance: Floats
    stuck: Floats


def improve(
    model: Model, items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common
) -> Improved:
    """Take the M step of a model for its free items; ``free`` [4, J] says which parameters of all items are."""
    some = free[1]
    if not some.all():
        counts, at = expectation.counts, expectation.curves
        expectation = expectation._replace(
            counts=counts if counts.shape[0] == 1 else counts[some],
            right=expectation.right[some],
            curves=at._replace(logistic=at.logistic[some], log_one_plus=at.log_one_plus[some]),
        )
        items, free = Parameters(*(array[some] for array in items)), free[:, some]
    if model.bounded:
        return _improve_bounded(items, expectation, priors, free, common)
    logistic, right = expectation.curves.logistic, expectation.right
    aa = dd = np.empty(0)
    variance_of_slope = np.zeros(items.slope.size)
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
            to_a = right[:, 0] - expected[:, 1] + prior.gradient[:, 0]
            to_d = right[:, 1] - expected[:, 0] + prior.gradient[:, 1]
            determinant = np.maximum(aa * dd - ad**2, 1e-12 * aa * dd)
            move = np.stack([dd * to_a - ad * to_d, aa * to_d - ad * to_a]) / determinant
            variance_of_slope = dd / determinant
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
    return Improved(items, Parameters(aa, dd, none, none), variance_of_slope, none)


def _improve_bounded(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common
) -> Improved:
    """Newton's method in slope, intercept and logits of the asymptotes.

    They are close to collinear for many items and the problem is not concave. Where the curvature is not downwards,
    Fisher's information takes its place, and a step that makes an item worse is halved until it does not.
    """
    value = _item_values(items, expectation, priors, free, common)
    gradient, expected, stuck = np.empty((0, 0)), np.empty(0), np.zeros(items.slope.size)
    for _ in range(NEWTON_STEPS):
        gradient, expected, observed = _item_derivatives(items, expectation, priors, free, common)
        lowest = np.linalg.eigvalsh(observed)
        downwards = lowest[:, 0] > 1e-6 * np.maximum(lowest[:, -1], 1e-9)
        information = np.where(downwards[:, None, None], observed, expected)
        step = np.zeros((4, items.slope.size))
        step[: gradient.shape[1]] = np.linalg.solve(information, gradient[:, :, None])[:, :, 0].T
        decrement = np.sqrt(np.maximum(np.einsum("pj,jp->j", step[: gradient.shape[1]], gradient), 0))
        move = step / np.maximum(np.abs(step).max(axis=0) / LONGEST, 1)
        for _ in range(HALVINGS):
            tried = items.moved(move, free)
            after = _item_values(tried, expectation, priors, free, common)
            worse = ~(after >= value - 1e-13 * np.abs(value))
            if not worse.any():
                break
            move[:, worse] /= 2
        else:
            move[:, worse] = 0
            stuck = np.where(worse, decrement, stuck)
            tried = items.moved(move, free)
            after = np.where(worse, value, after)
        items, value = tried, after
    known = np.zeros((4, items.slope.size))
    known[: gradient.shape[1]] = np.einsum("jpp->pj", expected)
    variance: Floats = np.linalg.inv(expected)[:, 0, 0].astype(np.float64)
    return Improved(items, Parameters(*known), variance, stuck)


def _item_derivatives(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common
) -> tuple[Floats, Floats, Floats]:
    """Gradient [J, p], expected and observed information [J, p, p] of every item, with priors."""
    curved = curves(items, expectation.curves.knots)
    at, prior = scores(items, curved, free), priors.at(items, free, common)
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


def _item_values(items: Parameters, expectation: Expectation, priors: Priors, free: Bools, common: Common) -> Floats:
    """Expected complete-data log-likelihood of every item, with priors."""
    log_odds, log_wrong = log_answers(items, curves(items, expectation.curves.knots))
    value: Floats = np.einsum("jk,jk->j", expectation.right, log_odds)
    value += knot_sums(expectation, log_wrong)[:, 0]
    value += priors.at(items, free, common).log_density
    return value


class Covariance(NamedTuple):
    """Sampling variances of the free items [F]: slope, intercept, logits of asymptotes; and slope with intercept."""

    slope: Floats
    intercept: Floats
    both: Floats
    guessing: Floats
    slip: Floats


class _Pieces(NamedTuple):
    """The free items' scores on the knots, expected counts, complete-data information and priors [F, p, p].

    ``one_free_slope``: whether all items share a slope that is estimated; beside fixed items it is theirs.
    """

    at: Scores
    counts: Floats
    complete: Floats
    priors: Floats
    one_free_slope: bool


def covariance(
    model: Model,
    answers: Answers,
    items: Parameters,
    expectation: Expectation,
    priors: Priors,
    free: Bools,
    common: Common,
    exact: bool,
) -> Covariance:
    """Invert the information that the answers hold about the free items, abilities being unknown.

    Louis (1982): observed information = expected complete-data information - covariance of the complete-data scores
    given the answers. Scores of different items covary because they share a subject's ability. ``exact`` computes and
    inverts the whole matrix, and needs posteriors with weights.

    Otherwise, for many items, the inverse is close to a sum of two parts. First the error of an item given the scale of
    ability: the inverse of its own block, where a subject's posterior of variance v costs v (score's derivative)^2 of
    information. Second the error of the scale, which all items share: abilities of N subjects have a mean and a log
    standard deviation with sampling variances 1 / (N r) and 1 / (2 N r^2), where r is the reliability; difficulties and
    slopes inherit them. Leaving the second part out makes intervals too narrow.

    Both take the model to be true, subjects independent, ability normal and fixed items exact. With near-copies among
    the subjects the errors are too small: weight or drop the copies.
    """
    chosen = free[1]
    some, own = Parameters(*(array[chosen] for array in items)), free[:, chosen]
    at = scores(some, curves(some, expectation.curves.knots), own)
    counts = expectation.counts if expectation.counts.shape[0] == 1 else expectation.counts[chosen]
    n = at.direction.shape[0]
    prior = priors.at(some, own, common).curvature[:, :n, :n]
    for row in range(2, n):
        prior[:, row, row] += 1e-9 * own[row]
    complete = np.einsum("jk,pjk,qjk->jpq", counts * at.variance, at.direction, at.direction, optimize=True)
    pieces = _Pieces(at, counts, complete, prior, model.slope == "common" and bool(chosen.all()))
    if exact:
        whole = _exact(model, answers, items, expectation, pieces, chosen)
        # With very few answers the likelihood need not be curved downwards everywhere; the other way always is.
        if (whole.intercept > 0).all() and all((array >= 0).all() for array in (whole.slope, *whole[3:])):
            return whole
    return _narrow(model, items, expectation, pieces, chosen)


def _narrow(model: Model, items: Parameters, expectation: Expectation, pieces: _Pieces, free: Bools) -> Covariance:
    """Error given the scale, by items, plus the error of the scale."""
    every = scores(items, expectation.curves)
    total = np.maximum(expectation.posterior.total, 0)
    per_knot = np.where(total > 1e-9, total, np.inf)
    about_ability = expectation.counts / per_knot * every.variance * (items.slope[:, None] * every.ratio) ** 2
    from_free, from_all = about_ability[free].sum(axis=0), about_ability.sum(axis=0)
    width = 1 / (1 + from_all)

    at, blocks = pieces.at, pieces.complete.copy()
    weight = pieces.counts * at.variance
    bend = weight * at.variance * (items.slope[free][:, None] * at.ratio) ** 2 * width
    blocks -= np.einsum("jk,pjk,qjk->jpq", bend, at.direction, at.direction, optimize=True)
    blocks += pieces.priors
    slope = items.slope[free]
    if free.all():
        reliable = float(total @ (from_all * width)) / total.sum()
        shift, stretch = 1 / (total.sum() * reliable), 1 / (2 * total.sum() * reliable**2)
    else:
        # The scale is tied to the fixed items, as far as they tell abilities apart.
        tied = total * from_free * (from_all - from_free) * width
        shift, stretch = 1 / tied.sum(), 1 / (tied @ expectation.curves.knots**2)
    if model.slope != "item":
        intercept = 1 / blocks[:, 1, 1] + slope**2 * shift
        none = np.zeros_like(intercept)
        return Covariance(slope**2 * stretch * pieces.one_free_slope, intercept, none, none, none)
    # The answer itself, not only its expectation, moves the score of a slope with ability: theta (r - P).
    blocks[:, 0, 0] -= (weight * np.square(at.ratio)) @ width
    full: Floats = np.linalg.inv(blocks).astype(np.float64)
    full[:, 0, 0] += slope**2 * stretch
    full[:, 1, 1] += slope**2 * shift
    return _read(full)


def _exact(
    model: Model, answers: Answers, items: Parameters, expectation: Expectation, pieces: _Pieces, free: Bools
) -> Covariance:
    """Louis's formula without approximation, from every subject's posterior."""
    posterior = expectation.posterior
    if posterior.weights is None:
        raise AssertionError("exact information needs every subject's posterior")
    at = pieces.at
    p, n_free, k = at.direction.shape
    right = answers.right[:, free].astype(np.float64)
    seen = np.ones_like(right) if answers.seen is None else answers.seen[:, free].astype(np.float64)
    whole = np.zeros((p, n_free, p, n_free))
    each = np.arange(n_free)
    whole[:, each, :, each] = pieces.complete
    information = whole.reshape(p * n_free, p * n_free)
    means = np.zeros((answers.n_subjects, p * n_free))
    # Many knots in one product: threads of the linear algebra library lose far more in many small ones.
    batch = max(1, BATCH_NUMBERS // (answers.n_subjects * p * n_free))
    for start in range(0, k, batch):
        knots = slice(start, min(start + batch, k))
        weight = posterior.weights[:, knots].T[:, :, None]
        residual = right - seen * at.probability.T[knots, None, :]
        score = np.concatenate([residual * at.direction[q].T[knots, None, :] for q in range(p)], axis=2)
        weighted = score * weight
        means += weighted.sum(axis=0)
        weighted *= answers.weights[:, None]
        information -= weighted.reshape(-1, p * n_free).T @ score.reshape(-1, p * n_free)
    information += (means * answers.weights[:, None]).T @ means
    prior = np.zeros_like(whole)
    prior[:, each, :, each] = pieces.priors
    prior = prior.reshape(information.shape)
    if free.all():
        # Priors say nothing about the scale and the location of ability: take these directions out of them.
        scale = np.zeros((p * n_free, 2))
        scale[:n_free, 0] = scale[n_free : 2 * n_free, 1] = items.slope
        known = prior @ scale
        prior = prior - known @ np.linalg.pinv(scale.T @ known, hermitian=True) @ known.T
    information += prior
    if model.slope != "item":
        common = pieces.one_free_slope
        chosen = np.zeros((p * n_free, n_free + int(common)))
        chosen[n_free:, :n_free] = np.eye(n_free)
        if common:
            chosen[:n_free, -1] = 1
        own: Floats = np.linalg.inv(chosen.T @ information @ chosen).astype(np.float64)
        zero = np.zeros(n_free)
        intercept = np.diag(own)[:n_free].copy()
        if not common:
            return Covariance(zero, intercept, zero, zero, zero)
        return Covariance(np.full(n_free, own[-1, -1]), intercept, own[-1, :-1], zero, zero)
    inverse: Floats = np.linalg.inv(information).astype(np.float64).reshape(p, n_free, p, n_free)
    return _read(inverse[:, each, :, each])


def _read(full: Floats) -> Covariance:
    none = np.zeros(full.shape[0])
    asymptotes = [full[:, row, row] if row < full.shape[1] else none for row in (2, 3)]
    return Covariance(full[:, 0, 0], full[:, 1, 1], full[:, 0, 1], *asymptotes)
