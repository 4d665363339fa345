"""Difficulty levels: equal-size groups of items from the easiest to the hardest, and how sure a membership is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]

#: Half the width of a 95 % interval in standard errors.
REACH = 1.959964


class Levels(NamedTuple):
    """Level of every item (0 is the easiest), the range it could belong to, and how likely its own level is.

    NaN where an item has no difficulty.
    """

    level: Floats
    low: Floats
    high: Floats
    certainty: Floats


def level_edges(difficulty: Floats, n: int) -> Floats:
    """The n - 1 difficulties that separate n equal-size levels: the i/n quantiles."""
    known = difficulty[~np.isnan(difficulty)]
    if not known.size:
        return np.full(n - 1, np.nan)
    finite = np.nan_to_num(known, posinf=np.finfo(float).max / 4, neginf=-np.finfo(float).max / 4)
    return np.quantile(finite, np.arange(1, n) / n)


def assign_levels(difficulty: Floats, error: Floats, n: int) -> Levels:
    """Put items into n levels by difficulty quantile.

    Level i holds the items whose difficulty lies from the i/n quantile up to, but not including, the (i+1)/n quantile;
    the last level includes its upper end. Items of equal difficulty share a level, the higher one where they lie on an
    edge. ``low`` and ``high`` are the levels of the ends of the item's 95 % interval, with the edges taken as known;
    ``certainty`` is the chance, under a normal error, that the item belongs where it was put.
    """
    edges = level_edges(difficulty, n)
    missing = np.isnan(difficulty)

    def place(values: Floats) -> Floats:
        level = np.searchsorted(edges, values, side="right").astype(np.float64)
        return np.where(missing, np.nan, level)

    level = place(difficulty)
    reach = REACH * np.nan_to_num(error, nan=0.0, posinf=1e300)
    bounds = np.concatenate([[-np.inf], edges, [np.inf]])
    inside = np.where(missing, 0, level).astype(np.intp)
    scale = np.maximum(np.nan_to_num(error, nan=0.0, posinf=1e300), 1e-12)
    with np.errstate(invalid="ignore", over="ignore"):
        upper, lower = ((bounds[inside + side] - difficulty) / scale for side in (1, 0))
        certainty = special.ndtr(upper) - special.ndtr(lower)
        low, high = place(difficulty - reach), place(difficulty + reach)
    infinite = np.isinf(difficulty)
    return Levels(
        level,
        np.where(infinite, level, low),
        np.where(infinite, level, high),
        np.where(missing, np.nan, np.where(infinite, 1.0, certainty)),
    )


def cut_levels(difficulty: Floats, n: int) -> npt.NDArray[np.intp]:
    """Put items into n levels of as equal size as ties allow; -1 where an item has no difficulty.

    Items of equal difficulty always share a level. A difficulty that holds at least one level's share of the items
    (say, all that every model solves) becomes a level of its own, and the rest is cut evenly into the others. Without
    ties sizes differ by at most one. There are fewer than n levels where there are fewer difficulties.

    >>> cut_levels(np.array([0.0, 0, 0, 0, 1, 2, 3, 4]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 2, 2]
    """
    level = np.full(len(difficulty), -1, dtype=np.intp)
    known = np.flatnonzero(~np.isnan(difficulty))
    values, inverse, counts = np.unique(difficulty[known], return_inverse=True, return_counts=True)
    alone = np.zeros(len(values), dtype=bool)
    left = n
    while left > 1:
        heavy = ~alone & (counts * left > counts[~alone].sum())
        if not heavy.any() or heavy.sum() == (~alone).sum():
            break
        alone[np.argmax(np.where(heavy, counts, 0))] = True
        left -= 1
    cut = np.zeros(len(values))
    shared = ~alone
    middle = np.cumsum(counts * shared) - counts * shared / 2
    cut[shared] = np.floor(middle[shared] * left / counts[shared].sum())
    # A value that stands alone begins a level, and so does what follows it.
    starts = np.ones(len(values), dtype=bool)
    starts[1:] = alone[1:] | alone[:-1] | (cut[1:] != cut[:-1])
    level[known] = (np.cumsum(starts) - 1)[inverse]
    return level
