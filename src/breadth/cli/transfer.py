"""``breadth transfer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import AnswersArgument, ExcelSafe, FigureFile, Levels, Out, ScoreOption, Seed, given


def transfer_command(
    answers: AnswersArgument,
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Source of the levels.")] = None,
    levels: Levels = None,
    score: ScoreOption = None,
    by: Annotated[str | None, typer.Option(help="Condition to compare. Default: both, if there are both.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model of a study.")] = None,
    train_set: Annotated[str | None, typer.Option(metavar="NAME", help="Training set of a study.")] = None,
    examples: Annotated[int | None, typer.Option(metavar="N", help="Number of training examples in a study.")] = None,
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
    """
    from breadth import transfer
    from breadth.cli import terminal
    from breadth.level_transfer import best_table, gains_table

    terminal.check_outputs(out, figure)
    options = given(levels=levels, score=score, by=by, model=model, train_set=train_set, examples=examples, seed=seed)
    result = transfer(answers, calibration, **options)
    results = {"": result} if result.strategies is None else {"": result, ".strategy": result.strategies}
    terminal.print_warnings(dict.fromkeys(line for one in results.values() for line in one.warnings))
    for one in results.values():
        terminal.print_result(
            one, gains_table(one.cells, one.by, terminal.console.width), best_table(one.best, terminal.console.width)
        )
    for ending, one in results.items():
        beside = [path and path.with_name(f"{path.stem}{ending}{path.suffix}") for path in (out, figure)]
        terminal.write_tables(beside[0], one.cells, excel_safe, effects=one.effects, breaks=one.breaks, best=one.best)
        terminal.write_figure_file(one, beside[1], f"breadth transfer: {answers.resolve().name}")
    terminal.exit_if_empty(*results.values())
