"""Answers as ``cross`` needs them: who was trained how, which item of which level, and arrays paired by item."""

from __future__ import annotations

import os

import numpy as np
import polars as pl

from breadth.difficulty import Gains
from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table
from breadth.verbs.calibration import Calibration

#: Columns that say how a model was trained, in order of preference.
WAYS = ("train_level", "strategy")

#: What a table may call the model before training, besides leaving the column empty.
UNTRAINED = ("zero-shot", "baseline", "untrained", "none")

#: Fewest test items of a level for its gains to have an interval.
LEAST_ITEMS = 5


def ways_of_training(frame: pl.DataFrame) -> list[str]:
    """Which of train_level and strategy some model was trained by."""
    return [name for name in WAYS if name in frame.columns and _way(frame[name]).is_not_null().any()]


def prepare(
    table: Table, by: str | None, calibration: str | os.PathLike[str] | Calibration | None, levels: int
) -> tuple[pl.DataFrame, str, list[str]]:
    """Rows of ``way, seed, item, correct, level``; a null way is the untrained model.

    Where some models were trained by level and others by strategy, those of the other kind are left out.
    """
    by = _chosen_way(table, by)
    for name in ("item", "correct"):
        if name not in table.frame.columns:
            raise unknown_column(name, table.frame.columns, table.name, "answers")
    for other in WAYS:
        if other != by and other in table.frame.columns:
            elsewhere = _way(table.frame[by]).is_null() & _way(table.frame[other]).is_not_null()
            table = Table(table.frame.filter(~elsewhere), table.name, table.header_lines)
    frame = table.frame
    columns = {
        "way": _way(frame[by]),
        "seed": frame["seed"].cast(pl.String).fill_null("")
        if "seed" in frame.columns
        else pl.Series([""] * frame.height),
        "item": frame["item"].cast(pl.String),
        "correct": table.numbers("correct"),
    }
    rows, warnings = _with_levels(pl.DataFrame(columns), table, calibration, levels)
    doubled = rows.select("way", "seed", "item").is_duplicated()
    if doubled.any():
        way_, seed_, item_ = rows.row(int(doubled.arg_max() or 0))[:3]
        raise InputError(
            f"{table.name}: item {item_!r} is answered more than once by {by} {way_ or 'untrained'}, seed "
            f"{seed_ or '-'}; every (way of training, seed, item) may occur once"
        )
    return rows, by, warnings


def _chosen_way(table: Table, by: str | None) -> str:
    if by is not None and by not in WAYS:
        raise InputError(f"--by is {by!r}; choose train_level or strategy")
    columns = table.frame.columns
    there = ways_of_training(table.frame) or [name for name in WAYS if name in columns]
    if by is not None and there and by not in there:
        raise InputError(f"{table.name}: no model was trained by {by}; there is {listed(there)}")
    if not there:
        raise unknown_column("train_level", columns, table.name, "how a model was trained; or strategy")
    return by or there[0]


def _way(values: pl.Series) -> pl.Series:
    """How a model was trained, as text; null for the untrained one."""
    way = values.cast(pl.String).str.strip_chars()
    return way.set(way.str.to_lowercase().is_in([*UNTRAINED, ""]).fill_null(False), None)


def _with_levels(
    rows: pl.DataFrame, table: Table, calibration: str | os.PathLike[str] | Calibration | None, levels: int
) -> tuple[pl.DataFrame, list[str]]:
    if calibration is None:
        if "level" not in table.frame.columns:
            raise unknown_column("level", table.frame.columns, table.name, "level of the item; or name a calibration")
        rows = rows.with_columns(table.numbers("level").cast(pl.Int64).alias("level"))
    else:
        known = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
        rows = rows.join(known.levels(levels).select("item", "level"), on="item", how="left", maintain_order="left")
    warnings = []
    without = rows.filter(pl.col("level").is_null())["item"].unique()
    if without.len():
        warnings.append(
            f"{without.len():,} items have no level and are left out, for instance: {listed(without.sort(), 3)}"
        )
    return rows.drop_nulls(["level", "correct"]), warnings


def pair_by_item(rows: pl.DataFrame, by: str, name: str) -> tuple[Gains, list[str], list[str]]:
    """Arrays over the test items that every model answered."""
    untrained = rows.filter(pl.col("way").is_null())
    trained = rows.filter(pl.col("way").is_not_null())
    if not untrained.height or not trained.height:
        missing = "untrained model (rows with an empty " + by + ")" if not untrained.height else "trained model"
        raise InputError(f"{name}: there is no {missing}; gains need both")
    models = rows.select("way", "seed").unique().height
    shared = rows.group_by("item").len().filter(pl.col("len") == models)["item"]
    dropped = rows["item"].n_unique() - shared.len()
    rows = rows.filter(pl.col("item").is_in(shared.implode()))
    sizes = rows.select("item", "level").unique().group_by("level").len().sort("level")
    thin = sizes.filter(pl.col("len") < LEAST_ITEMS)
    if not sizes.height or thin.height:
        where = f"level {thin['level'][0]} has only {thin['len'][0]} items" if sizes.height else "there are no items"
        raise InputError(f"{name}: {where} that all models answered; a level needs at least {LEAST_ITEMS}")
    names = sizes["level"].to_list()
    if names != list(range(len(names))):
        raise InputError(f"{name}: levels of test items must run from 0 without gaps, not {listed(map(str, names))}")
    order = rows.select("item", "level").unique().sort("level", "item")

    def matrix(part: pl.DataFrame) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        wide = part.pivot(on="seed", index="item", values="correct", maintain_order=True)
        return order.join(wide, on="item", maintain_order="left").drop("item", "level").to_numpy().T.astype(np.float64)

    ways = sorted(
        trained["way"].unique().to_list(), key=lambda way: (not way.isdigit(), int(way) if way.isdigit() else way)
    )
    arrays = tuple(matrix(rows.filter(pl.col("way") == way)) for way in ways)
    baseline = matrix(rows.filter(pl.col("way").is_null())).mean(axis=0)
    found = Gains(arrays, baseline, order["level"].to_numpy().astype(np.intp))
    warnings = [f"{dropped:,} items were not answered by every model and are left out"] if dropped else []
    if min(len(array) for array in arrays) < 2:
        warnings.append("some training was done with one seed only: its chance variation is not in the standard errors")
    return found, ways, warnings
