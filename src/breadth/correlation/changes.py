"""Does a correlation change during training? The first part of every run against its last.

Units are those of the mean correlation: models where runs are their seeds, else runs. Both parts of a unit share
whatever is its own, so what is averaged is the difference within a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.attenuation import LEAST_RELIABILITY, MOST_LEAK
from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Bools, Floats, Ints
from breadth.correlation.partial import Partial
from breadth.correlation.result import CHANGE_SCHEMA, select_groups, with_q
from breadth.correlation.units import FEWEST_UNITS, Units, known_pairs, observed_z
from breadth.inference import LEVEL

#: Correlations of signal closer to 1 than this, in the first or last part, are beyond what a difference can be told of.
STRONGEST = 0.99


class Changes(NamedTuple):
    """Per pair [P]: correlations of both parts, their difference on Fisher's scale with its interval, and p.

    ``k`` counts what the difference is a mean over. NaN where a correlation of either part cannot be had.
    """

    k: Ints
    early: Floats
    late: Floats
    difference: Floats
    ci_low: Floats
    ci_high: Floats
    p: Floats


def change_over_units(early: Partial, late: Partial, of_group: Ints) -> Changes:
    """Is the correlation in the last part of training another one than in the first, in a new unit like these?

    A unit's difference is that of its runs' mean z, weighted by effective rows. Over units its mean is tested with t of
    units - 1 degrees of freedom, which needs no assumption on how checkpoints depend on each other, within a part or
    across the border of neighbouring parts. Where the noise of scores is known, it is corrected for in each part by the
    mean reliabilities over units: scores that fluctuate more later are more reliable there, and would seem to correlate
    more. Leaving out one unit at a time gives the error, that of the reliabilities included.

    ``early`` and ``late`` hold the same groups. Do not use it with fewer than three units.
    """
    known = known_pairs(early) & known_pairs(late)
    units = int(of_group.max(initial=-1)) + 1
    member = (of_group[None, :] == np.arange(units)[:, None]).astype(np.float64)
    sides = [_unit_means(side, known, member) for side in (early, late)]
    present = ~np.isnan(sides[0].z)
    k = present.sum(axis=0).astype(np.intp)
    whole = [side.over(present) for side in sides]
    difference = whole[1] - whole[0]
    # Leave out one unit at a time.
    without = np.full((units, len(k)), np.nan)
    for unit in range(units):
        rest = present.copy()
        rest[unit] = False
        apart = sides[1].over(rest) - sides[0].over(rest)
        without[unit] = np.where(present[unit], apart, np.nan)
    failed = (np.isnan(without) & present).any(axis=0) | (k < FEWEST_UNITS)
    shown = np.where(failed, np.nan, difference)
    spread = np.nansum((without - _nanmean(without)) ** 2, axis=0)
    error = np.sqrt(np.maximum(spread, 1e-24) * (k - 1) / np.maximum(k, 1))
    df = np.maximum(k - 1, 1).astype(np.float64)
    at_most = np.zeros(len(k), dtype=bool)
    if early.correction is not None and late.correction is not None:
        at_most = np.asarray(early.correction.at_most.any(axis=0) | late.correction.at_most.any(axis=0))
    result = _tested(k, np.tanh(whole[0]), np.tanh(whole[1]), shown, error, df)
    if not at_most.any():
        return result
    # Noise lies between none and what was subtracted: what is claimed must hold with either.
    plain = change_over_units(early._replace(correction=None), late._replace(correction=None), of_group)
    return _either(result, plain, at_most)


def change_of_run(early: Partial, late: Partial) -> Changes:
    """The same for one run or two, and about these very runs: errors come from the effective checkpoints of each part.

    The mean difference over the runs; both parts are taken as independent, which overstates the error a little where
    they are neighbours. Degrees of freedom are Satterthwaite's.
    """
    sides = [_each_run(side) for side in (early, late)]
    known = ~np.isnan(sides[0].z) & ~np.isnan(sides[1].z)
    k = known.sum(axis=0).astype(np.intp)

    def mean(values: Floats) -> Floats:
        total: Floats = np.where(known, values, 0.0).sum(axis=0)
        result: Floats = np.where(k > 0, total, np.nan) / np.maximum(k, 1)
        return result

    variance = mean(sides[0].variance + sides[1].variance) / np.maximum(k, 1)
    squares = mean(sides[0].variance ** 2 / sides[0].df + sides[1].variance ** 2 / sides[1].df) / np.maximum(k, 1) ** 3
    df = np.maximum(variance**2 / np.where(squares > 0, squares, np.nan), 1.0)
    difference = mean(sides[1].z - sides[0].z)
    return _tested(k, np.tanh(mean(sides[0].z)), np.tanh(mean(sides[1].z)), difference, np.sqrt(variance), df)


def changes_frame(early: Partial, late: Partial, units: Units, testsets: Sequence[str]) -> pl.DataFrame:
    """One row per pair: what :func:`change_over_units` gives; with one unit or two, a row per unit and pair.

    ``units`` are those of the groups that have both parts, in the same order.
    """
    names = pl.Series(testsets, dtype=pl.String)
    a, b = (names.gather(side) for side in np.triu_indices(len(testsets), 1))

    def rows(changes: Changes) -> pl.DataFrame:
        frame = pl.DataFrame({"a": a, "b": b, **changes._asdict()}, nan_to_null=True)
        return frame.with_columns(pl.col("k").cast(pl.Int64), q=pl.lit(None, dtype=pl.Float64))

    if not len(units.of_group):
        return pl.DataFrame(schema=CHANGE_SCHEMA)
    present = np.unique(units.of_group)
    if len(present) >= FEWEST_UNITS:
        place = np.searchsorted(present, units.of_group)
        return with_q(rows(change_over_units(early, late, place))).select(*CHANGE_SCHEMA)
    parts = []
    for unit in present:
        own = np.flatnonzero(units.of_group == unit)
        sides = [select_groups(side, own) for side in (early, late)]
        if len(own) >= FEWEST_UNITS:
            changes = change_over_units(sides[0], sides[1], np.arange(len(own), dtype=np.intp))
        else:
            changes = change_of_run(sides[0], sides[1])
        parts.append(rows(changes).select(pl.lit(units.names[unit]).alias("unit"), pl.all()))
    columns = [*(["unit"] if units.names != ("",) else []), *CHANGE_SCHEMA]
    return with_q(pl.concat(parts)).select(columns)


class _Side(NamedTuple):
    """One part of training: z of every unit [U, P] as observed, and mean reliabilities of both test sets."""

    z: Floats
    first: Floats
    second: Floats
    clean: Floats

    def over(self, chosen: Bools) -> Floats:
        """The mean over some units, as the z of signal [P]; NaN where too little is signal."""
        count = np.maximum(chosen.sum(axis=0), 1)

        def mean(values: Floats) -> Floats:
            total: Floats = np.where(chosen, np.nan_to_num(values), 0.0).sum(axis=0) / count
            return total

        first, second = mean(self.first), mean(self.second)
        usable = (np.minimum(first, second) >= LEAST_RELIABILITY) & (mean(self.clean) >= LEAST_RELIABILITY)
        usable &= chosen.any(axis=0)
        r = np.tanh(mean(self.z)) / np.sqrt(np.maximum(first * second, LEAST_RELIABILITY**2))
        z: Floats = np.where(usable & (np.abs(r) < STRONGEST), to_z(r), np.nan)
        return z


def _unit_means(side: Partial, known: Bools, member: Floats) -> _Side:
    """Means over the groups of every unit, weighted by effective rows; ``member`` [U, G] says who belongs to whom."""
    weight = np.where(known, np.maximum(np.nan_to_num(side.n_eff, nan=4.0) - 3 - side.spent, 1.0), 0.0)
    whole = member @ weight
    share = np.where(whole > 0, whole, np.nan)

    def mean(values: Floats) -> Floats:
        result: Floats = member @ (weight * np.where(known, np.nan_to_num(values, neginf=0.0), 0.0)) / share
        return result

    z = mean(observed_z(side))
    if side.correction is None:
        ones = np.ones(z.shape)
        return _Side(z, ones, ones, ones)
    correction = side.correction
    first, second = mean(correction.reliability_a), mean(correction.reliability_b)
    # Where noise of the control makes up more than half, what is subtracted is as uncertain as what remains.
    leak = np.maximum(1 - first - mean(correction.noise_a), 1 - second - mean(correction.noise_b))
    clean = np.where(leak <= MOST_LEAK, mean(correction.reliability_control), 0.0)
    return _Side(z, first, second, clean)


class _RunCorrelations(NamedTuple):
    """One part of training: z of every run [G, P] (of signal, where noise is known), its variance and freedom."""

    z: Floats
    variance: Floats
    df: Floats


def _each_run(side: Partial) -> _RunCorrelations:
    df = np.maximum(np.nan_to_num(side.n_eff, nan=4.0) - 2 - side.spent, 1.0)
    r, low, high = side.r, side.ci_low, side.ci_high
    if side.correction is not None:
        r, low, high = side.correction.r, side.correction.ci_low, side.correction.ci_high
    with np.errstate(invalid="ignore"):
        usable = known_pairs(side) & ~np.isnan(r) & (np.abs(r) < STRONGEST)
        half = (to_z(high) - to_z(low)) / 2
    # An end of an interval at 1 leaves the error open; what the effective rows give is the least that it can be.
    error = np.maximum(half / special.stdtrit(df, (1 + LEVEL) / 2), 1 / np.sqrt(np.maximum(df - 1, 1.0)))
    return _RunCorrelations(np.where(usable, to_z(np.nan_to_num(r)), np.nan), np.where(usable, error**2, np.nan), df)


def _tested(k: Ints, early: Floats, late: Floats, difference: Floats, error: Floats, df: Floats) -> Changes:
    """The interval of a difference and the p-value of none, by t."""
    half = special.stdtrit(df, (1 + LEVEL) / 2) * error
    p = 2 * special.stdtr(df, -np.abs(difference) / error)
    gone = np.isnan(difference)
    early, late = np.where(gone, np.nan, early), np.where(gone, np.nan, late)
    return Changes(k, early, late, difference, difference - half, difference + half, p)


def _either(first: Changes, second: Changes, where: Bools) -> Changes:
    """The first of two analyses with what holds in both: the wider interval and the larger p."""
    low = np.where(where, np.fmin(first.ci_low, second.ci_low), first.ci_low)
    high = np.where(where, np.fmax(first.ci_high, second.ci_high), first.ci_high)
    p = np.where(where, np.fmax(first.p, second.p), first.p)
    gone = np.isnan(first.difference)
    low, high, p = (np.where(gone, np.nan, values) for values in (low, high, p))
    return first._replace(ci_low=low, ci_high=high, p=p)


def _nanmean(values: Floats) -> Floats:
    count = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    mean: Floats = np.nansum(values, axis=0) / count
    return mean
