"""A running study on the terminal: bars with an estimate and the latest accuracies, or plain lines without a screen."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from breadth.cli.terminal import errors, say_warnings
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
        #: Steps and answers that each run still needs.
        self.left = {each.run.name: (each.steps_left, each.to_answer * plan.items) for each in plan.runs}
        self.run, self.work = "", Work(0, 0)
        self.step_seconds = self.answer_seconds = 0.0
        self.steps = self.answers = 0
        self.waiting, self.loading = set(self.left), float("inf")
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
        """Say what is fetched, once per stage."""
        self.note(f"{stage} ...")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.said:
            self.said.add(text)
            errors.print(f"  {text}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Say at once what was found damaged."""
        say_warnings([text])

    def passed(self, run: RunSpec) -> None:
        """Expect no work from a run."""
        self.left.pop(run.name, None)
        self.waiting.discard(run.name)

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """Set the bars up for a run."""
        again = " (going on)" if work.resumed else ""
        self.run = run.name
        self.waiting.discard(run.name)
        self.left[run.name] = (work.steps - work.steps_done, work.items - work.items_done)
        self.work = work
        self._show_training()
        self.bars.update(self.asking, total=work.items, completed=work.items_done)
        title = f"run {number} of {runs}: {run.name}{again}"
        self.title.plain = title
        if not self.live:
            errors.print(title, markup=False, highlight=False, soft_wrap=True)
        self.last = time.perf_counter()

    def starting(self, step: int, steps: int, loss: float) -> None:
        """Show how far the start is, which only the first run of a model has to learn."""
        self.note(f"learning what all runs of this model begin with: {steps} steps")
        self.bars.update(self.training, total=steps, completed=step, visible=True, more=f"start, loss {loss:.2f}")

    def ready(self, run: RunSpec) -> None:
        """Count loading, the trunk's pass and the start as neither training nor answering."""
        self._show_training()
        now = time.perf_counter()
        # The trunk's pass belongs to the first run of a model alone, so the quickest is what the others will take.
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
        self.bars.update(self.asking, advance=items, more=f"{rate:,.0f} a second, {self.time_left()}")

    def _did(self, steps: int, answers: int) -> None:
        before = self.left.get(self.run, (0, 0))
        self.left[self.run] = (max(before[0] - steps, 0), max(before[1] - answers, 0))

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
