"""Scores on test sets that were not evaluated, from those that were. Arrays in, arrays out.

``scores`` [models, sets] are in points or shares; all sets of a reference model are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.advice.short_form import Indices, fit_ridge
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


class Predicted(NamedTuple):
    """Predicted scores [models, targets] with 95 % intervals, and whether each lies in the references' range."""

    score: Floats
    low: Floats
    high: Floats
    inside: Bools


@dataclass(frozen=True, eq=False)
class Predictor:
    """Ridge regression of every target set on the evaluated ones, with squares, and intervals that are calibrated.

    Intervals come from leave-one-out errors of the reference models or, where their order in time is known, from
    predictions of later models by earlier ones, whichever is wider: models change, and errors grow with it.

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

    @classmethod
    def of(cls, known: Floats, targets: Floats, dated: bool = False) -> Predictor:
        """Learn from reference models: ``known`` [models, sets], ``targets`` [models, others]; by age if ``dated``."""
        centre, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)
        standard = (known - centre) / scale
        fits = [fit_ridge(*_columns(standard), target) for target in targets.T]
        residual = np.abs(np.stack([fit.residual for fit in fits], axis=1))
        level = min(1.0, LEVEL * (1 + 1 / len(known)))
        reach = np.quantile(residual, level, axis=0)
        if dated:
            ahead = forward_errors(known, targets)
            reach = reach if not len(ahead) else np.maximum(reach, np.quantile(np.abs(ahead), LEVEL, axis=0))
        weights, free = (np.stack([getattr(fit, part) for fit in fits], axis=1) for part in ("penalised", "free"))
        columns = _columns(standard)
        predicted = columns[0] @ weights + columns[1] @ free
        return cls(
            centre, scale, weights, free, reach, np.sqrt((residual**2).mean(axis=0)), standard.mean(axis=1),
            np.quantile(known, MOST_KNOWN, axis=0), np.quantile(predicted, MOST_PREDICTED, axis=0),
        )  # fmt: skip

    def predict(self, known: Floats) -> Predicted:
        """Scores on the target sets from those on the evaluated ones."""
        standard = (known - self.centre) / self.scale
        penalised, free = _columns(standard)
        score = penalised @ self.weights + free @ self.free
        low, high = np.quantile(self.levels, RANGE)
        level = standard.mean(axis=1)
        inside = (level >= low) & (level <= high) & (known <= self.highest).all(axis=1)
        within = inside[:, None] & (score <= self.highest_predicted)
        return Predicted(score, score - self.reach, score + self.reach, within)


def _columns(standard: Floats) -> tuple[Floats, Floats]:
    """Penalised columns: scores and the square of their mean, since test sets saturate at different scores."""
    level = standard.mean(axis=1)
    return np.column_stack([standard, level**2]), np.column_stack([np.ones(len(standard)), level])


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


class Step(NamedTuple):
    """A test set that was added, and the cross-validated error of the others from then on; per set, NaN if known."""

    added: int
    error: float
    each: Floats


def choose_sets(scores: Floats, dated: bool = False, folds: int = 5, seed: int = 0) -> list[Step]:
    """Add test sets one by one, always the one that lowers the error of predicting the others most.

    Errors are root mean squares over held-out models and the sets left: over random parts of the models, or of later
    models predicted from earlier ones if ``dated``.
    """
    models, sets = scores.shape
    part = np.random.default_rng(seed).permutation(models) % folds
    chosen: list[int] = []
    steps: list[Step] = []
    while len(chosen) < sets - 1:
        trials = []
        for candidate in (j for j in range(sets) if j not in chosen):
            own = [*chosen, candidate]
            left = [j for j in range(sets) if j not in own]
            errors = _held_out(scores[:, own], scores[:, left], part, dated)
            each = np.full(sets, np.nan)
            each[left] = np.sqrt((errors**2).mean(axis=0))
            trials.append(Step(candidate, float(np.sqrt((errors**2).mean())), each))
        best = min(trials, key=lambda step: step.error)
        steps.append(best)
        chosen.append(best.added)
    return steps


def _held_out(known: Floats, targets: Floats, part: Indices, dated: bool) -> Floats:
    if dated:
        ahead = forward_errors(known, targets)
        if len(ahead):
            return ahead
    errors = np.empty_like(targets)
    for fold in np.unique(part):
        out = part == fold
        errors[out] = Predictor.of(known[~out], targets[~out]).predict(known[out]).score - targets[out]
    return errors
