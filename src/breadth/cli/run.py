"""``breadth run``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from breadth.execute import Plan


def run_command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Study file or name.", show_default=False)],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of the study. Default: its name.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Files of data sets. Default: BREADTH_DATA, then the Hub.")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Do every N-th run, starting with the I-th.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of threads.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost; run nothing.")] = False,
) -> None:
    """Run a study: train every model, evaluate it on every test set throughout training, and keep every response.

    STUDY is a study file, or the name of one that comes with breadth (`breadth ls studies`). You can stop it at any
    time: the same command resumes where it stopped. Then use `breadth correlate DIR`, `breadth calibrate DIR`.

    Examples:

    * `breadth run small --dry-run`

    * `breadth run small --into small`

    * `breadth run my-study.yaml --data data/nli --shard 3/16`
    """
    from breadth.cli.terminal import print_line

    try:
        _run(study, into, data, shard, threads, dry_run)
    except KeyboardInterrupt:
        print_line("\nStopped. The same command resumes where it stopped.")
        sys.exit(130)


def _run(study: str, into: Path | None, data: Path | None, shard: str | None, threads: int | None, dry: bool) -> None:
    from breadth.cli.terminal import print_line, print_warnings
    from breadth.lm import require_lm
    from breadth.study import read_study_file

    file = read_study_file(study)
    print_warnings(file.warnings)
    require_lm("torch", "transformers", "peft", "accelerate")
    from breadth.cli.progress import TerminalEvents
    from breadth.execute import execute_plan, plan_study

    folder = into if into is not None else Path(file.name)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    plan = plan_study(file, folder, data=data, shard=shard, dry=dry)
    print_plan(plan)
    if plan.checkpoints_left:
        print_estimate(plan, fetch=not dry)
    if dry:
        print_line("Nothing was run (--dry-run).")
        return
    with TerminalEvents(plan) as events:
        outcome = execute_plan(plan, events=events)
    counts = {
        "done now": len(outcome.complete),
        "done before": len(outcome.done_before),
        "running in another process": len(outcome.elsewhere),
    }
    print_line(f"{folder}: runs: {', '.join(f'{n} {what}' for what, n in counts.items() if n) or 'nothing to do'}.")


def print_plan(plan: Plan) -> None:
    """Print what will be done."""
    from breadth.cli.terminal import print_notes, print_runs, print_text

    methods = {unit.run.method for unit in plan.units}
    groups = Counter(
        (
            f"{unit.run.model}{'' if len(methods) == 1 else ', ' + unit.run.method}",
            unit.run.train_set or "-",
            f"{unit.run.total_steps():,}",
            f"{unit.checkpoints:,}",
        )
        for unit in plan.units
    )
    rows = [(model, train_set, f"{n:,}", steps, points) for (model, train_set, steps, points), n in groups.items()]
    print_runs(f"Study {plan.file.name} ({', '.join(sorted(methods))}), in {plan.folder}", rows)
    done = sum(unit.done for unit in plan.units)
    points = sum(unit.checkpoints for unit in plan.units)
    unknown = [name for name, size in plan.sizes.items() if size is None]
    more = f" plus those of {', '.join(unknown)}" if unknown else ""
    print_text(
        f"Runs: {len(plan.units):,}. Checkpoints: {points:,}, {done:,} of them done. Test sets: {len(plan.sizes)} with "
        f"{plan.items:,} items{more}. To do: {plan.answers_left:,} responses and {plan.steps_left:,} training steps."
    )
    print_notes(*plan.notes)


def print_estimate(plan: Plan, fetch: bool) -> None:
    """Time a few batches of each model that is available (or may be fetched), and estimate how long all will take."""
    from breadth.cli.progress import duration
    from breadth.cli.terminal import print_notes, print_text, print_warnings, stage_progress
    from breadth.execute import Events, Pace, estimated_seconds, measurable, measure_pace
    from breadth.lm import BUILT_IN, fetch_model

    paces: dict[str, Pace] = {}
    for unit in plan.units:
        model = unit.run.model
        if model in paces or unit.done == unit.checkpoints or plan.study_data is None:
            continue
        if fetch and model in BUILT_IN:
            with stage_progress() as progress:
                fetch_model(model, progress=progress, warn=lambda text: print_warnings([text]))
        reason = measurable(model)
        if reason is None:
            paces[model] = measure_pace(unit, plan.study_data, Events())
        else:
            print_notes(reason)
    seconds = estimated_seconds(plan, paces)
    left = {unit.run.model for unit in plan.units if unit.done < unit.checkpoints}
    if seconds is None:
        print_text("The duration was not estimated, because no model of the study is available yet.")
    else:
        rest = "" if left <= set(paces) else f" for {len(paces)} of {len(left)} models"
        print_text(f"Estimated duration, from a few batches: {duration(seconds)}{rest}.")
