"""The tables of a saved calibration, which anybody may have changed: what their columns must hold to be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.irt.parameters import ITEM_PARAMETERS
from breadth.sources import Table

#: Columns without which items have no scale, and what is assumed of a table that has no others.
NEEDED = ("item", "difficulty")
DEFAULTS: Mapping[str, float] = {"difficulty_se": 0.0, **ITEM_PARAMETERS}

#: Columns that say more about items, by what they hold. Any table of items may have some of these names for something
#: else, so one that does not fit is left out.
ITEM_NUMBERS = (
    *("n", "p_correct", "intercept", "infit", "outfit", "point_biserial", "label_doubt"),
    *("level", "level_low", "level_high", *(f"{name}_se" for name in ITEM_PARAMETERS if name != "difficulty")),
)
ITEM_TEXTS = ("flag", "note", "label", "testset")

#: Columns of the tables beside it, which only breadth writes: one that does not fit is an error.
SUBJECT_NUMBERS = ("n", "ability", "ability_se", "infit", "outfit")
SUBJECT_TEXTS = ("subject", "flag", "note")
FIT_NUMBERS = (
    *("log_likelihood", "aic", "bic", "converged", "iterations", "reliability", "score_correlation", "against_scale"),
    *("main_correlation", "against_main", "parameters", "subjects", "items", "responses", "repeated", "ability_mean"),
    *("ability_sd", "chance", "subjects_at_chance", "items_at_chance", "floor", "below_chance", "floor_gain", "blocks"),
)
FIT_TEXTS = ("model", "block_sizes")

#: Numbers that are written without decimals, wherever they stand.
COUNTS = frozenset(
    ("n", "level", "level_low", "level_high", "iterations", "parameters", "subjects", "items", "responses", "repeated")
)

#: What the words about a fit need; some more if it speaks of chance or of blocks.
FIT_NEEDED = (
    *("model", "reliability", "converged", "iterations", "log_likelihood", "bic"),
    *("subjects", "items", "responses"),
)
NEEDED_WITH = {"chance": ("subjects_at_chance", "items_at_chance"), "blocks": ("block_sizes",)}

#: Columns of a fit that hold shares.
SHARES = ("reliability", "chance", "floor", "below_chance", "against_scale", "against_main")

REMEDY = "write the calibration again with `breadth calibrate --out`"


def saved_items(table: Table) -> tuple[pl.DataFrame, list[str]]:
    """Items with all parameters, and warnings about columns that are not what their names say."""
    frame = table.frame
    for name in NEEDED:
        if name not in frame.columns:
            raise InputError(
                f"{table.name}: is not a calibration; it has no column {name!r}. Columns: {listed(frame.columns, 40)}"
            )
    columns = [_text_column(table, "item")]
    for name, default in DEFAULTS.items():
        if name in frame.columns:
            columns.append(table.numbers(name))
        else:
            columns.append(pl.Series(name, [default], dtype=pl.Float64).new_from_index(0, frame.height))
    warnings, unfit = [], []
    for name in (*ITEM_NUMBERS, *ITEM_TEXTS):
        if name not in frame.columns:
            continue
        try:
            columns.append(_numbers(table, name) if name in ITEM_NUMBERS else _text_column(table, name))
        except InputError as error:
            unfit.append(name)
            warnings.append(f"{error}. The column is left out")
    return frame.with_columns(columns).drop(unfit), warnings


def saved_subjects(table: Table) -> pl.DataFrame:
    """Subjects of a saved calibration."""
    return _checked(table, SUBJECT_NUMBERS, SUBJECT_TEXTS)


def saved_fit(table: Table) -> pl.DataFrame:
    """The row that describes the fit of a saved calibration."""
    frame = _checked(table, FIT_NUMBERS, FIT_TEXTS)
    if "converged" in frame.columns:
        frame = frame.with_columns(pl.col("converged") == 1)
    row = frame.row(0, named=True)
    needed = list(FIT_NEEDED)
    for name, others in NEEDED_WITH.items():
        if row.get(name) is not None:
            needed += others
    # These have defaults where they are absent, but not where they are empty.
    needed += [name for name in ("ability_mean", "ability_sd") if name in row]
    for name in needed:
        if row.get(name) is None:
            raise InputError(
                f"{table.name}: has no column {name!r}, or no value in it; {REMEDY}, or delete this file to use the "
                "difficulties without it"
            )
    for name in SHARES:
        share = row.get(name)
        # Beyond a chance of 1 nothing is left to measure.
        if share is not None and not (0 <= share < 1 or (share == 1 and name != "chance")):
            raise InputError(f"{table.place(0, name)}: {share:g} is not a share; {REMEDY}")
    if row.get("ability_sd", 1.0) <= 0:
        raise InputError(f"{table.place(0, 'ability_sd')}: {row['ability_sd']:g} is not above 0; {REMEDY}")
    return frame


def _checked(table: Table, numbers: tuple[str, ...], texts: tuple[str, ...]) -> pl.DataFrame:
    columns = [_numbers(table, name) for name in numbers if name in table.frame.columns]
    columns += [_text_column(table, name) for name in texts if name in table.frame.columns]
    return table.frame.with_columns(columns)


def _numbers(table: Table, name: str) -> pl.Series:
    """A column of numbers; those that count something are whole."""
    numbers = table.numbers(name)
    if name not in COUNTS:
        return numbers
    whole = numbers.cast(pl.Int64, strict=False)
    wrong = (whole != numbers).fill_null(numbers.is_not_null())
    if wrong.any():
        row: Any = wrong.arg_max()
        raise InputError(f"{table.place(row, name)}: {numbers[row]:g} is not a whole number")
    return whole


def _text_column(table: Table, name: str) -> pl.Series:
    """A column of text; numbers are names, too."""
    values = table.frame[name]
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise InputError(f"{table.name}, column {name!r}: holds {values.dtype}, not text")
    return values.cast(pl.String)
