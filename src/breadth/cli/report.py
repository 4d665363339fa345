"""``breadth view``, and ``breadth demo``, which ends in a report.

The demo is a simulated study whose truth is known or, with ``--train``, two language models fine-tuned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from breadth.cli.analyses import REPORT, SCORES_VERB
from breadth.cli.signatures import Verb, run_verb
from breadth.errors import InputError


def view_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a study, or of several studies.", show_default=False)
    ],
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 chooses a free one.")] = 8765,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Any but the default is visible to the network."),
    ] = "127.0.0.1",
) -> None:
    """Show the report as a live page that follows a study while it runs in another process. Stop it with Ctrl-C.

    The directory need not exist yet: the page waits until the study starts.

    Example: `breadth view studies --port 8765`
    """
    from ipaddress import ip_address

    from breadth import view
    from breadth.cli.terminal import print_line, print_warnings

    server = view(directory, host=host, port=port, warn=lambda text: print_warnings([text]))
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
    _call(SCORES_VERB, answers=study, out=into / "scores.csv")
    _introduce("Everything on one page:", f"breadth report {study} --score auc --out {into / 'report.html'}")
    _call(REPORT, source=[study], out=into / "report.html", score="auc")


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
    _call(REPORT, source=[study], out=into / "report.html")
    answers = simulate_answers(400, 60, seed=seed)
    answers.matrix[:, 7] = 1 - answers.matrix[:, 7]
    names = {"models": [f"model-{i:03d}" for i in range(400)], "items": [f"q{j:02d}" for j in range(60)]}
    matrix = into / "answers.npz"
    atomic_write(matrix, lambda path: np.savez_compressed(path, R=answers.matrix, **names))  # type: ignore[arg-type]
    scores = write_table(simulate_scores(runs=6, seed=seed), into / "scores.csv")
    print_text("\nTwo files for trying other commands (the quickstart says what is true in them):\n")
    print_written(scores, matrix)
    _introduce("", f"breadth correlate {scores}", f"breadth calibrate {matrix} --model 2pl")


def _call(verb: Verb, **values: Any) -> None:
    """Do what a command does that was given these options."""
    import breadth

    run_verb(verb, getattr(breadth, verb.function), values)


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
