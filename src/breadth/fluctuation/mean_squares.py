"""How far scores fluctuate from checkpoint to checkpoint: mean squares, the noise of finite test sets, intervals.

Everything is computed from contrasts: how far a score lies from the middle of the line through the checkpoints before
and after it. A contrast does not see a straight trend, and hardly a smooth curve, so no smoother has to be chosen that
might take real swings for trend. The price is its time scale, which is stated wherever a number is shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Sum of squared weights of y[t] - (y[t-1] + y[t+1]) / 2, and the correlation of such contrasts one and two apart for
#: scores that do not depend on each other.
SQUARED_WEIGHTS = 1.5
NEXT, NEXT_BUT_ONE = -2 / 3, 1 / 6

#: Contrasts below which a run says nothing about how far it fluctuates.
FEWEST_CONTRASTS = 6

#: How many robust standard deviations a change of level must be away from the others of the run to count as a jump
#: that stays, and the share of contrasts that may be left out for it.
JUMP, MOST_LEFT_OUT = 5.0, 0.2

#: Blocks of consecutive contrasts that are left out one at a time to see how uncertain a mean square is.
BLOCKS = 8


class MeanSquares(NamedTuple):
    """Fluctuation of every run and test set [G, m]; NaN where there are too few checkpoints.

    ``total`` is the mean square of the contrasts and ``df`` the independent normal ones that they are worth, and
    ``pure_df`` that number for mere noise. ``noise`` is what the sampling of items adds to ``total`` and ``noise_df``
    how well that is known (infinite: exactly), ``contrasts`` how many there are and ``jumps`` how many were left out
    because the score changed its level there.
    """

    total: Floats
    df: Floats
    pure_df: Floats
    noise: Floats
    noise_df: Floats
    contrasts: Floats
    jumps: Floats


def contrasts(values: Floats, gap: int = 1) -> Floats:
    """How far every value lies from the middle of those ``gap`` checkpoints before and after it: [G, n - 2 gap, ...].

    Divided so that independent values of variance v give contrasts of variance v. NaN where one of the three is
    missing.
    """
    if values.shape[1] <= 2 * gap:
        return values[:, :0]
    middle = (values[:, : -2 * gap] + values[:, 2 * gap :]) / 2
    result: Floats = (values[:, gap:-gap] - middle) / np.sqrt(SQUARED_WEIGHTS)
    return result


def find_jumps(values: Floats, gap: int = 1) -> Bools:
    """Contrasts [G, n - 2 gap, m] at which the score changes its level for good.

    Question: did the score come back, or did the model learn something from one checkpoint to the next? A level is the
    median of three checkpoints, so that a single bad checkpoint is no change of level. A change counts as a jump if it
    is out of line with all other changes of the run: where levels change often, that is fluctuation.
    """
    groups, n, m = values.shape
    reach = 2 + gap
    change = np.full((groups, n, m), np.nan)
    if n > 2 * reach:
        windows = np.lib.stride_tricks.sliding_window_view(values, 3, axis=1)
        level = np.median(windows, axis=-1)
        # The level of three values that end at t - gap, and of three that begin at t + gap.
        change[:, reach:-reach] = level[:, 2 * gap + 2 :] - level[:, : -2 * gap - 2]
    found = np.zeros(change.shape, dtype=bool)
    known = ~np.isnan(change)
    enough = known.sum(axis=1) >= 2 * FEWEST_CONTRASTS
    filled = np.where(enough[:, None], change, 0.0)
    with np.errstate(invalid="ignore"):
        centre = np.nanmedian(filled, axis=1, keepdims=True)
        scale = 1.4826 * np.nanmedian(np.abs(filled - centre), axis=1, keepdims=True)
        found = known & enough[:, None] & (np.abs(filled - centre) > JUMP * scale) & (scale > 0)
    few = found.mean(axis=1, keepdims=True) <= MOST_LEFT_OUT
    result: Bools = (found & few)[:, gap : n - gap]
    return result


def mean_squares(
    values: Floats, gap: int = 1, halves: Floats | None = None, variance: Floats | None = None
) -> MeanSquares:
    """Mean squares of the contrasts of every run and test set, and what the sampling of items adds to them.

    Question: how far does a score move up and down from checkpoint to checkpoint, and how much of that would a finite
    test set show for a model that does not change?

    For fluctuations that are independent from checkpoint to checkpoint, the square root of ``total - noise`` is their
    standard deviation. Of slower ones it sees a part: a share 1 - 4/3 p + 1/3 p^2 of the variance of a first-order
    autoregression with correlation p between neighbours (42 % for .5, 7 % for .9). A jump that stays is left out.

    ``halves`` [G, n, m, splits] are half the differences between random halves of a test set: their contrasts are what
    the choice of items adds to a change on the very same items. ``variance`` [G, n, m] is the sampling variance of a
    score on fresh items, an upper bound where the same items are used at every checkpoint.
    """
    each = contrasts(values, gap)
    present = ~np.isnan(each)
    jumps = find_jumps(values, gap) & present
    used = present & ~jumps
    squares = np.where(used, each, 0.0) ** 2
    moved = None
    if halves is not None:
        moved = np.where(used[..., None], contrasts(halves, gap), 0.0) ** 2
    elif variance is not None and variance.shape[1] > 2 * gap:
        weighted = variance[:, gap:-gap] + (variance[:, : -2 * gap] + variance[:, 2 * gap :]) / 4
        moved = np.where(used, weighted / SQUARED_WEIGHTS, 0.0)[..., None]
    result = _summarise(squares, moved, used, gap)
    return result._replace(jumps=jumps.sum(axis=1).astype(np.float64))


def mean_over_testsets(
    values: Floats, gap: int = 1, halves: Floats | None = None, variance: Floats | None = None
) -> MeanSquares:
    """The same for all test sets of a run together [G, 1]: the mean of their mean squares.

    Test sets that move together are worth fewer squares than those that do not; leaving out blocks of checkpoints
    shows how many. Contrasts of a checkpoint are averaged over the test sets that have one.
    """
    each = contrasts(values, gap)
    jumps = find_jumps(values, gap)
    used = ~np.isnan(each) & ~jumps
    count = np.maximum(used.sum(axis=2, keepdims=True), 1)
    squares = (np.where(used, each, 0.0) ** 2).sum(axis=2, keepdims=True) / count
    moved = None
    if halves is not None:
        moved = (np.where(used[..., None], contrasts(halves, gap), 0.0) ** 2).sum(axis=2, keepdims=True)
        moved = moved / count[..., None]
    elif variance is not None and variance.shape[1] > 2 * gap:
        weighted = variance[:, gap:-gap] + (variance[:, : -2 * gap] + variance[:, 2 * gap :]) / 4
        moved = (np.where(used, weighted / SQUARED_WEIGHTS, 0.0).sum(axis=2, keepdims=True) / count)[..., None]
    some: Bools = np.logical_or.reduce(used, axis=2, keepdims=True)
    result = _summarise(squares, moved, some, gap)
    # Test sets of their own noise are worth more than one of them; how much more, only the blocks can tell.
    most = result.pure_df * used.any(axis=1).sum(axis=1, keepdims=True)
    df = np.clip(_jackknife_df(squares, some), result.pure_df, most)
    return result._replace(df=np.where(np.isnan(result.total), np.nan, df), jumps=jumps.sum(axis=(1, 2))[:, None] * 1.0)


def _summarise(squares: Floats, moved: Floats | None, used: Bools, gap: int) -> MeanSquares:
    """Mean squares of contrasts [G, n - 2 gap, m], and of what the items add (``moved``, one more axis of splits)."""
    number = used.sum(axis=1).astype(np.float64)
    known = np.where(number >= FEWEST_CONTRASTS, number, np.nan)
    total = squares.sum(axis=1) / known
    pure_df = np.where(np.isnan(total), np.nan, _white_df(used, gap))
    df = np.minimum(pure_df, _jackknife_df(squares, used))
    noise, noise_df = np.full_like(total, np.nan), np.full_like(total, np.inf)
    if moved is not None:
        each_split = moved.sum(axis=1) / known[..., None]
        noise = each_split.mean(axis=2)
        splits = each_split.shape[2]
        if splits > 1:
            # Splits are drawn at random from the same items, so their mean is as uncertain as they differ.
            error = each_split.var(axis=2, ddof=1) / splits
            noise_df = np.where(error > 0, 2 * noise**2 / np.where(error > 0, error, 1.0), np.inf)
    return MeanSquares(total, df, pure_df, noise, noise_df, number, np.zeros_like(number))


def _white_df(used: Bools, gap: int) -> Floats:
    """Degrees of freedom of the mean square if values are independent and normal: neighbours share checkpoints."""
    number = used.sum(axis=1).astype(np.float64)
    spread = number.copy()
    for lag, correlation in ((gap, NEXT), (2 * gap, NEXT_BUT_ONE)):
        if used.shape[1] > lag:
            spread += 2 * correlation**2 * (used[:, lag:] & used[:, :-lag]).sum(axis=1)
    df: Floats = number**2 / np.maximum(spread, 1.0)
    return df


def _jackknife_df(squares: Floats, used: Bools) -> Floats:
    """Degrees of freedom that the mean square has by leaving out blocks of contrasts, one at a time.

    Sees fluctuations with heavy tails, and those that come in phases. Infinite where there are too few contrasts.
    """
    groups, n, m = squares.shape
    blocks = min(BLOCKS, n // 3)
    if blocks < 4:
        return np.full((groups, m), np.inf)
    edges = np.linspace(0, n, blocks + 1).astype(int)
    sums = np.add.reduceat(squares, edges[:-1], axis=1)
    counts = np.add.reduceat(used.astype(np.float64), edges[:-1], axis=1)
    rest = counts.sum(axis=1, keepdims=True) - counts
    without = (sums.sum(axis=1, keepdims=True) - sums) / np.maximum(rest, 1.0)
    logs = np.log(np.maximum(without, 1e-300))
    variance = (blocks - 1) / blocks * ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    df: Floats = 2 / np.maximum(variance, 1e-12)
    return df
