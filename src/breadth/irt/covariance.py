"""How sure the items are: the information that the answers hold about them, abilities being unknown."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.expectation import Expectation
from breadth.irt.models import Model
from breadth.irt.parameters import Common, LikelihoodScores, Parameters, Priors, curves, likelihood_scores

#: Numbers in each table of subjects x parameters x knots held at once.
BATCH_NUMBERS = 2_000_000


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

    at: LikelihoodScores
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
    at = likelihood_scores(some, curves(some, expectation.curves.knots), own)
    counts = expectation.counts if expectation.counts.shape[0] == 1 else expectation.counts[chosen]
    n = at.direction.shape[0]
    prior = priors.at(some, own, common).curvature[:, :n, :n]
    for row in range(2, n):
        prior[:, row, row] += 1e-9 * own[row]
    complete = np.einsum("jk,pjk,qjk->jpq", counts * at.variance, at.direction, at.direction, optimize=True)
    pieces = _Pieces(at, counts, complete, prior, model.slope == "common" and bool(chosen.all()))
    # With very few answers the likelihood need not be curved downwards everywhere; the other way always is.
    with suppress(np.linalg.LinAlgError):
        whole = _exact(model, answers, items, expectation, pieces, chosen) if exact else None
        if (
            whole is not None
            and (whole.intercept > 0).all()
            and all((array >= 0).all() for array in (whole.slope, *whole[3:]))
        ):
            return whole
    return _narrow(model, items, expectation, pieces, chosen)


def _narrow(model: Model, items: Parameters, expectation: Expectation, pieces: _Pieces, free: Bools) -> Covariance:
    """Error given the scale, by items, plus the error of the scale."""
    every = likelihood_scores(items, expectation.curves)
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
        # Answers that tell no two abilities apart say nothing about the scale: its zero has no bound, and the error of
        # its unit cannot be computed.
        with np.errstate(divide="ignore"):
            shift, stretch = np.divide(1, total.sum() * reliable), np.divide(1, 2 * total.sum() * reliable**2)
        stretch = stretch if np.isfinite(stretch) else np.nan
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
    full = _inverses(blocks)
    full[:, 0, 0] += slope**2 * stretch
    full[:, 1, 1] += slope**2 * shift
    return _covariance_from(full)


def _inverses(blocks: Floats) -> Floats:
    """The inverse of every block; NaN for items about which the answers say nothing in some direction."""
    try:
        return np.linalg.inv(blocks).astype(np.float64)
    except np.linalg.LinAlgError:
        inverses = np.full(blocks.shape, np.nan)
    for item, block in enumerate(blocks):
        with suppress(np.linalg.LinAlgError):
            inverses[item] = np.linalg.inv(block)
    return inverses


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
    return _covariance_from(inverse[:, each, :, each])


def _covariance_from(full: Floats) -> Covariance:
    none = np.zeros(full.shape[0])
    asymptotes = [full[:, row, row] if row < full.shape[1] else none for row in (2, 3)]
    return Covariance(full[:, 0, 0], full[:, 1, 1], full[:, 0, 1], *asymptotes)
