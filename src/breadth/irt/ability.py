"""How able is each subject, given items of known difficulty?"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from breadth.errors import InputError
from breadth.irt.answers import Answers, Floats
from breadth.irt.curves import Parameters, curves, peak_information, scores
from breadth.irt.posterior import from_scores, from_table
from breadth.irt.quadrature import KNOTS, Grid, grid_for
from breadth.threads import one_blas_thread

Method = Literal["eap", "wle"]

#: Subjects x grid points held at once.
TABLE_CELLS = 1_000_000


class Abilities(NamedTuple):
    """Ability of every subject [N] with its standard error, and the log-likelihood of its answers.

    NaN where a subject answered nothing. ``log_likelihood`` is that of the subject's answers with ability integrated
    out over the population (eap), or at the estimate (wle).
    """

    ability: Floats
    standard_error: Floats
    log_likelihood: Floats


@one_blas_thread
def score(
    answers: Answers,
    difficulty: Floats,
    discrimination: Floats,
    guessing: Floats | None = None,
    method: Method = "eap",
    mean: float = 0.0,
    sd: float = 1.0,
) -> Abilities:
    """Measure subjects on calibrated items, without calibrating again.

    ``eap`` is the mean of the posterior under a N(mean, sd^2) population, with the posterior's standard deviation as
    standard error (Bock and Mislevy 1982): it has the least squared error on average over that population, and is
    finite for all-right and all-wrong subjects. It is shrunk towards the mean, more so for short tests: do not use it
    to compare subjects that answered very different numbers of items. ``wle`` maximises the likelihood times the square
    root of the test information (Warm 1989, exact for 1PL and 2PL; for the 3PL the same weight is Jeffreys' prior): no
    population enters, it is almost unbiased, and it is bounded by six and a half sds around the mean.

    Items with NaN or infinite parameters are left out. Assumes one ability and answers independent given it.

    >>> answers = Answers.of(np.array([[1, 1, 0], [1, 0, 0]], dtype=np.int8))
    >>> score(answers, np.array([-1.0, 0.0, 1.0]), np.ones(3)).ability.round(2).tolist()
    [0.32, -0.32]
    """
    known = np.zeros(difficulty.size) if guessing is None else np.asarray(guessing, dtype=np.float64)
    for name, array in (("difficulty", difficulty), ("discrimination", discrimination), ("guessing", known)):
        if array.shape != (answers.n_items,):
            raise InputError(f"There are {answers.n_items} items but {array.size} values of {name}.")
    if sd <= 0:
        raise InputError(f"The standard deviation of ability must be above 0, not {sd:g}.")
    usable = np.isfinite(difficulty) & np.isfinite(discrimination) & np.isfinite(known)
    if not usable.any():
        raise InputError("No item has known parameters, so subjects cannot be scored.")
    answers = answers.part(np.ones(answers.n_subjects, dtype=np.bool_), usable)
    slope = discrimination[usable] * sd
    items = Parameters(slope, -discrimination[usable] * (difficulty[usable] - mean), known[usable])
    found = _expected(answers, items) if method == "eap" else _weighted(answers, items)
    answered = answers.subject_counts > 0
    return Abilities(
        np.where(answered, mean + sd * found.ability, np.nan),
        np.where(answered, sd * found.standard_error, np.nan),
        np.where(answered, found.log_likelihood, np.nan),
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


def _expected(answers: Answers, items: Parameters) -> Abilities:
    at = curves(items.slope, items.intercept)
    grid = grid_for(peak_information(items.slope, at.logistic))
    if (items.guessing > 0).any():
        posterior = from_table(_log_likelihood(answers, items), grid, answers.weights)
        return Abilities(posterior.mean, np.sqrt(posterior.variance), posterior.log_evidence)
    total, constant = answers.right_sums(np.column_stack([items.slope, items.intercept])).T
    if answers.complete:
        posterior = from_scores(total, at.log_one_plus.sum(axis=0), grid, answers.weights)
    else:
        posterior = from_table(-answers.seen_sums(at.log_one_plus), grid, answers.weights, total)
    return Abilities(posterior.mean, np.sqrt(posterior.variance), posterior.log_evidence + constant)


def _weighted(answers: Answers, items: Parameters) -> Abilities:
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
        held = np.maximum(information[rows] @ grid.spread.T, 1e-12)
        top, place = _top(likelihood + np.log(held) / 2, grid)
        ability[rows] = top
        each = np.arange(likelihood.shape[0])
        error[rows] = 1 / np.sqrt(held[each, place])
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
    at = curves(items.slope, items.intercept)
    g = items.guessing[:, None]
    log_wrong = np.log1p(-g) - at.log_one_plus
    log_right = np.log(g + (1 - g) * at.logistic)
    if not (items.guessing > 0).any():
        log_right = items.slope[:, None] * KNOTS + items.intercept[:, None] + log_wrong
    return answers.right_sums(log_right - log_wrong) + answers.seen_sums(log_wrong)
