"""The M step: a Newton step or two for every item, and the scale of ability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Bools, Floats
from breadth.irt.curves import Parameters, curves, scores
from breadth.irt.expectation import Expectation, knot_sums
from breadth.irt.priors import Priors

#: Newton steps per M step. A second one is cheap beside an E step and saves some of those.
NEWTON_STEPS = 2

#: No parameter moves further in one Newton step: far from the solution the curves are flat and steps too long.
LONGEST = 1.0

#: Interpolated counts may be slightly negative where nobody is; information may not.
LEAST_INFORMATION = 1e-9

#: Times that a step of the 3PL is halved before it is given up.
HALVINGS = 6


class Improved(NamedTuple):
    """Items after the M step, and the information [p, J] about each parameter if abilities were known."""

    items: Parameters
    information: Floats


def improve_intercepts(items: Parameters, found: Expectation, priors: Priors) -> Improved:
    """M step of the 1PL: intercepts only; the common slope is the spread of ability."""
    right = found.right[:, 0]
    logistic = found.curves.logistic
    information = np.empty(0)
    for repeat in range(NEWTON_STEPS):
        if repeat:
            logistic = curves(items.slope, items.intercept).logistic
        first = knot_sums(found.counts, logistic)[:, 0]
        spread = first - knot_sums(found.counts, logistic**2)[:, 0]
        information = np.maximum(spread, LEAST_INFORMATION) + priors.intercept_precision
        gradient = right - first - priors.intercept_precision * items.intercept
        items = items._replace(intercept=items.intercept + _limited((gradient / information)[None])[0])
    return Improved(items, information[None])


def improve_2pl(items: Parameters, found: Expectation, priors: Priors) -> Improved:
    """M step of the 2PL: slope and intercept of every item, a concave problem in two variables."""
    logistic = found.curves.logistic
    information = np.empty(0)
    for repeat in range(NEWTON_STEPS):
        if repeat:
            logistic = curves(items.slope, items.intercept).logistic
        variance = logistic * (1 - logistic)
        expected = knot_sums(found.counts, logistic, logistic)
        dd, ad, aa = knot_sums(found.counts, variance, variance, variance).T
        dd = np.maximum(dd, LEAST_INFORMATION) + priors.intercept_precision
        aa = np.maximum(aa, LEAST_INFORMATION) + priors.slope_precision
        to_a = found.right[:, 0] - expected[:, 1] - priors.slope_precision * (items.slope - priors.slope_mean)
        to_d = found.right[:, 1] - expected[:, 0] - priors.intercept_precision * items.intercept
        determinant = np.maximum(aa * dd - ad**2, 1e-12 * aa * dd)
        move = _limited(np.stack([dd * to_a - ad * to_d, aa * to_d - ad * to_a]) / determinant)
        items = items._replace(slope=items.slope + move[0], intercept=items.intercept + move[1])
        information = np.stack([aa, dd])
    return Improved(items, information)


def improve_3pl(items: Parameters, found: Expectation, priors: Priors, free_guessing: Bools) -> Improved:
    """M step of the 3PL: Fisher scoring in slope, intercept and logit of the guessing parameter.

    The three are close to collinear for many items and the problem is not concave, so a step that makes an item worse
    is halved until it does not.
    """
    information = np.empty(0)
    value = _value_3pl(items, found, priors, free_guessing)
    for _ in range(NEWTON_STEPS):
        gradient, fisher = _slopes_3pl(items, found, priors, free_guessing)
        step: Floats = np.linalg.solve(fisher, gradient[:, :, None])[:, :, 0].T.astype(np.float64)
        move = _limited(step)
        for _ in range(HALVINGS):
            tried = _moved(items, move, free_guessing)
            after = _value_3pl(tried, found, priors, free_guessing)
            worse = ~(after >= value - 1e-9 * np.abs(value))
            if not worse.any():
                break
            move[:, worse] /= 2
        else:
            move[:, worse] = 0
            tried = _moved(items, move, free_guessing)
            after = np.where(worse, value, after)
        items, value = tried, after
        information = np.einsum("jpp->pj", fisher)
    return Improved(items, information)


def _slopes_3pl(items: Parameters, found: Expectation, priors: Priors, free_guessing: Bools) -> tuple[Floats, Floats]:
    """Gradient [J, 3] and Fisher information [J, 3, 3] of every item, with priors."""
    right_prior, wrong_prior = priors.guessing_counts
    at = scores(items, with_guessing=True)
    at.direction[2] *= free_guessing[:, None]
    gradient = np.einsum("jk,pjk->jp", found.right - found.counts * at.probability, at.direction)
    fisher = np.einsum("jk,pjk,qjk->jpq", found.counts * at.variance, at.direction, at.direction, optimize=True)
    g = items.guessing
    gradient[:, 0] -= priors.slope_precision * (items.slope - priors.slope_mean)
    gradient[:, 1] -= priors.intercept_precision * items.intercept
    gradient[:, 2] += free_guessing * (right_prior * (1 - g) - wrong_prior * g)
    fisher[:, 0, 0] += priors.slope_precision
    fisher[:, 1, 1] += priors.intercept_precision
    fisher[:, 2, 2] += np.where(free_guessing, (right_prior + wrong_prior) * g * (1 - g), 1.0)
    # A touch of ridge keeps the matrix invertible; it changes the step, not where the steps end.
    np.einsum("jpp->jp", fisher)[...] *= 1 + 1e-6
    np.einsum("jpp->jp", fisher)[...] += 1e-9
    return gradient, fisher


def _value_3pl(items: Parameters, found: Expectation, priors: Priors, free_guessing: Bools) -> Floats:
    """Expected complete-data log-likelihood of every item, with priors."""
    at = curves(items.slope, items.intercept)
    g = items.guessing[:, None]
    log_wrong = np.log1p(-g) - at.log_one_plus
    log_odds = np.log(g + (1 - g) * at.logistic) - log_wrong
    value: Floats = np.einsum("jk,jk->j", found.right, log_odds) + knot_sums(found.counts, log_wrong)[:, 0]
    value -= priors.slope_precision * (items.slope - priors.slope_mean) ** 2 / 2
    value -= priors.intercept_precision * items.intercept**2 / 2
    inside = np.where(free_guessing, items.guessing, 0.5)
    right_prior, wrong_prior = priors.guessing_counts
    value += free_guessing * (right_prior * np.log(inside) + wrong_prior * np.log1p(-inside))
    return value


def _moved(items: Parameters, move: Floats, free_guessing: Bools) -> Parameters:
    inside = np.where(free_guessing, items.guessing, 0.5)
    logit = np.clip(np.log(inside) - np.log1p(-inside) + move[2], -12, 12)
    guessing = np.where(free_guessing, 1 / (1 + np.exp(-logit)), items.guessing)
    return Parameters(items.slope + move[0], items.intercept + move[1], guessing)


def ability_scale(
    found: Expectation, weight: float, items: Parameters, priors: Priors, log_spread: float | None, common: bool
) -> tuple[float, float]:
    """Mean and standard deviation of ability that suit the posteriors best, given the items.

    Without fixed items the scale of ability is arbitrary, so items take it up: a parameter-expanded EM (Liu, Rubin and
    Wu 1998) that needs a fraction of the steps. Priors hold on the scale where ability is N(0, 1); what a shift or
    stretch does to them is counted here, so that the fixed point is the maximum of the posterior.
    ``log_spread`` is the log of the spread of ability so far, where it is estimated; ``common`` says that slopes have
    no prior of their own.
    """
    precision = priors.intercept_precision
    pull, stiffness = precision * (items.slope @ items.intercept), precision * (items.slope @ items.slope)
    # Starting from no change at all, a solution that is already reached stays where it is.
    mean, log_sd = 0.0, 0.0
    for _ in range(4):
        inverse = weight * np.exp(-2 * log_sd)
        mean = float((inverse * found.mean - pull) / (inverse + stiffness))
        variance = found.square - 2 * mean * found.mean + mean**2
        for _ in range(3):
            gradient, curvature = _stretch(log_sd, weight, variance, items.slope, priors, log_spread, common)
            log_sd += float(np.clip(gradient / curvature, -0.5, 0.5))
    return mean, float(np.exp(log_sd))


def _stretch(
    log_sd: float,
    weight: float,
    variance: float,
    slope: Floats,
    priors: Priors,
    log_spread: float | None,
    common: bool,
) -> tuple[float, float]:
    """First and negative second derivative by log_sd of the expanded model's objective."""
    spread = weight * variance * np.exp(-2 * log_sd)
    gradient, curvature = spread - weight, 2 * spread
    if log_spread is not None:
        gradient -= priors.spread_precision * (log_spread + log_sd)
        curvature += priors.spread_precision
    if not common:
        stretched = slope * np.exp(log_sd)
        gradient -= priors.slope_precision * float(stretched @ (stretched - priors.slope_mean))
        curvature += priors.slope_precision * float(stretched @ stretched)
    return float(gradient), float(curvature)


def log_prior(
    items: Parameters, free: Bools, priors: Priors, model: str, free_guessing: Bools, log_spread: float | None
) -> float:
    """Log density of the priors at the free items and the spread of ability, up to a constant."""
    total = -priors.intercept_precision * float(np.sum(items.intercept[free] ** 2)) / 2
    if log_spread is not None:
        total -= priors.spread_precision * log_spread**2 / 2
    if model == "1pl":
        return total
    total -= priors.slope_precision * float(np.sum((items.slope[free] - priors.slope_mean) ** 2)) / 2
    if model == "3pl":
        right, wrong = priors.guessing_counts
        g = items.guessing[free_guessing]
        total += float(np.sum(right * np.log(g) + wrong * np.log1p(-g)))
    return total


def _limited(move: Floats) -> Floats:
    """Shorten moves [p, J] that are too long, keeping their direction."""
    longest = np.max(np.abs(move), axis=0)
    limited: Floats = move / np.maximum(longest / LONGEST, 1)
    return limited
