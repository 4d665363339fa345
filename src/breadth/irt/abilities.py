"""How able is each subject, given items of known difficulty?"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from breadth.errors import InputError, listed
from breadth.irt.answers import Answers, Floats
from breadth.irt.expectation import TABLE_CELLS, Grid, from_scores, from_table, grid_for
from breadth.irt.models import Method
from breadth.irt.parameters import Parameters, curves, log_answers, peak_information, scores
from breadth.threads import one_blas_thread


class Abilities(NamedTuple):
    """Ability of every subject [N] with its standard error, and the log-likelihood of its answers.

    NaN where a subject answered nothing. ``log_likelihood`` is that of the subject's answers with ability integrated
    out over the population (eap), or at the estimate (wle).
    """

    ability: Floats
    standard_error: Floats
    log_likelihood: Floats


@one_blas_thread
def score(answers: Answers, items: Parameters, method: Method = "eap", mean: float = 0.0, sd: float = 1.0) -> Abilities:
    """Measure subjects on calibrated items, without calibrating again.

    ``eap`` is the mean of the posterior under a N(mean, sd^2) population, with the posterior's standard deviation as
    standard error (Bock and Mislevy 1982): it has the least squared error on average over that population, and is
    finite for all-right and all-wrong subjects. It is shrunk towards the mean, more so for short tests: do not use it
    to compare subjects that answered very different numbers of items. ``wle`` maximises the likelihood times the square
    root of the test information (Warm 1989, exact without guessing; with guessing the same weight is Jeffreys' prior):
    it does not depend on the population, is almost unbiased, and is bounded by six and a half sds around the mean.

    Items with NaN or infinite parameters are left out. Assumes one ability and answers independent given it.

    >>> answers = Answers.of(np.array([[1, 1, 0], [1, 0, 0]], dtype=np.int8))
    >>> score(answers, Parameters.of(np.array([-1.0, 0.0, 1.0]), np.ones(3))).ability.round(2).tolist()
    [0.32, -0.32]
    """
    items.check(answers)
    if method not in get_args(Method):
        raise InputError(f"method is {method!r}; choose {listed(get_args(Method))}")
    if sd <= 0:
        raise InputError(f"The standard deviation of ability must be above 0, not {sd:g}.")
    usable = items.known
    if not usable.any():
        raise InputError("No item has known parameters, so subjects cannot be scored.")
    answers = answers.part(np.ones(answers.n_subjects, dtype=np.bool_), usable)
    measure = _posterior_mean if method == "eap" else _weighted_likelihood
    measured = measure(answers, items.part(usable).for_population(mean, sd))
    answered = answers.subject_counts > 0
    return Abilities(
        np.where(answered, mean + sd * measured.ability, np.nan),
        np.where(answered, sd * measured.standard_error, np.nan),
        np.where(answered, measured.log_likelihood, np.nan),
    )


def reliability(abilities: Abilities) -> float:
    """Share of the variance of ability that is not error, for EAP estimates: var(ability) / (var(ability) + mean se^2).

    Marginal reliability (Green, Bock, Humphreys, Linn and Reckase 1984), over the subjects that have an estimate.
    """
    known = np.isfinite(abilities.ability)
    if not known.any():
        return float("nan")
    signal = float(np.var(abilities.ability[known]))
    error = float(np.mean(abilities.standard_error[known] ** 2))
    return signal / (signal + error)


def _posterior_mean(answers: Answers, items: Parameters) -> Abilities:
    at = curves(items)
    grid = grid_for(peak_information(items, at))
    if (items.guessing > 0).any():
        posterior = from_table(_log_likelihood(answers, items), grid, answers.weights)
        return Abilities(posterior.mean, np.sqrt(posterior.variance), posterior.log_evidence)
    total, constant = answers.right_sums(np.column_stack([items.slope, items.intercept])).T
    if answers.complete:
        posterior = from_scores(total, at.log_one_plus.sum(axis=0), grid, answers.weights)
    else:
        posterior = from_table(-answers.seen_sums(at.log_one_plus), grid, answers.weights, total)
    return Abilities(posterior.mean, np.sqrt(posterior.variance), posterior.log_evidence + constant)


def _weighted_likelihood(answers: Answers, items: Parameters) -> Abilities:
    """Find Warm's estimate: the highest grid point, then the top of the parabola through it and its neighbours."""
    table = _log_likelihood(answers, items)
    at = scores(items, with_guessing=bool((items.guessing > 0).any()))
    per_item = at.variance * (items.slope[:, None] * at.ratio) ** 2
    grid = grid_for(16 * float(per_item.sum(axis=0).max()))
    information = answers.seen_sums(per_item)
    n = answers.n_subjects
    ability, error, value = np.empty(n), np.empty(n), np.empty(n)
    step = max(1, TABLE_CELLS // grid.points.size)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        likelihood = table[rows] @ grid.spread.T
        known = np.maximum(information[rows] @ grid.spread.T, 1e-12)
        top, place = _top(likelihood + np.log(known) / 2, grid)
        ability[rows] = top
        each = np.arange(likelihood.shape[0])
        error[rows] = 1 / np.sqrt(known[each, place])
        value[rows] = likelihood[each, place]
    return Abilities(ability, error, value)


def _top(values: Floats, grid: Grid) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    place = values.argmax(axis=1)
    middle = np.clip(place, 1, grid.points.size - 2)
    each = np.arange(values.shape[0])
    left, centre, right = (values[each, middle + offset] for offset in (-1, 0, 1))
    bend = np.minimum(left - 2 * centre + right, -1e-300)
    offset = np.clip((left - right) / (2 * bend), -1, 1)
    return grid.points[middle] + offset * (grid.points[1] - grid.points[0]), place


def _log_likelihood(answers: Answers, items: Parameters) -> Floats:
    """Log-likelihood of every subject at every knot [N, K]."""
    log_odds, log_wrong = log_answers(items, curves(items))
    return answers.right_sums(log_odds) + answers.seen_sums(log_wrong)
