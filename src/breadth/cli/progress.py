"""The progress of a study: bars with an estimate and the latest accuracies, or plain lines without a terminal."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from breadth.cli.terminal import errors, print_line, print_notes, print_warnings
from breadth.execute import Events, Work

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute import Plan
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


class TerminalEvents(Events):
    """Shows the progress of a study."""

    def __init__(self, plan: Plan) -> None:
        #: Steps and answers that each run still needs.
        self.left = {each.run.name: (each.steps_left, each.to_evaluate * plan.items) for each in plan.units}
        self.run, self.work = "", Work(0, 0)
        self.step_seconds = self.answer_seconds = 0.0
        self.steps = self.answers = 0
        self.waiting, self.loading = set(self.left), float("inf")
        self.last = time.perf_counter()
        self.noted: set[str] = set()
        more = TextColumn("{task.fields[more]}")
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), more, console=errors
        )
        self.training = self.bars.add_task("steps    ", total=None, more="")
        self.evaluation = self.bars.add_task("responses", total=None, more="")
        self.title, self.scores = Text(""), Text("")
        self.live: Live | None = None

    def __enter__(self) -> TerminalEvents:
        """Start drawing, on a terminal."""
        if errors.is_terminal:
            self.live = Live(Group(self.title, self.bars, self.scores), console=errors, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing; what was drawn last stays."""
        if self.live:
            self.live.stop()

    def time_left(self) -> str:
        """Time left for the whole study, estimated from steps and answers so far."""
        if not self.answers:
            return "measuring"
        per_step = self.step_seconds / self.steps if self.steps else 0.0
        steps, answers = (sum(each[k] for each in self.left.values()) for k in (0, 1))
        if not steps and not answers:
            return "done"
        if steps and not self.steps:
            return "measuring"  # the first checkpoint comes before the first step
        seconds = steps * per_step + answers * self.answer_seconds / self.answers
        if self.waiting and math.isfinite(self.loading):
            seconds += len(self.waiting) * self.loading
        return f"about {duration(seconds)} left"

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

    def passed(self, run: RunSpec) -> None:
        """Remove a run from what is left."""
        self.left.pop(run.name, None)
        self.waiting.discard(run.name)

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """Set up the bars for a run."""
        self.run = run.name
        self.waiting.discard(run.name)
        self.left[run.name] = (work.steps - work.steps_done, work.items - work.items_done)
        self.work = work
        self._show_training()
        self.bars.update(self.evaluation, total=work.items, completed=work.items_done)
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
        now = time.perf_counter()
        # Only the first run of a model passes the frozen layers, so the others take as long as the fastest so far.
        self.loading = min(self.loading, now - self.last)
        self.last = now

    def _show_training(self) -> None:
        steps, done = self.work.steps, self.work.steps_done
        self.bars.update(self.training, total=steps or None, completed=done, visible=steps > 0, more="")

    def trained(self, step: int, loss: float) -> None:
        """Count a step."""
        now = time.perf_counter()
        self.step_seconds += now - self.last
        self.last = now
        self.steps += 1
        self._did(1, 0)
        self.bars.update(self.training, completed=step, more=f"loss {loss:.2f}")

    def answered(self, items: int) -> None:
        """Count answers."""
        now = time.perf_counter()
        self.answer_seconds += now - self.last
        self.last = now
        self.answers += items
        self._did(0, items)
        rate = self.answers / max(self.answer_seconds, 1e-9)
        self.bars.update(self.evaluation, advance=items, more=f"{rate:,.0f}/s, {self.time_left()}")

    def _did(self, steps: int, answers: int) -> None:
        before = self.left.get(self.run, (0, 0))
        self.left[self.run] = (max(before[0] - steps, 0), max(before[1] - answers, 0))

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """Show the accuracies at a checkpoint."""
        shares = accuracies(answers)
        line = f"step {step}: " + "  ".join(f"{name} {share:.2f}" for name, share in shares.items())
        self.scores.plain = line
        if not self.live:
            print_line(f"  {line}  ({self.time_left()})", target=errors)

    def ended(self, run: RunSpec) -> None:
        """Keep the last accuracies of a run on the screen."""
        if self.live:
            print_line(f"{run.name}: {self.scores.plain}", target=errors)


def accuracies(answers: pl.DataFrame) -> dict[str, float]:
    """Accuracy per test set."""
    import polars as pl

    means = answers.group_by("testset", maintain_order=True).agg(pl.col("correct").mean())
    return {name: float(share) for name, share in means.iter_rows()}
