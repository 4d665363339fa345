"""Test sets by column: the values of a column make test sets of their own (``evaluate.split_by``).

A set stays one unit of loading, encoding and evaluating; only the column ``testset`` of its items names the parts, and
answers carry the name of their item. So everything that reads answers sees test sets, and nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from breadth.errors import InputError, did_you_mean, listed

#: Most parts of a set: a column with more values is an id or a text.
MOST_PARTS = 200

#: Fewest items of a part: no interval can be given for one item.
FEWEST_ITEMS = 2


def split_into_parts(name: str, frame: pl.DataFrame, columns: Sequence[str]) -> dict[str, pl.DataFrame]:
    """The items of a set by the values of columns, in the order of their names; ``testset`` is the name of the part.

    Characters of a value that do not belong into names of files and columns become ``_``; a missing value is ``none``.
    """
    for column in columns:
        if column not in frame.columns:
            hint = did_you_mean([column], frame.columns)
            raise InputError(f"{name} has no column {column!r}.{hint} Columns: {listed(frame.columns, 40)}")
        if frame.schema[column].is_nested():
            raise InputError(f"column {column!r} of {name} holds lists; choose one that holds words or numbers")
    values = frame.select(
        pl.col(column).cast(pl.String).fill_null("none").alias(f"value{k}") for k, column in enumerate(columns)
    )
    combinations = values.unique().sort(values.columns)
    if combinations.height > MOST_PARTS:
        what = " and ".join(columns)
        raise InputError(
            f"{what} of {name} has {combinations.height:,} values; at most {MOST_PARTS} make test sets of their own"
        )
    parts: dict[str, pl.DataFrame] = {}
    meant: dict[str, tuple[str, ...]] = {}
    for combination in combinations.iter_rows():
        part = ".".join([name, *map(safe_name, combination)])
        if part in meant:
            both = listed([".".join(meant[part]), ".".join(combination)])
            raise InputError(f"values of {name} make the same test set {part}: {both}; rename one of them")
        meant[part] = combination
        same = [pl.col(column) == value for column, value in zip(values.columns, combination, strict=True)]
        inside = values.select(pl.all_horizontal(same)).to_series()
        parts[part] = frame.filter(inside).with_columns(testset=pl.lit(part))
    small = [f"{part} ({items.height})" for part, items in parts.items() if items.height < FEWEST_ITEMS]
    if small:
        raise InputError(f"fewer than {FEWEST_ITEMS} items in {listed(small, most=3)}; choose another column")
    return parts


def safe_name(value: str) -> str:
    """A value of a column as part of a test set's name.

    >>> safe_name("ln_subject/object_swap"), safe_name("a b."), safe_name("")
    ('ln_subject_object_swap', 'a_b_', '_')
    """
    return re.sub(r"[^\w-]", "_", value) or "_"
