"""``breadth profile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.outputs import check_outputs, write_tables


def profile_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Right and wrong answers.", show_default=False)],
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Calibrated items. Default: levels that the items have.")
    ] = None,
    subjects: Annotated[
        list[str] | None, typer.Option(metavar="A,B,..", help="Whom to show. Default: five, spread over ability.")
    ] = None,
    levels: Annotated[int, typer.Option(metavar="N", help="Number of difficulty levels.")] = 10,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables (csv, parquet, ...).")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figure (html, png, svg).")] = None,
) -> None:
    """Accuracy of subjects by difficulty, and how much of a difference between two comes from which levels.

    ANSWERS may be the directory of a study: then subjects are runs, models or RUN/STEP (also RUN/first, RUN/last), with
    wildcards; by default the first and last checkpoint of every run.

    Examples:

    * `breadth profile answers.npz --calibration calibration.parquet --subjects model-a,model-b --levels 5`

    * `breadth profile my-study --calibration calibration.parquet --subjects 'opt-*/last'`
    """
    from breadth.cli.terminal import console, say_warnings, say_written
    from breadth.report.difficulty_tables import differences_table, profile_table
    from breadth.report.page import write_figure
    from breadth.verbs import profile

    check_outputs(out, figure)
    found = profile(answers, calibration, subjects, levels)
    say_warnings(found.warnings)
    console.print(profile_table(found.levels, console.width))
    if found.levels["subject"].n_unique() == 2:
        console.print(differences_table(found.differences, console.width))
    write_tables(out, found.levels, differences=found.differences)
    if figure is not None:
        say_written(write_figure(found.figure(), figure, f"breadth profile: {answers.name}"))
