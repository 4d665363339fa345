"""The E step: posteriors of ability, and the sums over subjects that the M step needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Floats
from breadth.irt.curves import Curves, Parameters, curves, peak_information
from breadth.irt.posterior import Posterior, from_scores, from_table
from breadth.irt.quadrature import KNOTS, grid_for


class Expectation(NamedTuple):
    """What an E step found.

    ``counts``
        Expected number of subjects at each knot, [1, K]; or of those that answered each item, [J, K].
    ``right``
        Expected sums over right answers: of theta and of 1, [J, 2] (2PL); of being at each knot, [J, K] (3PL); of 1
        alone, [J, 1] (1PL).
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


def expect_rasch(answers: Answers, items: Parameters, with_weights: bool = False) -> Expectation:
    """E step with one common slope: raw scores are sufficient, and subjects with equal scores are one."""
    right = answers.weighted_item_sums[:, None]
    if answers.seen is not None or with_weights:
        return _expect(answers, items, items.slope[0] * answers.subject_sums, right, with_weights)
    at = curves(items.slope, items.intercept)
    raw, same = np.unique(answers.subject_sums, return_inverse=True)
    counts = np.bincount(same, weights=answers.weights).astype(np.float64)
    grid = grid_for(peak_information(items.slope, at.logistic))
    posterior = from_scores(items.slope[0] * raw, at.log_one_plus.sum(axis=0), grid, counts)
    return _summarise(answers, items, posterior, posterior.total[None], right, counts, at)


def expect_2pl(answers: Answers, items: Parameters, with_weights: bool = False) -> Expectation:
    """E step of the 2PL: the sum of slopes over right answers is sufficient for ability."""
    score = answers.right_sums(items.slope[:, None])[:, 0]
    return _expect(answers, items, score, None, with_weights)


def _expect(
    answers: Answers, items: Parameters, score: Floats, right: Floats | None, with_weights: bool
) -> Expectation:
    at = curves(items.slope, items.intercept)
    grid = grid_for(peak_information(items.slope, at.logistic))
    if answers.seen is None and not with_weights:
        posterior = from_scores(score, at.log_one_plus.sum(axis=0), grid, answers.weights)
        counts = posterior.total[None]
    else:
        posterior = from_table(-answers.seen_sums(at.log_one_plus), grid, answers.weights, score)
        counts = _counts(answers, posterior)
    if right is None:
        theta = answers.right_totals((answers.weights * posterior.mean)[:, None])
        right = np.column_stack([theta, answers.weighted_item_sums])
    return _summarise(answers, items, posterior, counts, right, answers.weights, at)


def expect_3pl(answers: Answers, items: Parameters, with_weights: bool = False) -> Expectation:
    """E step of the 3PL: no sufficient statistic, so the whole likelihood is computed on the knots."""
    at = curves(items.slope, items.intercept)
    g = items.guessing[:, None]
    log_wrong = np.log1p(-g) - at.log_one_plus
    log_odds = np.log(g + (1 - g) * at.logistic) - log_wrong
    table = answers.right_sums(log_odds) + answers.seen_sums(log_wrong)
    posterior = from_table(table, grid_for(peak_information(items.slope, at.logistic)), answers.weights)
    if posterior.weights is None:
        raise AssertionError("a posterior from a table has weights")
    right = answers.right_totals(answers.weights[:, None] * posterior.weights)
    no_intercept = items._replace(intercept=np.zeros_like(items.intercept))
    return _summarise(answers, no_intercept, posterior, _counts(answers, posterior), right, answers.weights, at)


def _counts(answers: Answers, posterior: Posterior) -> Floats:
    if answers.seen is None or posterior.weights is None:
        return posterior.total[None]
    return answers.seen_totals(answers.weights[:, None] * posterior.weights)


def _summarise(
    answers: Answers,
    items: Parameters,
    posterior: Posterior,
    counts: Floats,
    right: Floats,
    weights: Floats,
    at: Curves,
) -> Expectation:
    total = weights.sum()
    mean = float(weights @ posterior.mean / total)
    missing = float(weights @ posterior.variance / total)
    square = missing + float(weights @ posterior.mean**2 / total)
    # The intercepts of right answers are a factor of the likelihood that does not depend on ability.
    log_likelihood = float(weights @ posterior.log_evidence + answers.weighted_item_sums @ items.intercept)
    return Expectation(posterior, counts, right, log_likelihood, mean, square, missing, at)


def knot_sums(counts: Floats, *tables: Floats) -> Floats:
    """Sum tables [J, K] over the knots by expected counts, times theta to the power of 0, 1, ...: [J, len(tables)].

    Table number i is weighted by theta^i.
    """
    powers = [KNOTS**i for i in range(len(tables))]
    if counts.shape[0] == 1:
        return np.column_stack([table @ (counts[0] * power) for table, power in zip(tables, powers, strict=True)])
    return np.column_stack(
        [np.einsum("jk,jk,k->j", table, counts, power) for table, power in zip(tables, powers, strict=True)]
    )
