"""``dtype: mixed``: scores from products in bfloat16, and in float32 where these cannot settle the answer.

Processors with bfloat16 instructions (AVX-512 BF16, AMX) compute such products at least twice as fast. Rounded weights
shift the scores of all items of a set alike, by up to a tenth here, and rounded activations move each by a few
hundredths. So all items are scored in bfloat16, and the closest ones again in float32. The differences show the shift,
which is taken off, and how far the rest reaches; whatever is closer than that is scored in float32 as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from breadth.lm.scores import Floats

#: Items by which rounding errors are first measured, the closest of every set: in all, and at least of each set.
SAMPLE, SAMPLE_OF_EACH = 32, 8

#: Probability that the error of an item exceeds what is allowed for, if errors are normal.
RISK = 1e-5

#: How many times the largest error seen is allowed for at least, in case errors have heavier tails.
TAIL = 1.25

#: Scores in float32 of some items of every set, which are given by their numbers.
Exact: TypeAlias = Callable[[list[list[int]]], Sequence[Floats]]

Mask: TypeAlias = npt.NDArray[np.bool_]


def settle(rough: Sequence[Floats], exact: Exact) -> list[Floats]:
    """Scores [items, answers] of several sets, with exact ones where the rough ones leave the answer open.

    ``exact`` is called with the items of every set that are to be scored again, until no other item's two best answers
    are closer than errors reach. The shift of a set is taken off its other items.

    Assumes that an item's error does not depend on how close its answers are, and that it is not many times larger in
    one item than in the others: such an item would keep a wrong answer unless it is close.
    """
    settled = [scores.copy() for scores in rough]
    known = [np.zeros(len(scores), dtype=bool) for scores in rough]
    shifts = [np.zeros(scores.shape[1]) for scores in rough]
    few = max(-(-SAMPLE // max(len(rough), 1)), SAMPLE_OF_EACH)
    chosen = [np.sort(np.argsort(_distances(scores), kind="stable")[:few]) for scores in rough]
    while any(map(len, chosen)):
        for k, scores in enumerate(exact([items.tolist() for items in chosen])):
            settled[k][chosen[k]] = scores
            known[k][chosen[k]] = True
        shifts, limits = rounding_errors(rough, settled, known)
        chosen = [
            np.flatnonzero(~known[k] & (_distances(scores + shifts[k]) < limits[k])) for k, scores in enumerate(rough)
        ]
    return [np.where(known[k][:, None], settled[k], scores + shifts[k]) for k, scores in enumerate(rough)]


def rounding_errors(
    rough: Sequence[Floats], exact: Sequence[Floats], known: Sequence[Mask]
) -> tuple[list[Floats], list[float]]:
    """For every set, the shift of its answers' scores, and how far rounding can move two of them apart beyond that.

    Both come from the items whose exact scores are ``known``. The reach is a prediction interval with a spread that
    sets share: the next error exceeds it with probability ``RISK`` if errors are normal. An error far out widens it.
    """
    from scipy import special

    shifts, spreads = [], []
    for scores, wanted, own in zip(rough, exact, known, strict=True):
        errors = wanted[own] - scores[own]
        shifts.append(errors.mean(axis=0))
        spreads.append(np.ptp(errors - shifts[-1], axis=1))
    spread = np.concatenate(spreads)
    free = len(spread) - len(rough)
    if free == 0:
        return shifts, [np.inf] * len(rough)
    typical = float(np.sqrt((spread**2).sum() / free) * special.stdtrit(free, 1 - RISK / 2))
    most = TAIL * float(spread.max())
    return shifts, [max(typical * float(np.sqrt(1 + 1 / len(own))), most) for own in spreads]


def _distances(scores: Floats) -> Floats:
    """By how much the best answer to every item is ahead of the second."""
    best = np.sort(scores, axis=1)
    distances: Floats = best[:, -1] - best[:, -2]
    return distances
