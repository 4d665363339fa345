"""``sample``: choose training data by difficulty."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.difficulty import Order, Strategy, assign_levels, sample_items
from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table, read_table
from breadth.verbs.calibration import Calibration
from breadth.verbs.items import numbers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Items drawn for training, in the order to train in.

    ``items`` has the columns of the table it was drawn from, then ``difficulty`` and ``quantile`` (0 easiest, 1
    hardest). ``histogram`` counts items per tenth of the table's difficulties before and after; ``warnings`` say what
    was left out.
    """

    items: pl.DataFrame
    histogram: pl.DataFrame
    warnings: tuple[str, ...] = ()


def sample(
    items: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    strategy: Strategy = "full",
    n: int | None = None,
    order: Order | None = None,
    difficulty: str = "difficulty",
    ease: str | None = None,
    seed: int = 0,
) -> Sample:
    """Draw training items by difficulty, without repetition.

    Parameters
    ----------
    items
        Table with a column ``item`` or ``id`` if there is a calibration, else with a column of difficulties.
    calibration
        Where the difficulties come from.
    strategy
        ``easy``, ``middle``, ``hard`` (a third each), ``full`` (whole range), ``centred`` (around the middle),
        ``spiral`` (whole range; rises, and comes back to easy items), ``curriculum`` (easy to hard),
        ``anti-curriculum``.
    n
        Number of items; by default as many as the strategy can draw.
    order
        ``shuffled``, ``rising``, ``falling`` or ``spiral`` instead of the strategy's own order.
    difficulty
        Column of difficulties where there is no calibration; higher is harder.
    ease
        Column to use instead in which higher is easier, such as the number of models that got the item right.
    seed
        Decides the draw, the shuffling, and the order of items of equal difficulty.
    """
    table = read_table(items)
    values, warnings = _difficulties(table, calibration, difficulty if ease is None else ease)
    if ease is not None:
        if calibration is not None:
            raise InputError("difficulty comes from the calibration or from --ease, not from both; choose one")
        values = -values
    positions = sample_items(values, n, strategy, order, seed)
    known = ~np.isnan(values)
    rank = np.full(len(values), np.nan)
    rank[known] = (np.argsort(np.argsort(values[known], kind="stable"), kind="stable") + 0.5) / known.sum()
    frame = table.frame.drop("difficulty", "quantile", strict=False).with_columns(
        pl.Series("difficulty", values, nan_to_null=True), pl.Series("quantile", rank, nan_to_null=True)
    )
    return Sample(frame[positions], _histogram(values, positions), tuple(warnings))


def _histogram(values: Floats, positions: npt.NDArray[np.intp]) -> pl.DataFrame:
    """Items per tenth of the difficulty range of the table, before and after."""
    level = assign_levels(values, np.zeros(len(values)), 10).level
    drawn = np.zeros(len(values), dtype=bool)
    drawn[positions] = True
    return (
        pl.DataFrame({"level": level, "difficulty": values, "drawn": drawn})
        .filter(pl.col("level").is_not_nan())
        .group_by(pl.col("level").cast(pl.Int64))
        .agg(
            pl.col("difficulty").min().alias("from"),
            pl.col("difficulty").max().alias("to"),
            pl.len().cast(pl.Int64).alias("before"),
            pl.col("drawn").sum().cast(pl.Int64).alias("after"),
        )
        .sort("level")
    )


def _difficulties(
    table: Table, calibration: str | os.PathLike[str] | Calibration | None, column: str
) -> tuple[Floats, list[str]]:
    """Difficulty of every row, NaN where there is none, and what to say about those."""
    frame = table.frame
    if calibration is None:
        if column not in frame.columns:
            raise unknown_column(column, frame.columns, table.name, "difficulty; or name a calibration")
        values = table.numbers(column).fill_null(float("nan")).to_numpy()
        missing = int(np.isnan(values).sum())
        if missing == len(values):
            raise InputError(f"{table.name}, column {column!r}: no item has a difficulty")
        return values, [f"{missing:,} of {len(values):,} items have no difficulty and are left out"] if missing else []
    known = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
    key = next((name for name in ("item", "id") if name in frame.columns), None)
    if key is None:
        raise unknown_column("item", frame.columns, table.name, "which item a row is about")
    names = pl.DataFrame({"item": frame[key].cast(pl.String)})
    joined = names.join(known.items.select("item", "difficulty"), on="item", how="left", maintain_order="left")
    values = numbers(joined, "difficulty")
    unmatched = names["item"].filter(joined["difficulty"].is_null())
    if unmatched.len() == names.height:
        raise InputError(
            f"{table.name}: none of its {names.height:,} items has a difficulty in the calibration. Its items: "
            f"{listed(names['item'].head(3))}; calibrated: {listed(known.items['item'].head(3))}"
        )
    if not unmatched.len():
        return values, []
    return values, [
        f"{names.height - unmatched.len():,} of {names.height:,} items have a difficulty; left out, for instance: "
        f"{listed(unmatched.head(3))}"
    ]
