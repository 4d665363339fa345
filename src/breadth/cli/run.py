"""``breadth run`` and ``breadth evaluate``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breadth.errors import InputError, listed

if TYPE_CHECKING:
    from breadth.execute import Outcome, Pace, StudyPlan


def run_command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Study file or name.", show_default=False)],
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of the study. Default: its name.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Files of data sets. Default: BREADTH_DATA, then the Hub.")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Do every N-th run, starting with the I-th.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of threads.")] = None,
    on: Annotated[
        str, typer.Option(metavar="WHERE", help="local, ray, or the address of a Ray cluster (ray://HOST:10001).")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Use at most N workers. Default: as many as fit.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(metavar="P", min=0, help="Price of a GPU, or of a worker without one, per hour.")
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Send at most N requests to endpoints, then stop.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost; run nothing.")] = False,
) -> None:
    """Run a study: train every model, evaluate it on every test set throughout training, and keep every answer.

    STUDY is a study file, or the name of one that comes with breadth (`breadth ls studies`). You can stop it at any
    time: the same command resumes where it stopped. If a run fails, the others still run, and the exit code is 1.

    Examples:

    * `breadth run small --dry-run`

    * `breadth run small --into small`

    * `breadth run my-study.yaml --data data/nli --shard 3/16`

    * `breadth run small --on ray --workers 2`

    * `breadth run generalisation --dry-run --on ray --workers 64`

    * `breadth run my-endpoint.yaml --max-requests 1000`
    """
    from breadth.cli.terminal import print_line

    try:
        _run(study, into, data, shard, threads, dry_run, on, workers, price, max_requests)
    except KeyboardInterrupt:
        print_line("\nStopped. The same command resumes where it stopped.")
        sys.exit(130)


def _run(
    study: str, into: Path | None, data: Path | None, shard: str | None, threads: int | None, dry: bool, on: str,
    workers: int | None, price: float | None, max_requests: int | None,
) -> None:  # fmt: skip
    from breadth.cli.terminal import print_line, print_notes, print_warnings
    from breadth.execute import (
        EXECUTORS,
        ClusterOptions,
        announce_study,
        check_executor,
        execute_plan,
        executor_of,
        plan_study,
    )
    from breadth.study import read_study_file

    file = read_study_file(study)
    print_warnings(file.warnings)
    options = ClusterOptions(workers=workers, threads=threads, max_requests=max_requests)
    executor = executor_of(on, options)
    cluster = isinstance(executor, EXECUTORS["ray"])
    if not cluster and (workers is not None or price is not None):
        raise InputError(f"{'--workers' if price is None else '--price'} is for a cluster; add --on ray")
    check_executor(executor, file, dry)
    computes = any(entry.endpoint is None for entry in file.study.models)
    from breadth.cli.progress import ClusterEvents, TerminalEvents

    folder = into if into is not None else Path(file.name)
    if (threads is not None and computes) or (cluster and dry):
        import torch

        torch.set_num_threads(threads or 1)
    plan = plan_study(file, folder, data=data, shard=shard, dry=dry)
    executor.check_plan(plan)
    print_plan(plan)
    if computes and plan.checkpoints_left:
        print_kept(plan)
    if plan.checkpoints_left and not dry:
        announce_study(plan, print_notes)
    paces = measured_paces(plan, fetch=not dry) if plan.checkpoints_left and (dry or not cluster) else {}
    if dry or not cluster:
        print_estimate(plan, paces)
        print_requests(plan, max_requests)
    if cluster and dry:
        print_forecast(plan, paces, workers, threads, price)
    if dry:
        print_line("Nothing was run (--dry-run).")
        return
    if plan.checkpoints_left:
        print_line(f"To follow it in a browser: {command('view', folder)}")
    with ClusterEvents(plan) if cluster else TerminalEvents(plan, paces) as events:
        outcome = execute_plan(plan, events=events, on=on, options=options)
    print_outcome(outcome)


def print_outcome(outcome: Outcome, failure: int = 1) -> None:
    """Say what became of the runs, and what to type next; failures end the command with the exit code ``failure``."""
    from breadth.cli.terminal import errors, print_line, print_warnings

    folder = outcome.folder
    counts = {
        "done now": len(outcome.complete),
        "done before": len(outcome.done_before),
        "running in another process": len(outcome.elsewhere),
        "stopped": len(outcome.stopped),
        "failed": len(outcome.failed),
    }
    print_line(f"{folder}: runs: {', '.join(f'{n} {what}' for what, n in counts.items() if n) or 'nothing to do'}.")
    if outcome.without_weights:
        print_warnings([outcome.about_weights()])
    if outcome.failed:
        for reason in outcome.failures():
            print_line(f"breadth: {reason}", target=errors)
        raise typer.Exit(failure)
    if outcome.stopped:
        kept = "; ".join(f"{run}: {answers}" for run, answers in outcome.stopped.items())
        print_line(f"Stopped by --max-requests. {kept}. The same command asks for the rest.")
        raise typer.Exit(4)
    if outcome.elsewhere:
        print_next(command("view", folder))
        raise typer.Exit(4)
    print_next(command("report", folder))


def command(verb: str, *arguments: object) -> str:
    """A command to type."""
    return shlex.join(["breadth", verb, *map(str, arguments)])


def print_next(*commands: str) -> None:
    """Print what to type next."""
    from breadth.cli.terminal import print_line

    print_line("Next:")
    for each in commands:
        print_line(f"  {each}")


def print_plan(plan: StudyPlan) -> None:
    """Print what will be done."""
    from breadth.cli.terminal import print_notes, print_runs, print_text
    from breadth.study import run_rows

    runs = [unit.run for unit in plan.units]
    methods = sorted({run.method for run in runs})
    print_runs(f"Study {plan.file.name} ({', '.join(methods)}), in {plan.folder}", run_rows(runs))
    done = sum(unit.done for unit in plan.units)
    points = sum(unit.checkpoints for unit in plan.units)
    unknown = [name for name, size in plan.sizes.items() if size is None]
    items = f"{plan.items:,} items" if plan.items else ""
    items += f"{' plus ' if items else ''}those of {', '.join(unknown)}, which are not counted" if unknown else ""
    answers = f"{plan.answers_left:,} answers and " if plan.items else ""
    print_text(
        f"Runs: {len(runs):,}. Checkpoints: {points:,}, {done:,} of them done. Test sets: {len(plan.sizes)} with "
        f"{items}. To do: {answers}{plan.steps_left:,} training steps."
    )
    print_notes(*plan.notes)


def print_kept(plan: StudyPlan) -> None:
    """Say how much disk the trained weights will take that the study keeps."""
    from breadth.cli.terminal import print_text
    from breadth.execute import disk_size, estimate_kept

    kept = estimate_kept(plan)
    if kept is None:
        return
    words = sorted({unit.run.recipe.keep for unit in plan.units} - {"none"})
    what = f"Trained weights that are kept (recipe.keep: {' and '.join(words)})"
    folders = "one directory" if kept.folders == 1 else f"{kept.folders:,} directories"
    if kept.unknown:
        print_text(f"{what}: {folders}; how large is not known for {listed(kept.unknown, most=3)}.")
    else:
        print_text(f"{what} will take about {disk_size(kept.size)} of disk, in {folders}.")


def measured_paces(plan: StudyPlan, fetch: bool) -> dict[str, Pace]:
    """Time a few batches of each model that is available (or may be fetched); notes say which were not timed."""
    from breadth.cli.terminal import print_notes, print_warnings, stage_progress
    from breadth.execute import Events
    from breadth.lm import BUILT_IN, fetch_model

    paces: dict[str, Pace] = {}
    reasons: dict[str, list[str]] = {}
    for unit in plan.units:
        model = unit.run.label
        seen = model in paces or any(model in models for models in reasons.values())
        if plan.study_data is None or not unit.missing or seen or unit.run.endpoint is not None:
            continue
        from breadth.execute import measurable, measure_pace

        if fetch and unit.run.loads in BUILT_IN:
            with stage_progress() as progress:
                fetch_model(unit.run.loads, progress=progress, warn=lambda text: print_warnings([text]))
        reason = measurable(unit.run.loads, unit.run.weights)
        if reason is not None:
            reasons.setdefault(reason, []).append(model)
            continue
        print_notes(f"timing a few batches of {model} ...")
        try:
            paces[model] = measure_pace(unit, plan.study_data, Events())
        except InputError as error:
            raise InputError(f"{unit.run.name}: {error}") from error
    for reason, models in reasons.items():
        print_notes(f"not timed ({reason}): {listed(models, most=2)}")
    return paces


def print_estimate(plan: StudyPlan, paces: dict[str, Pace]) -> None:
    """Say how long all will take."""
    from breadth.cli.progress import duration
    from breadth.cli.terminal import print_text
    from breadth.execute import TimeLeft

    rest = TimeLeft(plan, paces)
    seconds = rest.seconds()
    if rest.done or all(unit.run.endpoint is not None for unit in plan.units if unit.missing):
        return
    if seconds is None:
        print_text("How long it takes is not known: no model of the study could be timed.")
        return
    models = f" for {len(rest.known)} of {len(rest.known | rest.unknown)} models" if rest.unknown else ""
    print_text(f"It should take about {duration(seconds)}{models}, measured on this machine with a few batches.")


def print_requests(plan: StudyPlan, max_requests: int | None) -> None:
    """Say how much there is to ask of endpoints."""
    from breadth.cli.terminal import print_text
    from breadth.execute import estimate_requests

    for each in estimate_requests(plan):
        print_text(
            f"To ask {each.endpoint.url} ({each.endpoint.model}): at most {each.requests:,} requests with about "
            f"{each.prompt_tokens:,} tokens in prompts, and at most {each.max_written:,} tokens written."
        )
        if max_requests is not None and max_requests < each.requests:
            print_text(
                f"It stops after {max_requests:,} requests (--max-requests); the same command asks for the rest."
            )


def print_forecast(
    plan: StudyPlan, paces: dict[str, Pace], workers: int | None, threads: int | None, price: float | None
) -> None:
    """Simulate the schedule of a cluster at the measured pace."""
    from breadth.cli.progress import duration
    from breadth.cli.terminal import print_text
    from breadth.execute.cluster.simulation import default_workers, forecast, worker_gpus

    if not paces:
        return
    count = workers or default_workers(threads)
    simulation = forecast(plan, paces, count)
    hours = count * simulation.seconds / 3600
    gpus = worker_gpus(plan, paces)
    amount = f"{hours * gpus:,.1f} GPU-hours" if gpus else f"{hours:,.1f} worker-hours"
    cost = "" if price is None else f", {hours * (gpus or 1) * price:,.2f} at {price:g} per hour"
    some = "" if count == 1 else "s"
    print_text(
        f"On {count:,} worker{some} like this machine: {duration(simulation.seconds)}, {amount}{cost}; workers are "
        f"busy {simulation.utilisation:.0%} of the time. What limits it: {simulation.limit}."
    )


def evaluate_command(
    checkpoints: Annotated[
        list[str],
        typer.Argument(metavar="CHECKPOINTS", help="Directories, globs, or a directory of them.", show_default=False),
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
    dtype: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="float32, mixed (faster on many CPUs, same answers), bfloat16 or float16."),
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Ask in chat form: auto (the tokenizer's own template) or a file with one."),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt in chat form.")] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="Prompts and scoring of a published study (level-transfer).")
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="answers (default), or vocabulary: any token may be the answer."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="bin: convert pickled weights of the base. Default: safetensors only."),
    ] = None,
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

    if not follow and (until is not None or patience is not None):
        raise InputError(f"{'--until' if patience is None else '--patience'} is for --follow; add it")
    try:
        _evaluate(
            checkpoints, on, into, base, name, trained_on, items, dtype, weights, predict,
            (chat_template, system, protocol), data, threads, (until, patience) if follow else None, dry_run,
        )  # fmt: skip
    except KeyboardInterrupt:
        print_line("\nStopped. The same command resumes where it stopped.")
        sys.exit(130)


def _evaluate(
    checkpoints: list[str], on: str, into: Path, base: str | None, name: str | None, trained_on: str | None,
    items: int | None, dtype: str | None, weights: str | None, predict: str | None,
    wording: tuple[str | None, str | None, str | None],
    data: Path | None, threads: int | None, ends: tuple[int | None, float | None] | None, dry: bool,
) -> None:  # fmt: skip
    from breadth.cli.progress import TerminalEvents
    from breadth.cli.terminal import print_line, print_notes, print_warnings
    from breadth.execute import Following, LocalExecutor, Outcome, checkpoint_study, execute_plan, plans
    from breadth.lm import require_lm

    require_lm("torch", "transformers", "peft", "accelerate")
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    testsets = [each.strip() for each in on.split(",") if each.strip()]
    chat_template, system, protocol = wording
    file = checkpoint_study(
        checkpoints, on=testsets, into=into, base=base, name=name, trained_on=trained_on, items=items,
        dtype=dtype, weights=weights, predict=predict, chat_template=chat_template, system=system, protocol=protocol,
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
    print_outcome(outcome, failure=2)  # nothing is trained: what fails are the checkpoints
