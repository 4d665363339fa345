"""The columns of a result, declared once: terminal, Markdown, LaTeX, page, JSON and documentation are made of these.

A column says how its values are written, how important it is where there is little room, and what it means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from breadth.results.words import rounded_up

#: What stands for a value that is not known.
MISSING = "-"

#: Rows of a table that a terminal shows.
MOST_ROWS = 30


def _share(digits: int) -> Callable[[Any], str]:
    return lambda value: f"{100 * value:.{digits}f}%"


def _points(digits: int) -> Callable[[Any], str]:
    # In front of a difference stands its sign, so that nobody takes it for a level.
    return lambda value: f"{100 * value:+.{digits}f}"


def _probability(value: Any) -> str:
    if value < 0.001:
        return "<.001"
    if value >= 1:
        return "1"
    return f"{value:.3f}".lstrip("0")


def _correlation(value: Any) -> str:
    return f"{value:+.2f}".replace("0.", ".", 1)


def _boolean(value: Any) -> str:
    return "yes" if value else "no"


def _general(value: Any) -> str:
    """Three decimals, or three digits for very small and large numbers; anything else as it is."""
    if isinstance(value, bool):
        return _boolean(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0 or 0.001 <= abs(value) < 1000:
            return f"{value:.3f}"
        return f"{value:.3g}"
    if isinstance(value, (list, tuple, pl.Series)):
        return ", ".join(map(str, value))
    return str(value)


#: Ways to write a value, by the name that a column gives; any other name is a format of Python such as ``+.2f``.
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "": _general,
    "share": _share(0),
    "share1": _share(1),
    "percent": lambda value: f"{100 * value:.1f}",
    "percent0": lambda value: f"{100 * value:.0f}",
    "points": _points(1),
    "points0": _points(0),
    "r": _correlation,
    "p": _probability,
    "needed": rounded_up,
    "flag": _boolean,
    "name": str,
}


@dataclass(frozen=True)
class Column:
    """A column of a frame, and how readers see it.

    ``name`` is the column in the frame; an interval has the column of its upper end in ``high``. ``header`` is what
    readers see, by default the name. ``format`` is a key of :data:`FORMATS` or a format of Python. ``priority`` 1 is
    shown wherever there is room for a number at all, 2 in a usual terminal, 3 in a wide one; 4 only on pages and in
    files. ``meaning`` is a sentence for the documentation and for whoever points at the header. ``words`` says that
    the values are sentences, cut at their end, not names, which must stay distinct. ``bold`` names a column of the
    frame that is true where the value is worth noticing; ``star`` one that is true where a * follows it, for whoever
    sees no bold type. ``margin`` names a column with half the width of an interval, written behind the value with ±.
    """

    name: str
    high: str = ""
    header: str = ""
    format: str = ""
    priority: int = 2
    meaning: str = ""
    words: bool = False
    bold: str = ""
    star: str = ""
    margin: str = ""

    @property
    def title(self) -> str:
        """What readers see above the column."""
        if self.header:
            return self.header
        return "95% interval" if self.high else self.name.replace("_", " ")

    def text(self, row: Mapping[str, Any]) -> str:
        """The value of a row as readers see it."""
        value = row.get(self.name)
        if self.margin and value is not None and row.get(self.margin) is not None:
            return f"{self._one(value)} ±{self._one(row[self.margin])}"
        if self.star:
            # A blank where there is none keeps numbers below each other.
            return f"{self._one(value)}{'*' if row.get(self.star) else ' '}"
        if not self.high:
            return self._one(value)
        upper = row.get(self.high)
        if value is None or upper is None:
            return MISSING
        return f"{self._one(value)} to {self._one(upper)}"

    def _one(self, value: Any) -> str:
        if value is None:
            return MISSING
        if isinstance(value, float) and math.isnan(value):
            return MISSING
        if self.format in FORMATS:
            return FORMATS[self.format](value)
        return format(value, self.format)


@dataclass(frozen=True)
class Columns:
    """The columns that readers see of a frame, in their order."""

    columns: tuple[Column, ...]

    def __init__(self, *columns: Column) -> None:
        """Columns in the order in which they are shown."""
        object.__setattr__(self, "columns", columns)

    def __iter__(self) -> Iterator[Column]:
        """The columns in their order."""
        return iter(self.columns)

    def __add__(self, other: Columns) -> Columns:
        """These columns, then the others."""
        return Columns(*self.columns, *other.columns)

    def without(self, *names: str) -> Columns:
        """All but some columns."""
        return Columns(*(column for column in self.columns if column.name not in names))

    def present(self, frame: pl.DataFrame) -> Columns:
        """Those that a frame has."""
        return Columns(*(column for column in self.columns if column.name in frame.columns))

    def filled(self, frame: pl.DataFrame) -> Columns:
        """Those that have a value in some row of a frame: a column of dashes tells nothing."""
        kept = []
        for column in self.present(frame):
            if frame[column.name].null_count() < frame.height:
                kept.append(column)
        return Columns(*kept)

    def numeric(self, frame: pl.DataFrame) -> list[bool]:
        """Which columns are aligned right."""
        right = []
        for column in self.columns:
            kind = frame.schema.get(column.name, pl.String)
            right.append(kind.is_numeric() or bool(column.high))
        return right

    def rows(self, frame: pl.DataFrame) -> list[list[str]]:
        """The cells of a frame as readers see them."""
        return [[column.text(row) for column in self.columns] for row in frame.iter_rows(named=True)]

    def documented(self) -> pl.DataFrame:
        """A row per column: ``column, header, meaning``; for the documentation."""
        rows = []
        for column in self.columns:
            names = f"{column.name}, {column.high}" if column.high else column.name
            rows.append({"column": names, "header": column.title, "meaning": column.meaning})
        return pl.DataFrame(rows, schema={"column": pl.String, "header": pl.String, "meaning": pl.String})


def columns_of(frame: pl.DataFrame) -> Columns:
    """Columns of a frame for which nothing was declared: all of them, as they are."""
    return Columns(*(Column(name) for name in frame.columns))


@dataclass(frozen=True)
class Shown:
    """A table as a result shows it first: a caption, the frame with its rows in order, and the columns.

    ``most`` rows are printed. ``note`` is a line below the table, for what a reader must know to read it.
    """

    title: str
    frame: pl.DataFrame
    columns: Columns
    most: int = MOST_ROWS
    note: str = ""

    @property
    def rows(self) -> Sequence[Sequence[str]]:
        """The printed cells."""
        return self.columns.rows(self.frame.head(self.most))

    @property
    def left_out(self) -> int:
        """Rows that are not printed."""
        return max(self.frame.height - self.most, 0)
