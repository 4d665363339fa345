"""``breadth compare``, and ``breadth advise power``, ``items``, ``score``, ``testsets`` and ``together``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from breadth.cli.options import (
    AnswersArgument,
    Cluster,
    FigureFile,
    Levels,
    Out,
    RoundShares,
    Seed,
    Testsets,
    given,
    verb_class,
)

Families = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="COLUMN",
        help="What says which models belong together: family, base model; or none. Default: recognised.",
    ),
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
    from breadth.comparison import cells_table, pair_differences_table, ranks_table
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
    print_result(result, (cells_table if alone else pair_differences_table)(result.cells, console.width))
    write_tables(out, result.cells, testsets=result.testsets, items=result.items)
    write_figure_file(result, figure, heading)
    if failed:
        print_line(failed, "bold red")
        raise typer.Exit(3)


advise_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Decide what to measure next: how many items and seeds, which items, test sets and models.",
)


def _show(result: Any, tables: Any, out: Path | None, figure: Path | None, heading: str) -> None:
    """Print a result, and write its tables and figure."""
    from breadth.cli.terminal import print_result, print_warnings, write_figure_file, write_tables

    print_warnings(result.warnings)
    print_result(result, *tables)
    main, *others = result.tables().items()
    write_tables(out, main[1], **dict(others))
    write_figure_file(result, figure, heading)


@advise_app.command("power", cls=verb_class("advise_power"))
def power_command(
    answers: AnswersArgument,
    subjects: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A B ...]", help="Models to plan for. Default: all.", show_default=False),
    ] = None,
    difference: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Difference to see: 0.02 for 2 points.")
    ] = None,
    seeds: Annotated[bool, typer.Option("--seeds", help="Fail if no model has several runs.")] = False,
    cluster: Cluster = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """How many items, seeds and checkpoints does it take to see a difference with 80% power?

    From a table of scores it plans seeds and checkpoints; planning items takes answers to single items.

    Example: `breadth advise power my-study --difference 0.02 --seeds --cluster passage`
    """
    from breadth import advise_power
    from breadth.advice import SeedAdvice, plan_table, seeds_table
    from breadth.cli.terminal import check_outputs, console

    check_outputs(out, figure)
    result = advise_power(answers, *(subjects or ()), seeds=seeds, **given(difference=difference, cluster=cluster))
    if isinstance(result, SeedAdvice):
        table = seeds_table(result, console.width)
    else:
        table = plan_table(result.plan, console.width)
    _show(result, [table], out, figure, f"breadth advise power: {answers.name}")


@advise_app.command("items", cls=verb_class("advise_items"))
def items_command(
    answers: AnswersArgument,
    k: Annotated[int | None, typer.Option("-k", metavar="N", help="Number of items.")] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to score with (NPZ).", show_default=False)
    ] = None,
    cluster: Families = None,
    round_shares: RoundShares = False,
    seed: Seed = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Choose items that stand for all, and measure how wrong scores from them are.

    `--into` writes the file that `breadth advise score` takes, `--out` the list of items. Where a column names families
    of models, intervals are about a model of another family.

    Example: `breadth advise items answers.npz -k 100 --into short.npz --out items.csv`
    """
    from breadth import advise_items
    from breadth.advice import errors_table
    from breadth.cli.terminal import check_outputs, console, count_progress, print_written
    from breadth.results.table_writing import check_target

    check_outputs(out, figure)
    if into is not None:
        check_target(into, (".npz",))
    with count_progress("trying short forms", "trials") as progress:
        result = advise_items(
            answers, progress=progress, round_shares=round_shares, **given(k=k, cluster=cluster, seed=seed)
        )
    _show(result, [errors_table(result.errors, console.width)], out, figure, f"breadth advise items: {answers.name}")
    if into is not None:
        print_written(result.save(into))


@advise_app.command("score", cls=verb_class("advise_score"))
def score_command(
    short: Annotated[Path, typer.Argument(metavar="SHORT", help="File of `breadth advise items`.", show_default=False)],
    answers: AnswersArgument,
    round_shares: RoundShares = False,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Estimate full scores from answers to a short form, with 95% intervals.

    Example: `breadth advise score short.npz new-answers.csv --out scores.csv`
    """
    from breadth import advise_score
    from breadth.advice import short_scores_table
    from breadth.cli.terminal import check_outputs, console

    check_outputs(out, figure)
    result = advise_score(short, answers, round_shares=round_shares)
    _show(result, [short_scores_table(result, console.width)], out, figure, f"breadth advise score: {answers.name}")


@advise_app.command("testsets", cls=verb_class("advise_testsets"))
def predict_command(
    source: Annotated[
        Path, typer.Argument(metavar="DATA", help="Scores of models, answers or a study.", show_default=False)
    ],
    error: Annotated[float | None, typer.Option(metavar="POINTS", help="Error that is good enough.")] = None,
    date: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="When a model appeared. Default: recognised.")
    ] = None,
    testsets: Testsets = None,
    cluster: Families = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Which test sets can be dropped, because the others predict them?

    Where a column names families of models, errors and intervals are about a model of another family.

    Examples:

    * `breadth advise testsets leaderboard.csv --error 3 --date submitted`

    * `breadth advise testsets leaderboard.csv --cluster base_model`
    """
    from breadth import advise_testsets
    from breadth.advice import predictions_table, steps_table
    from breadth.cli.terminal import check_outputs, console

    check_outputs(out, figure)
    result = advise_testsets(source, **given(error=error, date=date, testsets=testsets, cluster=cluster))
    tables = [steps_table(result, console.width)]
    if result.predictions.height:
        tables.append(predictions_table(result.predictions, console.width, result.holds_for))
    _show(result, tables, out, figure, f"breadth advise testsets: {source.name}")


@advise_app.command("together", cls=verb_class("advise_together"))
def together_command(
    answers: AnswersArgument,
    cluster: Cluster = None,
    round_shares: RoundShares = False,
    seed: Seed = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Would several models do better than the best one: votes, and routing by test set or level?

    Example: `breadth advise together answers.parquet --figure gains.html`
    """
    from breadth import advise_together
    from breadth.advice import combinations_table
    from breadth.cli.terminal import check_outputs, console

    check_outputs(out, figure)
    result = advise_together(answers, round_shares=round_shares, **given(cluster=cluster, seed=seed))
    _show(
        result,
        [combinations_table(result.gains, console.width)],
        out,
        figure,
        f"breadth advise together: {answers.name}",
    )
