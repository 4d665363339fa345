"""``breadth demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where to put the study and what comes of it.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of simulated data.")] = 0,
    simulated: Annotated[bool, typer.Option("--simulated", help="No models: simulated scores and answers.")] = False,
) -> None:
    """Run the whole story: fine-tune two small language models, watch them on twelve test sets, analyse, report.

    The models come from PyPI, the test sets are generated; it takes some minutes on two cores, and goes on where it was
    if it is stopped. `--simulated` analyses data with a known truth instead, in seconds.

    Examples:

    * `breadth demo --into demo`

    * `breadth demo --simulated --into simulated`
    """
    from breadth.records import InputError

    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{into}: cannot be made a directory ({error.strerror})") from error
    if simulated:
        from breadth.cli.simulated_demo import show_simulated

        show_simulated(into, seed)
    else:
        _show_study(into)


def _show_study(into: Path) -> None:
    from breadth.cli.calibrate import show_calibration
    from breadth.cli.correlate import show, write_correlation
    from breadth.cli.report import report_command
    from breadth.cli.run import run_command
    from breadth.cli.terminal import console, say_warnings, say_written
    from breadth.report.page import write_figure
    from breadth.verbs import calibrate, correlate

    def say(text: str) -> None:
        console.print(f"\n{text}", highlight=False)

    def command(text: str) -> None:
        console.print(f"$ {text}", style="bold", markup=False, highlight=False, soft_wrap=True)

    study = into / "study"
    say("Two language models learn everyday inferences; all through training they are asked about other kinds as well.")
    command(f"breadth run small --into {study}")
    run_command("small", study)

    say("Do two test sets rise and fall together once everyday inferences are accounted for?")
    command(f"breadth correlate {study}")
    correlation = correlate(study)
    say_warnings(correlation.warnings)
    show(correlation)
    write_correlation(correlation, into / "pairs.csv")
    say_written(
        write_figure(correlation.figure(), into / "carry-over.html", "breadth demo", correlation.summary()),
        write_figure(correlation.figure(), into / "carry-over.png", "breadth demo"),
    )

    say("How hard is each everyday item, judged by which checkpoints get it right?")
    command(f"breadth calibrate {study} --testset everyday")
    calibration = calibrate(study, testset="everyday")
    say_warnings(calibration.warnings)
    show_calibration(calibration, 10)
    written = calibration.save(into / "calibration.parquet")
    written.append(write_figure(calibration.figure(), into / "map.html", "breadth demo", calibration.summary()))
    written.append(write_figure(calibration.figure(), into / "map.png", "breadth demo"))
    say_written(*written)

    say("Everything in one page:")
    command(f"breadth report {study} --out {into / 'report.html'}")
    report_command(study, into / "report.html")
