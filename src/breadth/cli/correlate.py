"""``breadth correlate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breadth.cli.options import FigureFile, Out, ScoreOption, Seed, given
from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth import Correlation


def correlate_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Scores, or a study.", show_default=False)],
    control: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="In-domain score to control for, or bias. May be repeated."),
    ] = None,
    testsets: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,..", help="Test sets to correlate; wildcards allowed. Default: all other scores."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Analyse each value separately. May be repeated.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Order of the rows in a group, which are then dependent.")
    ] = None,
    score: ScoreOption = None,
    lower_is_better: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to turn around, such as a loss; or none. Default: by its name."),
    ] = None,
    adjust: Annotated[str | None, typer.Option(help="How to adjust for the control.")] = None,
    method: Annotated[str | None, typer.Option(help="Correlate values or ranks.")] = None,
    robust: Annotated[
        bool, typer.Option("--robust", help="Give rows far out less weight (bivariate t distribution).")
    ] = False,
    ci: Annotated[
        str | None,
        typer.Option(help="Intervals: Fisher (iid), effective sample size (ar) or block bootstrap. auto: ar or iid."),
    ] = None,
    resamples: Annotated[int | None, typer.Option(metavar="N", help="Bootstrap resamples for --ci block.")] = None,
    windows: Annotated[
        int | None, typer.Option(metavar="K", help="Also analyse K consecutive parts of every run.")
    ] = None,
    item_counts: Annotated[
        str | None, typer.Option(metavar="A=635,..", help="Items per test set, to correct for sampling noise.")
    ] = None,
    seed: Seed = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Do results on one test set carry over to another, after controlling for in-domain performance?

    TABLE is CSV, TSV, Parquet, JSON lines or NPZ: wide (a column per test set), long (columns testset, score), or
    single answers (columns testset, item, correct). Or the directory of a study: every run is then analysed over its
    checkpoints, with its own training set as the control.

    Examples:

    * `breadth correlate scores.csv --control mnli`

    * `breadth correlate scores.csv --control mnli --by run --order step --figure carry-over.html --out pairs.csv`

    * `breadth correlate scores.csv --control mnli --testsets 'hans_*,anli' --item-counts mnli=6692,anli=798`

    * `breadth correlate my-study --figure carry-over.html`

    * `breadth correlate my-study --score auc`
    """
    from breadth.cli.terminal import check_outputs, count_progress, print_warnings, write_figure_file
    from breadth.correlation import correlate

    check_outputs(out, figure)
    counts = None if item_counts is None else parse_counts(item_counts)
    options = given(
        control=control, testsets=testsets, by=by, order=order, score=score, lower_is_better=lower_is_better,
        adjust=adjust, method=method, robust=robust or None, ci=ci, resamples=resamples,
        windows=windows, item_counts=counts, seed=seed,
    )  # fmt: skip
    with count_progress("correlating", "groups") as progress:
        result = correlate(table, **options, progress=progress)
    print_warnings(result.warnings)
    print_correlation(result)
    if out is not None:
        write_correlation(result, out)
    if figure is not None:
        write_figure_file(result, figure, f"breadth correlate: {table.name}")


def parse_counts(text: str) -> dict[str, int]:
    """Read ``a=635,b=2490``."""
    counts = {}
    for part in text.split(","):
        name, sign, number = part.rpartition("=")
        if not sign or not number.strip().isdigit():
            raise InputError(f"--item-counts: {part!r} is not NAME=NUMBER; write a=635,b=2490")
        counts[name.strip()] = int(number)
    return counts


def print_correlation(result: Correlation) -> None:
    """Print tables and summary, of each training set if there are several."""
    from breadth.cli.terminal import console, print_line, print_result
    from breadth.correlation import CorrelationByTrainSet, groups_table, heterogeneity_table, pairs_table

    if isinstance(result, CorrelationByTrainSet):
        for name, part in result.parts.items():
            print_line(f"Trained on {name}", "bold")
            print_correlation(part)
            console.print()
    elif result.by and result.pairs.height:
        tables = (
            groups_table(result.pairs, result.by, console.width),
            heterogeneity_table(result.heterogeneity, console.width),
        )
        print_result(result, *tables)
    else:
        print_result(result, pairs_table(result.pairs, result.by, console.width))


def write_correlation(result: Correlation, out: Path) -> None:
    """Write the pairs to ``out`` and the other tables beside it."""
    from breadth.cli.terminal import write_tables

    others = {"heterogeneity": result.heterogeneity, "similarity": result.similarity, "windows": result.windows}
    write_tables(out, result.pairs, **others)
