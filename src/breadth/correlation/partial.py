"""Partial correlations of all pairs of test sets in all groups, with their intervals, a batch of groups at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.correlation.attenuation import correct, keep_sign, noise_from_counts, noise_from_halves
from breadth.correlation.intervals import (
    SAME,
    IntervalMethod,
    block_errors,
    dependent_interval,
    independent_interval,
    inflation,
    lost_to_smooth,
    row_cost,
    to_z,
)
from breadth.correlation.panel import Bools, Entries, Floats, Ints, Panel, Prepared, make_entries, prepare
from breadth.correlation.smooth import Adjust, Basis, SmoothFit, make_basis, remove_control
from breadth.correlation.tails import robust_correlation, robust_residuals, tail_inflation
from breadth.threads import one_blas_thread

#: Numbers held at once by a batch of groups, in each of its larger arrays.
BATCH_CELLS = 2_000_000

#: Called with (groups done, groups in total).
Progress = Callable[[int, int], None]


class Flag(StrEnum):
    """Why a pair has no number, or a poor one; from ``few_effective_rows`` to ``too_few_rows`` ever less is known."""

    FEW_EFFECTIVE_ROWS = auto()
    IDENTICAL_RESIDUALS = auto()
    CONTROL_EXPLAINS_A = auto()
    CONTROL_EXPLAINS_B = auto()
    CONSTANT_CONTROL = auto()
    CONSTANT_A = auto()
    CONSTANT_B = auto()
    TOO_FEW_ROWS = auto()
    # About the correction for sampling noise, or about two groups, and not part of that order:
    NO_ITEM_COUNT = auto()
    LOW_RELIABILITY = auto()
    NO_VALID_CORRECTION = auto()
    TOO_FEW_TESTSETS = auto()


#: Position of every flag; 0 is none. Arrays hold these numbers.
CODES = {flag: code for code, flag in enumerate(Flag, start=1)}

#: Up to these flags a pair still has an interval, a partial correlation, a plain correlation.
HAS_INTERVAL = CODES[Flag.FEW_EFFECTIVE_ROWS]
HAS_R = CODES[Flag.IDENTICAL_RESIDUALS]
HAS_RAW = CODES[Flag.CONSTANT_CONTROL]


@dataclass(frozen=True)
class Settings:
    """How to compute partial correlations.

    ``counts`` and ``scale`` [m + q] are the items of every score column and its perfect score, if the
    correction for sampling noise is to come from them. ``robust`` correlates by the scatter of a bivariate t.
    ``clusters`` [n] numbers the cluster of every row where rows are models and there are no groups: rows of one cluster
    depend on each other.
    """

    adjust: Adjust = "gam"
    rank: bool = False
    ci: IntervalMethod = "iid"
    resamples: int = 2000
    seed: int = 0
    counts: Floats | None = None
    scale: Floats | None = None
    robust: bool = False
    clusters: Ints | None = None


class Correction(NamedTuple):
    """Arrays [G, P]: correlations corrected for sampling noise, their intervals, and how reliable scores are.

    ``noise_a`` and ``noise_b`` are the shares of the residuals' variances that are noise of the test sets themselves,
    ``leak`` what noise in the control adds to the plain partial correlation. These are known wherever noise is, also
    where a corrected correlation of this group alone is not. ``at_most`` says that noise follows from item counts: with
    the same items at every checkpoint it is smaller, so that the correction may subtract too much.
    """

    r: Floats
    ci_low: Floats
    ci_high: Floats
    reliability_a: Floats
    reliability_b: Floats
    reliability_control: Floats
    p: Floats
    noise_a: Floats
    noise_b: Floats
    leak: Floats
    at_most: Bools


class PlainCorrelation(NamedTuple):
    """Arrays [G, P]: what the plain correlation is beside a robust one, and the degrees of freedom of the latter."""

    r: Floats
    ci_low: Floats
    ci_high: Floats
    tail_df: Floats


class Partial(NamedTuple):
    """Arrays [G, P]: the results of every pair of every group. ``spent`` counts the rows spent on the control.

    With ``robust``, ``r`` and its interval are the robust ones and ``plain`` has the others.
    """

    n: Floats
    n_eff: Floats
    r_raw: Floats
    r: Floats
    ci_low: Floats
    ci_high: Floats
    p: Floats
    spent: Floats
    flag: npt.NDArray[np.int8]
    correction: Correction | None = None
    plain: PlainCorrelation | None = None


@one_blas_thread
def partial_correlations(panel: Panel, settings: Settings, progress: Progress | None = None) -> Partial:
    """Compute every pair of every group, in batches of groups."""
    groups, n, m = panel.scores.shape
    # The bootstrap brings its own threads, and takes long enough for a group to be worth reporting.
    block = settings.ci == "block"
    size = min(groups, os.cpu_count() or 1) if block else max(1, min(groups, BATCH_CELLS // (n * max(m, 20))))
    seeds = np.random.SeedSequence(settings.seed).spawn(groups)
    batches = [slice(start, min(start + size, groups)) for start in range(0, groups, size)]
    parts = []
    with ThreadPoolExecutor(1 if block else os.cpu_count()) as pool:
        for part, batch in zip(pool.map(partial(_batch, panel, settings, seeds), batches), batches, strict=True):
            parts.append(part)
            if progress is not None:
                progress(batch.stop, groups)
    corrections = [part.correction for part in parts if part.correction is not None]
    correction = Correction(*map(np.concatenate, zip(*corrections, strict=True))) if corrections else None
    plains = [part.plain for part in parts if part.plain is not None]
    plain = PlainCorrelation(*map(np.concatenate, zip(*plains, strict=True))) if plains else None
    arrays = zip(*(part[:-2] for part in parts), strict=True)
    return Partial(*map(np.concatenate, arrays), correction, plain)  # type: ignore[call-arg, arg-type]


def _batch(panel: Panel, settings: Settings, seeds: list[np.random.SeedSequence], batch: slice) -> Partial:
    panel = Panel(*(None if values is None else values[batch] for values in panel))  # type: ignore[arg-type]
    entries = make_entries(panel)
    group, rows, of_pair, a, b = entries
    ready = prepare(panel.scores[group], panel.controls[group], rows, settings.rank)
    basis = make_basis(ready.controls, rows, settings.adjust)
    fit = remove_control(basis, ready.centred, rows)
    worth = _worth(basis, ready, fit, settings, [seeds[batch][index] for index in group])
    pairs = (of_pair, a, b)
    n, n_eff, spent = rows.sum(axis=1).astype(np.float64)[of_pair], worth.rows[pairs], worth.spent[pairs]
    # Correlations [G, P] and sums of squares [F, m], before and after adjustment.
    correlations, squares = [], []
    for series in (ready.centred, fit.residuals):
        products = series.transpose(0, 2, 1) @ series
        squares.append(np.diagonal(products, axis1=1, axis2=2))
        size = np.sqrt(np.maximum(squares[-1], 1e-300))
        correlations.append(np.clip(products / size[:, :, None] / size[:, None, :], -1, 1)[pairs])
    r_raw, r = correlations
    flag = _flag_pairs(entries, ready, squares, r, settings.adjust)
    make_interval = independent_interval if settings.ci == "iid" else dependent_interval
    df = None if worth.df is None else worth.df[pairs]
    interval, plain = make_interval(r, n_eff, spent, settings.rank, df), None
    if settings.robust:
        robust = _robust(ready, basis, fit, entries, spent, settings)
        tail_df = np.where((flag <= HAS_INTERVAL) & np.isfinite(robust.tail_df), robust.tail_df, np.nan)
        plain = PlainCorrelation(np.where(flag <= HAS_R, r, np.nan), interval.low, interval.high, tail_df)
        # Where the fit fails, the plain correlation stays.
        fitted = ~np.isnan(robust.r)
        r = np.where(fitted, robust.r, r)
        worth_rows = np.maximum(n / robust.inflation, 1)
        if df is not None:
            worth_rows = np.minimum(worth_rows, n_eff)
        n_eff = np.where(fitted, worth_rows, n_eff)
        interval = make_interval(r, n_eff, spent, df=df)
    flag[(flag == 0) & (n_eff - 3 - spent < 1)] = CODES[Flag.FEW_EFFECTIVE_ROWS]
    known = flag <= HAS_INTERVAL
    if plain is not None:
        plain = plain._replace(**{end: np.where(known, getattr(plain, end), np.nan) for end in ("ci_low", "ci_high")})
    noise = None
    if settings.counts is not None and settings.scale is not None:
        noise = noise_from_counts(ready.scores, ready.controls, rows, settings.counts, settings.scale)
    elif panel.halves is not None and not settings.rank:
        noise = noise_from_halves(panel.halves[group], basis, fit, rows)
    correction = None
    if noise is not None:
        counted = settings.counts is not None
        result = correct(
            noise, ready.controls, rows, basis, fit, worth.rows, worth.spent, settings.adjust, worth.df, at_most=counted
        )
        at_most = np.full(r.shape, counted)
        low, high, p = keep_sign(r, result.r[pairs], result.low[pairs], result.high[pairs], result.p[pairs], at_most)
        correction = Correction(
            np.where(known, result.r[pairs], np.nan),
            np.where(known, low, np.nan),
            np.where(known, high, np.nan),
            result.reliability[of_pair, a],
            result.reliability[of_pair, b],
            result.control_reliability[of_pair],
            np.where(known, p, np.nan),
            result.noise[of_pair, a],
            result.noise[of_pair, b],
            result.leak[pairs],
            at_most,
        )
    return Partial(
        n,
        np.where(known, n_eff, np.nan),
        np.where(flag <= HAS_RAW, r_raw, np.nan),
        np.where(flag <= HAS_R, r, np.nan),
        np.where(known, interval.low, np.nan),
        np.where(known, interval.high, np.nan),
        np.where(known, interval.p, np.nan),
        spent,
        flag,
        correction,
        plain,
    )


class _Robust(NamedTuple):
    """Arrays [G, P]: robust correlations, by how much rows far out inflate their variance, and tails."""

    r: Floats
    inflation: Floats
    tail_df: Floats


def _robust(
    ready: Prepared, basis: Basis, fit: SmoothFit, entries: Entries, spent: Floats, settings: Settings
) -> _Robust:
    """Correlate every pair by the scatter of a bivariate t, a few pairs at a time."""
    of_pair, a, b = entries.of_pair, entries.a, entries.b
    entry, cost = of_pair.reshape(-1), spent.reshape(-1)
    first, second = (np.tile(side, len(of_pair)) for side in (a, b))
    lost = lost_to_smooth(basis, fit.factors)
    most = max(1, BATCH_CELLS // basis.phi[0].size)
    results = []
    for start in range(0, len(entry), most):
        some = slice(start, start + most)
        at, sides = entry[some], np.stack([first[some], second[some]])
        series = np.stack([ready.centred[at, :, side] for side in sides], axis=2)
        factors = np.stack([fit.factors[at, :, side] for side in sides], axis=2)
        adjusted = robust_residuals(basis.phi[at], factors, series, ready.rows[at])
        pair = (adjusted[..., 0], adjusted[..., 1], ready.rows[at], cost[some])
        results.append(robust_correlation(*pair, settings.ci != "iid", lost[at, sides].T))
    joined = (np.concatenate(values) for values in zip(*results, strict=True))
    return _Robust(*(values.reshape(of_pair.shape) for values in joined))


class _Worth(NamedTuple):
    """Independent normal rows [F, m, m] that an entry is worth for every two series, and those spent on the control.

    ``df`` are the degrees of freedom of an error that comes from clusters; None where they follow from the rows.
    """

    rows: Floats
    spent: Floats
    df: Floats | None = None


def _worth(
    basis: Basis,
    ready: Prepared,
    fit: SmoothFit,
    settings: Settings,
    seeds: list[np.random.SeedSequence],
) -> _Worth:
    rows = ready.rows
    n = rows.sum(axis=1).astype(np.float64)
    spent = (fit.edf[:, :, None] + fit.edf[:, None, :]) / 2 - 1
    whole = np.broadcast_to(n[:, None, None], spent.shape)
    if settings.clusters is not None:
        error, df = cluster_errors(ready, settings.clusters, settings.adjust)
        return _Worth(np.minimum(3 + spent + 1 / np.maximum(error, 1e-6) ** 2, whole), spent, df)
    if settings.ci == "iid":
        effective = np.maximum(whole / tail_inflation(fit.residuals, rows), 1)
        return _Worth(effective, spent)
    lost = lost_to_smooth(basis, fit.factors)
    growth = inflation(fit.residuals, rows, lost)
    if settings.ci == "ar":
        # Rows far out do not make the control dearer, so its cost follows dependence alone.
        cost = row_cost(basis.phi, fit.factors, np.maximum(whole / growth, 1) / np.maximum(whole, 1))
        return _Worth(np.maximum(whole / tail_inflation(fit.residuals, rows, growth, lost), 1), cost)
    errors = block_errors(basis, ready.centred, fit, rows, growth, resamples=settings.resamples, seeds=seeds)
    a, b = np.triu_indices(spent.shape[1], 1)
    error = np.ones(spent.shape)
    error[:, a, b] = error[:, b, a] = errors
    # Resamples show rows far out too, though too weakly.
    most = np.maximum(whole / tail_inflation(fit.residuals, rows), 1)
    return _Worth(np.clip(3 + spent + 1 / np.maximum(error, 1e-6) ** 2, 1, most), spent)


def cluster_errors(ready: Prepared, clusters: Ints, adjust: Adjust) -> tuple[Floats, Floats]:
    """Standard error of Fisher's z where rows come in clusters, and its degrees of freedom, for every two series.

    Question: rows are models, and models of one family err alike; how uncertain is a correlation over them?

    The delete-one jackknife over clusters: leave out a whole cluster, fit the control and correlate again, and
    (k - 1) / k times the sum of squared differences from the correlation over all is the variance, with k - 1 degrees
    of freedom. In simulations with 8 to 50 families of unequal size and intraclass correlations up to 0.6 its intervals
    cover 94 to 96 %; the sandwich estimator covers 84 to 93 % and one from intraclass correlations 95 to 100 %
    (benchmarks/units.py). Do not use it with fewer than about six clusters.

    ``clusters`` [n] numbers the cluster of every row.
    """
    entries, _, m = ready.scores.shape
    errors, df = np.full((entries, m, m), np.nan), np.ones((entries, m, m))

    def z_without(f: int, keep: Bools) -> Floats:
        chosen = (ready.rows[f] & keep)[None]
        part = prepare(ready.scores[f][None], ready.controls[f][None], chosen, rank=False)
        left = remove_control(make_basis(part.controls, chosen, adjust), part.centred, chosen).residuals[0]
        products = left.T @ left
        size = np.sqrt(np.maximum(np.diagonal(products), 1e-300))
        return to_z(products / size[:, None] / size)

    for f in range(entries):
        names = np.unique(clusters[ready.rows[f]])
        k = len(names)
        if k < 2:
            continue
        whole = z_without(f, np.ones(len(clusters), dtype=bool))
        squares = np.zeros((m, m))
        for name in names:
            squares += (z_without(f, clusters != name) - whole) ** 2
        errors[f] = np.sqrt(squares * (k - 1) / k)
        df[f] = k - 1
    return np.where(np.isnan(errors), 1.0, errors), df


def rows_needed(adjust: Adjust, controls: int) -> int:
    """Rows below which a partial correlation has no usable interval."""
    return {"none": 4, "linear": 4 + controls, "gam": 6 + 2 * controls}[adjust]


def _flag_pairs(
    entries: Entries, ready: Prepared, squares: Sequence[Floats], r: Floats, adjust: Adjust
) -> npt.NDArray[np.int8]:
    """Flag every pair [G, P].

    ``squares`` are the sums of squares [F, m] of every series before and after adjustment, ``r`` [G, P] the partial
    correlations.
    """
    _, rows, of_pair, a, b = entries
    before, after = squares
    # What a smooth leaves of a curve without noise is its own error of approximation, not a residual.
    explained = after <= (1e-6 if adjust == "gam" else 1e-12) * before
    # A constant varies by no more than rounding.
    values, inside = np.concatenate([ready.scores, ready.controls], axis=2), rows[:, :, None]
    high = np.where(inside, values, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(inside, values, np.inf).min(axis=1, initial=np.inf)
    constant = ~((high > low) & (high - low > 1e-12 * np.maximum(np.abs(high), np.abs(low))))
    no_control: Bools = np.logical_or.reduce(constant[:, ready.scores.shape[2] :], axis=1) & (adjust != "none")
    too_few: Bools = rows.sum(axis=1) < rows_needed(adjust, ready.controls.shape[2])
    flag = np.zeros(r.shape, dtype=np.int8)
    for name, flagged in (
        (Flag.IDENTICAL_RESIDUALS, np.abs(r) > 1 - SAME),
        (Flag.CONTROL_EXPLAINS_A, explained[of_pair, a]),
        (Flag.CONTROL_EXPLAINS_B, explained[of_pair, b]),
        (Flag.CONSTANT_CONTROL, no_control[of_pair]),
        (Flag.CONSTANT_A, constant[of_pair, a]),
        (Flag.CONSTANT_B, constant[of_pair, b]),
        (Flag.TOO_FEW_ROWS, too_few[of_pair]),
    ):
        flag[flagged] = CODES[name]
    return flag


def residual_series(panel: Panel, adjust: Adjust, rank: bool) -> Floats:
    """Residuals of every series [G, n, m] after adjustment, each on its own complete rows; NaN elsewhere."""
    present = ~(np.isnan(panel.scores) | np.isnan(panel.controls).any(axis=2, keepdims=True))
    shared = bool((present == present[:, :, :1]).all())
    out = np.full(panel.scores.shape, np.nan)
    for j in [slice(None)] if shared else [slice(j, j + 1) for j in range(panel.scores.shape[2])]:
        rows = present[:, :, j][:, :, 0]
        ready = prepare(panel.scores[:, :, j], panel.controls, rows, rank)
        basis = make_basis(ready.controls, rows, adjust)
        left = remove_control(basis, ready.centred, rows).residuals
        out[:, :, j] = np.where(rows[:, :, None], left, np.nan)
    return out
