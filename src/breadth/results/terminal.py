"""Tables for the terminal: never wider than 100 columns, never longer than a screen or two.

A terminal may be narrower than that. A table then moves its columns together, cuts names, and at last leaves columns
out: a number is printed whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from breadth.errors import speaks_options
from breadth.results.columns import Column, Shown
from breadth.results.words import joined

WIDTH = 100
MOST_ROWS = 30
#: Columns are left out before names and texts are cut to less than this.
LEAST_NAME, LEAST_TEXT = 10, 8
#: Blanks between columns, and where they do not fit otherwise.
GAP, NARROW_GAP = 3, 2


#: Where rows and columns are that are not shown: on the command line (True) and in Python.
ALL_ROWS = {True: "write them with --out FILE", False: "take them from .table()"}
MORE_ROOM = {True: "Widen the terminal or use --out FILE", False: "Take them from .table()"}


class ShownTable:
    """A table of a result in a terminal: numbers are printed whole or not at all.

    Where it is too wide, columns move together, names lose what all of them start with, the least important columns are
    left out (and named below), and at last names are cut in the middle so that they stay distinct.
    """

    def __init__(self, shown: Shown, width: int = WIDTH, *, in_file: bool = True) -> None:
        """A table no wider than ``width``; ``in_file`` says whether what is not shown can be had in a file."""
        self.shown, self.width, self.in_file = shown, width, in_file

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the columns that fit, then what is not shown."""
        shown, room = self.shown, min(self.width, options.max_width)
        kept = [column for column in shown.columns if column.priority < 4]
        wide = shown.frame.head(shown.most)
        numbers = dict(zip([column.name for column in shown.columns], shown.columns.numeric(wide), strict=True))
        cells = {column.name: [column.text(row) for row in wide.iter_rows(named=True)] for column in kept}
        gap = GAP
        if _width_of(kept, cells, gap) > room:
            gap = NARROW_GAP
        if _width_of(kept, cells, gap) > room:
            for column in kept:
                if not numbers[column.name] and not column.words:
                    short = _without_prefix(list(dict.fromkeys(cells[column.name])))
                    cells[column.name] = [short[text] for text in cells[column.name]]
        left_out: list[Column] = []
        while len(kept) > 2 and _least_width(kept, cells, numbers, gap) > room:
            # Of equally important columns, the last goes first.
            least = max(reversed(kept), key=lambda column: column.priority)
            kept.remove(least)
            left_out.append(least)
        _cut_to_fit(kept, cells, numbers, gap, room)
        table = Table(title=Text(shown.title) if shown.title else None, title_justify="left", box=box.SIMPLE_HEAD)
        table.pad_edge, table.collapse_padding = False, gap < GAP
        for column in kept:
            justify = "right" if numbers[column.name] else "left"
            table.add_column(Text(column.title), justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        bold = {column.name: wide[column.bold].to_list() for column in kept if column.bold in wide.columns}
        for index in range(wide.height):
            row = []
            for column in kept:
                marked = column.name in bold and bool(bold[column.name][index])
                row.append(Text(cells[column.name][index], style="bold" if marked else ""))
            table.add_row(*row)
        yield table
        notes = []
        if shown.left_out:
            how = f": {ALL_ROWS[speaks_options()]}" if self.in_file else ""
            notes.append(f"{shown.left_out:,} more rows{how}.")
        if left_out:
            names = joined([column.title for column in shown.columns if column in left_out], len(left_out))
            how = f" {MORE_ROOM[speaks_options()]}." if self.in_file else ""
            notes.append(f"Not shown for lack of room: {names}.{how}")
        if shown.note:
            notes.insert(0, shown.note)
        for note in notes:
            yield Text(note, style="dim")
        if notes:
            yield Text("")


def _column_width(column: Column, cells: dict[str, list[str]]) -> int:
    return max([cell_len(column.title), *(cell_len(text) for text in cells[column.name])])


def _width_of(columns: Sequence[Column], cells: dict[str, list[str]], gap: int) -> int:
    """The width of a table with its two edges."""
    return 2 + sum(_column_width(column, cells) for column in columns) + gap * (len(columns) - 1)


def _least_width(columns: Sequence[Column], cells: dict[str, list[str]], numbers: dict[str, bool], gap: int) -> int:
    """The width if names and sentences were cut as far as they may be."""
    total = 2 + gap * (len(columns) - 1)
    for column in columns:
        width = _column_width(column, cells)
        if not numbers[column.name]:
            width = min(width, max(LEAST_TEXT if column.words else LEAST_NAME, cell_len(column.title)))
        total += width
    return total


def _cut_to_fit(
    columns: Sequence[Column], cells: dict[str, list[str]], numbers: dict[str, bool], gap: int, room: int
) -> None:
    """Cut sentences, then names, by no more than it takes."""
    sentences = [column for column in columns if column.words]
    names = [column for column in columns if not column.words and not numbers[column.name]]
    for group, least in ((sentences, LEAST_TEXT), (names, 2)):
        if not group:
            continue
        cap = max(_column_width(column, cells) for column in group)
        while cap > least and _width_of(columns, cells, gap) > room:
            cap -= 1
            for column in group:
                texts = cells[column.name]
                if column.words:
                    cells[column.name] = [text if len(text) <= cap else f"{text[: cap - 1]}…" for text in texts]
                else:
                    short = distinct_names(list(dict.fromkeys(texts)), cap)
                    cells[column.name] = [short[text] for text in texts]


def distinct_names(names: Sequence[str], width: int) -> dict[str, str]:
    """Names cut to a width, in the middle if their ends tell them apart.

    As much of the end is kept as is needed to tell all names apart; where nothing does, names are numbered.
    """
    for tail in range(width - 1):
        short = [name if len(name) <= width else _cut(name, width, tail) for name in names]
        if len(set(short)) == len(names):
            return dict(zip(names, short, strict=True))
    numbered = [f"{index} {name}" for index, name in enumerate(names, start=1)]
    return dict(zip(names, numbered, strict=True))


def _without_prefix(names: Sequence[str]) -> dict[str, str]:
    """Names without what all of them start with, such as ``eval/``."""
    starts = [name[: slash.end()] for name in names[:1] for slash in re.finditer("/", name)]
    prefix = max((start for start in starts if all(name.startswith(start) for name in names)), default="")
    if len(prefix) < 2 or prefix in names:
        return {name: name for name in names}
    return {name: f"…{name.removeprefix(prefix)}" for name in names}


def _cut(name: str, width: int, tail: int) -> str:
    """A name without its middle; its end does not start within a number, which would turn 13B into 3B."""
    while 0 < tail < width - 2 and name[-tail].isdigit() and name[-tail - 1].isdigit():
        tail += 1
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"
