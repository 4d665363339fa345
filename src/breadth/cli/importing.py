"""``breadth import`` and ``breadth export``: answers of other tools in, answers for other tools out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import given
from breadth.errors import InputError

#: The first word that asks for scores of checkpoints instead of answers.
TRAJECTORIES = "trajectories"


def import_command(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGS...", help="Files, directories and patterns, of any mixture of tools.", show_default=False
        ),
    ],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the answers: a study.")] = None,
    format: Annotated[str | None, typer.Option(metavar="NAME", help="Only logs of this tool.")] = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="What answers are scored by: acc_norm.")] = None,
    filter: Annotated[str | None, typer.Option(metavar="NAME", help="lm-eval: filter of a generated answer.")] = None,
    scorer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Inspect: scorer, where a log has several.")
    ] = None,
    epochs: Annotated[str | None, typer.Option(help="Repeated samples: their mean, or each as a subject.")] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="HELM: split of the test set.")] = None,
    subject: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Name the subject of the logs at a path.")
    ] = None,
    step_from: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Training step in a revision, name or path: 'ckpt(\\d+)'.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Two logs of one subject that differ: the newest, or all as subjects.")
    ] = None,
    no_texts: Annotated[bool, typer.Option("--no-texts", help="Leave out the texts of items.")] = False,
    losses: Annotated[bool, typer.Option("--losses", help="ScoreTable: losses too, not only scores.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="ScoreTable: table to write (parquet, csv, ...).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported, and write nothing.")] = False,
) -> None:
    """Import the logs of other tools: every answer, item and model becomes one study that all verbs read.

    Reads logs of lm-evaluation-harness, Inspect, HELM, lighteval, EvalPlus, BigCodeBench, SWE-bench, OLMES,
    OpenCompass, every_eval_ever, and matrices; recognised by their content. Importing again adds what is new.

    `breadth import trajectories` reads scores of checkpoints instead, as a table for `correlate`: trainer_state.json,
    results of lm-evaluation-harness, TensorBoard, MLflow, W&B charts as CSV.

    Examples:

    * `breadth import logs/ more/*.eval --into answers`

    * `breadth import logs/ --metric acc_norm --dry-run`

    * `breadth import results/ --into answers --subject base=results/run1 --keep newest`

    * `breadth import trajectories runs/ --out scores.parquet`
    """
    if logs[0] == TRAJECTORIES:
        options_of_logs: dict[str, object] = {
            "--into": into,
            "--format": format,
            "--filter": filter,
            "--scorer": scorer,
            "--epochs": epochs,
            "--split": split,
            "--subject": subject,
            "--keep": keep,
            "--no-texts": no_texts or None,
        }
        _refuse_options(options_of_logs, "breadth import trajectories", "Write the table with --out")
        _import_trajectories(logs[1:], out, dry_run, metric=metric, step_from=step_from, losses=losses)
        return
    _refuse_options({"--out": out, "--losses": losses or None}, "logs", "Name a directory with --into")
    options = given(
        into=into,
        format=format,
        metric=metric,
        filter=filter,
        scorer=scorer,
        epochs=epochs,
        split=split,
        keep=keep,
        step_from=step_from,
        subject=_paths_of_subjects(subject),
    )
    _import_logs(logs, dry_run=dry_run, texts=not no_texts, **options)


def _refuse_options(options: Mapping[str, object], by: str, instead: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} is not an option for {by}. {instead}")


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


def _import_logs(paths: list[str], *, dry_run: bool, **options: object) -> None:
    from breadth.cli.terminal import console, count_progress, print_line, print_result, print_warnings
    from breadth.sources import import_logs, left_out_table, scoring_table, scoring_words, subject_means_table

    with count_progress("reading logs", "files") as progress:
        result = import_logs(paths, dry_run=dry_run, progress=progress, **options)  # type: ignore[arg-type]
    print_warnings(result.warnings)
    tables = [subject_means_table(result.subjects, console.width), scoring_table(result.testsets, console.width)]
    if result.left_out.height:
        tables.append(left_out_table(result.left_out, console.width))
    print_result(result, *tables, "\n".join([*scoring_words(result.testsets), ""]))
    if dry_run:
        print_line("Nothing was written (--dry-run).")
        return
    folder = options["into"]
    state = "wrote" if result.changed else "unchanged:"
    print_line(f"{state} {folder}\nnext: breadth report {folder}")


def _import_trajectories(paths: list[str], out: Path | None, dry_run: bool, **options: object) -> None:
    from breadth.cli.terminal import check_outputs, print_line, print_text, print_warnings, write_tables
    from breadth.sources import import_trajectories

    if out is None and not dry_run:
        raise InputError("name a table to write with --out, such as --out scores.parquet (or try --dry-run)")
    if not paths:
        raise InputError("name files or directories: breadth import trajectories runs/ --out scores.parquet")
    check_outputs(out)
    result = import_trajectories(paths, **options)  # type: ignore[arg-type]
    print_warnings(result.notes)
    print_text(result.summary())
    if not dry_run:
        write_tables(out, result.frame)
        print_line(f"next: breadth correlate {out} --control TESTSET --by run --order step")


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
