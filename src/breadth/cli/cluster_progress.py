"""The progress of a study on a cluster: all runs together, and how the workers are doing."""

from __future__ import annotations

import contextlib
import os
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from breadth.cli.progress import ShownEvents, accuracies, duration
from breadth.cli.terminal import errors, print_line
from breadth.execute import ClusterStatus, Work

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute import Plan
    from breadth.study import RunSpec

#: Seconds between two lines about the workers, without a terminal.
PAUSE = 30.0


def describe_status(status: ClusterStatus) -> str:
    """How the cluster is doing in one line."""
    left = "measuring" if status.seconds_left is None else f"about {duration(status.seconds_left)} left"
    parts = [
        f"{status.workers} worker{'' if status.workers == 1 else 's'}, {status.busy} busy",
        f"{status.units_per_minute:,.0f} units per minute",
        f"waiting: {status.waiting_items:,} items, {status.runs_waiting:,} runs",
        *([f"{status.retries:,} retried"] if status.retries else []),
        *([f"{status.set_aside:,} checkpoints set aside"] if status.set_aside else []),
        left,
    ]
    return "; ".join(parts)


class ClusterEvents(ShownEvents):
    """Shows the progress of a study on a cluster."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.said = 0.0
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), console=errors
        )
        steps = sum(unit.steps_left for unit in plan.units)
        self.training = self.bars.add_task("steps    ", total=steps or None, visible=steps > 0)
        self.evaluation = self.bars.add_task("answers", total=plan.answers_left)
        self.line, self.scores = Text("starting workers"), Text("")
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> ClusterEvents:
        """Start drawing, on a terminal."""
        # Ray prints pages about every lost node to the standard output, whatever it is told; progress goes elsewhere.
        self.stack.enter_context(contextlib.redirect_stdout(self.stack.enter_context(open(os.devnull, "w"))))
        if errors.is_terminal:
            self.live = Live(
                Group(self.line, self.bars, self.scores), console=errors, refresh_per_second=4, redirect_stdout=False
            )
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        super().__exit__(kind, error, trace)
        self.stack.close()

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """Say which run starts."""
        if not self.live:
            print_line(f"run {number} of {runs}: {run.name}{' (resumed)' if work.resumed else ''}", target=errors)

    def trained(self, step: int, loss: float) -> None:
        """Count a step."""
        self.bars.advance(self.training)

    def answered(self, items: int) -> None:
        """Count answers."""
        self.bars.advance(self.evaluation, items)

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """Show the accuracies at a checkpoint."""
        shares = "  ".join(f"{name} {share:.2f}" for name, share in accuracies(answers).items())
        self.scores.plain = f"{run.name}, step {step}: {shares}"
        if not self.live:
            print_line(f"  {self.scores.plain}", target=errors)

    def cluster(self, status: ClusterStatus) -> None:
        """Show how the workers are doing."""
        self.line.plain = describe_status(status)
        now = time.monotonic()
        if not self.live and (now - self.said > PAUSE or status.finished):
            self.said = now
            print_line(f"  {self.line.plain}", target=errors)
