"""How many subjects does it take for difficulty levels to stay the same with other subjects?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.difficulty.levels import Floats, assign_levels

#: Sizes tried, as far as two samples of the size fit into the subjects there are.
SIZES = (25, 50, 100, 200, 500, 1000, 2000, 5000)


class Stability(NamedTuple):
    """For every sample size: share of items whose levels in two samples are equal, at most one apart; and rank rho."""

    subjects: npt.NDArray[np.int64]
    repeats: int
    same_level: Floats
    within_one: Floats
    rank_correlation: Floats


def level_stability(
    matrix: npt.NDArray[Any],
    difficulty_of: Callable[[npt.NDArray[Any]], Floats],
    levels: int,
    repeats: int = 5,
    seed: int = 0,
) -> Stability:
    """Calibrate two disjoint random samples of subjects, again and again, and compare the levels they give.

    Because the two samples share no subject, their agreement is what one would see with a new set of subjects of the
    same kind; near-copies among the subjects make it look better than it is. ``difficulty_of`` calibrates a matrix of
    answers.
    """
    from scipy.stats import spearmanr  # takes half a second to load

    generator = np.random.default_rng(seed)
    sizes = [size for size in SIZES if 2 * size <= len(matrix)]
    if not sizes or 2 * sizes[-1] < 0.8 * len(matrix):
        sizes.append(len(matrix) // 2)
    rows = []
    for size in sizes:
        found = []
        for _ in range(repeats):
            drawn = generator.permutation(len(matrix))[: 2 * size]
            first, second = (difficulty_of(matrix[half]) for half in np.split(drawn, 2))
            both = ~np.isnan(first) & ~np.isnan(second)
            apart = np.abs(
                assign_levels(first[both], np.zeros(both.sum()), levels).level
                - assign_levels(second[both], np.zeros(both.sum()), levels).level
            )
            rho = float(spearmanr(first[both], second[both]).statistic)
            found.append(((apart == 0).mean(), (apart <= 1).mean(), rho))
        rows.append(np.mean(found, axis=0))
    same, near, rho = np.array(rows).T
    return Stability(np.array(sizes, dtype=np.int64), repeats, same, near, rho)
