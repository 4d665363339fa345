"""``breadth report``, ``scores`` and ``view``, and ``breadth demo``, which ends in a report.

The demo is a simulated study whose truth is known or, with ``--train``, two language models fine-tuned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import (
    AdjustOption,
    AnswersArgument,
    By,
    Controls,
    ExcelSafe,
    LowerIsBetter,
    Order,
    Out,
    ScoreOption,
    Testsets,
    given,
    one_or_all,
)
from breadth.errors import InputError


def report_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="A study, logs, checkpoints, or tables of scores or answers.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write. Default: report.html, in the study if it is one."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="Default: by the ending of --out.")] = None,
    score: ScoreOption = None,
    control: Controls = None,
    testsets: Testsets = None,
    by: By = None,
    order: Order = None,
    lower_is_better: LowerIsBetter = None,
    adjust: AdjustOption = None,
) -> None:
    """Report on whatever you have, as one HTML file that needs no network, as Markdown, or as JSON.

    PATH is the directory of a study or an import, logs of other tools, checkpoints with their scores, a table of
    scores or answers, a matrix, or a saved calibration; or several tables, logs or directories of
    them, patterns such as 'runs/*.csv' allowed. `breadth PATH` does the same.

    Examples:

    * `breadth report studies/mnli`

    * `breadth report scores.csv --control mnli --out report.html`

    * `breadth report logs/ --format md`

    * `breadth report run-1.csv run-2.csv --control mnli`
    """
    from breadth.cli.terminal import print_line, print_verdict, print_warnings
    from breadth.reporting import read_as, written_report

    options = given(
        out=out,
        format=format,
        score=score,
        by=by,
        order=order,
        control=control,
        testsets=testsets,
        lower_is_better=lower_is_better,
        adjust=adjust,
    )
    target, data = written_report(one_or_all(sources), **options)
    print_warnings(data.warnings, notes=read_as(data.source))
    shown = {content.lines: section.title for section, content in reversed(data.contents.items()) if section.headline}
    for lines, title in reversed(shown.items()):  # a verdict that two sections share is printed once
        print_verdict(lines, title)
    print_line(f"wrote {target}")


def scores_command(answers: AnswersArgument, out: Out = None, excel_safe: ExcelSafe = False) -> None:
    """Separate sensitivity (what a model can tell apart) from bias (which answer it favours).

    ANSWERS is the directory of a study, or a long table with columns testset, item, correct, label and margin (the
    log-odds of the right answer). The table shows last checkpoints; --out writes all of them.

    Examples:

    * `breadth scores my-study`

    * `breadth scores answers.parquet --out scores.csv`
    """
    from breadth import scores
    from breadth.cli.terminal import check_outputs, console, exit_if_empty, print_result, print_warnings, write_tables
    from breadth.reporting import changes_table, checkpoint_scores_table

    check_outputs(out, None)
    result = scores(answers)
    print_warnings(result.warnings)
    changes = (changes_table(result.changes, console.width),) if result.changes.height else ()
    print_result(result, checkpoint_scores_table(result.scores, console.width), *changes)
    write_tables(out, result.scores, excel_safe, changes=result.changes, answers=result.answers)
    exit_if_empty(result)


def view_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a study, or of several studies.", show_default=False)
    ],
    port: Annotated[int | None, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 chooses a free one.")] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Any but the default is visible to the network."),
    ] = None,
) -> None:
    """Show the report as a live page that follows a study while it runs in another process. Stop it with Ctrl-C.

    The directory need not exist yet: the page waits until the study starts.

    Example: `breadth view studies --port 8765`
    """
    from ipaddress import ip_address

    from breadth import view
    from breadth.cli.terminal import print_line, print_warnings

    server = view(directory, **given(host=host, port=port), warn=lambda text: print_warnings([text]))
    address, number = str(server.server_address[0]), server.server_address[1]
    if not ip_address(address).is_loopback:
        print_warnings([f"anyone who can reach {address} can read these pages"])
    print_line(f"http://{host or address}:{number}")
    waiting = server.site.waiting()
    if waiting:
        print_line(f"Waiting: {waiting}")
    for reason in server.site.without_checkpoints():
        print_line(f"Waiting: {reason}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def demo_command(
    into: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the study and its report.")] = Path("demo"),
    train: Annotated[bool, typer.Option("--train", help="Fine-tune two small language models.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the simulated data.")] = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
) -> None:
    """Show what breadth answers: a simulated study whose truth is known, and its full report, within seconds.

    `--train` does it for real: two language models from PyPI are fine-tuned and evaluated on six generated test sets
    throughout. That takes minutes on two cores; it says first how many, and the same command resumes after a stop.

    Examples:

    * `breadth demo`

    * `breadth demo --train --into trained`
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{into}: cannot create the directory ({error.strerror})") from error
    if train:
        _train(into)
    else:
        _simulate(into, seed)
    if show:
        _open(into / "report.html")


def _train(into: Path) -> None:
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
    report_command([study], into / "report.html", score="auc")


def _simulate(into: Path, seed: int) -> None:
    import shutil

    import numpy as np

    from breadth.cli.terminal import print_text, print_written
    from breadth.datasets.simulated import TRUTH_FILE, simulate_answers, simulate_scores, simulate_study
    from breadth.records import atomic_write
    from breadth.results.table_writing import write_table

    study = into / "study"
    if study.exists():
        if not study.is_dir() or (not (study / TRUTH_FILE).is_file() and any(study.iterdir())):
            raise InputError(f"{study}: exists and is not a simulated study; choose another directory with --into")
        shutil.rmtree(study)  # it was simulated, and is simulated again
    simulate_study(study, runs=12, train_levels=3, items=100, seed=seed)
    _introduce(
        "Two simulated models are fine-tuned on easy, medium or hard items and evaluated on eight test sets at 41 "
        'checkpoints. The true effects are known; the section "Which findings are true?" checks the report against '
        "them.",
        f"breadth report {study} --out {into / 'report.html'}",
    )
    report_command([study], into / "report.html")
    answers = simulate_answers(400, 60, seed=seed)
    answers.matrix[:, 7] = 1 - answers.matrix[:, 7]
    names = {"models": [f"model-{i:03d}" for i in range(400)], "items": [f"q{j:02d}" for j in range(60)]}
    matrix = into / "answers.npz"
    atomic_write(matrix, lambda path: np.savez_compressed(path, R=answers.matrix, **names))  # type: ignore[arg-type]
    scores = write_table(simulate_scores(runs=6, seed=seed), into / "scores.csv")
    print_text("\nTwo files for trying other commands (the quickstart says what is true in them):\n")
    print_written(scores, matrix)
    _introduce("", f"breadth correlate {scores}", f"breadth calibrate {matrix} --model 2pl")


def _introduce(text: str, *commands: str) -> None:
    from breadth.cli.terminal import print_line, print_text

    if text:
        print_text(f"\n{text}\n")
    for command in commands:
        print_line(f"$ {command}", "bold")


def _open(page: Path) -> None:
    """Open the page where there is a person and a browser with windows; one in the terminal would take it over."""
    import os
    import sys
    import webbrowser

    windows = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if windows and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
