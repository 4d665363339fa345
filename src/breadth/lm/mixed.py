"""``dtype: mixed``: scores from products in bfloat16, and in float32 where these cannot settle the answer.

Processors with bfloat16 instructions (AVX-512 BF16, AMX) compute such products at least twice as fast. Rounded weights
shift the scores of all items of a set alike, by up to a tenth here, and rounded activations move each by a few
hundredths. So all items are scored in bfloat16, and the closest ones again in float32. The differences show the shift,
which is taken off, and how far the rest reaches; whatever is closer than that is scored in float32 as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from breadth.lm.scores import Floats

#: Items by which rounding errors are first measured, the closest of every set: in all, and at least of each set.
SAMPLE, SAMPLE_OF_EACH = 48, 8

#: Expected number of wrong answers that is allowed in one evaluation of all sets.
WRONG = 1e-3

#: How many times the largest error seen is allowed for at least, in case errors have heavier tails.
TAIL = 1.25

#: Scores in float32 of some items of every set, which are given by their numbers.
Exact: TypeAlias = Callable[[list[list[int]]], Sequence[Floats]]

Mask: TypeAlias = npt.NDArray[np.bool_]


def rescore_close_items(rough: Sequence[Floats], exact: Exact) -> list[Floats]:
    """Scores [items, answers] of several sets, with exact ones where the rough ones leave the answer open.

    ``exact`` is called with the items of every set that are to be scored again, the closest first, until fewer than
    ``WRONG`` wrong answers are expected among the others. The shift of a set is taken off its other items.

    Assumes that an item's error does not depend on how close its answers are, and that it is not many times larger in
    one item than in the others: such an item would keep a wrong answer unless it is close.
    """
    settled = [scores.copy() for scores in rough]
    known = [np.zeros(len(scores), dtype=bool) for scores in rough]
    few = max(-(-SAMPLE // max(len(rough), 1)), SAMPLE_OF_EACH)
    chosen = [np.sort(np.argsort(_distances(scores), kind="stable")[:few]) for scores in rough]
    while any(map(len, chosen)):
        for k, scores in enumerate(exact([items.tolist() for items in chosen])):
            settled[k][chosen[k]] = scores
            known[k][chosen[k]] = True
        errors = rounding_errors(rough, settled, known)
        for k, scores in enumerate(rough):
            settled[k][~known[k]] = scores[~known[k]] + errors.shifts[k]
        chosen = open_items(settled, known, errors)
    return settled


class RoundingErrors(NamedTuple):
    """Errors of two answers' distance: a t distribution with ``free`` degrees of freedom, apart from their shift.

    ``shifts`` are those of every set's answers, ``scales`` the scale of the next error in every set, and ``largest``
    the largest one seen.
    """

    shifts: list[Floats]
    scales: list[float]
    free: int
    largest: float


def rounding_errors(rough: Sequence[Floats], exact: Sequence[Floats], known: Sequence[Mask]) -> RoundingErrors:
    """Estimate errors from the items whose exact scores are ``known``; sets have one spread, and a shift each."""
    shifts, deviations = [], []
    for scores, wanted, own in zip(rough, exact, known, strict=True):
        errors = wanted[own] - scores[own]
        shifts.append(errors.mean(axis=0))
        deviations.append(np.ptp(errors - shifts[-1], axis=1))
    every = np.concatenate(deviations)
    free = len(every) - len(rough)
    spread = np.sqrt((every**2).sum() / free) if free else np.inf
    scales = [float(spread * np.sqrt(1 + 1 / len(own))) for own in deviations]
    return RoundingErrors(shifts, scales, max(free, 1), float(every.max()))


def open_items(scores: Sequence[Floats], known: Sequence[Mask], errors: RoundingErrors) -> list[npt.NDArray[np.intp]]:
    """The items of every set that are not known and too close, given the errors that their scores may have.

    Of the items that are left, fewer than ``WRONG`` answers are expected to be wrong, and none is closer than errors
    that were seen.
    """
    from scipy import special

    distances = [_distances(each) for each in scores]
    with np.errstate(divide="ignore", invalid="ignore"):  # no error at all is an infinite distance
        relative = np.concatenate([each / scale for each, scale in zip(distances, errors.scales, strict=True)])
    risks = np.where(np.concatenate(known), 0, special.stdtr(errors.free, -relative))
    order = np.argsort(risks, kind="stable")
    risky = np.zeros(len(risks), dtype=bool)
    risky[order] = np.cumsum(risks[order]) > WRONG
    parts = np.split(risky, np.cumsum([len(each) for each in scores])[:-1])
    near = [each < TAIL * errors.largest for each in distances]
    return [np.flatnonzero(~own & (part | close)) for own, part, close in zip(known, parts, near, strict=True)]


def _distances(scores: Floats) -> Floats:
    """By how much the best answer to every item is ahead of the second."""
    best = np.sort(scores, axis=1)
    distances: Floats = best[:, -1] - best[:, -2]
    return distances
