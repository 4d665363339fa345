"""Partial correlations of all pairs of test sets in all groups, with their intervals, a batch of groups at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from breadth.stats.attenuation import Noise, correct, noise_from_counts, noise_from_halves
from breadth.stats.basis import Basis, Regressor, make_basis
from breadth.stats.blocks import block_errors
from breadth.stats.dependence import autocorrelation, inflation, row_cost
from breadth.stats.intervals import dependent_interval, independent_interval
from breadth.stats.notes import HAS_INTERVAL, HAS_R, HAS_RAW, Codes, Note, note_pairs
from breadth.stats.panel import Bools, Entries, Floats, Panel, make_entries, pair_indices
from breadth.stats.series import Prepared, prepare
from breadth.stats.smooth import Fit, remove_control
from breadth.threads import one_blas_thread

Inference = Literal["iid", "ar", "block"]

#: Numbers held at once by a batch of groups, in each of its larger arrays.
BATCH_CELLS = 2_000_000


@dataclass(frozen=True)
class Settings:
    """How to compute partial correlations.

    ``counts`` and ``scale`` [m + q] are the items of every score column and its perfect score, if the
    correction for sampling noise is wanted from them.
    """

    regressor: Regressor = "gam"
    rank: bool = False
    inference: Inference = "iid"
    resamples: int = 2000
    seed: int = 0
    counts: Floats | None = None
    scale: Floats | None = None


class Correction(NamedTuple):
    """Arrays [G, P]: correlations corrected for sampling noise, their intervals, and how reliable scores are."""

    r: Floats
    low: Floats
    high: Floats
    reliability_a: Floats
    reliability_b: Floats
    reliability_control: Floats


class Partial(NamedTuple):
    """Arrays [G, P]: what was found for every pair of every group. ``spent`` is what the control cost."""

    n: Floats
    n_eff: Floats
    r_raw: Floats
    r: Floats
    low: Floats
    high: Floats
    p: Floats
    spent: Floats
    note: Codes
    correction: Correction | None


@one_blas_thread
def partial_correlations(panel: Panel, settings: Settings, advance: Callable[[int], None] | None = None) -> Partial:
    """Compute every pair of every group; ``advance`` is told how many groups were finished."""
    groups, n, m = panel.scores.shape
    # The bootstrap brings its own threads, and takes long enough for a group to be worth reporting.
    block = settings.inference == "block"
    size = min(groups, os.cpu_count() or 1) if block else max(1, min(groups, BATCH_CELLS // (n * max(m, 20))))
    seeds = np.random.SeedSequence(settings.seed).spawn(groups)

    def batch(start: int) -> Partial:
        stop = min(start + size, groups)
        result = _batch(panel.part(start, stop), settings, seeds[start:stop])
        if advance is not None:
            advance(stop - start)
        return result

    with ThreadPoolExecutor(1 if block else os.cpu_count()) as pool:
        parts = list(pool.map(batch, range(0, groups, size)))
    corrections = [part.correction for part in parts if part.correction is not None]
    correction = Correction(*map(np.concatenate, zip(*corrections, strict=True))) if corrections else None
    arrays = zip(*(part[:-1] for part in parts), strict=True)
    return Partial(*map(np.concatenate, arrays), correction)  # type: ignore[call-arg, arg-type]


def _batch(panel: Panel, settings: Settings, seeds: list[np.random.SeedSequence]) -> Partial:
    entries = make_entries(panel)
    rows = entries.rows
    ready = prepare(panel.scores[entries.group], panel.controls[entries.group], rows, settings.rank)
    basis = make_basis(ready.controls, rows, settings.regressor)
    fit = remove_control(basis, ready.centred, rows)
    before, after = _products(ready.centred), _products(fit.residuals)
    spent = (fit.edf[:, :, None] + fit.edf[:, None, :]) / 2 - 1
    own = [seeds[group] for group in entries.group]
    worth = _worth(basis, ready, fit, spent, settings, own)

    n = entries.entry(rows.sum(axis=1).astype(np.float64))
    n_eff, cost = entries.pair(worth.rows), entries.pair(worth.cost)
    r = entries.pair(_correlation(after))
    note = note_pairs(entries, ready, _power(before), _power(after), r, settings.regressor)
    interval = independent_interval(r, n, cost, settings.rank)
    if settings.inference != "iid":
        interval = dependent_interval(r, n_eff, cost, settings.rank)
        note[(note == Note.FINE) & (n_eff - 3 - cost < 1)] = Note.FEW_EFFECTIVE
    noise = _noise(panel, entries, ready, basis, fit, settings)
    correction = None
    if noise is not None:
        found = correct(noise, ready.controls, rows, basis, fit, worth.rows, worth.cost, settings.regressor)
        correction = Correction(
            _where(note <= HAS_INTERVAL, entries.pair(found.r)),
            _where(note <= HAS_INTERVAL, entries.pair(found.low)),
            _where(note <= HAS_INTERVAL, entries.pair(found.high)),
            entries.first(found.reliability),
            entries.second(found.reliability),
            entries.entry(found.control_reliability),
        )
    return Partial(
        n,
        _where(note <= HAS_INTERVAL, n_eff),
        _where(note <= HAS_RAW, entries.pair(_correlation(before))),
        _where(note <= HAS_R, r),
        _where(note <= HAS_INTERVAL, interval.low),
        _where(note <= HAS_INTERVAL, interval.high),
        _where(note <= HAS_INTERVAL, interval.p),
        cost,
        note,
        correction,
    )


class _Worth(NamedTuple):
    """Independent rows [F, m, m] that an entry is worth for every two series, and how many the control has cost."""

    rows: Floats
    cost: Floats


def _worth(
    basis: Basis,
    ready: Prepared,
    fit: Fit,
    spent: Floats,
    settings: Settings,
    seeds: list[np.random.SeedSequence],
) -> _Worth:
    rows = ready.rows
    n = rows.sum(axis=1).astype(np.float64)
    whole = np.broadcast_to(n[:, None, None], spent.shape)
    if settings.inference == "iid":
        return _Worth(whole, spent)
    growth = inflation(autocorrelation(fit.residuals, rows), n)
    if settings.inference == "ar":
        effective = np.maximum(whole / growth, 1)
        return _Worth(effective, row_cost(basis.phi, fit.factors, effective / np.maximum(whole, 1)))
    errors = block_errors(basis, ready.centred, fit, rows, growth, resamples=settings.resamples, seeds=seeds)
    a, b = pair_indices(spent.shape[1])
    error = np.ones(spent.shape)
    error[:, a, b] = error[:, b, a] = errors
    return _Worth(np.clip(3 + spent + 1 / np.maximum(error, 1e-6) ** 2, 1, np.maximum(whole, 1)), spent)


def _noise(panel: Panel, entries: Entries, ready: Prepared, basis: Basis, fit: Fit, settings: Settings) -> Noise | None:
    if settings.counts is not None and settings.scale is not None:
        return noise_from_counts(ready.scores, ready.controls, ready.rows, settings.counts, settings.scale)
    if panel.halves is not None and not settings.rank:
        return noise_from_halves(panel.halves[entries.group], basis, fit, ready.rows)
    return None


def _products(series: Floats) -> Floats:
    products: Floats = series.transpose(0, 2, 1) @ series
    return products


def _power(products: Floats) -> Floats:
    return np.diagonal(products, axis1=1, axis2=2)


def _correlation(products: Floats) -> Floats:
    size = np.sqrt(np.maximum(_power(products), 1e-300))
    return np.clip(products / size[:, :, None] / size[:, None, :], -1, 1)


def _where(keep: Bools, values: Floats) -> Floats:
    return np.where(keep, values, np.nan)
