"""Names for sentences and labels: no two things have the same one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

#: Written between the parts of a name.
SEPARATOR = " / "


def name_rows(frame: pl.DataFrame, columns: Sequence[str], labelled: Sequence[str] = ()) -> pl.Series:
    """A name for every row of ``frame``, from its values in ``columns``: ``opt-6.7b / mnli / 32``.

    Missing values are left out. Values of the columns ``labelled`` are preceded by the name of the column. Rows that
    would have the same name get what tells them apart (:func:`distinguish_names`).
    """
    parts = []
    for column in columns:
        value = pl.col(column).cast(pl.String)
        parts.append(pl.concat_str(pl.lit(f"{column} "), value) if column in labelled else value)
    names = frame.select(pl.concat_str(parts, separator=SEPARATOR, ignore_nulls=True)).to_series()
    return distinguish_names(names, frame)


def distinguish_names(names: pl.Series, about: pl.DataFrame) -> pl.Series:
    """Names of which no two are alike: equal ones get the column of ``about`` that tells them apart, else a number.

    ``about`` says in its rows what is known about the things that are named. Two runs of one model with the same number
    of examples had one name, for example, and a verdict that named it did not say which of them it meant.

    >>> about = pl.DataFrame({"train_set": ["mnli", "rte"], "examples": [32, 32]})
    >>> distinguish_names(pl.Series(["opt / 32", "opt / 32"]), about).to_list()
    ['opt / 32 (train_set mnli)', 'opt / 32 (train_set rte)']
    """
    if not names.is_duplicated().any():
        return names
    result = names.to_list()
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows_of.setdefault(name, []).append(row)
    for name, rows in rows_of.items():
        if len(rows) == 1:
            continue
        alike = about[rows]
        columns = _telling_columns(alike)
        taken: dict[str, int] = {}
        for place, row in enumerate(rows):
            words = []
            for column in columns:
                value = alike[column][place]
                words.append(f"no {column}" if value is None else f"{column} {value}")
            full = f"{name} ({', '.join(words)})" if words else str(name)
            taken[full] = taken.get(full, 0) + 1
            # Nothing that is known tells these apart.
            result[row] = full if taken[full] == 1 else f"{full} #{taken[full]}"
    return pl.Series(names.name, result, dtype=pl.String)


def _telling_columns(alike: pl.DataFrame) -> list[str]:
    """The fewest columns, chosen greedily, that tell as many rows apart as all columns do."""
    chosen: list[str] = []
    told = 1
    while told < alike.height:
        best = None
        for column in alike.columns:
            number = alike.select(*chosen, column).n_unique() if column not in chosen else 0
            if number > told:
                told, best = number, column
        if best is None:
            break
        chosen.append(best)
    return chosen
