"""``breadth profile``, ``breadth sample`` and ``breadth difficulty-vs``: working with difficulty."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import AnswersArgument, CalibrationArgument, ExcelSafe, FigureFile, Levels, Out, Seed, given


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
