"""``breadth profile``, ``sample``, ``difficulty-vs`` and ``transfer``: working with difficulty."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import (
    AnswersArgument,
    CalibrationArgument,
    Cluster,
    ExcelSafe,
    FigureFile,
    Levels,
    Out,
    ScoreOption,
    Seed,
    given,
)


def profile_command(
    answers: AnswersArgument,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Calibrated items. Default: the levels stored with the items.")
    ] = None,
    subjects: Annotated[
        list[str] | None, typer.Option(metavar="A,B,..", help="Subjects to show. Default: five, spread over ability.")
    ] = None,
    levels: Levels = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    figure: FigureFile = None,
) -> None:
    """Show accuracy by difficulty level, and which levels a difference between two subjects comes from.

    ANSWERS may be the directory of a study: subjects are then runs, models or RUN/STEP (also RUN/first, RUN/last), with
    wildcards; by default the first and last checkpoint of every run.

    Examples:

    * `breadth profile answers.npz --calibration calibration.parquet --subjects model-a,model-b --levels 5`

    * `breadth profile my-study --calibration calibration.parquet --subjects 'opt-*/last'`
    """
    from breadth import profile
    from breadth.cli import terminal
    from breadth.difficulty import differences_table, profile_table

    terminal.check_outputs(out, figure)
    result = profile(answers, calibration, **given(subjects=subjects, levels=levels))
    terminal.print_warnings(result.warnings)
    tables = [profile_table(result.levels, terminal.console.width)]
    if result.levels["subject"].n_unique() == 2:
        tables.append(differences_table(result.differences, terminal.console.width))
    terminal.print_result(result, *tables)
    terminal.write_tables(out, result.levels, excel_safe, differences=result.differences)
    terminal.write_figure_file(result, figure, f"breadth profile: {answers.name}")
    terminal.exit_if_empty(result)


def sample_command(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="Table of items.", show_default=False)],
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Source of the difficulties.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Which items, in which order.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", metavar="N", help="Number of items. Default: all that the strategy can draw.")
    ] = None,
    order: Annotated[str | None, typer.Option(help="Order of the items, instead of the strategy's own.")] = None,
    difficulty: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of difficulties, without a calibration.")
    ] = None,
    ease: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column in which higher is easier.")] = None,
    describe: Annotated[bool, typer.Option("--describe", help="Show difficulties before and after.")] = False,
    seed: Seed = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
) -> None:
    """Choose training data by difficulty: which items, and in which order.

    ITEMS is a table with a column item or id (and a calibration), or with its own column of difficulties.

    Strategies: easy, middle, hard (a third each), full (whole range), centred (around the middle), spiral (whole range,
    rising and returning to easy items), curriculum (easy to hard), anti-curriculum (hard to easy).

    Examples:

    * `breadth sample questions.parquet --calibration calibration.parquet --strategy spiral --n 2000 --out train.jsonl`

    * `breadth sample mnli.parquet --ease n_correct_of_100_berts --strategy centred --n 500 --describe`
    """
    from breadth import sample
    from breadth.cli.terminal import check_outputs, console, print_warnings, write_tables
    from breadth.difficulty import histogram_table

    check_outputs(out)
    options = given(strategy=strategy, n=n, order=order, difficulty=difficulty, ease=ease, seed=seed)
    result = sample(items, calibration, **options)
    print_warnings(result.warnings)
    if describe or out is None:
        console.print(histogram_table(result.histogram, console.width))
    console.print(result.summary(), highlight=False)
    write_tables(out, result.items, excel_safe)


def difficulty_vs_command(
    calibration: CalibrationArgument,
    items: Annotated[
        Path, typer.Option(metavar="FILE", help="Table of items (item or id, text, ...).", show_default=False)
    ],
    measures: Annotated[
        str | None, typer.Option(metavar="A,B,..", help="Columns or text measures. Default: all available.")
    ] = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
) -> None:
    """Compare difficulty with human measures of it, such as length, steps or grade.

    Measures are columns of the table of items, or computed from its text: question_length, answer_length, sentences,
    digits, rare_words, steps.

    Example: `breadth difficulty-vs calibration.parquet --items questions.parquet --measures length,steps,grade`
    """
    from breadth import difficulty_vs
    from breadth.cli.terminal import check_outputs, console, write_tables
    from breadth.difficulty import measures_table

    check_outputs(out)
    compared = difficulty_vs(calibration, items, **given(measures=measures))
    console.print(measures_table(compared, console.width))
    write_tables(out, compared, excel_safe)


def transfer_command(
    answers: AnswersArgument,
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Source of the levels.")] = None,
    levels: Levels = None,
    score: ScoreOption = None,
    by: Annotated[str | None, typer.Option(help="Condition to compare. Default: both, if there are both.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model of a study.")] = None,
    train_set: Annotated[str | None, typer.Option(metavar="NAME", help="Training set of a study.")] = None,
    examples: Annotated[int | None, typer.Option(metavar="N", help="Number of training examples in a study.")] = None,
    cluster: Cluster = None,
    seed: Seed = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    figure: FigureFile = None,
) -> None:
    """Measure what training on one level of difficulty does to the others: gains by level.

    ANSWERS is a long table (or a directory of them): item, correct, train_level or strategy (empty for the untrained
    model), seed if there are several, and the level of the item unless there is a calibration. Or the directory of a
    study that trained by level or strategy: last checkpoints are compared with step 0, on held-out items of the
    training set.

    Examples:

    * `breadth transfer answers.parquet --figure transfer.html`

    * `breadth transfer runs/ --calibration calibration.parquet --levels 5 --out transfer.csv`

    * `breadth transfer my-study --model opt-125m --by strategy`

    * `breadth transfer answers.parquet --cluster passage`
    """
    from breadth import transfer
    from breadth.cli import terminal
    from breadth.level_transfer import best_table, level_gains_table

    terminal.check_outputs(out, figure)
    part = given(model=model, train_set=train_set, examples=examples)
    options = part | given(levels=levels, score=score, by=by, cluster=cluster, seed=seed)
    result = transfer(answers, calibration, **options)
    results = {"": result} if result.strategies is None else {"": result, ".strategy": result.strategies}
    terminal.print_warnings(dict.fromkeys(line for one in results.values() for line in one.warnings))
    for one in results.values():
        terminal.print_result(
            one,
            level_gains_table(one.cells, one.by, terminal.console.width),
            best_table(one.best, terminal.console.width),
        )
    for ending, one in results.items():
        beside = [path and path.with_name(f"{path.stem}{ending}{path.suffix}") for path in (out, figure)]
        terminal.write_tables(beside[0], one.cells, excel_safe, effects=one.effects, breaks=one.breaks, best=one.best)
        terminal.write_figure_file(one, beside[1], f"breadth transfer: {answers.resolve().name}")
    terminal.exit_if_empty(*results.values())
