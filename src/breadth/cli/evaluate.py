"""``breadth evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def evaluate_command(
    checkpoints: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINTS...", help="Directories, globs, or a directory of them.", show_default=False
        ),
    ],
    on: Annotated[str, typer.Option("--on", metavar="A,B,..", help="Test sets (`breadth ls datasets`).")],
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Directory of the study.")],
    base: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model of the adapters. Default: the one they name.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the model. Default: that of the directory.")
    ] = None,
    trained_on: Annotated[
        str | None,
        typer.Option("--trained-on", metavar="SET", help="In-domain test set (held-out training data): the control."),
    ] = None,
    items: Annotated[int | None, typer.Option(metavar="N", min=2, help="Items per test set. Default: all.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Files of data sets. Default: BREADTH_DATA, then the Hub.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of threads.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep evaluating new checkpoints as they are written.")
    ] = False,
    until: Annotated[
        int | None, typer.Option(metavar="STEP", min=0, help="Stop following after the checkpoint of this step.")
    ] = None,
    patience: Annotated[
        float | None, typer.Option(metavar="MIN", min=0, help="Stop after this many minutes without a new checkpoint.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost; run nothing.")] = False,
) -> None:
    """Evaluate checkpoints that you have: whole weights or PEFT adapters that a trainer wrote, in safetensors.

    The model is loaded once, weights are swapped, and layers that no checkpoint changes are computed once. Steps come
    from the names (checkpoint-500) or from trainer_state.json. You can stop it at any time: the same command resumes
    where it stopped, and a command with another name adds a model to the study.

    Examples:

    * `breadth evaluate runs/my-model/checkpoint-* --on mnli,hans,anli --into my-study --trained-on mnli`

    * `breadth evaluate runs/lora --on mnli,hans --into my-study --base smollm2-135m --items 500`

    * `breadth evaluate runs/new/checkpoint-* --on mnli,hans --into beside-training --follow --until 5000`
    """
    from breadth.cli.terminal import print_line
    from breadth.errors import InputError

    if not follow and (until is not None or patience is not None):
        raise InputError(f"{'--until' if patience is None else '--patience'} is for --follow; add it")
    try:
        _evaluate(
            checkpoints, on, into, base, name, trained_on, items, data, threads, (until, patience) if follow else None,
            dry_run,
        )  # fmt: skip
    except KeyboardInterrupt:
        print_line("\nStopped. The same command resumes where it stopped.")
        sys.exit(130)


def _evaluate(
    checkpoints: list[str], on: str, into: Path, base: str | None, name: str | None, trained_on: str | None,
    items: int | None, data: Path | None, threads: int | None, ends: tuple[int | None, float | None] | None, dry: bool,
) -> None:  # fmt: skip
    from breadth.cli.progress import TerminalEvents
    from breadth.cli.run import command, measured_paces, print_estimate, print_outcome, print_plan
    from breadth.cli.terminal import print_line, print_notes, print_warnings
    from breadth.execute import Following, LocalExecutor, Outcome, checkpoint_study, execute_plan, plans
    from breadth.lm import require_lm

    require_lm("torch", "transformers", "peft", "accelerate")
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    testsets = [each.strip() for each in on.split(",") if each.strip()]
    file = checkpoint_study(
        checkpoints, on=testsets, into=into, base=base, name=name, trained_on=trained_on, items=items,
        follow=ends is not None,
    )  # fmt: skip
    print_warnings(file.warnings)
    executor, outcome = LocalExecutor(), Outcome(into)
    noted: set[str] = set()

    def waiting(text: str) -> None:
        if text not in noted:
            noted.add(text)
            print_notes(text)

    for number, plan in enumerate(
        plans(file, into, data, Following(*ends) if ends and not dry else None, waiting, dry)
    ):
        if number == 0:
            print_plan(plan)
        paces = measured_paces(plan, fetch=not dry) if number == 0 and plan.checkpoints_left else {}
        print_estimate(plan, paces) if number == 0 else None
        if dry:
            print_line("Nothing was run (--dry-run).")
            return
        if plan.checkpoints_left and number == 0:
            print_line(f"To follow it in a browser: {command('view', into)}")
        with TerminalEvents(plan, paces) as events:
            outcome = execute_plan(plan, events=events, executor=executor)
        if outcome.failed:
            break
    print_outcome(outcome)
