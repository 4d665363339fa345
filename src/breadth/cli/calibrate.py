"""``breadth calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from breadth.cli.outputs import check_outputs

if TYPE_CHECKING:
    import polars as pl

    from breadth.verbs import Calibration

HELP = """How hard is every item, and how able every subject, judged by right and wrong answers (item response theory)?

ANSWERS is NPZ (R with -1 missing, models, items), a wide table (a row per subject, a column per item), a long one
(subject, item, correct), or a directory of long ones. Or the directory of a study: its checkpoints are the subjects.

Examples:

* `breadth calibrate answers.npz --out calibration.parquet`

* `breadth calibrate answers.csv --model 2pl --figure map.html --curves q17,q203`

* `breadth calibrate new.npz --model 2pl --anchor calibration.parquet`

* `breadth calibrate my-study --testset mnli --out calibration.parquet`
"""


def calibrate_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Right and wrong answers.", show_default=False)],
    model: Annotated[Literal["1pl", "2pl", "3pl"], typer.Option(help="Rasch, with slopes, with guessing.")] = "1pl",
    priors: Annotated[
        str, typer.Option(metavar="default|none|FILE", help="Weak priors, pure ML, or JSON.")
    ] = "default",
    levels: Annotated[int, typer.Option(metavar="N", help="Number of difficulty levels.")] = 10,
    anchor: Annotated[Path | None, typer.Option(metavar="FILE", help="Calibration whose items set the scale.")] = None,
    min_responses: Annotated[int, typer.Option(metavar="N", help="Leave out items with fewer answers.")] = 0,
    copies: Annotated[
        Literal["keep", "weigh", "drop"], typer.Option(help="Near-copies of subjects: count all, as one, or only one.")
    ] = "keep",
    stability: Annotated[bool, typer.Option("--stability", help="Also: how many subjects make levels stable.")] = False,
    curves: Annotated[str | None, typer.Option(metavar="A,B,..", help="Items whose curves the figure shows.")] = None,
    profiles: Annotated[str | None, typer.Option(metavar="A,B,..", help="Subjects the figure profiles.")] = None,
    testset: Annotated[str | None, typer.Option(metavar="NAME", help="Only the items of this test set.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of everything random.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the calibration (parquet, csv, ...).")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figure (html, png, svg).")] = None,
) -> None:
    from breadth.cli.terminal import console, say_warnings, say_written
    from breadth.report.page import write_figure
    from breadth.verbs import calibrate

    check_outputs(out, figure)
    with console.status(f"calibrating {answers.name}"):
        result = calibrate(answers, model, priors, levels, anchor, min_responses, copies, seed, testset)
    say_warnings(result.warnings)
    samples = None
    if stability:
        with console.status("calibrating samples of subjects"):
            samples = result.level_stability(levels)
    show_calibration(result, levels, samples)
    if out is not None:
        say_written(*result.save(out))
    if figure is not None:
        chosen = [None if names is None else names.split(",") for names in (curves, profiles)]
        say_written(
            write_figure(result.figure(*chosen), figure, f"breadth calibrate: {answers.name}", result.summary())
        )


calibrate_command.__doc__ = HELP


def show_calibration(result: Calibration, levels: int, samples: pl.DataFrame | None = None) -> None:
    """Print the tables and the paragraph."""
    from breadth.cli.terminal import console
    from breadth.report.difficulty_tables import items_table, levels_table, stability_table

    console.print(items_table(result.items, console.width))
    console.print(levels_table(result.levels(levels), console.width))
    if samples is not None:
        console.print(stability_table(samples, console.width))
    console.print(result.summary(), markup=False, highlight=False)
