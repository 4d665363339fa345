"""A running study on the terminal: bars with an estimate and the latest accuracies, or plain lines without a screen."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from breadth.cli.terminal import errors
from breadth.execute.watching import Watcher, Work

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute.plan import Plan
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


class TerminalWatcher(Watcher):
    """Shows a study as it runs."""

    def __init__(self, plan: Plan) -> None:
        self.steps_left, self.answers_left = plan.steps_left, plan.answers_left
        self.run, self.step, self.loss = "", 0, float("nan")
        self.step_seconds = self.answer_seconds = 0.0
        self.steps = self.answers = 0
        self.last = time.perf_counter()
        self.said: set[str] = set()
        more = TextColumn("{task.fields[more]}")
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), more, console=errors
        )
        self.training = self.bars.add_task("steps  ", total=None, more="")
        self.asking = self.bars.add_task("answers", total=None, more="")
        self.title, self.scores = Text(""), Text("")
        self.live: Live | None = None

    def __enter__(self) -> TerminalWatcher:
        """Begin to draw, on a screen."""
        if errors.is_terminal:
            self.live = Live(Group(self.title, self.bars, self.scores), console=errors, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave what was drawn last."""
        if self.live:
            self.live.stop()

    def time_left(self) -> str:
        """Time left for the whole study, from what steps and answers took so far."""
        if not self.answers:
            return "measuring"
        per_step = self.step_seconds / self.steps if self.steps else 0.0
        seconds = self.steps_left * per_step + self.answers_left * self.answer_seconds / self.answers
        return f"about {duration(seconds)} left"

    def fetching(self, stage: str, done: int, total: int) -> None:
        """Say what is fetched, once per stage."""
        self.note(f"{stage} ...")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.said:
            self.said.add(text)
            errors.print(f"  {text}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """Set the bars up for a run."""
        again = " (going on)" if work.items_done else ""
        self.run = f"run {number} of {runs}: {run.name}{again}"
        self.steps_left -= work.steps_done
        self.bars.update(self.training, total=work.steps or None, completed=work.steps_done, visible=work.steps > 0)
        self.bars.update(self.asking, total=work.items, completed=work.items_done)
        self.title.plain = self.run
        if not self.live:
            errors.print(self.run, markup=False, highlight=False, soft_wrap=True)
        self.last = time.perf_counter()

    def prepared(self, items: int) -> None:
        """Count the trunk's pass as neither training nor answering."""
        self.last = time.perf_counter()

    def trained(self, step: int, loss: float) -> None:
        """Count a step."""
        now = time.perf_counter()
        self.step_seconds += now - self.last
        self.last, self.step, self.loss = now, step, loss
        self.steps += 1
        self.steps_left -= 1
        self.bars.update(self.training, completed=step, more=f"loss {loss:.2f}")

    def answered(self, items: int) -> None:
        """Count answers."""
        now = time.perf_counter()
        self.answer_seconds += now - self.last
        self.last = now
        self.answers += items
        self.answers_left -= items
        rate = self.answers / max(self.answer_seconds, 1e-9)
        self.bars.update(self.asking, advance=items, more=f"{rate:,.0f} a second, {self.time_left()}")

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """Show the accuracies of a checkpoint."""
        shares = accuracies(answers)
        line = f"step {step}: " + "  ".join(f"{name} {share:.2f}" for name, share in shares.items())
        self.scores.plain = line
        if not self.live:
            errors.print(f"  {line}  ({self.time_left()})", markup=False, highlight=False, soft_wrap=True)

    def ended(self, run: RunSpec) -> None:
        """Leave the last accuracies of a run on the screen."""
        if self.live:
            errors.print(f"{run.name}: {self.scores.plain}", markup=False, highlight=False, soft_wrap=True)


def accuracies(answers: pl.DataFrame) -> dict[str, float]:
    """Share of right answers per test set."""
    import polars as pl

    means = answers.group_by("testset", maintain_order=True).agg(pl.col("correct").mean())
    return {name: float(share) for name, share in means.iter_rows()}
