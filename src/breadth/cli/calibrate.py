"""``breadth calibrate``, and what is done with a calibration: ``ability``, ``levels``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import (
    AnswersArgument,
    CalibrationArgument,
    ExcelSafe,
    FigureFile,
    Levels,
    Out,
    RoundShares,
    Seed,
    given,
)


def calibrate_command(
    answers: AnswersArgument,
    model: Annotated[
        str | None, typer.Option(help="Rasch; with slopes; also with guessing; also with a ceiling.")
    ] = None,
    priors: Annotated[
        str | None, typer.Option(metavar="default|none|FILE", help="Weak priors, pure ML, or JSON.")
    ] = None,
    levels: Levels = None,
    anchor: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Earlier calibration whose items set the scale.")
    ] = None,
    min_responses: Annotated[int | None, typer.Option(metavar="N", help="Skip items with fewer answers.")] = None,
    copies: Annotated[
        str | None, typer.Option(help="Near-copies of subjects: keep all, weigh as one, or drop all but one.")
    ] = None,
    stability: Annotated[bool, typer.Option("--stability", help="Show how many subjects make levels stable.")] = False,
    curves: Annotated[str | None, typer.Option(metavar="A,B,..", help="Items whose curves the figure shows.")] = None,
    profiles: Annotated[str | None, typer.Option(metavar="A,B,..", help="Subjects whose profiles it shows.")] = None,
    testset: Annotated[str | None, typer.Option(metavar="NAME", help="Only the items of this test set.")] = None,
    chance: Annotated[
        float | None, typer.Option(metavar="P", help="Chance of guessing right: 0.25 for four options, 0 for none.")
    ] = None,
    round_shares: RoundShares = False,
    seed: Seed = None,
    out: Out = None,
    figure: FigureFile = None,
) -> None:
    """Estimate how hard each item is and how able each subject is, from right and wrong answers.

    Fits a model of item response theory. ANSWERS is NPZ (R with -1 for missing, models, items), a wide table (a row per
    subject, a column per item), a long one (subject, item, correct, or names such as model, question_id, is_correct), a
    directory of long ones, or a directory with one matrix (NPZ or wide table) per test set. Or the directory of a
    study: its checkpoints are the subjects.

    Examples:

    * `breadth calibrate answers.npz --out calibration.parquet`

    * `breadth calibrate answers.csv --model 2pl --figure map.html --curves q17,q203`

    * `breadth calibrate new.npz --model 2pl --anchor calibration.parquet`

    * `breadth calibrate my-study --testset mnli --out calibration.parquet`
    """
    from breadth import calibrate
    from breadth.cli.terminal import (
        check_outputs,
        console,
        exit_if_empty,
        print_result,
        print_warnings,
        print_written,
        write_figure_file,
    )
    from breadth.irt import items_table, levels_table, stability_table
    from breadth.sources import open_answers

    check_outputs(out, figure)
    options = given(
        model=model, priors=priors, levels=levels, anchor=anchor, min_responses=min_responses, copies=copies, seed=seed,
        testset=testset, chance=chance, round_shares=round_shares or None,
    )  # fmt: skip
    with console.status(f"calibrating {answers.name}"):
        study = open_answers(answers)
        result = calibrate(study, **options)
    print_warnings(result.warnings, notes=study.reading.lines())
    assigned = result.levels(**given(n=levels))
    tables = [items_table(result.items, console.width), levels_table(assigned, console.width)]
    if stability:
        with console.status("calibrating samples of subjects"):
            tables.append(stability_table(result.level_stability(**given(n=levels)), console.width))
    print_result(result, *tables)
    if out is not None:
        print_written(*result.save(out))
    chosen = {
        name: names.split(",") for name, names in (("items", curves), ("subjects", profiles)) if names is not None
    }
    write_figure_file(result, figure, f"breadth calibrate: {answers.name}", **chosen)
    exit_if_empty(result)


def ability_command(
    answers: AnswersArgument,
    calibration: Annotated[
        Path, typer.Option("--with", metavar="CALIBRATION", help="Calibrated items.", show_default=False)
    ],
    method: Annotated[str | None, typer.Option(help="Posterior mean, or Warm's estimate.")] = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
) -> None:
    """Estimate the ability of new subjects on calibrated items, without refitting the items.

    Example: `breadth ability new.npz --with calibration.parquet --out abilities.csv`
    """
    import breadth
    from breadth.cli.terminal import check_outputs, console, print_warnings, write_tables
    from breadth.irt import subjects_table
    from breadth.sources import open_answers

    check_outputs(out)
    study = open_answers(answers)
    print_warnings(study.warnings)
    abilities = breadth.ability(study, calibration, **given(method=method))
    console.print(subjects_table(abilities, console.width))
    write_tables(out, abilities, excel_safe)


def levels_command(
    calibration: CalibrationArgument,
    n: Annotated[int | None, typer.Option("--n", metavar="N", help="Number of levels.")] = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
) -> None:
    """Sort items into difficulty levels of equal size, and show how certain each assignment is.

    Example: `breadth levels calibration.parquet --n 5 --out levels.csv`
    """
    from breadth import levels
    from breadth.cli.terminal import check_outputs, console, write_tables
    from breadth.irt import levels_table

    check_outputs(out)
    assigned = levels(calibration, **given(n=n))
    console.print(levels_table(assigned, console.width))
    write_tables(out, assigned, excel_safe)
