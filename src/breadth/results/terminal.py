"""Tables for the terminal: never wider than 100 columns, never longer than a screen or two."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

WIDTH = 100
MOST_ROWS = 30


def make_table(title: str, names: Sequence[str], numbers: Sequence[str], width: int) -> Table:
    """A table whose numbers are never cut: if it would be too wide, names are shortened."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    fixed = {"95% interval": 13, "new group": 11, "n": 4, "level": 8}
    widths = [fixed.get(name, max(5, len(name))) for name in numbers]
    # Three blanks follow every column but the last; one blank precedes the first, one follows the last.
    spare = width - 2 - sum(widths) - 3 * (len(names) + len(widths) - 1)
    for name in names:
        table.add_column(Text(name), overflow="ellipsis", no_wrap=True, max_width=max(6, spare // max(len(names), 1)))
    for name, size in zip(numbers, widths, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=size)
    return table


def distinct_names(names: Sequence[object], table: Table) -> dict[str, str]:
    """Names cut to the width of the table's first column, in the middle if their ends tell them apart.

    As much of the end is kept as is needed to tell all names apart; where nothing does, names are numbered.
    """
    width = table.columns[0].max_width or WIDTH
    every = list(dict.fromkeys(map(str, names)))
    for tail in range(width - 1):
        head = width - 1 - tail
        short = [name if len(name) <= width else f"{name[:head]}…{name[len(name) - tail :]}" for name in every]
        if len(set(short)) == len(every):
            return dict(zip(every, short, strict=True))
    numbered = [f"{index} {name}" for index, name in enumerate(every, start=1)]
    return dict(zip(every, numbered, strict=True))


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
