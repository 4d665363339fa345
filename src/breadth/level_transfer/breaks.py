"""Is there a level at which accuracy breaks off, or does it decline steadily?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.inference import Floats
from breadth.level_transfer.gains import Gains, Moments

#: Levels below which a step cannot be told from a smooth curve: three points are on a curve of their own.
LEAST_LEVELS = 4

#: Degree of the smooth decline that a step has to beat: a straight line that may bend, with as many parameters as a
#: step (two heights and a place).
SMOOTH_DEGREE = 2

#: Standard deviation, per level, of what training does to a level by itself, where a single seed cannot show it.
UNKNOWN_SEEDS = 0.02

#: Studies simulated under a smooth decline.
SIMULATED = 2000


class Break(NamedTuple):
    """Level from which accuracy is lower, by how much, the range of levels that other items point to, and a test.

    ``p`` is the probability of a step that fits this much better than a smooth decline, where the decline is smooth;
    NaN with fewer than four levels.
    """

    level: int
    drop: float
    low: int
    high: int
    p: float


def breaking_point(gains: Gains, k: int, seed: int = 0, trained: bool = True) -> Break:
    """Where along difficulty does the accuracy of condition ``k`` drop, and is it a drop at all?

    The best split of the levels into an easier and a harder part, each with one accuracy, by least squares weighted
    with the number of items. A steady decline has a best split too, so the split has to fit better than a smooth curve
    (a quadratic, which includes the straight line) by more than chance explains: studies are simulated around the
    fitted curve, with level means that vary as those of other items (:class:`Moments`, in clusters where there are
    any) and other seeds would, and ``p`` is the share of them in which the best split beats the best curve as clearly.
    Of other seeds, what all conditions show is used, because two or three say little about one; where no condition has
    two, each level is taken to vary by 2 points (``UNKNOWN_SEEDS``), unless the model was not ``trained`` at all.
    ``low`` to ``high`` holds the split in 95 % of studies simulated around the accuracies themselves.

    Two curves are simulated around, the straight line and the quadratic, and ``p`` is the larger share: a line, where
    that is the truth, is known better than a curve through the same accuracies. Where the quadratic leaves no more than
    the step does, ``p`` is 1: a step that fits less badly than it would by chance is not the better description.

    ``gains`` are those of answers as they are (``baseline`` 0). A decline that is much steeper in the middle than at
    both ends is a step to this test.
    """
    moments = Moments(gains)
    sums = np.repeat(np.eye(gains.levels), moments.groups, axis=1)
    means = sums @ moments.cell_means(moments.gain[k])
    count = sums @ moments.count
    noise = _level_noise(moments, sums, k, np.random.default_rng(seed))
    if trained and not any(one.df for one in moments.seeds):
        noise += UNKNOWN_SEEDS * np.random.default_rng((seed, 1)).normal(size=noise.shape)
    split, drop = _best_split(means, count)
    others, _ = _best_split(means + noise, count)
    low, high = (int(end) for end in np.quantile(others, [0.025, 0.975], method="nearest"))
    p = float("nan")
    if gains.levels >= LEAST_LEVELS:
        better = _step_advantage(means, count)
        as_clear = []
        for degree in (1, SMOOTH_DEGREE):
            curve = _smoother(count, degree) @ means
            as_clear.append(int((_step_advantage(curve + noise, count) >= better).sum()))
        p = (1 + max(as_clear)) / (1 + SIMULATED) if better > 0 else 1.0
    return Break(int(split), float(drop), low, high, p)


def _level_noise(moments: Moments, sums: Floats, k: int, generator: np.random.Generator) -> Floats:
    """What other items and other seeds would add to the level means of condition ``k`` [simulated, levels]."""
    levels = len(sums)
    items = sums @ moments.item_covariance(k) @ sums.T
    # A level that everything gets right has no variance to measure, but other items would not all be right.
    size = sums @ moments.count
    np.fill_diagonal(items, np.maximum(np.diag(items), 0.5 / (size + 2) ** 2))
    fewest = int(np.bincount(moments.piece_cell).min()) - 1
    noise = _draw(items, max(fewest, 1), generator)
    df = 0
    seeds = np.zeros((levels, levels))
    for one in moments.seeds:
        df += one.df
        seeds += one.df * (sums @ (one.spread - one.noise) @ sums.T)
    if df:
        noise += _draw(seeds / df / moments.seeds[k].number, df, generator)
    return noise


def _draw(covariance: Floats, df: int, generator: np.random.Generator) -> Floats:
    """Draws of a multivariate t distribution; negative directions of an estimated covariance count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    normal = generator.normal(size=(SIMULATED, len(values)))
    shape = np.sqrt(df / generator.chisquare(df, size=(SIMULATED, 1)))
    draws: Floats = (shape * normal * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return draws


def _best_split(means: Floats, count: Floats) -> tuple[Floats, Floats]:
    """First level of the harder part, and how much lower it is, for means [..., levels]."""
    before, after, between = _splits(means, count)
    split = between.argmax(axis=-1)
    drop = np.take_along_axis(before - after, split[..., None], axis=-1)[..., 0]
    return split + 1, drop


def _splits(means: Floats, count: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean before and after every split, and the sum of squares between the two."""
    weight = np.cumsum(count)[:-1]
    rest = count.sum() - weight
    so_far = np.cumsum(means * count, axis=-1)
    before = so_far[..., :-1] / weight
    after = (so_far[..., -1:] - so_far[..., :-1]) / rest
    return before, after, weight * rest / count.sum() * (before - after) ** 2


def _step_advantage(means: Floats, count: Floats) -> Floats:
    """Sum of squares that a smooth curve leaves, less what the best step leaves."""
    left = means - means @ _smoother(count, SMOOTH_DEGREE).T
    centred = means - (means @ count / count.sum())[..., None]
    step = (centred**2) @ count - _splits(means, count)[2].max(axis=-1)
    advantage: Floats = (left**2) @ count - step
    return advantage


def _smoother(count: Floats, degree: int) -> Floats:
    """Matrix that turns level means into the weighted least-squares curve through them."""
    levels = np.arange(len(count), dtype=np.float64)
    design = np.vander(levels - levels.mean(), degree + 1)
    weighted = design * np.sqrt(count)[:, None]
    smoother: Floats = design @ np.linalg.pinv(weighted) * np.sqrt(count)
    return smoother
