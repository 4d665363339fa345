"""Scores of many runs as arrays, and the sets of rows on which pairs of test sets can be compared."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.records import Trajectories

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Array = TypeVar("Array", Floats, Bools)


class Panel(NamedTuple):
    """Groups of rows side by side: G groups, at most n rows each, m facets, q controls; NaN is missing.

    ``halves`` [G, n, m + q, splits] is there when split halves are known (facets first).
    """

    scores: Floats
    controls: Floats
    halves: Floats | None = None

    def present(self) -> Bools:
        """Which cells [G, n, m] can be used: the score and every control are there."""
        missing: Bools = np.logical_or.reduce(np.isnan(self.controls), axis=2, keepdims=True)
        return ~np.isnan(self.scores) & ~missing

    def part(self, start: int, stop: int) -> Panel:
        """Return the groups from ``start`` to ``stop``."""
        halves = None if self.halves is None else self.halves[start:stop]
        return Panel(self.scores[start:stop], self.controls[start:stop], halves)


class Entries(NamedTuple):
    """Sets of rows to fit on: ``rows`` [F, n] of ``group`` [F]; pair p of group g uses ``of_pair[g, p]``.

    The methods bring what was computed for entries to the pairs [G, P] that use them.
    """

    group: Ints
    rows: Bools
    of_pair: Ints
    a: Ints
    b: Ints

    def entry(self, values: Array) -> Array:
        """Values [F] of entries."""
        return values[self.of_pair]

    def pair(self, values: Array) -> Array:
        """Values [F, m, m] of every two facets."""
        return values[self.of_pair, self.a, self.b]

    def first(self, values: Array) -> Array:
        """Values [F, m] of the first facet of a pair."""
        return values[self.of_pair, self.a]

    def second(self, values: Array) -> Array:
        """Values [F, m] of the second facet of a pair."""
        return values[self.of_pair, self.b]


def pair_indices(m: int) -> tuple[Ints, Ints]:
    """Return the two facets of every pair, in the order in which pairs are reported."""
    a, b = np.triu_indices(m, 1)
    return a.astype(np.intp), b.astype(np.intp)


def make_panel(trajectories: Trajectories, groups: pl.DataFrame | None = None) -> tuple[Panel, pl.DataFrame]:
    """Lay trajectories out by group; return the panel and the frame of its groups (one row each).

    Rows of a group stand together. ``groups`` may name the group of every row anew (a frame of the
    trajectories' height), as long as that stays so.
    """
    frame = trajectories.frame
    keys = frame.select(trajectories.by) if groups is None else groups
    if keys.width:
        group = keys.select(pl.struct(pl.all()).rle_id()).to_series().to_numpy().astype(np.intp)
        labels = keys[np.flatnonzero(np.diff(group, prepend=-1))]
    else:
        group, labels = np.zeros(frame.height, dtype=np.intp), pl.DataFrame()
    counts = np.bincount(group)
    place = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)

    def spread(values: Floats) -> Floats:
        out = np.full((len(counts), int(counts.max()), *values.shape[1:]), np.nan)
        out[group, place] = values
        return out

    scores = spread(frame.select(trajectories.facets).to_numpy().astype(np.float64))
    controls = (
        spread(frame.select(trajectories.controls).to_numpy().astype(np.float64))
        if trajectories.controls
        else np.zeros((*scores.shape[:2], 0))
    )
    halves = None if trajectories.halves is None else spread(trajectories.halves)
    return Panel(scores, controls, halves), labels


def make_entries(panel: Panel) -> Entries:
    """Find the sets of rows on which pairs are complete: one per group where nothing is missing, else more.

    Facets that are present in the same rows share their sets, so a group costs as many fits as it has
    distinct patterns of missing cells, taken two by two.
    """
    groups, _, m = panel.scores.shape
    a, b = pair_indices(m)
    present = panel.present()
    whole: Bools = np.logical_and.reduce(present == present[:, :, :1], axis=(1, 2))
    group: list[int] = []
    rows: list[Bools] = []
    of_pair = np.empty((groups, len(a)), dtype=np.intp)
    for g in range(groups):
        if whole[g]:
            of_pair[g] = len(group)
            group.append(g)
            rows.append(present[g, :, 0])
            continue
        shared = present[g][:, a] & present[g][:, b]
        patterns, which = np.unique(shared.T, axis=0, return_inverse=True)
        of_pair[g] = len(group) + which.reshape(-1)
        group += [g] * len(patterns)
        rows += list(patterns)
    return Entries(np.array(group, dtype=np.intp), np.array(rows, dtype=bool), of_pair, a, b)
