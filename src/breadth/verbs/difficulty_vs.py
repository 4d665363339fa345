"""``difficulty_vs``: difficulty against people's ideas of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import polars as pl

from breadth.difficulty import rank_correlation, text_measures
from breadth.errors import InputError, listed, unknown_column
from breadth.records import read_table
from breadth.stats import benjamini_hochberg
from breadth.verbs.calibration import Calibration
from breadth.verbs.items import numbers

#: Short names of measures people type.
ALIASES = {"length": "question_length"}


def difficulty_vs(
    calibration: str | os.PathLike[str] | Calibration, items: Any, measures: str | Sequence[str] | None = None
) -> pl.DataFrame:
    """Compare difficulty with people's ideas of it: Spearman's rho with a 95 % interval per measure.

    ``items`` is a table with a column ``item`` or ``id``. A measure is one of its columns of numbers, or one computed
    from its text (question_length, answer_length, sentences, digits, rare_words, steps). By default: all there are.
    """
    table = read_table(items)
    key = next((name for name in ("item", "id") if name in table.frame.columns), None)
    if key is None:
        raise unknown_column("item", table.frame.columns, table.name, "which item a row is about")
    loaded = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
    known = loaded.items.select(pl.col("item").cast(pl.String), "difficulty")
    computed = text_measures(table.frame)
    own = [
        name for name in table.frame.columns if name not in (key, "difficulty") and table.frame[name].dtype.is_numeric()
    ]
    available = [*own, *(name for name in computed.columns if name not in own)]
    wanted = available if measures is None else [_measure(name, available, table.name) for name in _split(measures)]
    columns = [table.numbers(name).alias(name) if name in own else computed[name] for name in wanted]
    joined = pl.DataFrame([table.frame[key].cast(pl.String).alias("item"), *columns]).join(known, on="item")
    if not joined.height:
        raise InputError(
            f"{table.name}: none of its items is in the calibration. Its items: "
            f"{listed(table.frame[key].cast(pl.String).head(3))}; calibrated: {listed(known['item'].head(3))}"
        )
    rows = [rank_correlation(numbers(joined, name), numbers(joined, "difficulty")) for name in wanted]
    frame = pl.DataFrame(
        {
            "measure": wanted,
            "n": [row.n for row in rows],
            "rho": [row.rho for row in rows],
            "ci_low": [row.low for row in rows],
            "ci_high": [row.high for row in rows],
            "p": [row.p for row in rows],
        },
        schema_overrides={"measure": pl.String, "n": pl.Int64},
    )
    q = benjamini_hochberg(frame["p"].to_numpy())
    note = pl.when(pl.col("rho").is_null()).then(pl.lit("constant, or fewer than 5 items have it")).otherwise(None)
    return frame.with_columns(pl.Series("q", q)).fill_nan(None).with_columns(note.alias("note"))


def _split(names: str | Sequence[str]) -> list[str]:
    entries = [names] if isinstance(names, str) else names
    return [part.strip() for entry in entries for part in entry.split(",") if part.strip()]


def _measure(name: str, available: Sequence[str], where: str) -> str:
    full = name if name in available else ALIASES.get(name, name)
    if full not in available:
        raise unknown_column(name, available, where, "measure")
    return full
