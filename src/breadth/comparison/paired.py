"""The difference of two models on the same items: estimate, standard error from items and runs, interval, test.

Arrays in, numbers out. Items may come in clusters (a shared passage or template), models in several runs (seeds).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.inference import LEVEL, NORMAL, Floats

Indices = npt.NDArray[np.intp]

#: Items on which exactly one of two models is right, up to which the paired test is exact.
EXACT = 1000


#: Share of the noise of single answers below which runs are not taken to lie closer together.
LEAST_NOISE = 0.25


class Difference(NamedTuple):
    """Second minus first, with standard error, degrees of freedom, 95 % interval and p-value; NaN where unknown.

    ``only_first`` and ``only_second`` are the sums of answers by which one is ahead of the other: for single runs the
    numbers of items that only one of the two got right. ``exact`` is whether ``p`` is that of the exact test.
    ``runs_se`` is the part of the standard error that comes from runs.
    """

    estimate: float
    se: float
    df: float
    low: float
    high: float
    p: float
    only_first: float
    only_second: float
    exact: bool
    runs_se: float


class MeanVariance(NamedTuple):
    """Variance of a mean, and the degrees of freedom with which it is known."""

    variance: float
    df: float


def exact_p(only_first: int, only_second: int) -> float:
    """McNemar's exact test: two-sided p-value of the items that only one of two models got right.

    Under the null, which of the two is right is a fair coin for each of them (McNemar 1947; binomial test). The others
    do not count. Use it for single runs and items that are independent of each other.

    >>> round(exact_p(3, 12), 6)
    0.035156
    """
    least, total = min(only_first, only_second), only_first + only_second
    # The incomplete beta function keeps more digits than scipy's bdtr.
    return min(1.0, 2.0 * float(special.betainc(total - least, least + 1, 0.5))) if total else 1.0


def score_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """Bonett and Price's (2012) interval for a difference of paired shares: one item more is added to either side.

    Unlike the usual interval it has a width where the two models answer alike, and covers well for small tables.
    """
    first, second = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    middle = second - first
    half = NORMAL * float(np.sqrt((first + second - middle**2) / (n + 2)))
    return max(-1.0, middle - half), min(1.0, middle + half)


def mean_spread(values: Floats, cluster: Indices | None = None) -> MeanVariance:
    """Variance of the mean of ``values`` [n] over items, which may come in clusters numbered from 0.

    Residuals are added up within clusters, and each sum is divided by the square root of the share of items outside
    the cluster (CR2: Bell and McCaffrey 2002), which makes the variance unbiased where values are independent. Degrees
    of freedom are Satterthwaite's under a working model in which values of a cluster have the correlation that the data
    show, so that few or unequal clusters widen the interval.
    """
    n = len(values)
    centred = values - values.mean()
    if cluster is None:
        return MeanVariance(float(centred @ centred) / (n - 1) / n, n - 1.0) if n > 1 else MeanVariance(np.nan, np.nan)
    size = np.bincount(cluster).astype(np.float64)
    size, total = size[size > 0], np.bincount(cluster, centred)[np.bincount(cluster) > 0]
    if len(size) < 2:
        return MeanVariance(np.nan, np.nan)
    share = size / n
    weight = 1 / (1 - share)
    variance = float((weight * total**2).sum()) / n**2
    pairs = float((size * (size - 1)).sum())
    own = float(centred @ centred)
    alike = (float(total @ total) - own) / pairs / (own / n) if pairs and own else 0.0
    spread = size * (1 + (size - 1) * float(np.clip(alike, 0, 1)))
    # Covariance of the sums: diag(v) - p v' - v p' + sum(v) p p'. Its trace and squared trace under the weights.
    everything = float(spread.sum())
    own_part = -2 * share * spread + everything * share**2
    mean = float((weight * (spread + own_part)).sum())
    basis = np.column_stack([share, spread])
    gram = basis.T @ (weight[:, None] * basis) @ np.array([[everything, -1.0], [-1.0, 0.0]])
    squares = float((weight**2 * (spread**2 + 2 * spread * own_part)).sum() + np.trace(gram @ gram))
    return MeanVariance(variance, max(1.0, mean**2 / squares) if squares > 0 else len(size) - 1.0)


def run_spread(runs: Floats, cluster: Indices | None = None) -> tuple[float, float, int]:
    """How far a model's runs [R, n] lie apart: variance of run means, its part from items, degrees of freedom."""
    apart = runs.mean(axis=1) - runs.mean()
    left = runs - runs.mean(axis=0) - apart[:, None]
    n, df = runs.shape[1], len(runs) - 1
    if cluster is None:
        noise = float((left**2).sum()) / (df * max(n - 1, 1) * n)
    else:
        sums = np.stack([np.bincount(cluster, row) for row in left])
        groups = int((np.bincount(cluster) > 0).sum())
        noise = float((sums**2).sum()) * groups / max(groups - 1, 1) / (df * n**2)
    return float(apart @ apart) / df, noise, df


def add_runs(items: MeanVariance, runs: MeanVariance, noise: float) -> MeanVariance:
    """Squared standard error of a difference from items and runs, with degrees of freedom that give its interval.

    ``items`` is the variance of the mean over items, ``runs`` what the spread of run means makes of it, and ``noise``
    the part that both of them hold, because every run answers every item with some chance. The variance is items +
    runs - noise. Few runs know ``runs`` badly. Satterthwaite's interval is too short then where runs vary much, and
    that of Graybill and Wang (1980), which adds half-widths in quadrature, too long where they vary little: the mean
    of the squared half-widths of the two is right within two points of coverage from four runs in all on.

    Runs can lie closer together than noise lets them, by chance; that counts, down to a quarter of the noise. Otherwise
    intervals are too long where runs do not vary at all.
    """
    if not runs.df:
        return items
    rest = max(items.variance - noise, 0.0)
    least = max(items.variance - (1 - LEAST_NOISE) * noise, 0.0)
    variance = max(rest + runs.variance, least)
    wobble = rest**2 / items.df + runs.variance**2 / runs.df
    if not wobble > 0:
        return MeanVariance(variance, items.df)
    inner, outer = (float(special.stdtrit(df, (1 + LEVEL) / 2)) ** 2 for df in (items.df, runs.df))
    satterthwaite = float(special.stdtrit(max(1.0, (rest + runs.variance) ** 2 / wobble), (1 + LEVEL) / 2)) ** 2
    short, long = satterthwaite * (rest + runs.variance), inner * rest + outer * runs.variance
    squared = (max(short, inner * least) + max(long, inner * least)) / 2
    ratio = np.sqrt(squared / variance)
    df = float(special.stdtridf((1 + LEVEL) / 2, ratio)) if ratio > NORMAL * (1 + 1e-6) else np.inf
    return MeanVariance(variance, max(df, 1.0))


def _runs_spreads(first: Floats, second: Floats, cluster: Indices | None) -> tuple[list[MeanVariance], list[float]]:
    """What run means make of the variance of a difference, pooled and (where counts differ) apart; its noise, too."""
    counts = np.array([len(first), len(second)], dtype=np.float64)
    known = [run_spread(runs, cluster) if len(runs) > 1 else (0.0, 0.0, 0) for runs in (first, second)]
    own, noise, df = (np.array(values, dtype=np.float64) for values in zip(*known, strict=True))
    total = max(float(df.sum()), 1.0)
    scale = float((1 / counts).sum())
    spreads = [MeanVariance(float((df * own).sum()) / total * scale, float(df.sum()))]
    parts = [float((df * noise).sum()) / total * scale]
    variance = own / counts
    if counts.min() > 1 and counts[0] != counts[1] and variance.any():
        welch = float(variance.sum() ** 2 / (variance**2 / df).sum())
        spreads.append(MeanVariance(float(variance.sum()), welch))
        parts.append(float((noise / counts).sum()))
    return spreads, parts


def paired_difference(first: Floats, second: Floats, cluster: Indices | None = None) -> Difference:
    """How much better is the second model than the first on the items that both answered?

    Parameters
    ----------
    first, second
        Answers [runs, items] of the two models, in [0, 1].
    cluster
        Cluster of every item, numbered from 0; None where items are independent.

    Notes
    -----
    Answers are paired by item, so what makes an item hard for both models cancels. Items are a sample, clustered or
    not (:func:`mean_spread`). Where a model has several runs, runs are a sample too, crossed with items: the variance
    of run means is added, less the part of it that is due to the items (Cornfield and Tukey 1956). It is pooled over
    the two models, and a model with one run is taken to vary like the other. Where both have several runs, but not
    equally many, pooling would hide the runs of a model that varies more and has fewer of them, so each model's own
    variance is used as well (Welch 1947), and the wider interval taken. :func:`add_runs` has the interval.

    For single runs of right and wrong answers without clusters the interval is that of :func:`score_interval`, and up
    to 1,000 items on which the two differ the test is :func:`exact_p`. Where that is at 5 % or more, the interval is
    extended to 0 if it does not hold it, so that interval and test never disagree. With one run each, chance variation
    of training is not in the interval.
    """
    n = first.shape[1]
    gap = second.mean(axis=0) - first.mean(axis=0)
    estimate = float(gap.mean())
    behind, ahead = float(-gap[gap < 0].sum()), float(gap[gap > 0].sum())
    items = mean_spread(gap, cluster)
    runs, noise = _runs_spreads(first, second, cluster)
    totals = [add_runs(items, each, part) for each, part in zip(runs, noise, strict=True)]
    chosen = max(
        range(len(totals)),
        key=lambda k: float(totals[k].variance * special.stdtrit(totals[k].df, (1 + LEVEL) / 2) ** 2),
    )
    total = totals[chosen]
    se, df = float(np.sqrt(total.variance)), total.df
    runs_se = float(np.sqrt(max(runs[chosen].variance - noise[chosen], 0.0)))
    whole = len(first) == len(second) == 1 and cluster is None and bool(np.isin(gap, (-1, 0, 1)).all())
    if whole and bool(np.isin(first, (0, 1)).all()):
        low, high = score_interval(int(behind), int(ahead), n)
        exact = behind + ahead <= EXACT
        if exact:
            p = exact_p(int(behind), int(ahead))
            if p > 1 - LEVEL:
                # The exact test is the stricter one. What it leaves open, the interval must not rule out.
                low, high = min(low, 0.0), max(high, 0.0)
        else:
            p = float(2 * special.ndtr(-NORMAL * abs(low + high) / (high - low)))
        return Difference(estimate, se, df, low, high, p, behind, ahead, exact, 0.0)
    if not se > 0:
        return Difference(estimate, se, df, np.nan, np.nan, np.nan, behind, ahead, False, runs_se)
    half = float(special.stdtrit(df, (1 + LEVEL) / 2)) * se
    p = float(2 * special.stdtr(df, -abs(estimate) / se))
    # Shares cannot differ by more than 1.
    low, high = max(-1.0, estimate - half), min(1.0, estimate + half)
    return Difference(estimate, se, df, low, high, p, behind, ahead, False, runs_se)
