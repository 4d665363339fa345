"""From mean squares of runs to standard deviations with intervals: of a run, of a model, and of two models compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.fluctuation.mean_squares import Floats
from breadth.inference import LEVEL, NORMAL

#: Share of its degrees of freedom that the mean square of contrasts has by its third moment.
SKEWED = 0.777

#: Least width of the interval of a typical run, as a share of what its runs' checkpoints alone would give. Two or three
#: runs often agree by chance; a higher share would make intervals cover more than 98 % where runs are alike.
LEAST_WIDTH = 0.7

#: Halvings when a limit is searched for, and how far on the scale of natural logarithms.
HALVINGS, FARTHEST = 60, 12.0


class FluctuationVariance(NamedTuple):
    """Fluctuation beyond item noise as a variance, its interval, and the p-value of no fluctuation beyond noise."""

    variance: Floats
    low: Floats
    high: Floats
    p: Floats


def spread_of_runs(
    total: Floats, df: Floats, pure_df: Floats, noise: Floats, noise_df: Floats, at_most: bool
) -> FluctuationVariance:
    """Fluctuation of single runs, or of a model's runs taken together: what these very runs did.

    Question: how far did the score move up and down, beyond what the choice of items explains?

    ``total / expected`` is chi-squared with ``df`` degrees of freedom over df; its interval, less the noise, is that of
    the variance. With mere noise, total / noise is close to F with ``pure_df`` and ``noise_df``; its upper tail is that
    of a shifted chi-squared with the same first three moments, since neighbouring contrasts share checkpoints (with the
    plain one, a p below 0.01 was a fifth too frequent in 20 or 40 checkpoints). Where noise is only known to be
    ``at_most`` so large, the upper end is that of the total. In simulations of 20 to 100 checkpoints the interval
    covers 92 to 98 % with normal fluctuations and with tails as heavy as those of t with 5 degrees of freedom, but 81
    to 88 % with 3 (benchmarks/stability.py). Do not read it as a statement about another run.
    """
    known = np.nan_to_num(noise)
    with np.errstate(invalid="ignore", divide="ignore"):
        low = total * df / special.chdtri(df, (1 - LEVEL) / 2)
        high = total * df / special.chdtri(df, (1 + LEVEL) / 2)
        ratio = np.maximum(1 + (total / noise - 1) / np.sqrt(SKEWED), 0.0)
        shape = SKEWED * pure_df
        exact = np.isinf(noise_df)
        p_exact = special.chdtrc(shape, shape * ratio)
        p = np.where(exact, p_exact, special.fdtrc(shape, SKEWED * np.where(exact, 1e9, noise_df), ratio))
    upper = high if at_most else high - known
    p = np.where(np.isnan(noise) | np.isnan(total), np.nan, np.where(total > 0, p, 1.0))
    return FluctuationVariance(_positive(total - known), _positive(low - known), _positive(upper), p)


class Typical(NamedTuple):
    """The typical run of a model on a logarithmic scale: mean of log mean squares, its standard error, runs, noise."""

    centre: float
    error: float
    runs: int
    noise: float

    def ends(self, quantile: float) -> tuple[float, float]:
        """Ends of the interval of the variance that the total and not the noise makes up."""
        low, high = self.centre - quantile * self.error, self.centre + quantile * self.error
        return float(np.exp(min(low, 700.0)) - self.noise), float(np.exp(min(high, 700.0)) - self.noise)


def typical_run(total: Floats, df: Floats, noise: Floats) -> Typical | None:
    """What to expect of a typical run of a model: the geometric mean over its runs [R]; None if none can be used.

    The logarithm of a mean square is too low on average by digamma(df / 2) - log(df / 2), which is added. Its error is
    what runs differ by, with t of runs - 1 degrees of freedom: seeds of one model can fluctuate unequally, and two
    checkpoints of one run tell nothing about that. Runs that happen to agree far better than their number of
    checkpoints allows do not make the interval narrower than 0.7 times what follows from it. The mean noise of the runs
    is subtracted at the end, so no run is left out because its own fluctuation is below the noise.
    """
    used = ~np.isnan(total) & (total > 0) & ~np.isnan(df)
    number = int(used.sum())
    if not number:
        return None
    logs = np.log(total[used]) - (special.digamma(df[used] / 2) - np.log(df[used] / 2))
    error = float("nan")
    if number > 1:
        sampling = float(np.sqrt((2 / df[used]).mean()))
        quantile = float(special.stdtrit(number - 1, (1 + LEVEL) / 2))
        least = LEAST_WIDTH * NORMAL * sampling / quantile
        error = max(float(logs.std(ddof=1)), least) / float(np.sqrt(number))
    mean_noise = float(np.nan_to_num(noise[used]).mean())
    return Typical(float(logs.mean()), error, number, mean_noise)


class Ratio(NamedTuple):
    """How many times as large the standard deviation of one model is, with interval and p-value of equality."""

    ratio: float
    low: float
    high: float
    p: float


def compare_models(first: Typical, second: Typical) -> Ratio:
    """Does one model fluctuate more than another? The ratio of their standard deviations beyond noise.

    Limits of the difference a - r b of two variances are recovered from those of a and b (Donner and Zou 2012, MOVER),
    which are t intervals on the logarithmic scale with Welch's degrees of freedom, less noise. The ends of the interval
    are the ratios r at which that difference is just not 0; the upper one is infinite where the second may not
    fluctuate at all. Both need two runs or more.
    """
    errors, runs = np.array([first.error, second.error]), np.array([first.runs, second.runs])
    if (runs < 2).any():
        return Ratio(_ratio(first, second), np.nan, np.nan, np.nan)
    squares = np.maximum(errors**2, 1e-12)
    df = float(squares.sum() ** 2 / (squares**2 / (runs - 1)).sum())
    quantile = float(special.stdtrit(df, (1 + LEVEL) / 2))
    if max(float(np.exp(each.centre)) - each.noise for each in (first, second)) <= 0:
        # Neither moves by more than noise would: there is nothing of which one could have more.
        return Ratio(float("nan"), 0.0, float("inf"), 1.0)
    low = _lowest_ratio(first, second, quantile)
    lowest_inverse = _lowest_ratio(second, first, quantile)
    high = np.inf if lowest_inverse <= 0 else 1 / lowest_inverse
    # The level at which the interval of the difference just touches 0.
    narrow, wide = 0.0, 1e4
    for _ in range(HALVINGS):
        middle = (narrow + wide) / 2
        differ = _excludes_zero(first, second, middle) or _excludes_zero(second, first, middle)
        narrow, wide = (middle, wide) if differ else (narrow, middle)
    p = float(2 * special.stdtr(df, -narrow))
    return Ratio(_ratio(first, second), float(np.sqrt(low)), float(np.sqrt(high)), p)


def _ratio(first: Typical, second: Typical) -> float:
    above, below = (max(float(np.exp(each.centre)) - each.noise, 0.0) for each in (first, second))
    if below == 0:
        return float("nan") if above == 0 else float("inf")
    return float(np.sqrt(above / below))


def _lower_limit(first: Typical, second: Typical, quantile: float, times: float) -> float:
    """Lower limit of the first variance less ``times`` the second."""
    a, b = float(np.exp(first.centre)) - first.noise, float(np.exp(second.centre)) - second.noise
    low, high = first.ends(quantile)[0], second.ends(quantile)[1]
    return a - times * b - float(np.hypot(a - low, times * (high - b)))


def _excludes_zero(first: Typical, second: Typical, quantile: float) -> bool:
    return _lower_limit(first, second, quantile, 1.0) > 0


def _lowest_ratio(first: Typical, second: Typical, quantile: float) -> float:
    """The smallest ratio of variances within the interval; 0 where the first may not fluctuate at all."""
    if first.ends(quantile)[0] <= 0:
        return 0.0
    lowest, highest = -FARTHEST, FARTHEST
    for _ in range(HALVINGS):
        middle = (lowest + highest) / 2
        if _lower_limit(first, second, quantile, float(np.exp(middle))) > 0:
            lowest = middle
        else:
            highest = middle
    return float(np.exp(lowest))


def _positive(variance: Floats) -> Floats:
    result: Floats = np.maximum(variance, 0.0)
    return result
