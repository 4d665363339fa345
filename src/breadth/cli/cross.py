"""``breadth cross``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from breadth.cli.outputs import check_outputs, write_tables

HELP = """What does training on one level of difficulty do to the others? Gains by level.

ANSWERS is a long table (or a directory of them): item, correct, train_level or strategy (empty for the untrained
model), seed if there are several, and level of the item unless there is a calibration. Or the directory of a study
that trained by level or strategy: last checkpoints against step 0, on held-out items of the set trained on.

Examples:

* `breadth cross answers.parquet --figure cross.html`

* `breadth cross runs/ --calibration calibration.parquet --levels 5 --out cross.csv`

* `breadth cross my-study --model opt-125m --by strategy`
"""


def cross_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Answers of all models.", show_default=False)],
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Where levels come from.")] = None,
    levels: Annotated[int, typer.Option(metavar="N", help="Levels to cut the calibration into.")] = 10,
    by: Annotated[
        Literal["train_level", "strategy"] | None, typer.Option(help="What to compare. Default: both, if there are.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Which model of a study.")] = None,
    train_set: Annotated[str | None, typer.Option(metavar="NAME", help="Which train set of a study.")] = None,
    shots: Annotated[int | None, typer.Option(metavar="N", help="Which number of examples of a study.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the resampling.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables (csv, parquet, ...).")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figure (html, png, svg).")] = None,
) -> None:
    from breadth.cli.terminal import console, say_warnings, say_written
    from breadth.report.difficulty_tables import best_table, gains_table
    from breadth.report.page import write_figure
    from breadth.verbs import cross

    check_outputs(out, figure)
    found = cross(answers, calibration, levels, seed, by, model, train_set, shots)
    both = [found] if found.strategies is None else [found, found.strategies]
    say_warnings(dict.fromkeys(line for one in both for line in one.warnings))
    for one in both:
        console.print(gains_table(one.cells, one.by, console.width))
        console.print(best_table(one.best, console.width))
        console.print(one.summary(), markup=False, highlight=False)
    write_tables(out, found.cells, effects=found.effects, breaks=found.breaks, best=found.best)
    if found.strategies is not None and out is not None:
        other = found.strategies
        beside = out.with_name(f"{out.stem}.strategy{out.suffix}")
        write_tables(beside, other.cells, breaks=other.breaks, best=other.best)
    if figure is not None:
        title = f"breadth cross: {answers.resolve().name}"
        places = [figure, figure.with_name(f"{figure.stem}.strategy{figure.suffix}")]
        for one, place in zip(both, places, strict=False):
            say_written(write_figure(one.figure(), place, title, one.summary()))


cross_command.__doc__ = HELP
