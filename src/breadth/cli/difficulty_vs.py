"""``breadth difficulty-vs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.outputs import check_outputs, write_tables


def difficulty_vs_command(
    calibration: Annotated[Path, typer.Argument(metavar="CALIBRATION", help="Calibrated items.", show_default=False)],
    items: Annotated[
        Path, typer.Option(metavar="FILE", help="Table of items (item or id, text, ...).", show_default=False)
    ],
    measures: Annotated[
        str | None, typer.Option(metavar="A,B,..", help="Columns or text measures. Default: all there are.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table (csv, parquet, ...).")] = None,
) -> None:
    """Compare difficulty with people's ideas of it: length, steps, grade, whatever the table of items has.

    Computed from text where it is there: question_length, answer_length, sentences, digits, rare_words, steps.

    Example: `breadth difficulty-vs calibration.parquet --items questions.parquet --measures length,steps,grade`
    """
    from breadth.cli.terminal import console
    from breadth.report.difficulty_tables import measures_table
    from breadth.verbs import difficulty_vs

    check_outputs(out)
    found = difficulty_vs(calibration, items, measures)
    console.print(measures_table(found, console.width))
    write_tables(out, found)
