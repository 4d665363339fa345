"""``breadth run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from breadth.execute.plan import Plan

HELP = """Carry out a study: train every model, ask it every test set all through training, keep every answer.

STUDY is a study file, or the name of one that comes with breadth (`breadth ls studies`). Stop it whenever you like, by
any means: the same command goes on where it was. Then `breadth correlate DIR`, `breadth calibrate DIR`.

Examples:

* `breadth run small --dry-run`

* `breadth run small --into small`

* `breadth run my-study.yaml --data data/nli --shard 3/16`
"""


def run_command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Study file or name.", show_default=False)],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of the study [its name].")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Files of data sets [BREADTH_DATA, the Hub].")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Do every N-th run, from the I-th on.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads to compute with.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and what it costs.")] = False,
) -> None:
    from breadth.cli.terminal import console

    try:
        _run(study, into, data, shard, threads, dry_run)
    except KeyboardInterrupt:
        console.print("\nStopped; the same command goes on where it was.", highlight=False)
        sys.exit(130)


def _run(study: str, into: Path | None, data: Path | None, shard: str | None, threads: int | None, dry: bool) -> None:
    from breadth.cli.terminal import console, say_warnings
    from breadth.lm.extra import require_lm
    from breadth.study import read_study_file

    file = read_study_file(study)
    say_warnings(file.warnings)
    require_lm("torch", "transformers", "peft", "accelerate")
    from breadth.cli.watch import TerminalWatcher
    from breadth.execute.plan import plan_study
    from breadth.execute.study import run_study

    folder = into if into is not None else Path(file.name)
    _set_threads(threads)
    plan = plan_study(file, folder, data=data, shard=shard, dry=dry)
    show_plan(plan, file.name, folder)
    if plan.checkpoints_left:
        show_estimate(plan, fetch=not dry)
    if dry:
        console.print("Nothing was run (--dry-run).", highlight=False)
        return
    with TerminalWatcher(plan) as watcher:
        outcome = run_study(file, folder, data=data, shard=shard, watcher=watcher, materials=plan.materials)
    parts = [(len(outcome.complete), "done now"), (len(outcome.done_before), "done before")]
    parts.append((len(outcome.elsewhere), "in the hands of another process"))
    said = ", ".join(f"{count} {what}" for count, what in parts if count) or "nothing to do"
    console.print(f"{folder}: runs: {said}.", markup=False, highlight=False, soft_wrap=True)


run_command.__doc__ = HELP


def show_plan(plan: Plan, name: str, folder: Path) -> None:
    """Print what will be done."""
    from collections import Counter

    from rich.text import Text

    from breadth.cli.terminal import console, errors
    from breadth.report.terminal import MOST_ROWS, make_table

    methods = {each.run.method for each in plan.runs}
    groups = Counter(
        (
            f"{each.run.model}{'' if len(methods) == 1 else ', ' + each.run.method}",
            each.run.train_set or "-",
            each.run.total_steps(),
            each.checkpoints,
        )
        for each in plan.runs
    )
    title = f"Study {name} ({', '.join(sorted(methods))}), in {folder}"
    table = make_table(title, ["model", "train set"], ["runs", "steps", "checkpoints"], console.width)
    for (model, train_set, steps, points), count in list(groups.items())[:MOST_ROWS]:
        table.add_row(*map(Text, (model, train_set, f"{count:,}", f"{steps:,}", f"{points:,}")))
    console.print(table)
    done = sum(each.done for each in plan.runs)
    points = sum(each.checkpoints for each in plan.runs)
    unknown = [name for name, size in plan.sizes.items() if size is None]
    more = f" besides those of {', '.join(unknown)}" if unknown else ""
    console.print(
        f"Runs: {len(plan.runs):,}; checkpoints: {points:,}, of which {done:,} done; test sets: {len(plan.sizes)} with "
        f"{plan.items:,} items{more}: {plan.answers_left:,} answers and {plan.steps_left:,} training steps to go.",
        highlight=False,
    )
    for note in plan.notes:
        errors.print(f"  {note}", style="dim", markup=False, highlight=False, soft_wrap=True)


def show_estimate(plan: Plan, fetch: bool) -> None:
    """Time a few batches of each model that is here (or may be fetched), and say how long all should take."""
    from breadth.cli.terminal import console, errors, stage_progress
    from breadth.cli.watch import duration
    from breadth.execute.estimate import Pace, estimated_seconds, measurable, measure_pace
    from breadth.execute.watching import Watcher
    from breadth.lm.fetch import fetch as fetch_model
    from breadth.lm.models import EMBEDDED

    paces: dict[str, Pace] = {}
    for each in plan.runs:
        model = each.run.model
        if model in paces or each.done == each.checkpoints or plan.materials is None:
            continue
        if fetch and model in EMBEDDED:
            with stage_progress() as progress:
                fetch_model(model, progress=progress)
        why = measurable(model)
        if why is None:
            paces[model] = measure_pace(each, plan.materials, Watcher())
        else:
            errors.print(f"  {why}", style="dim", markup=False, highlight=False, soft_wrap=True)
    seconds = estimated_seconds(plan, paces)
    left = {each.run.model for each in plan.runs if each.done < each.checkpoints}
    if seconds is None:
        console.print("How long it takes was not measured: no model of the study is here.", highlight=False)
    else:
        rest = "" if left <= set(paces) else f" for {len(paces)} of {len(left)} models"
        console.print(f"Measured on a few batches, this should take about {duration(seconds)}{rest}.", highlight=False)


def _set_threads(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
