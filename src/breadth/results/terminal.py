"""Tables for the terminal: never wider than 100 columns, never longer than a screen or two.

A terminal may be narrower than that. A table then moves its columns together, cuts names, and at last leaves columns
out: a number is printed whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from breadth.results.words import joined

WIDTH = 100
MOST_ROWS = 30
#: Columns are left out before names and texts are cut to less than this.
LEAST_NAME, LEAST_TEXT = 10, 8
#: Blanks between columns, and where they do not fit otherwise.
GAP, NARROW_GAP = 3, 2


class TableLayout(NamedTuple):
    """The columns that are printed, the width of every column, and the blanks between them."""

    kept: list[int]
    widths: list[int]
    gap: int


class FittedTable(Table):
    """A table that leaves out its least important columns where it would be too wide, and says which."""

    names: Sequence[str] = ()
    texts: Sequence[str] = ()
    least: Sequence[str] = ()
    what: str = ""
    in_file: bool = True
    room: int = WIDTH

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the columns that fit, then the names of the others."""
        room = min(self.room, options.max_width)
        cells = [[column.header, *column.cells] for column in self.columns]
        headers, widths = [str(column.header) for column in self.columns], _widths(console, options, cells)
        pairs = zip(widths, self.columns, strict=True)
        usual = [min(max(width, column.min_width or 0), column.max_width or WIDTH) for width, column in pairs]
        layout = TableLayout([*range(len(widths))], usual, GAP)
        if room < WIDTH or _total(layout) > room:
            # All columns with whole names, moved together if need be.
            layout = layout._replace(widths=widths)
            layout = layout if _total(layout) <= room else layout._replace(gap=NARROW_GAP)
            if _total(layout) > room:
                cells = self._renamed(cells)
                layout = self._narrow(_widths(console, options, cells), room)
        cells = self._renamed(cells, layout.widths)
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.collapse_padding = layout.gap < GAP
        for index in layout.kept:
            column, width = self.columns[index], layout.widths[index]
            table.add_column(
                cells[index][0], justify=column.justify, overflow="ellipsis", no_wrap=True, min_width=width,
                max_width=width,
            )  # fmt: skip
        for row in zip(*(cells[index][1:] for index in layout.kept), strict=True):
            table.add_row(*row)
        yield table
        if left_out := [index for index in range(len(headers)) if index not in layout.kept]:
            what = f"{self.what}{'s' if len(left_out) > 1 else ''} " if self.what else ""
            # Of two columns with the same header, each belongs to the one before it.
            twice = [f" of {headers[index - 1]}" * (headers.count(headers[index]) > 1) for index in left_out]
            names = [headers[index] + of for index, of in zip(left_out, twice, strict=True)]
            how = ", or write them with --out FILE" if self.in_file else ""
            note = (
                f"Not shown for lack of room: {what}{joined(names, len(names))}. Widen the terminal to see all columns"
            )
            yield Text(f"{note}{how}.\n", style="dim")

    def _narrow(self, widths: list[int], room: int) -> TableLayout:
        """As many columns as leave enough room for names, the most important ones; one with numbers always stays."""
        headers = [str(column.header) for column in self.columns]
        order = [index for name in self.least for index in reversed(range(len(headers))) if headers[index] == name]
        order += [index for index in reversed(range(len(self.names), len(headers))) if index not in order]
        names, texts = (
            [index for index, name in enumerate(self.names) if (name in self.texts) == words] for words in (False, True)
        )
        least = _capped(_capped(widths, names, LEAST_NAME), texts, LEAST_TEXT)

        def fits(left_out: Sequence[int]) -> bool:
            kept = [index for index in range(len(widths)) if index not in left_out]
            return _total(TableLayout(kept, least, NARROW_GAP)) <= room

        left_out: list[int] = []
        while len(left_out) < len(order) - 1 and not fits(left_out):
            left_out.append(order[len(left_out)])
        for index in reversed(left_out[:-1]):  # a wide column may have made room for narrow ones
            if fits(rest := [other for other in left_out if other != index]):
                left_out = rest
        layout = TableLayout([index for index in range(len(widths)) if index not in left_out], widths, NARROW_GAP)
        # Texts, then names, are cut to the same width, by no more than it takes to fit.
        for columns, smallest in ((texts, LEAST_TEXT), (names, 1)):
            cap = max(layout.widths)
            while cap > smallest and _total(layout) > room:
                cap -= 1
                layout = layout._replace(widths=_capped(layout.widths, columns, cap))
        usual = layout._replace(gap=GAP)
        return usual if _total(usual) <= room and layout.widths == widths else layout

    def _renamed(
        self, cells: list[list[RenderableType]], widths: list[int] | None = None
    ) -> list[list[RenderableType]]:
        """Cells whose names are cut to ``widths`` and can be told apart; without widths, less what all start with.

        Columns that share names are cut alike.
        """
        cells = list(cells)
        own = {
            index: dict.fromkeys(map(str, cells[index][1:]))
            for index, name in enumerate(self.names)
            if name not in self.texts
        }
        for index, names in own.items():
            pool = list(dict.fromkeys(name for other in own.values() if other.keys() & names for name in other))
            short = _without_prefix(pool) if widths is None else distinct_names(pool, widths[index])
            cells[index] = [
                cells[index][0],
                *(
                    cell
                    if (text := short[str(cell)]) == str(cell)
                    else Text(text, style=cell.style if isinstance(cell, Text) else "")
                    for cell in cells[index][1:]
                ),
            ]
        return cells


def make_table(
    title: str,
    names: Sequence[str],
    numbers: Sequence[str],
    width: int,
    *,
    texts: Sequence[str] = (),
    least: Sequence[str] = (),
    what: str = "",
    in_file: bool = True,
) -> Table:
    """A table whose numbers are never cut: if it would be too wide, names are shortened, then columns left out.

    Parameters
    ----------
    title, names, numbers
        The title, and the headers of columns on the left and on the right. More columns may be added.
    width
        The width of the terminal.
    texts
        Those of ``names`` that hold words, cut at their end, and not names, which must be told apart.
    least
        Columns to leave out first, in this order. The other numbers follow from the right; one stays.
    what
        The noun for columns whose headers are numbers, such as "level".
    in_file
        Whether ``--out`` writes these columns.
    """
    table = FittedTable(title=Text(title))
    table.names, table.texts, table.least = names, texts, least
    table.what, table.in_file, table.room = what, in_file, width
    fixed = {"95% interval": 13, "new group": 11, "n": 4, "level": 8}
    widths = [fixed.get(name, max(5, len(name))) for name in numbers]
    # One blank precedes the first column and one follows the last.
    spare = width - 2 - sum(widths) - GAP * (len(names) + len(widths) - 1)
    for name in names:
        table.add_column(Text(name), overflow="ellipsis", no_wrap=True, max_width=max(6, spare // max(len(names), 1)))
    for name, size in zip(numbers, widths, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=size)
    return table


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


def _widths(console: Console, options: ConsoleOptions, cells: list[list[RenderableType]]) -> list[int]:
    """The width of the widest cell of every column."""
    wide = options.update(max_width=10 * WIDTH)
    return [max(Measurement.get(console, wide, cell).maximum for cell in column) for column in cells]


def _capped(widths: list[int], columns: Sequence[int], cap: int) -> list[int]:
    return [min(width, cap) if index in columns else width for index, width in enumerate(widths)]


def _total(layout: TableLayout) -> int:
    """The width of a table with its two edges."""
    return 2 + sum(layout.widths[index] for index in layout.kept) + layout.gap * (len(layout.kept) - 1)


def interval_text(low: float | None, high: float | None) -> Text:
    """Both ends with their sign, or a dash."""
    return Text("-" if low is None or high is None else f"{low:+.2f} {high:+.2f}")


def number_text(value: object, digits: int) -> str:
    """A number with so many digits, or a dash."""
    return f"{value:.{digits}f}" if isinstance(value, float | int) else "-"


def share_text(value: float | None) -> str:
    """A share in per cent, or a dash."""
    return "-" if value is None else f"{value:.0%}"


def probability_text(value: float | None) -> str:
    """A p- or q-value without its leading zero, or a dash."""
    if value is None:
        return "-"
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"


def signed_text(value: float | None) -> str:
    """A number with its sign, or a dash."""
    return "-" if value is None else f"{value:+.2f}"
