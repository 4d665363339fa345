"""``breadth levels``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.outputs import check_outputs, write_tables


def levels_command(
    calibration: Annotated[Path, typer.Argument(metavar="CALIBRATION", help="Calibrated items.", show_default=False)],
    n: Annotated[int, typer.Option("--n", metavar="N", help="Number of levels.")] = 10,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write item and level (csv, parquet, ...).")] = None,
) -> None:
    """Sort items into equal-size difficulty levels, and say how sure each assignment is.

    Example: `breadth levels calibration.parquet --n 5 --out levels.csv`
    """
    from breadth.cli.terminal import console
    from breadth.report.difficulty_tables import levels_table
    from breadth.verbs import levels

    check_outputs(out)
    found = levels(calibration, n)
    console.print(levels_table(found, console.width))
    write_tables(out, found)
