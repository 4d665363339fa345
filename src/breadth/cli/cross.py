"""``breadth cross``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.outputs import check_outputs, write_tables

HELP = """What does training on one level of difficulty do to the others? Gains over the untrained model, by level.

ANSWERS is a long table (or a directory of them): item, correct, train_level or strategy (empty for the untrained
model), seed if there are several, and level of the item unless there is a calibration.

Examples:

* `breadth cross answers.parquet --figure cross.html`

* `breadth cross runs/ --calibration calibration.parquet --levels 5 --out cross.csv`
"""


def cross_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Answers of all models.", show_default=False)],
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Where levels come from.")] = None,
    levels: Annotated[int, typer.Option(metavar="N", help="Levels to cut the calibration into.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the resampling.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables (csv, parquet, ...).")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figure (html, png, svg).")] = None,
) -> None:
    from breadth.cli.terminal import console, say_warnings, say_written
    from breadth.report.difficulty_tables import best_table, gains_table
    from breadth.report.page import write_figure
    from breadth.verbs import cross

    check_outputs(out, figure)
    found = cross(answers, calibration, levels, seed)
    say_warnings(found.warnings)
    console.print(gains_table(found.cells, found.by, console.width))
    console.print(best_table(found.best, console.width))
    console.print(found.summary(), markup=False, highlight=False)
    write_tables(out, found.cells, effects=found.effects, breaks=found.breaks, best=found.best)
    if figure is not None:
        say_written(write_figure(found.figure(), figure, f"breadth cross: {answers.name}", found.summary()))


cross_command.__doc__ = HELP
