"""``breadth compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import AnswersArgument, FigureFile, Levels, Out, given

Cluster = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column that says which items belong together (a passage, say).")
]


def compare_command(
    answers: AnswersArgument,
    subjects: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A B ...]", help="Models, runs or subjects, the baseline first.", show_default=False),
    ] = None,
    rank_all: Annotated[bool, typer.Option("--all", help="Rank all models instead.")] = False,
    cluster: Cluster = None,
    margin: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Difference that does not matter: 0.01 for one point.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source of the levels. Default: those stored with the items.")
    ] = None,
    levels: Levels = None,
    fail_if_worse: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Exit with code 3 if a model is worse than A by more.")
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(metavar="X,Y,..", help="Test sets for --fail-if-worse. Default: all items.")
    ] = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Compare models on the same items: is B better than A, where, and does it carry over to a new test set?

    Differences are B minus A, on all items and by test set, shift and level of difficulty. A name is a subject; or a
    model or a run at its last checkpoint, with all its runs.

    Examples:

    * `breadth compare my-study base tuned --margin 0.01 --cluster passage`

    * `breadth compare answers.parquet --all --figure ranks.html`

    * `breadth compare my-study old new --fail-if-worse 0.02 --on hans,anli`
    """
    from breadth import compare, rank
    from breadth.cli.terminal import (
        check_outputs,
        console,
        print_line,
        print_result,
        print_warnings,
        write_figure_file,
        write_tables,
    )
    from breadth.comparison import cells_table, pairs_table, ranks_table
    from breadth.errors import InputError

    check_outputs(out, figure)
    heading = f"breadth compare: {answers.resolve().name}"
    if on and fail_if_worse is None:
        raise InputError("--on names the test sets for --fail-if-worse; give that too")
    if rank_all:
        if fail_if_worse is not None or margin is not None:
            raise InputError("--all ranks models; --margin and --fail-if-worse compare those that are named")
        ranking = rank(answers, *(subjects or ()), **given(cluster=cluster))
        print_warnings(ranking.warnings)
        print_result(ranking, ranks_table(ranking, console.width))
        write_tables(out, ranking.ranks, neighbours=ranking.neighbours)
        write_figure_file(ranking, figure, heading)
        return
    options = given(cluster=cluster, margin=margin, calibration=calibration, levels=levels)
    result = compare(answers, *(subjects or ()), **options)
    failed = None if fail_if_worse is None else result.worse(fail_if_worse, on)
    print_warnings(result.warnings)
    alone = result.testsets.height == 1
    print_result(result, (cells_table if alone else pairs_table)(result.cells, console.width))
    write_tables(out, result.cells, testsets=result.testsets, items=result.items)
    write_figure_file(result, figure, heading)
    if failed:
        print_line(failed, "bold red")
        raise typer.Exit(3)
