"""Is it the same correlation in every group? Random-effects meta-analysis, for all pairs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.stats.intervals import LEVEL
from breadth.stats.panel import Floats


class Heterogeneity(NamedTuple):
    """One number per pair; correlations are on the r scale, ``tau2`` on Fisher's z scale."""

    k: Floats
    r_mean: Floats
    low: Floats
    high: Floats
    tau2: Floats
    i2: Floats
    predict_low: Floats
    predict_high: Floats
    sign_agreement: Floats
    p: Floats


def summarise(z: Floats, variance: Floats) -> Heterogeneity:
    """Summarise z [P, G] (NaN where a group has none) with sampling variances over groups.

    Question: what is the correlation of a pair on average over groups, and how far does it vary between
    groups beyond what sampling explains?

    Model: z_g = mu + u_g + e_g, with u of variance tau2 and e of known variance. tau2 is the value at which
    the weighted squares equal their expectation (Paule and Mandel 1982); the interval of the mean uses the
    adjustment of Hartung and Knapp (2001), never letting it narrow the interval, with k - 1 degrees of freedom;
    I2 is tau2 over tau2 plus the typical sampling variance (Higgins and Thompson 2002). The prediction interval
    is where the correlation of a new group is expected; it averages over how uncertain tau2 is, as Nagashima, Noma and
    Furukawa (2019) do, because the usual interval, which takes tau2 as known, is too narrow. ``sign_agreement`` is the
    share of groups whose correlation has the sign of the mean. ``p`` is Cochran's test that all groups have one
    correlation.

    Assumes groups to be a sample of the groups one would speak about. With two groups there is no prediction
    interval; with fewer than about five, tau2 is little more than a guess.
    """
    known = ~np.isnan(z)
    k = known.sum(axis=1).astype(np.float64)
    z0 = np.where(known, z, 0.0)
    precision = np.where(known, 1 / np.where(known, variance, 1.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        q0, total = _cochran(z0, precision, np.zeros(len(k)))
        tau2 = _solve_tau2(z0, precision, np.maximum(k - 1, 0))
        weight = _weights(precision, tau2)
        sum_weight = weight.sum(axis=1)
        mean = (weight * z0).sum(axis=1) / sum_weight
        scale = (weight * (z0 - mean[:, None]) ** 2).sum(axis=1) / (k - 1)
        error = np.sqrt(np.maximum(scale, 1.0) / sum_weight)
        alone = special.ndtri((1 + LEVEL) / 2) / np.sqrt(total)
        half = np.where(k > 1, special.stdtrit(k - 1, (1 + LEVEL) / 2) * error, alone)
        typical = (k - 1) * total / (total**2 - (precision**2).sum(axis=1))
        predict_low, predict_high = _prediction(z0, precision, k)
        several = np.where(k > 1, 1.0, np.nan)
        agreement = ((np.sign(z0) == np.sign(mean)[:, None]) & known).sum(axis=1) / k
        p = special.chdtrc(k - 1, q0)
    return Heterogeneity(
        k,
        np.tanh(mean),
        np.tanh(mean - half),
        np.tanh(mean + half),
        tau2 * several,
        tau2 / (tau2 + typical) * several,
        np.where(k > 2, np.tanh(predict_low), np.nan),
        np.where(k > 2, np.tanh(predict_high), np.nan),
        np.where(k > 0, agreement, np.nan),
        p * several,
    )


def _weights(precision: Floats, tau2: Floats) -> Floats:
    """1 / (variance + tau2), zero where there is no observation."""
    return precision / (1 + precision * tau2[:, None])


def _cochran(z: Floats, precision: Floats, tau2: Floats) -> tuple[Floats, Floats]:
    weight = _weights(precision, tau2)
    total = weight.sum(axis=1)
    mean = (weight * z).sum(axis=1) / np.where(total > 0, total, 1.0)
    return (weight * (z - mean[:, None]) ** 2).sum(axis=1), total


def _prediction(z: Floats, precision: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Ends of the prediction interval: quantiles of a mixture of t distributions over likely values of tau2.

    Q(tau2) follows chi-square with k - 1 degrees of freedom, so solving it for quantiles of chi-square gives
    equally likely values of tau2.
    """
    # With hundreds of groups tau2 is known well enough for a single value.
    nodes = 1 if k.max(initial=0) > 200 else 25
    centres, scales = [], []
    for u in (np.arange(nodes) + 0.5) / nodes:
        tau2 = _solve_tau2(z, precision, special.chdtri(np.maximum(k - 1, 1), u))
        weight = _weights(precision, tau2)
        total = weight.sum(axis=1)
        centre = (weight * z).sum(axis=1) / total
        spread = (weight * (z - centre[:, None]) ** 2).sum(axis=1) / (k - 1)
        centres.append(centre)
        scales.append(np.sqrt(tau2 + np.maximum(spread, 1.0) / total))
    centre, scale = np.array(centres), np.array(scales)
    df = np.maximum(k - 1, 1)
    reach = special.stdtrit(df, 1 - (1 - LEVEL) / (4 * nodes)) * scale.max(axis=0)
    ends = []
    for target in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        low, high = centre.min(axis=0) - reach, centre.max(axis=0) + reach
        for _ in range(50):
            middle = (low + high) / 2
            below = special.stdtr(df, (middle - centre) / scale).mean(axis=0) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append(high)
    return ends[0], ends[1]


def _solve_tau2(z: Floats, precision: Floats, target: Floats) -> Floats:
    """Solve Q(tau2) = target by Newton's method; Q falls and is convex, so steps from 0 never overshoot.

    With the target k - 1 this is the estimate of Paule and Mandel. Zero where even Q(0) is below the target.
    """
    tau2 = np.zeros(len(target))
    for _ in range(100):
        weight = _weights(precision, tau2)
        total = weight.sum(axis=1)
        mean = (weight * z).sum(axis=1) / np.where(total > 0, total, 1.0)
        squares = (weight * (z - mean[:, None]) ** 2).sum(axis=1)
        slope = (weight**2 * (z - mean[:, None]) ** 2).sum(axis=1)
        step = np.where((target > 0) & (slope > 0), (squares - target) / np.where(slope > 0, slope, 1.0), 0.0)
        moved = np.maximum(tau2 + step, 0.0)
        if np.all(np.abs(moved - tau2) <= 1e-12 + 1e-10 * tau2):
            return moved
        tau2 = moved
    return tau2
