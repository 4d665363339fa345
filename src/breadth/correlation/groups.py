"""Over groups: is a correlation the same in every one (random-effects meta-analysis), and how alike are two of them?"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.correlation.panel import Bools, Floats, Ints
from breadth.inference import LEVEL

#: Relabellings to draw where there are too many to try all of them.
PERMUTATIONS = 4999

#: Fewest test sets for which relabelling is informative (4! = 24 relabellings).
FEWEST_TESTSETS = 4


class Heterogeneity(NamedTuple):
    """One number per pair; correlations are on the r scale, ``tau2`` on Fisher's z scale (:func:`summarise_units`)."""

    k: Ints
    r_mean: Floats
    ci_low: Floats
    ci_high: Floats
    p: Floats
    tau2: Floats
    i2: Floats
    predict_low: Floats
    predict_high: Floats
    sign_agreement: Floats
    p_differ: Floats


class Similarity(NamedTuple):
    """One number per pair of groups (first < second); NaN where there are too few test sets."""

    first: Ints
    second: Ints
    testsets: Ints
    similarity: Floats
    difference: Floats
    p: Floats


def summarise_units(
    z: Floats,
    variance: Floats,
    predict: bool = True,
    fisher: bool = True,
    *,
    differ_variance: Floats | None = None,
    new_variance: Floats | None = None,
) -> Heterogeneity:
    """Summarise z [P, G] (NaN where a group has none) with sampling variances over groups.

    Question: what is the correlation of a pair on average over groups, and how far does it vary between
    groups beyond what sampling explains?

    Model: z_g = mu + u_g + e_g, with u of variance tau2 and e of known variance. tau2 is the value at which the
    weighted squares equal their expectation (Paule and Mandel 1982); the interval of the mean uses the adjustment of
    Hartung and Knapp (2001), never letting it narrow the interval, with k - 1 degrees of freedom. ``p`` tests a mean of
    0; it is below 0.05 exactly where that interval excludes 0. I2 is tau2 over tau2 plus the typical sampling variance
    (Higgins and Thompson 2002). The prediction interval is where the correlation of a new group is expected; it
    averages over the uncertainty of tau2, as Nagashima, Noma and Furukawa (2019) do, because the usual interval, which
    takes tau2 as known, is too narrow. ``sign_agreement`` is the share of groups whose correlation has the sign of the
    mean. ``p_differ`` is Cochran's test that all groups have one correlation.

    ``predict`` False leaves out the prediction interval, which takes most of the time. ``fisher`` False: ``z`` is not
    on Fisher's scale (differences of accuracy, say), and what is returned is on the scale of ``z``. A test for
    differences is safe with a sampling variance that is, if anything, too large, and an interval for a new group with
    one that is too small: ``differ_variance`` and ``new_variance`` are these, ``variance`` by default.

    Assumes that groups are a sample of the groups of interest. With two groups there is no prediction interval; with
    fewer than about five, tau2 is very uncertain.
    """
    known = ~np.isnan(z)
    k = known.sum(axis=1)
    z0 = np.where(known, z, 0.0)
    precision = _precision(variance, known)
    cautious = precision if differ_variance is None else _precision(differ_variance, known)
    sharp = precision if new_variance is None else _precision(new_variance, known)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = precision.sum(axis=1)
        sum_cautious = cautious.sum(axis=1)
        fixed = (cautious * z0).sum(axis=1) / np.where(sum_cautious > 0, sum_cautious, 1.0)
        cochran = (cautious * (z0 - fixed[:, None]) ** 2).sum(axis=1)
        tau2 = _solve_tau2(z0, precision, np.maximum(k - 1, 0).astype(np.float64))
        weight = precision / (1 + precision * tau2[:, None])
        sum_weight = weight.sum(axis=1)
        mean = (weight * z0).sum(axis=1) / sum_weight
        scale = (weight * (z0 - mean[:, None]) ** 2).sum(axis=1) / (k - 1)
        error = np.sqrt(np.maximum(scale, 1.0) / sum_weight)
        alone = special.ndtri((1 + LEVEL) / 2) / np.sqrt(total)
        half = np.where(k > 1, special.stdtrit(k - 1, (1 + LEVEL) / 2) * error, alone)
        size = np.abs(mean)
        p_mean = 2 * np.where(k > 1, special.stdtr(k - 1, -size / error), special.ndtr(-size * np.sqrt(total)))
        typical = (k - 1) * total / (total**2 - (precision**2).sum(axis=1))
        unknown = np.full(len(k), np.nan)
        predict_low, predict_high = unknown, unknown
        if predict:
            predict_low, predict_high = _prediction(z0, sharp, k.astype(np.float64))
        several = np.where(k > 1, 1.0, np.nan)
        agreement = ((np.sign(z0) == np.sign(mean)[:, None]) & known).sum(axis=1) / k
        p = special.chdtrc(k - 1, cochran)
    back = np.tanh if fisher else np.asarray
    return Heterogeneity(
        k,
        back(mean),
        back(mean - half),
        back(mean + half),
        np.where(k > 0, p_mean, np.nan),
        tau2 * several,
        tau2 / (tau2 + typical) * several,
        np.where(k > 2, back(predict_low), np.nan),
        np.where(k > 2, back(predict_high), np.nan),
        np.where(k > 0, agreement, np.nan),
        p * several,
    )


def _precision(variance: Floats, known: Bools) -> Floats:
    """One over the variance; 0 where a group has no correlation, so that it counts for nothing."""
    precision: Floats = np.where(known, 1 / np.where(known, variance, 1.0), 0.0)
    return precision


def _solve_tau2(z: Floats, precision: Floats, target: Floats) -> Floats:
    """Solve Q(tau2) = target by Newton's method; Q falls and is convex, so steps from 0 never overshoot.

    With the target k - 1 this is the estimate of Paule and Mandel. Zero where even Q(0) is below the target.
    """
    tau2 = np.zeros(len(target))
    for _ in range(100):
        weight = precision / (1 + precision * tau2[:, None])
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


def _prediction(z: Floats, precision: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Ends of the prediction interval: quantiles of a mixture of t distributions over likely values of tau2.

    Q(tau2) follows chi-square with k - 1 degrees of freedom, so solving it for quantiles of chi-square gives
    equally likely values of tau2. The t distributions have k - 2 degrees of freedom, as in Higgins, Thompson and
    Spiegelhalter (2009): where groups are of two kinds that contradict each other, three groups are of the same kind in
    one study of four, and with k - 1 degrees of freedom intervals then covered 0.88 to 0.91 (benchmarks/units.py).
    """
    # With hundreds of groups tau2 is known well enough for a single value.
    nodes = 1 if k.max(initial=0) > 200 else 25
    centres, scales = [], []
    for u in (np.arange(nodes) + 0.5) / nodes:
        tau2 = _solve_tau2(z, precision, special.chdtri(np.maximum(k - 1, 1), u))
        weight = precision / (1 + precision * tau2[:, None])
        total = weight.sum(axis=1)
        centre = (weight * z).sum(axis=1) / total
        spread = (weight * (z - centre[:, None]) ** 2).sum(axis=1) / (k - 1)
        centres.append(centre)
        scales.append(np.sqrt(tau2 + np.maximum(spread, 1.0) / total))
    centre, scale = np.array(centres), np.array(scales)
    df = np.maximum(k - 2, 1)
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


def compare_groups(r: Floats, z: Floats, m: int, seed: int = 0) -> Similarity:
    """Compare the correlation matrices of every two groups, given r and z = atanh(r) [G, P] of m test sets.

    ``similarity`` is the correlation, over pairs of test sets, between the two groups' z: do pairs that go
    together in one group go together in the other? ``difference`` is the mean absolute difference of r. ``p`` is
    Mantel's test (1967): the share of relabellings of one group's test sets that make the matrices at least as
    similar, over all relabellings if there are no more than 5,040 of them, else over 4,999 random ones. Entries of a
    matrix are not independent, which is why the test relabels and does not use t.

    Test sets that lack a correlation in either group are left out for that pair of groups; at least four must
    remain. A similarity near 0 does not mean that the groups contradict each other: that is near -1.
    """
    first, second = np.triu_indices(len(r), 1)
    a, b = np.triu_indices(m, 1)
    # A group's test sets with most missing pairs are dropped one by one until no pair is missing.
    usable = np.ones((len(r), m), dtype=bool)
    for keep, values in zip(usable, r, strict=True):
        lacking = np.zeros((m, m), dtype=bool)
        lacking[a, b] = lacking[b, a] = np.isnan(values)
        while (missing := (lacking & keep[:, None] & keep).sum(axis=1)).any():
            keep[missing.argmax()] = False
    shared = usable[first] & usable[second]
    similarity, difference, p = (np.full(len(first), np.nan) for _ in range(3))
    generator = np.random.default_rng(seed)
    patterns, which = np.unique(shared, axis=0, return_inverse=True)
    for index, keep in enumerate(patterns):
        size = int(keep.sum())
        if size < FEWEST_TESTSETS:
            continue
        members = np.flatnonzero(which.reshape(-1) == index)
        inside = keep[a] & keep[b]
        groups, place = np.unique(np.concatenate([first[members], second[members]]), return_inverse=True)
        left, right = np.split(place.reshape(-1), 2)
        values = r[groups][:, inside]
        difference[members] = np.abs(values[left] - values[right]).mean(axis=1)
        # Rows centred and of length 1, so that products are correlations; NaN where constant.
        vectors = z[groups][:, inside]
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
        length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        vectors = vectors / np.where(length > 1e-12, length, np.nan)
        observed = (vectors[left] * vectors[right]).sum(axis=1)
        similarity[members] = observed
        # Mantel's test. The observed labelling is one of all relabellings, and is added to random ones.
        exact = math.factorial(size) <= 5040
        orders = (
            np.array(list(itertools.permutations(range(size))), dtype=np.intp)
            if exact
            else generator.permuted(np.tile(np.arange(size), (PERMUTATIONS, 1)), axis=1)
        )
        row, column = np.triu_indices(size, 1)
        position = np.zeros((size, size), dtype=np.intp)
        position[row, column] = position[column, row] = np.arange(len(row))
        at_least = np.full(len(observed), 0.0 if exact else 1.0)
        for order in orders:
            alike = vectors @ vectors[:, position[order[row], order[column]]].T
            at_least += alike[left, right] >= observed - 1e-12
        share = at_least / (len(orders) + (0 if exact else 1))
        p[members] = np.where(np.isnan(observed), np.nan, share)
    return Similarity(first, second, shared.sum(axis=1).astype(np.intp), similarity, difference, p)
