"""``breadth correlate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from breadth.cli.outputs import check_outputs, write_tables
from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth.verbs import Correlation

HELP = """Does doing better on one test set go with doing better on another, once in-domain performance is taken out?

TABLE is CSV, TSV, Parquet, JSON lines or NPZ: wide (a column per test set), long (columns testset, score), or single
answers (columns testset, item, correct). Or the directory of a study: then every run is analysed over its checkpoints
with its own train set as the control.

Examples:

* `breadth correlate scores.csv --control mnli`

* `breadth correlate scores.csv --control mnli --by run --order step --figure carry-over.html --out pairs.csv`

* `breadth correlate scores.csv --control mnli --facets 'hans_*,anli' --item-counts mnli=6692,anli=798`

* `breadth correlate my-study --figure carry-over.html`
"""


def correlate_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Table of scores.", show_default=False)],
    control: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="In-domain score to take out. May be given several times."),
    ] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,..", help="Test sets to correlate; wildcards allowed. Default: all other scores."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Analyse each value on its own. May be repeated."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Orders the rows of a group, which are then dependent."),
    ] = None,
    regressor: Annotated[Literal["gam", "linear", "none"], typer.Option(help="How the control is taken out.")] = "gam",
    rank: Annotated[bool, typer.Option("--rank", help="Correlate ranks (Spearman).")] = False,
    inference: Annotated[
        Literal["auto", "iid", "ar", "block"],
        typer.Option(
            help="Intervals: Fisher (iid), effective sample size (ar), block bootstrap; auto = ar with --order."
        ),
    ] = "auto",
    resamples: Annotated[int, typer.Option(metavar="N", help="Bootstrap resamples for block.")] = 2000,
    windows: Annotated[
        int | None, typer.Option(metavar="K", help="Also analyse K consecutive parts of every run.")
    ] = None,
    item_counts: Annotated[
        str | None,
        typer.Option(metavar="A=635,..", help="Items per test set: correct for their sampling noise."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables (csv, tsv, parquet, json, jsonl).")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the heatmap (html, png, svg).")] = None,
) -> None:
    from breadth.cli.terminal import group_progress, say_warnings, say_written
    from breadth.report.page import write_figure
    from breadth.verbs import correlate

    check_outputs(out, figure)
    with group_progress("correlating") as progress:
        result = correlate(
            table,
            control=control,
            facets=facets,
            by=by,
            order=order,
            regressor=regressor,
            rank=rank,
            inference=inference,
            resamples=resamples,
            windows=windows,
            item_counts=None if item_counts is None else parse_counts(item_counts),
            seed=seed,
            progress=progress,
        )
    say_warnings(result.warnings)
    show_all(result)
    write_correlation(result, out)
    if figure is not None:
        say_written(write_figure(result.figure(), figure, f"breadth correlate: {table.name}", result.summary()))


correlate_command.__doc__ = HELP


def parse_counts(text: str) -> dict[str, int]:
    """Read ``a=635,b=2490``."""
    counts = {}
    for part in text.split(","):
        name, sign, number = part.rpartition("=")
        if not sign or not number.strip().isdigit():
            raise InputError(f"--item-counts: {part!r} is not NAME=NUMBER; write a=635,b=2490")
        counts[name.strip()] = int(number)
    return counts


def show(result: Correlation) -> None:
    """Print the tables and the paragraph."""
    from breadth.cli.terminal import console
    from breadth.report.terminal import groups_table, heterogeneity_table, pairs_table

    if result.by and result.pairs.height:
        console.print(groups_table(result.pairs, result.by, console.width))
        console.print(heterogeneity_table(result.heterogeneity, console.width))
    else:
        console.print(pairs_table(result.pairs, result.by, console.width))
    console.print(result.summary(), markup=False, highlight=False)


def show_all(result: Correlation) -> None:
    """Print the tables and the paragraph of every train set, if there are several."""
    from breadth.cli.terminal import console
    from breadth.verbs.study_scores import CorrelationByTrainSet

    if not isinstance(result, CorrelationByTrainSet):
        show(result)
        return
    for name, part in result.parts.items():
        console.print(f"Trained on {name}", style="bold", markup=False, highlight=False)
        show(part)
        console.print()


def write_correlation(result: Correlation, out: Path | None) -> None:
    """Write the pairs to ``out`` and the other frames beside it."""
    if out is not None:
        others = {"heterogeneity": result.heterogeneity, "similarity": result.similarity, "windows": result.windows}
        write_tables(out, result.pairs, **others)
