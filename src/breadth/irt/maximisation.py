"""The M step: a Newton step or two for every item, and the scale of ability; and how sure the items then are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.expectation import Expectation, knot_sums
from breadth.irt.models import Model
from breadth.irt.parameters import KNOTS, Parameters, Priors, Scores, Strength, curves, log_answers, scores

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
    """Items after the M step, and the information about each free parameter if abilities were known."""

    items: Parameters
    information: Parameters


def improve(model: Model, items: Parameters, expectation: Expectation, priors: Priors, free: Bools) -> Improved:
    """Take the M step of a model for its free items; ``free`` [3, J] says which parameters of all items are."""
    some = free[1]
    if not some.all():
        counts, at = expectation.counts, expectation.curves
        expectation = expectation._replace(
            counts=counts if counts.shape[0] == 1 else counts[some],
            right=expectation.right[some],
            curves=at._replace(logistic=at.logistic[some], log_one_plus=at.log_one_plus[some]),
        )
        items, free = Parameters(*(array[some] for array in items)), free[:, some]
    if model.guessing:
        return _improve_guessing(items, expectation, priors, free)
    logistic, right = expectation.curves.logistic, expectation.right
    aa = dd = np.empty(0)
    for repeat in range(NEWTON_STEPS):
        if repeat:
            logistic = curves(items).logistic
        prior = priors.at(items, free)
        if model.slope == "item":
            # Slope and intercept of every item, a concave problem in two variables.
            variance = logistic * (1 - logistic)
            expected = knot_sums(expectation.counts, logistic, logistic)
            dd, ad, aa = knot_sums(expectation.counts, variance, variance, variance).T
            dd = np.maximum(dd, LEAST_INFORMATION) + prior.strength.intercept
            aa = np.maximum(aa, LEAST_INFORMATION) + prior.strength.slope
            to_a = right[:, 0] - expected[:, 1] + prior.gradient[:, 0]
            to_d = right[:, 1] - expected[:, 0] + prior.gradient[:, 1]
            determinant = np.maximum(aa * dd - ad**2, 1e-12 * aa * dd)
            move = np.stack([dd * to_a - ad * to_d, aa * to_d - ad * to_a]) / determinant
        else:
            # Intercepts only; a common slope is the spread of ability.
            expected = knot_sums(expectation.counts, logistic)
            spread = expected[:, 0] - knot_sums(expectation.counts, logistic**2)[:, 0]
            dd = np.maximum(spread, LEAST_INFORMATION) + prior.strength.intercept
            aa = np.zeros(dd.size)
            move = np.stack([aa, (right[:, 0] - expected[:, 0] + prior.gradient[:, 1]) / dd])
        move /= np.maximum(np.abs(move).max(axis=0) / LONGEST, 1)
        items = items._replace(slope=items.slope + move[0], intercept=items.intercept + move[1])
    return Improved(items, Parameters(aa, dd, np.zeros(dd.size)))


def _improve_guessing(items: Parameters, expectation: Expectation, priors: Priors, free: Bools) -> Improved:
    """Fisher scoring in slope, intercept and logit of the guessing parameter.

    The three are close to collinear for many items and the problem is not concave, so a step that makes an item worse
    is halved until it does not.
    """
    value = _item_values(items, expectation, priors, free)
    fisher = np.empty(0)
    for _ in range(NEWTON_STEPS):
        gradient, fisher = _item_derivatives(items, expectation, priors, free)
        step: Floats = np.linalg.solve(fisher, gradient[:, :, None])[:, :, 0].T.astype(np.float64)
        move = step / np.maximum(np.abs(step).max(axis=0) / LONGEST, 1)
        for _ in range(HALVINGS):
            tried = items.moved(move, free[2])
            after = _item_values(tried, expectation, priors, free)
            worse = ~(after >= value - 1e-9 * np.abs(value))
            if not worse.any():
                break
            move[:, worse] /= 2
        else:
            move[:, worse] = 0
            tried = items.moved(move, free[2])
            after = np.where(worse, value, after)
        items, value = tried, after
    return Improved(items, Parameters(*np.einsum("jpp->pj", fisher)))


def _item_derivatives(
    items: Parameters, expectation: Expectation, priors: Priors, free: Bools
) -> tuple[Floats, Floats]:
    """Gradient [J, 3] and Fisher information [J, 3, 3] of every item, with priors."""
    at, prior = scores(items, with_guessing=True), priors.at(items, free)
    at.direction[2] *= free[2][:, None]
    residual = expectation.right - expectation.counts * at.probability
    gradient = np.einsum("jk,pjk->jp", residual, at.direction) + prior.gradient
    weight = expectation.counts * at.variance
    fisher: Floats = np.einsum("jk,pjk,qjk->jpq", weight, at.direction, at.direction, optimize=True)
    # A touch of ridge keeps the matrix invertible; it changes the step, not where the steps end.
    diagonal = np.einsum("jpp->jp", fisher)
    diagonal += prior.curvature
    diagonal *= 1 + 1e-6
    diagonal += 1e-9
    return gradient, fisher


def _item_values(items: Parameters, expectation: Expectation, priors: Priors, free: Bools) -> Floats:
    """Expected complete-data log-likelihood of every item, with priors."""
    log_odds, log_wrong = log_answers(items, curves(items))
    value: Floats = np.einsum("jk,jk->j", expectation.right, log_odds)
    value += knot_sums(expectation.counts, log_wrong)[:, 0]
    value += priors.at(items, free).log_density
    return value


def ability_scale(
    model: Model,
    expectation: Expectation,
    weight: float,
    items: Parameters,
    prior: Strength,
    log_spread: float | None,
    stretches: bool,
) -> tuple[float, float]:
    """Mean and standard deviation of ability that suit the posteriors best, given the items.

    Without fixed items the scale of ability is arbitrary, so items take it up: a parameter-expanded EM (Liu, Rubin and
    Wu 1998) that needs a fraction of the steps. Priors hold on the scale where ability is N(0, 1); what a shift or
    stretch does to them is counted here, so that the fixed point is the maximum of the posterior. ``log_spread`` is the
    log of the spread of ability so far, where it is estimated; without ``stretches`` the standard deviation stays 1.
    """
    slope, pull = items.slope, prior.intercept * (items.slope @ items.intercept)
    stiffness = prior.intercept * (slope @ slope)
    # Starting from no change at all, a solution that is already reached stays where it is.
    mean, log_sd = 0.0, 0.0
    for _ in range(4):
        inverse = weight * np.exp(-2 * log_sd)
        mean = float((inverse * expectation.mean - pull) / (inverse + stiffness))
        variance = expectation.square - 2 * mean * expectation.mean + mean**2
        for _ in range(3 * stretches):
            # First and negative second derivative of the expanded model's objective by log_sd.
            spread = weight * variance * np.exp(-2 * log_sd)
            gradient, curvature = spread - weight, 2 * spread
            if log_spread is not None:
                gradient -= prior.spread * (log_spread + log_sd)
                curvature += prior.spread
            if model.slope == "item":
                stretched = slope * np.exp(log_sd)
                gradient -= prior.slope * float(stretched @ (stretched - prior.slope_mean))
                curvature += prior.slope * float(stretched @ stretched)
            log_sd += float(np.clip(gradient / curvature, -0.5, 0.5))
    return mean, float(np.exp(log_sd))


class Covariance(NamedTuple):
    """Sampling variances of the free items [F]: slope, intercept, logit of guessing; and slope with intercept."""

    slope: Floats
    intercept: Floats
    both: Floats
    guessing: Floats


class _Pieces(NamedTuple):
    """The free items' scores on the knots, expected counts, complete-data information [F, p, p], priors [F, p].

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
    at = scores(some, model.guessing)
    counts = expectation.counts if expectation.counts.shape[0] == 1 else expectation.counts[chosen]
    prior = priors.at(some, own).curvature[:, : at.direction.shape[0]]
    if model.guessing:
        at.direction[2] *= own[2][:, None]
        prior[:, 2] += 1e-9 * own[2]
    complete = np.einsum("jk,pjk,qjk->jpq", counts * at.variance, at.direction, at.direction, optimize=True)
    pieces = _Pieces(at, counts, complete, prior, model.slope == "common" and bool(chosen.all()))
    if exact:
        whole = _exact(model, answers, expectation, pieces, chosen)
        # With very few answers the likelihood need not be curved downwards everywhere; the other way always is.
        if (whole.slope >= 0).all() and (whole.intercept > 0).all() and (whole.guessing >= 0).all():
            return whole
    return _narrow(model, items, expectation, pieces, chosen)


def _narrow(model: Model, items: Parameters, expectation: Expectation, pieces: _Pieces, free: Bools) -> Covariance:
    """Error given the scale, by items, plus the error of the scale."""
    every = scores(items, model.guessing)
    total = np.maximum(expectation.posterior.total, 0)
    per_knot = np.where(total > 1e-9, total, np.inf)
    about_ability = expectation.counts / per_knot * every.variance * (items.slope[:, None] * every.ratio) ** 2
    from_free, from_all = about_ability[free].sum(axis=0), about_ability.sum(axis=0)
    width = 1 / (1 + from_all)

    at, blocks = pieces.at, pieces.complete.copy()
    weight = pieces.counts * at.variance
    bend = weight * at.variance * (items.slope[free][:, None] * at.ratio) ** 2 * width
    blocks -= np.einsum("jk,pjk,qjk->jpq", bend, at.direction, at.direction, optimize=True)
    np.einsum("jpp->jp", blocks)[...] += pieces.priors
    slope = items.slope[free]
    if free.all():
        reliable = float(total @ (from_all * width)) / total.sum()
        shift, stretch = 1 / (total.sum() * reliable), 1 / (2 * total.sum() * reliable**2)
    else:
        # The scale is tied to the fixed items, as far as they tell abilities apart.
        tied = total * from_free * (from_all - from_free) * width
        shift, stretch = 1 / tied.sum(), 1 / (tied @ KNOTS**2)
    if model.slope != "item":
        intercept = 1 / blocks[:, 1, 1] + slope**2 * shift
        none = np.zeros_like(intercept)
        return Covariance(slope**2 * stretch * pieces.one_free_slope, intercept, none, none)
    # The answer itself, not only its expectation, moves the score of a slope with ability: theta (r - P).
    blocks[:, 0, 0] -= (weight * np.square(at.ratio)) @ width
    full: Floats = np.linalg.inv(blocks).astype(np.float64)
    full[:, 0, 0] += slope**2 * stretch
    full[:, 1, 1] += slope**2 * shift
    return _read(full)


def _exact(model: Model, answers: Answers, expectation: Expectation, pieces: _Pieces, free: Bools) -> Covariance:
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
    information[np.diag_indices_from(information)] += pieces.priors.T.ravel()
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
            return Covariance(zero, intercept, zero, zero)
        return Covariance(np.full(n_free, own[-1, -1]), intercept, own[-1, :-1], zero)
    inverse: Floats = np.linalg.inv(information).astype(np.float64).reshape(p, n_free, p, n_free)
    return _read(inverse[:, each, :, each])


def _read(full: Floats) -> Covariance:
    guessing = full[:, 2, 2] if full.shape[1] == 3 else np.zeros(full.shape[0])
    return Covariance(full[:, 0, 0], full[:, 1, 1], full[:, 0, 1], guessing)
