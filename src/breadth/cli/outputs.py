"""Where a verb's results go: checked before anything is computed, written when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def check_outputs(out: Path | None, figure: Path | None = None) -> None:
    """Refuse a table or figure that could not be written, so that nobody computes for an hour to find out."""
    from breadth.records import check_target
    from breadth.report.page import FORMATS

    if out is not None:
        check_target(out)
    if figure is not None:
        check_target(figure, FORMATS)


def write_tables(out: Path | None, main: pl.DataFrame, **others: pl.DataFrame) -> None:
    """Write the main table to ``out`` and the others that have rows beside it, as ``NAME.other.csv``; say so."""
    from breadth.cli.terminal import say_written
    from breadth.records import write_table

    if out is None:
        return
    say_written(write_table(main, out))
    for name, frame in others.items():
        if frame.height:
            say_written(write_table(frame, out.with_name(f"{out.stem}.{name}{out.suffix}")))
