"""``breadth ability``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from breadth.cli.outputs import check_outputs, write_tables


def ability_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Answers of new subjects.", show_default=False)],
    calibration: Annotated[
        Path, typer.Option("--with", metavar="CALIBRATION", help="Calibrated items.", show_default=False)
    ],
    method: Annotated[Literal["eap", "wle"], typer.Option(help="Posterior mean, or Warm's estimate.")] = "eap",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table (csv, parquet, ...).")] = None,
) -> None:
    """Score new subjects on calibrated items, without refitting anything.

    Example: `breadth ability new.npz --with calibration.parquet --out abilities.csv`
    """
    from breadth.cli.terminal import console, say_warnings
    from breadth.records import read_responses
    from breadth.report.difficulty_tables import subjects_table
    from breadth.verbs import ability

    check_outputs(out)
    data = read_responses(answers)
    say_warnings(data.warnings)
    found = ability(data, calibration, method)
    console.print(subjects_table(found, console.width))
    write_tables(out, found)
