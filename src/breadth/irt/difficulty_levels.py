"""Difficulty levels: equal-size groups of items from the easiest to the hardest, and how sure a membership is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.irt.answers import Bools, Floats
from breadth.irt.one_scale import BEYOND_CHANCE
from breadth.irt.parameters import HALF_RANGE, ItemEstimates

#: Largest standard error of a known difficulty, in sds of ability: beyond, its interval is wider than the whole scale.
LARGEST_ERROR = HALF_RANGE / 2

#: Half the width of a 95 % interval in standard errors.
REACH = 1.959964

#: Sample sizes tried for stability, as far as two samples of the size fit into the subjects there are.
SIZES = (25, 50, 100, 200, 500, 1000, 2000, 5000)

#: What one of so many levels of equal size is of all questions.
PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth"}

#: How far the size of a level may be off, as a share of it, where it is called a third or a fifth.
ABOUT_EQUAL = 0.25


def level_name(level: int, sizes: Mapping[int, int]) -> str:
    """A level as a sentence names it, given how many questions every level has.

    Ends are named by what they are. Levels that ties or their maker made unequal are not called parts of the whole.

    >>> [level_name(k, dict.fromkeys(range(5), 40)) for k in (0, 2, 4)]
    ['the easiest fifth (level 0)', 'level 2', 'the hardest fifth (level 4)']
    """
    if len(sizes) < 2 or level not in (min(sizes), max(sizes)):
        return f"level {level}"
    end = "easiest" if level == min(sizes) else "hardest"
    equal = sum(sizes.values()) / len(sizes)
    if len(sizes) in PARTS and abs(sizes.get(level, 0) - equal) <= ABOUT_EQUAL * equal:
        return f"the {end} {PARTS[len(sizes)]} (level {level})"
    return f"level {level} ({end})"


class Difficulties(NamedTuple):
    """Difficulties that are known, with their errors, NaN elsewhere; and the difficulties that the answers leave open.

    ``unknown`` marks items whose slope is clear, and whose difficulty nevertheless is not.
    """

    difficulty: Floats
    error: Floats
    unknown: Bools


def known_difficulties(estimates: ItemEstimates, share: Floats) -> Difficulties:
    """Which items have a difficulty, where every item has its own slope? ``share`` [J] is the share of right answers.

    Difficulty is -intercept / slope. It exists only if the slope lies clearly above 0 (by 1.645 standard errors): a
    slope near 0 puts it anywhere, and a negative one turns the item round, so that the hardest item is called the
    easiest. It is known only if it lies within 6.5 sds of the mean ability, the range over which ability is integrated,
    and if its standard error is at most half of that.

    An item that all or none got right has no slope of its own, but its place is known: below or above all others. Its
    difficulty is kept within the same range.
    """
    difficulty, error = estimates.difficulty.copy(), estimates.difficulty_se.copy()
    with np.errstate(invalid="ignore"):
        clear = estimates.discrimination > BEYOND_CHANCE * estimates.discrimination_se
        extreme = ((share == 0) | (share == 1)) & ~np.isnan(difficulty)
        far = ~(np.abs(difficulty - estimates.ability_mean) <= HALF_RANGE * estimates.ability_sd)
        outside = far | ~(estimates.discrimination > 0)
        unknown = clear & ~extreme & (far | ~(error <= LARGEST_ERROR * estimates.ability_sd))
    error[(extreme & outside) | (~extreme & (~clear | unknown))] = np.nan
    difficulty[~extreme & (~clear | unknown)] = np.nan
    ends = estimates.ability_mean + np.where(share == 1, -HALF_RANGE, HALF_RANGE) * estimates.ability_sd
    return Difficulties(np.where(extreme & outside, ends, difficulty), error, unknown)


def without_guesses(known: Difficulties, ability_sd: float) -> Difficulties:
    """Drop difficulties whose error is larger than any scale, for answers of which no item tells subjects apart."""
    with np.errstate(invalid="ignore"):
        guess = ~(known.error <= LARGEST_ERROR * ability_sd)
    difficulty, error = (np.where(guess, np.nan, values) for values in (known.difficulty, known.error))
    return Difficulties(difficulty, error, known.unknown)


class Levels(NamedTuple):
    """Level of every item (0 is the easiest), the range it could belong to, and how likely its own level is.

    NaN where an item has no difficulty.
    """

    level: Floats
    low: Floats
    high: Floats
    certainty: Floats


def assign_levels(difficulty: Floats, error: Floats, n: int) -> Levels:
    """Put items into levels by ``cut_levels``, and say how sure each place is.

    ``low`` and ``high`` are the levels of the ends of the item's 95 % interval, with the edges taken as known;
    ``certainty`` is the chance, under a normal error, that the item belongs where it was put.
    """
    cut = cut_levels(difficulty, n)
    missing = cut < 0
    level = np.where(missing, np.nan, cut.astype(np.float64))
    edges = _level_edges(difficulty[~missing], cut[~missing])
    spread = np.nan_to_num(error, nan=0.0, posinf=1e300)
    with np.errstate(invalid="ignore", over="ignore"):
        ends = np.stack([difficulty - REACH * spread, difficulty + REACH * spread])
        low, high = np.searchsorted(edges, ends, side="right").astype(np.float64)
        # The bounds of the level that an item is in; those of level 0 stand in for items that are in none.
        bounds = np.concatenate([[-np.inf], edges, [np.inf]])
        inside = np.maximum(cut, 0)
        scale = np.maximum(spread, 1e-12)
        certainty = special.ndtr((bounds[inside + 1] - difficulty) / scale)
        certainty -= special.ndtr((bounds[inside] - difficulty) / scale)
    infinite = np.isinf(difficulty)
    sure = infinite | missing
    return Levels(
        level,
        np.where(sure, level, low),
        np.where(sure, level, high),
        np.where(missing, np.nan, np.where(infinite, 1.0, certainty)),
    )


def _level_edges(difficulty: Floats, level: npt.NDArray[np.intp]) -> Floats:
    """The difficulties that separate neighbouring levels: midway between the hardest of one and the easiest of next."""
    edges = np.zeros(int(level.max(initial=0)))
    largest = np.finfo(float).max
    for below in range(len(edges)):
        hardest = max(float(difficulty[level == below].max()), -largest)
        easiest = min(float(difficulty[level == below + 1].min()), largest)
        # Halves are added, because the sum of two large numbers may be infinite.
        middle = hardest / 2 + easiest / 2
        # Between two neighbouring numbers there is no third, and an edge belongs to the level above it.
        edges[below] = middle if middle > hardest else easiest
    return edges


def cut_levels(difficulty: Floats, n: int) -> npt.NDArray[np.intp]:
    """Put items into n levels of as equal size as ties allow; -1 where an item has no difficulty.

    The one rule for levels. Without ties, level i holds the items with i/n <= q < (i+1)/n, where q is the share of
    items that are easier (the bins of arXiv 2511.21692), so sizes differ by at most one. Items of equal difficulty
    always share a level: of all ways to cut, the one with the smallest sum of squared sizes is taken, so a difficulty
    that many items share (such as all that every model solves) tends to become a level of its own. There are fewer
    than n levels only where there are fewer difficulties.

    Studies on disk hold items with these levels, and are refused when the levels change.

    >>> cut_levels(np.array([0.0, 0, 0, 0, 1, 2, 3, 4]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 2, 2]
    """
    level = np.full(len(difficulty), -1, dtype=np.intp)
    known = np.flatnonzero(~np.isnan(difficulty))
    values, inverse, counts = np.unique(difficulty[known], return_inverse=True, return_counts=True)
    if len(values) == len(known):
        cut = np.arange(len(values)) * min(n, len(values)) // max(len(values), 1)
    else:
        cut = _even_groups(counts, min(n, len(values)))
    level[known] = cut[inverse]
    return level


def _even_groups(counts: npt.NDArray[np.intp], n: int) -> npt.NDArray[np.intp]:
    """Group of every value, for n groups of neighbours with the smallest sum of squared sizes.

    Dynamic programming over the groups. Where the last group of the best cut begins rises with where it ends, so the
    beginnings for all ends are found by halving the range again and again.
    """
    size = len(counts)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    best = ends**2
    begins: list[npt.NDArray[np.intp]] = []
    for groups in range(2, n + 1):
        total, begin = np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.intp)
        left = [(groups, size, groups - 1, size - 1)]
        while left:
            low, high, first, last = left.pop()
            if low > high:
                continue
            end = (low + high) // 2
            start = np.arange(first, min(last, end - 1) + 1)
            cost = best[start] + (ends[end] - ends[start]) ** 2
            at = int(cost.argmin())
            total[end], begin[end] = cost[at], start[at]
            left += [(low, end - 1, first, int(start[at])), (end + 1, high, int(start[at]), last)]
        best = total
        begins.append(begin)
    group = np.zeros(size, dtype=np.intp)
    end = size
    for begin in reversed(begins):
        end = int(begin[end])
        group[end:] += 1
    return group


class LevelStability(NamedTuple):
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
) -> LevelStability:
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
        agreement = []
        for _ in range(repeats):
            drawn = generator.permutation(len(matrix))[: 2 * size]
            first, second = (difficulty_of(matrix[half]) for half in np.split(drawn, 2))
            both = ~np.isnan(first) & ~np.isnan(second)
            apart = np.abs(cut_levels(first[both], levels) - cut_levels(second[both], levels))
            rho = float(spearmanr(first[both], second[both]).statistic)
            agreement.append(((apart == 0).mean(), (apart <= 1).mean(), rho))
        rows.append(np.mean(agreement, axis=0))
    same, near, rho = np.array(rows).T
    return LevelStability(np.array(sizes, dtype=np.int64), repeats, same, near, rho)
