"""Scores on test sets that were not evaluated, from those that were. Arrays in, arrays out.

``scores`` [models, sets] are in points or shares; all sets of a reference model are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.advice.families import mean_of_families, reach_to_another
from breadth.advice.short_form import PENALTIES, Indices, fit_ridge
from breadth.errors import InputError
from breadth.inference import LEVEL, Floats

Bools = npt.NDArray[np.bool_]

#: Quantiles of the reference models between which the mean of a model's scores must lie.
RANGE = (0.02, 0.95)

#: Quantiles of the reference models that no single score, and no predicted one, may exceed.
MOST_KNOWN, MOST_PREDICTED = 0.98, 0.95

#: Parts of the reference models, in order of time, from which later ones are predicted to see how predictions age.
ORIGINS = (0.5, 0.65, 0.8)

#: Fewest models to learn from and to predict, when looking forward in time.
FEWEST_AHEAD = 10


#: Most parts of whole families that are left out in turn; with more families, some share a part.
MOST_PARTS = 50

#: Errors grow with the distance of a model from the references; so many times the usual distance is added to it, so
#: that a model right among them does not get an interval of no width.
USUAL = 4.0

#: Penalty of the columns without one, so small that it only makes a singular fit solvable.
HARDLY = 1e-6


#: Most sets of scores for which a test set is tried out as the next one to evaluate, where scores are few: seconds.
MOST_TRIALS = 3000

#: Scores at which only half as many are tried, a third at twice as many, and so on.
SCORES_PER_TRIAL = 5_000

#: Test sets that are tried out as the next one where there are too many to try them all, and fewest such steps.
FEWEST_CANDIDATES, FEWEST_STEPS = 10, 2


class ScorePredictions(NamedTuple):
    """Predicted scores [models, targets] with 95 % intervals, and whether each lies in the references' range."""

    score: Floats
    low: Floats
    high: Floats
    inside: Bools


class Distance(NamedTuple):
    """How far a model is from the references, about 1 among them: the jackknife error of its prediction.

    ``spread`` [targets, columns, columns] is the sum over families of squares and products of what leaving the family
    out changes in the coefficients; ``usual`` [targets] the median over reference models of what that does to their
    prediction.
    """

    spread: Floats
    usual: Floats

    def of(self, columns: Floats) -> Floats:
        """Distances [models, targets] of models with these columns."""
        moved = np.einsum("ij,tjk,ik->it", columns, self.spread, columns)
        return np.asarray(np.sqrt((USUAL * self.usual + np.maximum(moved, 0)) / ((USUAL + 1) * self.usual)))


class FamilyFit(NamedTuple):
    """Coefficients [columns, targets], errors [models, targets] of predictions without a model's family, distances."""

    penalised: Floats
    free: Floats
    residual: Floats
    away: Distance


@dataclass(frozen=True, eq=False)
class Predictor:
    """Ridge regression of every target set on the evaluated ones, with squares, and intervals that are calibrated.

    Intervals come from leave-one-out errors of the reference models. Where their families are known, they come from
    leaving out whole families (:func:`reach_to_another`), and are about a model of another family; they widen with the
    distance of a model from the references, which is how much its prediction depends on which families were learnt
    from (the jackknife over families). Where the order in time is known, predictions of later models by earlier ones
    count if they are wider: models change, and errors grow with it.

    A prediction is refused outside the range of the reference models: where the mean of the standardised scores is
    above their 95 % quantile or below their 2 % quantile, where a single score is above the 98 % quantile of theirs on
    that test set, or where the predicted score is above the 95 % quantile of those predicted for them. A model that
    stands out on one test set may stand out on the one that is not known.
    """

    centre: Floats
    scale: Floats
    weights: Floats
    free: Floats
    reach: Floats
    error: Floats
    levels: Floats
    highest: Floats
    highest_predicted: Floats
    away: Distance | None = None
    least: Floats | None = None

    @classmethod
    def of(cls, known: Floats, targets: Floats, dated: bool = False, family: Indices | None = None) -> Predictor:
        """Learn from reference models: ``known`` [models, sets], ``targets`` [models, others]; by age if ``dated``.

        ``family`` numbers the families of the models, from 0.
        """
        centre, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)
        standard = (known - centre) / scale
        penalised, unpenalised = _columns(standard)
        away = None
        if family is None:
            weights, free, residual = fit_ridge(penalised, unpenalised, targets)
            residual = np.abs(residual)
            level = min(1.0, LEVEL * (1 + 1 / len(known)))
            reach = np.quantile(residual, level, axis=0)
            error = np.sqrt((residual**2).mean(axis=0))
        else:
            fit = fit_families(penalised, unpenalised, targets, family)
            weights, free, away = fit.penalised, fit.free, fit.away
            relative = fit.residual / away.of(np.column_stack([unpenalised, penalised]))
            reach = np.array([reach_to_another(column, family) for column in relative.T])
            error = np.sqrt(mean_of_families(fit.residual**2, family).mean(axis=0))
        least = None
        if dated:
            ahead = forward_errors(known, targets)
            least = np.quantile(np.abs(ahead), LEVEL, axis=0) if len(ahead) else None
        predicted = penalised @ weights + unpenalised @ free
        return cls(
            centre, scale, weights, free, reach, error, standard.mean(axis=1),
            np.quantile(known, MOST_KNOWN, axis=0), np.quantile(predicted, MOST_PREDICTED, axis=0), away, least,
        )  # fmt: skip

    def predict(self, known: Floats) -> ScorePredictions:
        """Scores on the target sets from those on the evaluated ones."""
        standard = (known - self.centre) / self.scale
        penalised, free = _columns(standard)
        score = penalised @ self.weights + free @ self.free
        low, high = np.quantile(self.levels, RANGE)
        level = standard.mean(axis=1)
        inside = (level >= low) & (level <= high) & (known <= self.highest).all(axis=1)
        within = inside[:, None] & (score <= self.highest_predicted)
        reach = np.broadcast_to(self.reach, score.shape)
        if self.away is not None:
            reach = reach * self.away.of(np.column_stack([free, penalised]))
        if self.least is not None:
            reach = np.maximum(reach, self.least)
        return ScorePredictions(score, score - reach, score + reach, within)


def _columns(standard: Floats) -> tuple[Floats, Floats]:
    """Penalised columns: scores and the square of their mean, since test sets saturate at different scores."""
    level = standard.mean(axis=1)
    return np.column_stack([standard, level**2]), np.column_stack([np.ones(len(standard)), level])


def fit_families(penalised: Floats, free: Floats, targets: Floats, family: Indices) -> FamilyFit:
    """Ridge regression of targets [models, targets] whose penalty has the smallest error on families left out.

    A model counts 1 / sqrt(n) in a family of n: between 1, with which large families decide everything, and 1 / n, with
    which a single odd model weighs as much as a thousand. Leaving a family out takes its share off the cross products.
    """
    columns = np.column_stack([free, penalised])
    weight = np.bincount(family)[family] ** -0.5
    weight = weight / weight.mean()
    part = _parts_of_families(family)
    parts, width, number = int(part.max()) + 1, columns.shape[1], targets.shape[1]
    squares, products = np.zeros((parts, width, width)), np.zeros((parts, width, number))
    for k in range(parts):
        own = part == k
        weighted = columns[own] * weight[own, None]
        squares[k], products[k] = weighted.T @ columns[own], weighted.T @ targets[own]
    penalised_column = np.arange(width) >= free.shape[1]
    # Per target: coefficients with all families, coefficients without each part, errors of the models left out.
    least = np.full(number, np.inf)
    whole, without = np.empty((width, number)), np.empty((parts, width, number))
    residual = np.empty_like(targets)
    for penalty in PENALTIES:
        ridge = np.diag(np.where(penalised_column, penalty, HARDLY))
        left_out = np.linalg.solve(squares.sum(axis=0) - squares + ridge, products.sum(axis=0) - products)
        errors = np.empty_like(targets)
        for k in range(parts):
            errors[part == k] = targets[part == k] - columns[part == k] @ left_out[k]
        loss = (weight[:, None] * errors**2).mean(axis=0)
        better = loss < least
        if better.any():
            fitted = np.linalg.solve(squares.sum(axis=0) + ridge, products.sum(axis=0))
            least[better], residual[:, better] = loss[better], errors[:, better]
            whole[:, better], without[:, :, better] = fitted[:, better], left_out[:, :, better]
    moved = without - without.mean(axis=0)
    spread = np.einsum("kit,kjt->tij", moved, moved)
    usual = np.median(np.einsum("ij,tjk,ik->it", columns, spread, columns), axis=0)
    away = Distance(spread, np.maximum(usual, np.finfo(np.float64).tiny))
    return FamilyFit(whole[free.shape[1] :], whole[: free.shape[1]], residual, away)


def _parts_of_families(family: Indices) -> Indices:
    """The part [models] in which a model's family is left out: its own, unless there are more families than parts."""
    size = np.bincount(family)
    if len(size) <= MOST_PARTS:
        return family
    part, filled = np.empty(len(size), dtype=np.intp), np.zeros(MOST_PARTS)
    for number in np.argsort(-size, kind="stable"):
        part[number] = int(np.argmin(filled))
        filled[part[number]] += size[number]
    return part[family]


def forward_errors(known: Floats, targets: Floats) -> Floats:
    """Errors [models, targets] of later models predicted from earlier ones; models are in order of time."""
    models, errors = len(known), []
    for start, end in zip(ORIGINS, (*ORIGINS[1:], 1.0), strict=True):
        first, last = int(start * models), int(end * models)
        if first < FEWEST_AHEAD or last - first < FEWEST_AHEAD:
            continue
        predictor = Predictor.of(known[:first], targets[:first])
        ahead = predictor.predict(known[first:last])
        errors.append((ahead.score - targets[first:last])[ahead.inside.any(axis=1)])
    return np.concatenate(errors) if errors else np.empty((0, targets.shape[1]))


class AddedTestSet(NamedTuple):
    """A test set that was added, and the cross-validated error of the others from then on; per set, NaN if known."""

    added: int
    error: float
    each: Floats


def choose_sets(
    scores: Floats, dated: bool = False, folds: int = 5, seed: int = 0, family: Indices | None = None
) -> list[AddedTestSet]:
    """Add test sets one by one, always the one that lowers the error of predicting the others most.

    Errors are root mean squares over held-out models and the sets left: over random parts of the models, over whole
    families that are left out (each counts once), or of later models predicted from earlier ones if ``dated``. With
    families and dates, the larger of the two errors of a set counts.

    Among hundreds of test sets, only those that explain most of the others are tried, and only the first steps are
    taken.
    """
    models, sets = scores.shape
    steps_left, tried = affordable_trials(models, sets)
    part = np.random.default_rng(seed).permutation(models) % folds
    chosen: list[int] = []
    steps: list[AddedTestSet] = []
    while len(chosen) < min(sets - 1, steps_left):
        trials = []
        candidates = [j for j in range(sets) if j not in chosen]
        if len(candidates) > tried:
            candidates = _most_telling(scores, chosen, candidates, tried)
        for candidate in candidates:
            own = [*chosen, candidate]
            left = [j for j in range(sets) if j not in own]
            each = np.full(sets, np.nan)
            each[left] = _held_out(scores[:, own], scores[:, left], part, dated, family)
            trials.append(AddedTestSet(candidate, float(np.sqrt((each[left] ** 2).mean())), each))
        best = min(trials, key=lambda step: step.error)
        steps.append(best)
        chosen.append(best.added)
    return steps


def affordable_trials(models: int, sets: int) -> tuple[int, int]:
    """How many steps can be taken to choose among test sets, and how many of them tried at each.

    Refused if there are so many scores that not even a few can be.
    """
    trials = int(MOST_TRIALS / (1 + models * sets / SCORES_PER_TRIAL))
    if sets * (sets - 1) / 2 <= trials:
        return sets, sets
    if trials < FEWEST_STEPS * FEWEST_CANDIDATES:
        raise InputError(
            f"there are {models * sets:,} scores ({models:,} models x {sets:,} test sets), too many to choose among; "
            "name fewer test sets with --testsets"
        )
    tried = max(FEWEST_CANDIDATES, trials // sets)
    return trials // tried, tried


def _most_telling(scores: Floats, chosen: Sequence[int], candidates: Sequence[int], most: int) -> list[int]:
    """The test sets that explain most of what the chosen ones leave of the others, in the order of the table."""
    standard = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-12)
    if chosen:
        basis, _ = np.linalg.qr(standard[:, list(chosen)])
        standard = standard - basis @ (basis.T @ standard)
    left = standard[:, list(candidates)]
    own = np.maximum((left**2).sum(axis=0), 1e-12)
    # The sum of squared products with all others, without a table of all pairs.
    explained = ((left.T @ (left @ left.T)) * left.T).sum(axis=1) / own
    best = np.argsort(-explained, kind="stable")[:most]
    return sorted(candidates[k] for k in best)


def _held_out(known: Floats, targets: Floats, part: Indices, dated: bool, family: Indices | None) -> Floats:
    """Root mean squared errors [targets] of models that were held out."""
    ahead = forward_errors(known, targets) if dated else np.empty((0, targets.shape[1]))
    forward = np.sqrt((ahead**2).mean(axis=0)) if len(ahead) else None
    if family is not None:
        error = Predictor.of(known, targets, family=family).error
        return error if forward is None else np.maximum(error, forward)
    if forward is not None:
        return np.asarray(forward)
    errors = np.empty_like(targets)
    for fold in np.unique(part):
        out = part == fold
        errors[out] = Predictor.of(known[~out], targets[~out]).predict(known[out]).score - targets[out]
    return np.asarray(np.sqrt((errors**2).mean(axis=0)))
