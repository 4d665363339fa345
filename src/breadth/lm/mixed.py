"""``dtype: mixed``: scores from products in bfloat16, and in float32 where these cannot settle the answer.

Processors with bfloat16 instructions (AVX-512 BF16, AMX) compute such products at least twice as fast. Rounding moves
scores by a few hundredths, which changes an answer only if its score is that close to another. So all items are scored
in bfloat16, and the closest ones again in float32. The differences show how far rounding reaches; whatever is closer
than that is scored in float32 as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from breadth.lm.scores import Floats

#: Items, the closest of every set, by which rounding errors are first measured, in all and at least of each set.
SAMPLE, SAMPLE_OF_EACH = 32, 4

#: Probability that an error of rounding exceeds what is allowed for, if errors are normal.
RISK = 1e-6

#: How many times the largest error seen is allowed for at least, in case errors have heavier tails.
TAIL = 1.5

#: Scores in float32 of some items of every set, which are given by their numbers.
Exact: TypeAlias = Callable[[list[list[int]]], Sequence[Floats]]


def settle(rough: Sequence[Floats], exact: Exact) -> list[Floats]:
    """Scores [items, answers] of several sets, with exact ones where the rough ones leave the answer open.

    ``exact`` is called with the items of every set that are to be scored again. It is called until no other item's two
    best answers are closer than errors reach, which is estimated from all items scored twice.

    Assumes that an item's error does not depend on how close its answers are, and that it is not many times larger in
    one item than in the others: such an item would keep a wrong answer unless it is close.
    """
    settled = [scores.copy() for scores in rough]
    distances = [_distances(scores) for scores in rough]
    open_items = [np.ones(len(scores), dtype=bool) for scores in rough]
    errors = np.zeros(0)
    few = max(-(-SAMPLE // max(len(rough), 1)), SAMPLE_OF_EACH)
    chosen = [np.sort(np.argsort(each, kind="stable")[:few]) for each in distances]
    while any(map(len, chosen)):
        for k, scores in enumerate(exact([items.tolist() for items in chosen])):
            errors = np.append(errors, np.ptp(scores - rough[k][chosen[k]], axis=1))
            settled[k][chosen[k]] = scores
            open_items[k][chosen[k]] = False
        limit = reach(errors)
        chosen = [np.flatnonzero(own & (distance < limit)) for own, distance in zip(open_items, distances, strict=True)]
    return settled


def reach(errors: Floats) -> float:
    """How far rounding can move two answers' scores apart: a prediction interval from the errors of some items.

    The next error exceeds it with probability ``RISK`` if errors are normal with mean 0. An error far out widens it.
    """
    from scipy import special

    spread = float(np.sqrt(np.mean(errors**2)))
    return max(float(special.stdtrit(len(errors), 1 - RISK / 2)) * spread, TAIL * float(errors.max()))


def _distances(scores: Floats) -> Floats:
    """By how much the best answer to every item is ahead of the second."""
    best = np.sort(scores, axis=1)
    distances: Floats = best[:, -1] - best[:, -2]
    return distances
