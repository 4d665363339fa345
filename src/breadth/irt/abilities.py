"""How able is each subject, given items of known difficulty?"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from breadth.errors import InputError, listed
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.expectation import TABLE_CELLS, grid_for, posterior
from breadth.irt.models import Method
from breadth.irt.parameters import Parameters, curves, likelihood_scores, log_answers
from breadth.threads import one_blas_thread


class Abilities(NamedTuple):
    """Ability of every subject [N] with its standard error, and the log-likelihood of its answers.

    NaN where a subject answered nothing. ``log_likelihood`` is that of the subject's answers with ability integrated
    out over the population (eap), or at the estimate (wle). ``reliability`` is the share of the variance of EAP
    estimates that is not error, var(ability) / (var(ability) + mean se^2): marginal reliability (Green, Bock,
    Humphreys, Linn and Reckase 1984), over the subjects that have an estimate; NaN if none has.
    """

    ability: Floats
    standard_error: Floats
    log_likelihood: Floats
    reliability: float = float("nan")


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
    if items.slope.size != answers.n_items:
        raise InputError(f"There are answers to {answers.n_items} items but parameters of {items.slope.size}.")
    if method not in get_args(Method):
        raise InputError(f"method is {method!r}; choose {listed(get_args(Method))}")
    if sd <= 0:
        raise InputError(f"The standard deviation of ability must be above 0, not {sd:g}.")
    usable: Bools = np.all(np.isfinite(np.array(items)), axis=0)
    if not usable.any():
        raise InputError("No item has known parameters, so subjects cannot be scored.")
    answers = answers.part(np.ones(answers.n_subjects, dtype=np.bool_), usable)
    items = Parameters(*(array[usable] for array in items)).for_population(mean, sd)
    if method == "wle":
        measured = _weighted_likelihood(answers, items)
    else:
        total, constant = None, np.zeros(1)
        if not (items.guessing > 0).any() and not (items.slip > 0).any():
            total, constant = answers.sums(np.column_stack([items.slope, items.intercept])).T
        about = posterior(answers, items, curves(items), total)
        measured = Abilities(about.mean, np.sqrt(about.variance), about.log_evidence + constant)
    answered = answers.subject_counts > 0
    ability, error, likelihood = (
        np.where(answered, values, np.nan)
        for values in (mean + sd * measured.ability, sd * measured.standard_error, measured.log_likelihood)
    )
    signal, noise = (
        (float(np.var(ability[answered])), float(np.mean(error[answered] ** 2))) if answered.any() else (0, 0)
    )
    return Abilities(ability, error, likelihood, signal / (signal + noise) if signal + noise > 0 else float("nan"))


def _weighted_likelihood(answers: Answers, items: Parameters) -> Abilities:
    """Find Warm's estimate: the highest grid point, then the top of the parabola through it and its neighbours."""
    curved = curves(items)
    log_odds, log_wrong = log_answers(items, curved)
    table = answers.sums(log_odds) + answers.sums(log_wrong, seen=True)
    at = likelihood_scores(items, curved)
    per_item = at.variance * (items.slope[:, None] * at.ratio) ** 2
    grid = grid_for(16 * float(per_item.sum(axis=0).max()), curved.knots)
    information = answers.sums(per_item, seen=True)
    n = answers.n_subjects
    ability, error, value = np.empty(n), np.empty(n), np.empty(n)
    step = max(1, TABLE_CELLS // grid.points.size)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        likelihood = table[rows] @ grid.spread.T
        known = np.maximum(information[rows] @ grid.spread.T, 1e-12)
        weighted = likelihood + np.log(known) / 2
        each, place = np.arange(len(weighted)), weighted.argmax(axis=1)
        middle = np.clip(place, 1, grid.points.size - 2)
        left, centre, right = (weighted[each, middle + offset] for offset in (-1, 0, 1))
        bend = np.minimum(left - 2 * centre + right, -1e-300)
        offset = np.clip((left - right) / (2 * bend), -1, 1)
        ability[rows] = grid.points[middle] + offset * (grid.points[1] - grid.points[0])
        error[rows] = 1 / np.sqrt(known[each, place])
        value[rows] = likelihood[each, place]
    return Abilities(ability, error, value)
