"""The progress of a study, here or on a cluster: bars and the latest accuracies, or plain lines without a terminal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from breadth.cli.terminal import errors, print_line, print_notes, print_warnings
from breadth.execute import ClusterStatus, Events, TimeLeft, Work

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute import Pace, StudyPlan
    from breadth.study import RunSpec


def duration(seconds: float) -> str:
    """Seconds in words: 40 s, 12 min, 3 h 20 min, 9 days."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes / 1440:,.0f} days"


class ShownEvents(Events):
    """What all progress shows alike: notes once, warnings, and a live view that is stopped at the end."""

    def __init__(self) -> None:
        self.noted: set[str] = set()
        self.live: Live | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing; what was drawn last stays."""
        if self.live:
            self.live.stop()

    def fetching(self, stage: str, done: int, total: int) -> None:
        """Show what is fetched, once per stage."""
        self.note(f"{stage} ...")

    def note(self, text: str) -> None:
        """Show a note once."""
        if text not in self.noted:
            self.noted.add(text)
            print_notes(text)

    def warn(self, text: str) -> None:
        """Show a warning."""
        print_warnings([text])


class TerminalEvents(ShownEvents):
    """Shows the progress of a study."""

    def __init__(self, plan: StudyPlan, paces: Mapping[str, Pace] | None = None) -> None:
        super().__init__()
        self.rest = TimeLeft(plan, paces)
        self.alone = len(plan.units) == 1
        self.work = Work(0, 0)
        self.answers, self.answer_seconds = 0, 0.0
        self.last = time.perf_counter()
        more = TextColumn("{task.fields[more]}")
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), more, console=errors
        )
        self.training = self.bars.add_task("steps    ", total=None, more="")
        self.evaluation = self.bars.add_task("answers", total=None, more="")
        self.title, self.scores = Text(""), Text("")

    def __enter__(self) -> TerminalEvents:
        """Start drawing, on a terminal."""
        if errors.is_terminal:
            self.live = Live(Group(self.title, self.bars, self.scores), console=errors, refresh_per_second=4)
            self.live.start()
        return self

    def time_left(self) -> str:
        """Time left for the whole study; at least, if there are models that could not be timed."""
        if self.rest.done:
            return "done"
        seconds = self.rest.seconds()
        if seconds is None:
            return "measuring"
        return f"{'at least' if self.rest.unknown else 'about'} {duration(seconds)} left"

    def passed(self, run: RunSpec) -> None:
        """Remove a run from what is left."""
        self.rest.passed(run.name)

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """Set up the bars for a run."""
        self.rest.begun(run.name, work.steps - work.steps_done, work.items - work.items_done)
        self.work = work
        self._show_training()
        self.bars.update(self.evaluation, total=work.items, completed=work.items_done, more="")
        title = f"run {number} of {runs}: {run.name}{' (resumed)' if work.resumed else ''}"
        self.title.plain = title
        if not self.live:
            print_line(title, target=errors)
        self.last = time.perf_counter()

    def starting(self, step: int, steps: int, loss: float) -> None:
        """Show the progress of the start, which only the first run of a model trains."""
        self.note(f"training the start that all runs of this model share: {steps} steps")
        self.bars.update(self.training, total=steps, completed=step, visible=True, more=f"start, loss {loss:.2f}")

    def ready(self, run: RunSpec) -> None:
        """Exclude loading, the frozen layers and the start from the measured speed."""
        self._show_training()
        self.rest.ready(self._lap())

    def _lap(self) -> float:
        """Seconds since the last event."""
        now = time.perf_counter()
        seconds, self.last = now - self.last, now
        return seconds

    def _show_training(self) -> None:
        steps, done = self.work.steps, self.work.steps_done
        self.bars.update(self.training, total=steps or None, completed=done, visible=steps > 0, more="")

    def trained(self, step: int, loss: float) -> None:
        """Count a step."""
        self.rest.trained(self._lap())
        self.bars.update(self.training, completed=step, more=f"loss {loss:.2f}")

    def answered(self, items: int) -> None:
        """Count answers."""
        seconds = self._lap()
        self.rest.answered(items, seconds)
        self.answers += items
        self.answer_seconds += seconds
        rate = self.answers / max(self.answer_seconds, 1e-9)
        self.bars.update(self.evaluation, advance=items, more=f"{rate:,.0f}/s, {self.time_left()}")

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """Show the accuracies at a checkpoint."""
        self.rest.checkpoint()
        shares = accuracies(answers)
        line = f"step {step}: " + "  ".join(f"{name} {share:.2f}" for name, share in shares.items())
        self.scores.plain = line
        if not self.live:
            print_line(f"  {line}  ({self.time_left()})", target=errors)

    def ended(self, run: RunSpec) -> None:
        """Keep the last accuracies of a run on the screen."""
        self.rest.passed(run.name)
        if self.live:
            print_line(f"{run.name}: {self.scores.plain}", target=errors)

    def failed(self, run: RunSpec, reason: str) -> None:
        """Say at once that a run failed, unless it is the only one: then that is the end of the command."""
        self.rest.passed(run.name)
        if not self.alone:
            print_line(f"failed: {run.name}: {reason}", target=errors)


def accuracies(answers: pl.DataFrame) -> dict[str, float]:
    """Accuracy per test set."""
    import polars as pl

    means = answers.group_by("testset", maintain_order=True).agg(pl.col("correct").mean())
    return {name: float(share) for name, share in means.iter_rows()}


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

    def __init__(self, plan: StudyPlan) -> None:
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
