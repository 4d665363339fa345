"""Scores of test sets over runs and checkpoints, from a long or a wide table or from single answers."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records.readers import ANSWER_COLUMNS, READERS, Npz, Tables, open_study, read_answers
from breadth.records.schemas import KEY_COLUMNS, NO_SCORES, NOT_KEYS, ORDER_COLUMNS
from breadth.records.sensitivity import BIAS, Score, Scored, bias_columns, scored
from breadth.records.study import Study
from breadth.records.tables import BLANKS, Table


@dataclass(frozen=True)
class Trajectories:
    """One row per subject, sorted by group and order; one column of floats per control and test set.

    ``halves`` is there when single answers are known: for every row, score column (test sets, then controls) and random
    split of the items, half the difference between the two halves' scores. Its errors have the same spread as those of
    the whole score. ``turned`` are the columns whose sign was changed because lower is better there.
    """

    frame: pl.DataFrame
    name: str
    by: tuple[str, ...]
    order: str | None
    controls: tuple[str, ...]
    testsets: tuple[str, ...]
    halves: npt.NDArray[np.float64] | None = None
    warnings: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()


def settle_trajectories(
    source: Any,
    control: str | Sequence[str] | None,
    testsets: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    order: str | None = None,
    *,
    score: Score = "accuracy",
    square_bias: bool = False,
    splits: int = 10,
    seed: int = 0,
) -> Trajectories:
    """Read scores and settle which columns play which part.

    A wide table has a column per test set. A long table has columns ``testset`` and ``score``. Single answers (a
    :class:`Study`, its directory, or a table with ``testset``, ``item`` and ``correct``) are averaged per subject and
    test set. ``testsets`` may hold wildcards; by default every column of numbers is a test set unless it is a control
    or describes a subject. ``score`` is what is computed from single answers. From these, the control ``bias`` is the
    answer bias of every subject; ``square_bias`` adds its square, since accuracy is best at some bias and falls on both
    sides of it, which a straight line cannot follow.
    """
    reader = None if isinstance(source, Study) else next(each for each in READERS if each.recognises(source))
    study = None if isinstance(reader, Tables | Npz) else open_study(source)
    table = read_answers(source) if study is None else Table(study.trajectories, study.name, warnings=study.warnings)
    groups = _names(by, table.frame.columns)
    keys = [*groups, *([order] if order else [])]
    for name in keys:
        if name not in table.frame.columns:
            raise unknown_column(name, table.frame.columns, table.name, "by" if name in groups else "order")
    if study is None and set(table.frame.columns) >= {"testset", *ANSWER_COLUMNS}:
        answers = open_study(table, keys=keys)
        return settle_trajectories(
            answers, control, testsets, by, order, score=score, square_bias=square_bias, splits=splits, seed=seed
        )
    if study is None and set(table.frame.columns) >= {"testset", "score"}:
        table = _widened(table, _long_keys(table, groups, order))
    controls = _names(control, table.frame.columns)
    halves: dict[str, npt.NDArray[np.float64]] = {}
    if study is None and (score != "accuracy" or BIAS in set(controls) - set(table.frame.columns)):
        option = f"--control {BIAS}" if score == "accuracy" else f"--score {score}"
        raise InputError(
            f"{table.name}: holds scores, and {option} needs single answers: columns testset, item, correct, label "
            "and margin, or a study"
        )
    if study is not None:
        scores_of = scored(study, score, splits, seed)
        halves = dict(zip(study.testsets, scores_of.halves.swapaxes(0, 1), strict=True))
        if score != "accuracy":
            table = _rescored(study, table, scores_of, score, {*controls, *_names(testsets, table.frame.columns)})
        if BIAS in controls and BIAS not in table.frame.columns:
            bias, moved, lines = bias_columns(study, 1 + square_bias, splits, seed)
            names = [BIAS, f"{BIAS} squared"][: 1 + square_bias]
            series = (pl.Series(name, values, nan_to_null=True) for name, values in zip(names, bias.T, strict=True))
            table = Table(table.frame.with_columns(series), table.name, warnings=(*table.warnings, *lines))
            halves |= dict(zip(names, moved.swapaxes(0, 1), strict=True))
            controls = (*(name for name in controls if name != BIAS), *names)
    for name in controls:
        if name not in table.frame.columns:
            raise unknown_column(name, table.frame.columns, table.name, "control")
    known = None if study is None else study.testsets
    chosen = _testsets(table, testsets, controls, keys, known)
    scores = {name: table.numbers(name) for name in (*controls, *chosen)}
    frame = table.frame.with_columns(series.alias(name) for name, series in scores.items())
    if order is not None and frame[order].dtype == pl.String:
        frame = frame.with_columns(table.numbers(order).alias(order))
    _refuse_duplicates(Table(frame, table.name, table.header_lines), groups, order)
    by_group = frame.with_row_index("__row").sort(keys, maintain_order=True)
    differences = None
    if study is not None:
        columns = np.stack([halves[name] for name in (*chosen, *controls)], axis=1)
        differences = columns[by_group["__row"].to_numpy()]
    warnings = (*table.warnings, *_warnings(table.name, frame, [*controls, *chosen], groups, order))
    kept = by_group.select(*keys, *controls, *chosen)
    return Trajectories(kept, table.name, groups, order, controls, chosen, differences, warnings)


def _rescored(study: Study, table: Table, scores: Scored, score: Score, named: set[str]) -> Table:
    """The table of a study with another score than accuracy; test sets for which it is not defined are left out."""
    undefined, warnings = scores.undefined, list(table.warnings)
    for name in study.testsets:
        if name in undefined and (name in named or len(undefined) == len(study.testsets)):
            raise InputError(undefined[name])
    if undefined:
        warnings.append(f"{score} is not defined for {listed(undefined)}, left out ({next(iter(undefined.values()))})")
    columns = dict(zip(study.testsets, scores.scores.T, strict=True))
    known = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    frame = table.frame.drop(study.testsets, strict=False)
    frame = frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in known.items())
    return Table(frame, table.name, warnings=tuple(warnings))


def _names(given: str | Sequence[str] | None, columns: Sequence[str]) -> tuple[str, ...]:
    """Take names one by one or joined by commas; a column that holds a comma itself is named as it is."""
    if given is None:
        return ()
    names: list[str] = []
    for entry in [given] if isinstance(given, str) else given:
        names += [entry] if entry in columns else [part.strip() for part in entry.split(",") if part.strip()]
    return tuple(dict.fromkeys(names))


def _testsets(
    table: Table,
    given: str | Sequence[str] | None,
    controls: Sequence[str],
    keys: Sequence[str],
    known: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """The columns to correlate; a column that is a control or a key as well is refused. ``known`` are a study's."""
    columns, chosen = table.frame.columns, list[str]()
    if given is None and known is not None:
        chosen += [name for name in known if name in columns and name not in {*controls, *keys}]
    elif given is None:
        taken = NO_SCORES | {*controls, *keys}
        for values in table.frame.select(name for name in columns if name not in taken):
            numeric = values.dtype.is_numeric()
            if values.dtype == pl.String:  # numbers in most cells will do; a stray word gets an error that names it
                cells = values.str.strip_chars().drop_nulls()
                cells = cells.filter(~cells.str.to_lowercase().is_in(BLANKS))
                numeric = 2 * cells.cast(pl.Float64, strict=False).drop_nulls().len() > cells.len()
            chosen += [values.name] * numeric
    else:
        for pattern in _names(given, columns):
            matches = [pattern] if pattern in columns else fnmatch.filter(columns, pattern)
            if not matches:
                raise unknown_column(pattern, columns, table.name, "test set")
            chosen += matches
    testsets = tuple(dict.fromkeys(chosen))
    if len(testsets) < 2:
        raise InputError(
            f"{table.name}: test sets to correlate: {listed(testsets) or 'none'}; a correlation needs at least 2 "
            f"columns of scores besides the control. Columns: {listed(columns, 40)}"
        )
    if both := [name for name in controls if name in testsets]:
        raise InputError(
            f"{table.name}: {listed(both)} is both control and test set; nothing is left of it after controlling "
            "for it. Remove it from one of the two"
        )
    if both := [name for name in (*controls, *testsets) if name in keys]:
        raise InputError(f"{table.name}: {listed(both)} is used for --by or --order and as a score; choose one")
    return testsets


def _long_keys(table: Table, groups: tuple[str, ...], order: str | None) -> list[str]:
    """Columns of a long table that together say which subject a row is about."""
    frame = table.frame
    names = {*groups, *([order] if order else [])}
    names |= {name for name in frame.columns if name in KEY_COLUMNS}
    names |= {name for name in frame.columns if frame[name].dtype == pl.String and name not in NOT_KEYS}
    return [name for name in frame.columns if name in names]


def _widened(table: Table, keys: list[str]) -> Table:
    scores = table.frame.with_columns(table.numbers("score").alias("score"))
    _refuse_repeats(scores, [*keys, "testset"], table)
    return _pivot(scores, keys, table)


def _pivot(frame: pl.DataFrame, keys: list[str], table: Table) -> Table:
    testsets = frame["testset"].cast(pl.String).unique(maintain_order=True).drop_nulls().to_list()
    clash = [name for name in testsets if name in keys]
    if clash:
        raise InputError(f"{table.name}: test set {listed(clash)} has the name of a column; rename one")
    index = keys or ["__all"]
    frame = frame if keys else frame.with_columns(pl.lit(0).alias("__all"))
    wide = frame.pivot(on="testset", index=index, values="score", maintain_order=True)
    return Table(wide, table.name, warnings=table.warnings)


def _refuse_repeats(frame: pl.DataFrame, keys: list[str], table: Table) -> None:
    repeated = frame.select(keys).is_duplicated()
    if repeated.any():
        row = int(repeated.arg_max() or 0)
        cell = ", ".join(f"{name}={frame[name][row]}" for name in keys)
        raise InputError(
            f"{table.name}, row {row + 1}: {cell} occurs {_times(frame, keys, row)} times; every "
            f"({', '.join(keys)}) may occur once. Remove the repeats, or average them first"
        )


def _times(frame: pl.DataFrame, keys: list[str], row: int) -> int:
    same = [pl.col(name).eq_missing(pl.lit(frame[name][row], dtype=frame[name].dtype)) for name in keys]
    return frame.filter(pl.all_horizontal(same)).height


def _refuse_duplicates(table: Table, groups: tuple[str, ...], order: str | None) -> None:
    """A checkpoint may occur once; without an order, rows of a group are simply observations."""
    frame = table.frame
    if order is None:
        keys = [name for name in frame.columns if name in KEY_COLUMNS and not frame[name].dtype.is_float()]
        if not {"run", "step"} <= set(keys):
            return
    else:
        keys = [*groups, order]
        if frame[order].is_null().any():
            row = int(frame[order].is_null().arg_max() or 0)
            raise InputError(f"{table.place(row, order)}: is empty; every row needs its place in the order")
    if not frame.select(keys).is_duplicated().any():
        return
    rest = [
        name for name in frame.columns if name not in keys and (name in KEY_COLUMNS or frame[name].dtype == pl.String)
    ]
    # A column with another value in every row would make every row a group.
    rest = [name for name in rest if frame[name].n_unique() < frame.height]
    apart = [name for name in rest if not frame.select([*keys, name]).is_duplicated().any()]
    if apart and order is not None:
        raise InputError(
            f"{table.name}: several rows share one ({', '.join(keys)}), and column {listed(apart)} tells them "
            f"apart. Add --by {apart[0]} so that each series is a group of its own"
        )
    _refuse_repeats(frame, keys, table)


def _warnings(
    name: str, frame: pl.DataFrame, scores: Sequence[str], groups: Sequence[str], order: str | None
) -> list[str]:
    """Columns that mix fractions and percentages (with a gap between them), and checkpoints taken as independent."""
    warnings = []
    for column in scores:
        size = frame[column].abs()
        low, high = size.filter((size > 0) & (size <= 1)).max(), size.filter(size > 1).min()
        if low is not None and high is not None and float(high) > 10 * float(low):  # type: ignore[arg-type]
            row = int((size <= 1).fill_null(False).arg_max() or 0)
            warnings.append(
                f"{name}, column {column!r}: fractions and percentages seem to be mixed (for instance "
                f"{frame[column][row]!r} and {high!r}); put the column on one scale"
            )
    place = next((column for column in ORDER_COLUMNS if column in frame.columns), None)
    if order is None and place is not None and frame[place].n_unique() > 2:
        others = {*ORDER_COLUMNS, *(NO_SCORES - KEY_COLUMNS)}
        names = [column for column in frame.columns if column not in others and not frame[column].dtype.is_float()]
        apart = [column for column in names if not frame.select(column, place).is_duplicated().any()]
        by = f" --by {apart[0]}" if apart and not groups else ""
        warnings.append(
            f"rows look like checkpoints of runs (column {place!r}) but are treated as independent: "
            f"add --order {place}{by} for intervals that respect their dependence"
        )
    return warnings
