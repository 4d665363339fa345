"""Scores of many runs as arrays, the rows on which pairs of test sets can be compared, and series ready for fitting."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import listed, unknown_column
from breadth.sources import ScoreTable, is_lower_better, names_in

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]


def orient(trajectories: ScoreTable, lower_is_better: str | Sequence[str] | None) -> ScoreTable:
    """Change the sign of losses and errors, so that up is better in every column.

    ``lower_is_better`` are names or wildcards, or ``none``; None guesses from the words in a column's name. What was
    changed is in ``turned`` and, if it was guessed, in a warning.
    """
    columns = (*trajectories.testsets, *trajectories.controls)
    turned: list[str] = []
    if lower_is_better is None:
        for name in columns:
            # Where all columns are losses, the table shows them without the word.
            if is_lower_better(trajectories.original_names.get(name, name)):
                turned.append(name)
    else:
        # Columns may be called as the table shows them, or as they were called in the source.
        names = {name: trajectories.testset_named(name) for name in (*trajectories.original_names.values(), *columns)}
        for pattern in names_in(lower_is_better, [*names]):
            matches = [pattern] if pattern in names else fnmatch.filter(names, pattern)
            if not matches:
                raise unknown_column(pattern, columns, trajectories.name, "lower is better")
            turned += [names[name] for name in matches]
    turned = list(dict.fromkeys(turned))
    if not turned:
        return trajectories
    warnings = list(trajectories.warnings)
    if lower_is_better is None:
        warnings.append(
            f"lower is better on {listed(turned, 6)}, judging by the name, so signs are changed there and up is better "
            "everywhere. Name such columns with --lower-is-better, or say --lower-is-better none"
        )
    frame = trajectories.frame.with_columns(-pl.col(name) for name in turned)
    return replace(trajectories, frame=frame, warnings=tuple(warnings), turned=tuple(turned))


class Panel(NamedTuple):
    """Groups of rows as arrays: G groups, at most n rows each, m test sets, q controls; NaN is missing.

    ``halves`` [G, n, m + q, splits] holds the split halves, where they are known (test sets first).
    """

    scores: Floats
    controls: Floats
    halves: Floats | None = None


class Entries(NamedTuple):
    """Sets of rows to fit on: ``rows`` [F, n] of ``group`` [F]; pair p of group g uses ``of_pair[g, p]``.

    Pair p is of test sets ``a[p]`` and ``b[p]``, so values [F, m, m] of entries are those of the pairs [G, P] at
    ``[of_pair, a, b]``.
    """

    group: Ints
    rows: Bools
    of_pair: Ints
    a: Ints
    b: Ints


class Prepared(NamedTuple):
    """Scores [F, n, m] and controls [F, n, q], zero outside ``rows`` [F, n]; ``centred`` are the centred scores."""

    scores: Floats
    controls: Floats
    centred: Floats
    rows: Bools


def make_panel(trajectories: ScoreTable, groups: pl.DataFrame | None = None) -> tuple[Panel, pl.DataFrame]:
    """Lay trajectories out by group; return the panel and the frame of its groups (one row each).

    Rows of a group are consecutive. ``groups`` may name another group for every row (a frame of the trajectories'
    height), as long as its rows are consecutive too.
    """
    frame, m = trajectories.frame, len(trajectories.testsets)
    keys = frame.select(trajectories.by) if groups is None else groups
    if keys.width:
        group = keys.select(pl.struct(pl.all()).rle_id()).to_series().to_numpy().astype(np.intp)
        labels = keys[np.flatnonzero(np.diff(group, prepend=-1))]
    else:
        group, labels = np.zeros(frame.height, dtype=np.intp), pl.DataFrame()
    counts = np.bincount(group)
    place = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = frame.select(*trajectories.testsets, *trajectories.controls).to_numpy().astype(np.float64)
    laid_out = []
    for rows in (values[:, :m], values[:, m:], trajectories.halves):
        if rows is not None:
            laid_out.append(np.full((len(counts), int(counts.max()), *rows.shape[1:]), np.nan))
            laid_out[-1][group, place] = rows
    return Panel(*laid_out), labels


def make_entries(panel: Panel) -> Entries:
    """Find the sets of rows on which pairs are complete: one per group where nothing is missing, else more.

    A row is complete for a pair where both scores and every control are known. Pairs are in the order of
    ``np.triu_indices``, in which they are reported.

    Test sets that are present in the same rows share their sets, so a group costs as many fits as it has distinct
    patterns of missing cells, taken two by two.
    """
    groups, _, m = panel.scores.shape
    a, b = np.triu_indices(m, 1)
    present = ~(np.isnan(panel.scores) | np.isnan(panel.controls).any(axis=2, keepdims=True))
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


def prepare(scores: Floats, controls: Floats, rows: Bools, rank: bool) -> Prepared:
    """Blank out everything outside ``rows``; with ``rank``, replace values by their ranks within the rows."""
    inside = rows[:, :, None]
    if rank:
        scores, controls = _rank_rows(scores, rows), _rank_rows(controls, rows)
    filled = np.where(inside, scores, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1), 1)[:, None, None]
    # A test set may lack rows that other test sets of the entry have; it is in no pair of this entry then.
    filled, mean = np.nan_to_num(filled), np.nan_to_num(mean)
    return Prepared(filled, np.where(inside, controls, 0.0), (filled - mean) * inside, rows)


def _rank_rows(values: Floats, rows: Bools) -> Floats:
    """Ranks within an entry's rows, ties averaged; other rows are ranked last and blanked later."""
    if not values.shape[2]:
        return values
    from scipy.stats import rankdata  # takes half a second to load, and is rarely needed

    pushed = np.where(rows[:, :, None] & ~np.isnan(values), values, np.inf)
    return np.asarray(rankdata(pushed, axis=1), dtype=np.float64)
