"""``breadth import`` and ``breadth export``: answers of other tools in, answers for other tools out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.errors import InputError

Metric = Annotated[str | None, typer.Option(metavar="NAME", help="What answers are scored by: acc_norm.")]
StepFrom = Annotated[
    str | None, typer.Option(metavar="REGEX", help="Training step in a revision, name or path: 'ckpt(\\d+)'.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be imported, and write nothing.")]


def import_command(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGS", help="Files, directories and patterns, of any mixture of tools.", show_default=False
        ),
    ],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the answers: a study.")] = None,
    format: Annotated[str, typer.Option(metavar="NAME", help="Only logs of this tool.")] = "auto",
    metric: Metric = None,
    scorer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Inspect's scorer or lm-eval's filter, where a log has several.")
    ] = None,
    epochs: Annotated[
        str, typer.Option(metavar="mean|each", help="Repeated samples: their mean, or each epoch as a model.")
    ] = "mean",
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="HELM: split of the test set.", rich_help_panel="Advanced")
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Name the model of the logs at a path.")
    ] = None,
    step_from: StepFrom = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="newest|all", help="Two logs of one model that differ: the newest, or all as models."),
    ] = None,
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="Leave out the texts of questions.", rich_help_panel="Advanced")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Import the logs of other tools: every answer, question and model becomes one study that all commands read.

    Reads logs of lm-evaluation-harness, Inspect, HELM, lighteval, EvalPlus, BigCodeBench, SWE-bench, OLMES,
    OpenCompass, every_eval_ever, and matrices; recognised by their content. Importing again adds what is new.

    Examples:

    * `breadth import logs/ more/*.eval --into answers`

    * `breadth import logs/ --metric acc_norm --dry-run`

    * `breadth import results/ --into answers --subject base=results/run1 --keep newest`
    """
    from breadth.cli.terminal import count_progress, print_line, print_result, print_warnings
    from breadth.sources import import_logs

    if logs[0] == "trajectories" and not Path(logs[0]).exists():
        raise InputError("`breadth import trajectories` is now `breadth import-scores`")
    with count_progress("reading logs", "files") as progress:
        result = import_logs(
            logs, into=into, format=format, metric=metric, scorer=scorer, epochs=epochs,  # type: ignore[arg-type]
            split=split, subject=_paths_of_subjects(subject), step_from=step_from, keep=keep,  # type: ignore[arg-type]
            texts=not no_texts, dry_run=dry_run, progress=progress,
        )  # fmt: skip
    print_warnings(result.warnings)
    print_result(result, details=True)
    if dry_run:
        print_line("Nothing was written (--dry-run).")
        return
    state = "wrote" if result.changed else "unchanged:"
    print_line(f"{state} {into}\nnext: breadth report {into}")


def import_scores_command(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files and directories of trainers and trackers.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Table to write (parquet, csv, ...).")] = None,
    metric: Metric = None,
    step_from: StepFrom = None,
    losses: Annotated[bool, typer.Option("--losses", help="Losses too, not only scores.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Import scores of checkpoints as a table for `breadth correlate` and `breadth report`.

    Reads trainer_state.json, results of lm-evaluation-harness, TensorBoard, MLflow, and W&B charts as CSV.

    Example: `breadth import-scores runs/ --out scores.parquet`
    """
    from breadth.cli.terminal import check_outputs, print_line, print_text, print_warnings, write_tables
    from breadth.sources import import_trajectories

    if out is None and not dry_run:
        raise InputError("name a table to write with --out, such as --out scores.parquet (or try --dry-run)")
    check_outputs(out)
    result = import_trajectories(paths, metric=metric, step_from=step_from, losses=losses)
    print_warnings(result.notes)
    print_text(result.summary())
    if out is not None and not dry_run:
        write_tables(out, result.frame)
        print_line(f"next: breadth correlate {out} --control TESTSET --by run --order step")


def _paths_of_subjects(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    paths = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise InputError(f"--subject {pair}: write NAME=PATH, such as base=logs/run1")
        paths[name] = path
    return paths


def export_command(
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="A study, run or imported, or a table.", show_default=False)
    ],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="parquet, csv, npz or eee (every_eval_ever).")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="File to write; for eee, a directory.")],
) -> None:
    """Write answers for other tools: a long table, a matrix, or every_eval_ever.

    Examples:

    * `breadth export answers --to parquet --out answers.parquet`

    * `breadth export my-study --to npz --out answers.npz`

    * `breadth export answers --to eee --out shared/`
    """
    from breadth.cli.terminal import print_warnings, print_written
    from breadth.sources import export

    result = export(answers, to=to, out=out)  # type: ignore[arg-type]
    print_warnings(result.warnings, notes=result.notes)
    print_written(*result.paths)
