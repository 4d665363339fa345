"""How sure the item parameters are: the inverse of the observed-data information."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.curves import Parameters, Scores, scores
from breadth.irt.expectation import Expectation
from breadth.irt.priors import Priors
from breadth.irt.quadrature import KNOTS

#: Multiplications up to which the whole information matrix is computed.
EXACT_WORK = 5e9

#: Numbers in each table of subjects x parameters x knots held at once meanwhile.
BATCH_NUMBERS = 2_000_000


class Covariance(NamedTuple):
    """Sampling variances of the free items [F]: slope, intercept, logit of guessing; and slope with intercept."""

    slope: Floats
    intercept: Floats
    both: Floats
    guessing: Floats


class _Pieces(NamedTuple):
    """The free items' scores on the knots, expected counts, complete-data information [F, p, p], priors [F, p]."""

    at: Scores
    counts: Floats
    complete: Floats
    priors: Floats


def exact_is_cheap(n_subjects: int, n_free: int) -> bool:
    """Whether the whole information matrix of so many subjects and free items takes a fraction of a second."""
    return n_subjects * (2 * n_free) ** 2 * KNOTS.size <= EXACT_WORK


def covariance(
    answers: Answers,
    items: Parameters,
    found: Expectation,
    model: str,
    priors: Priors,
    free: Bools,
    free_guessing: Bools,
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
    pieces = _pieces(items, found, model, priors, free, free_guessing)
    if exact:
        whole = _exact(answers, found, model, pieces, free)
        # With very few answers the likelihood need not be curved downwards everywhere; the other way always is.
        if (whole.slope >= 0).all() and (whole.intercept > 0).all() and (whole.guessing >= 0).all():
            return whole
    return _narrow(items, found, model, pieces, free)


def _pieces(
    items: Parameters, found: Expectation, model: str, priors: Priors, free: Bools, free_guessing: Bools
) -> _Pieces:
    at = scores(items.part(free), with_guessing=model == "3pl")
    counts = found.counts if found.counts.shape[0] == 1 else found.counts[free]
    prior = np.zeros((int(free.sum()), at.direction.shape[0]))
    prior[:, 1] = priors.intercept_precision
    if model != "1pl":
        prior[:, 0] = priors.slope_precision
    if model == "3pl":
        g = items.guessing[free]
        at.direction[2] *= free_guessing[free][:, None]
        # A fixed parameter gets an information of 1 to keep the matrix invertible; its error is not read.
        prior[:, 2] = np.where(free_guessing[free], sum(priors.guessing_counts) * g * (1 - g) + 1e-9, 1.0)
    complete = np.einsum("jk,pjk,qjk->jpq", counts * at.variance, at.direction, at.direction, optimize=True)
    return _Pieces(at, counts, complete, prior)


def _narrow(items: Parameters, found: Expectation, model: str, pieces: _Pieces, free: Bools) -> Covariance:
    """Error given the scale, by items, plus the error of the scale."""
    every = scores(items, with_guessing=model == "3pl")
    total = np.maximum(found.posterior.total, 0)
    per_knot = np.where(total > 1e-9, total, np.inf)
    about_ability = found.counts / per_knot * every.variance * (items.slope[:, None] * every.ratio) ** 2
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
    if model == "1pl":
        intercept = 1 / blocks[:, 1, 1] + slope**2 * shift
        none = np.zeros_like(intercept)
        return Covariance(slope**2 * stretch * bool(free.all()), intercept, none, none)
    # The answer itself, not only its expectation, moves the score of a slope with ability: theta (r - P).
    blocks[:, 0, 0] -= (weight * np.square(at.ratio)) @ width
    full: Floats = np.linalg.inv(blocks).astype(np.float64)
    full[:, 0, 0] += slope**2 * stretch
    full[:, 1, 1] += slope**2 * shift
    return _read(full)


def _exact(answers: Answers, found: Expectation, model: str, pieces: _Pieces, free: Bools) -> Covariance:
    """Louis's formula without approximation, from every subject's posterior."""
    posterior = found.posterior
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
    if model == "1pl":
        common = bool(free.all())
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
