"""The terminal that verbs print to: at most 100 columns, progress on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from breadth.report.terminal import WIDTH

console = Console()
console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
errors = Console(stderr=True)


def say_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, one line each."""
    for warning in warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def say_written(*paths: Path) -> None:
    """Say which files were written."""
    for path in paths:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def group_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with an estimate of the time left; it vanishes when the work is done."""
    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("groups"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stage_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show one bar that passes through stages, with an estimate for each; a damaged cache stays on the screen."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        stages = [""]

        def show(stage: str, done: int, total: int) -> None:
            if stage != stages[-1]:
                stages.append(stage)
                if "damaged" in stage:
                    errors.print(stage, markup=False, highlight=False, soft_wrap=True)
                bar.reset(task, description=stage, total=total if total > 1 else None)
            bar.update(task, completed=done, total=total if total > 1 else None)

        yield show
