"""Train on one level, test on all: gains over the model before training, with standard errors from items and seeds.

Every number here (a cell, a slope, an asymmetry, a comparison of strategies) is a weighted sum of cell gains, so one
function gives them all their standard errors.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.inference import LEVEL, Floats

Indices = npt.NDArray[np.intp]


class Gains(NamedTuple):
    """Answers of trained models and of the untrained one to the same test items.

    ``trained``: one array [seeds, items] per training condition (a level or a strategy). ``baseline`` [items]: the
    untrained model (the mean, if there are several). ``level`` [items]: level of every test item, 0 to J - 1.

    Answers may be other values of items than right or wrong, of which a level's score is the mean; or, where ``group``
    [items] says which of 0 to G - 1 an item belongs to, the sum over groups of their means
    (:class:`breadth.records.ItemValues`).
    """

    trained: tuple[Floats, ...]
    baseline: Floats
    level: Indices
    group: Indices | int = 0

    @property
    def levels(self) -> int:
        """Number of test levels."""
        return int(self.level.max()) + 1


class Contrast(NamedTuple):
    """A weighted sum of gains with its standard error, degrees of freedom, 95 % interval and p-value."""

    estimate: float
    se: float
    df: float
    low: float
    high: float
    p: float


def contrast(gains: Gains, weights: Floats) -> Contrast:
    """Estimate sum_kj w_kj gain_kj, where gain_kj is the mean over the items of level j of (trained on k - untrained).

    Answers are paired by item, so what makes an item easy for both models cancels. Variance has two crossed sources:
    items (other items of the level could have been chosen) and seeds (training could have gone differently). With the
    mean squares of items, seeds and their interaction, the variance of a mean is (items + seeds - interaction) /
    (items x seeds) (Cornfield and Tukey 1956). Here the same is done for weighted sums, with the effect of seeds
    pooled over training conditions; degrees of freedom are Satterthwaite's (1946). With a single seed, chance
    variation of training is not in the standard error, and intervals are too narrow.

    Assumes that items are a sample of their level and seeds of all seeds, and that every model answered every item.
    """
    groups = int(np.max(gains.group)) + 1
    level, levels = gains.level * groups + gains.group, (int(gains.level.max()) + 1) * groups
    weights = np.repeat(weights, groups, axis=1)  # the groups of a level count like levels of their own
    count = np.bincount(level, minlength=levels).astype(np.float64)
    per_item, shared = np.zeros(len(level)), 0.0
    scatter, seed_df = np.zeros((levels, levels)), 0
    for answers, row in zip(gains.trained, weights, strict=True):
        per_item += row[level] * (answers.mean(axis=0) - gains.baseline)
        seeds = len(answers)
        if seeds < 2:
            continue
        means = np.stack([np.bincount(level, values, levels) / count for values in answers])
        apart = means - means.mean(axis=0)
        scatter += apart.T @ apart
        seed_df += seeds - 1
        left = answers - answers.mean(axis=0) - apart[:, level]
        squares = np.bincount(level, (left**2).sum(axis=0), levels)
        noise = squares / np.maximum((seeds - 1) * (count - 1), 1)
        shared += float((row**2 * noise / (seeds * count)).sum())
    # How seeds move the levels together is pooled over conditions: each alone has too few seeds to estimate it.
    moved = scatter / max(seed_df, 1)
    seed_variance = sum(
        float(row @ moved @ row) / len(answers) for answers, row in zip(gains.trained, weights, strict=True)
    )
    mean = np.bincount(level, per_item, levels) / count
    spread = np.bincount(level, (per_item - mean[level]) ** 2, levels) / np.maximum(count - 1, 1)
    by_level = spread / count
    item_variance = float(by_level.sum())
    # With few seeds the difference of two noisy terms can come out far too small.
    total = max(item_variance + seed_variance - shared, item_variance / 2)
    wobble = float((by_level**2 / np.maximum(count - 1, 1)).sum()) + seed_variance**2 / max(seed_df, 1)
    df = float(total**2 / wobble) if wobble > 0 else np.inf
    estimate, se = float(mean.sum()), float(np.sqrt(total))
    if se == 0:
        return Contrast(estimate, se, df, np.nan, np.nan, np.nan)
    df = max(df, 1.0)
    half = float(special.stdtrit(df, (1 + LEVEL) / 2)) * se
    p = float(2 * special.stdtr(df, -abs(estimate) / se))
    return Contrast(estimate, se, df, estimate - half, estimate + half, p)


def cell_weights(rows: int, levels: int, k: int, j: int) -> Floats:
    """Weights of one cell."""
    weights = np.zeros((rows, levels))
    weights[k, j] = 1.0
    return weights


def pairing_ratio(gains: Gains) -> float:
    """How much pairing by item helps: standard error of a gain over that of a difference of two independent
    accuracies (the root of the sum of their variances), median over cells; NaN where nothing varies.

    Below 1, items that are hard for the untrained model are hard for the trained one too, and that part cancels.
    """
    rows, alone = len(gains.trained), gains._replace(baseline=np.zeros(len(gains.level)))
    ratios = []
    for k in range(rows):
        for j in range(gains.levels):
            weights, inside = cell_weights(rows, gains.levels, k, j), gains.level == j
            before = [gains.baseline[inside & (gains.group == one)] for one in range(int(np.max(gains.group)) + 1)]
            unpaired = contrast(alone, weights).se ** 2 + sum(part.var(ddof=1) / len(part) for part in before)
            if unpaired > 0:
                ratios.append(contrast(gains, weights).se / np.sqrt(unpaired))
    return float(np.median(ratios)) if ratios else float("nan")


def distance_weights(levels: int) -> tuple[Floats, Floats]:
    """Weights of the slope of gain against the distance of levels, and of the asymmetry.

    Least squares of gain_kj on |k - j| and on the direction (+1/2 where the training level is the easier one, -1/2
    where it is the harder one), with a separate intercept for every test level. So the slope compares training levels
    on the same test level: it is the gain lost per level of distance (negative: gains fade). The asymmetry is how much
    more easy-to-hard training gains than hard-to-easy at the same distance.
    """
    k, j = np.indices((levels, levels))
    columns = [np.abs(k - j), np.sign(j - k) / 2, *(j == level for level in range(levels))]
    design = np.stack([column.ravel().astype(np.float64) for column in columns], axis=1)
    solved = np.linalg.pinv(design)
    return solved[0].reshape(levels, levels), solved[1].reshape(levels, levels)


class Break(NamedTuple):
    """Level from which accuracy is lower, by how much, and the range of levels that resampled items point to."""

    level: int
    drop: float
    low: int
    high: int


def breaking_point(
    correct: Floats, level: Indices, seed: int = 0, resamples: int = 1000, group: Indices | int = 0
) -> Break:
    """Where along difficulty does accuracy drop?

    The best split of the levels into an easier and a harder part, each with one accuracy, by least squares weighted
    with the number of items. ``low`` to ``high`` holds the split in 95 % of bootstrap resamples of the items within
    levels (and of ``group``, see :class:`Gains`). A model whose accuracy declines steadily also has a best split; a
    wide range then shows that it means little.
    """
    levels = int(level.max()) + 1
    count = np.bincount(level, minlength=levels).astype(np.float64)
    generator = np.random.default_rng(seed)
    means = np.zeros((resamples + 1, levels))
    for j, one in product(range(levels), range(int(np.max(group)) + 1)):
        values = correct[(level == j) & (group == one)]
        drawn = values[generator.integers(0, len(values), (resamples, len(values)))]
        means[0, j] += values.mean()
        means[1:, j] += drawn.mean(axis=1)
    weight = np.cumsum(count)[:-1]
    rest = count.sum() - weight
    before = np.cumsum(means * count, axis=1)[:, :-1] / weight
    after = ((means * count).sum(axis=1, keepdims=True) - np.cumsum(means * count, axis=1)[:, :-1]) / rest
    between = weight * rest / count.sum() * (before - after) ** 2
    split = between.argmax(axis=1)
    low, high = np.quantile(split[1:], [0.025, 0.975], method="nearest")
    drop = float(before[0, split[0]] - after[0, split[0]])
    return Break(int(split[0]) + 1, drop, int(low) + 1, int(high) + 1)
