"""What verbs print and write: results on standard output, warnings and progress on standard error.

Files are checked before anything is computed, and written when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

from breadth.errors import printable
from breadth.results import FORMATS, Column, Columns, Shown, write_figure
from breadth.results.table_writing import check_target, write_table
from breadth.results.terminal import WIDTH, ShownTable

if TYPE_CHECKING:
    import polars as pl

    from breadth.results import Result


class SafeConsole(Console):
    """A console that replaces control characters: in a cell of a table they could rewrite the screen."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, then replace control characters in everything that is text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


console = SafeConsole()
console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
errors = SafeConsole(stderr=True)


@contextmanager
def words_on_standard_error() -> Iterator[None]:
    """Print what is for people on standard error, where standard output is for programs."""
    console.stderr = True
    try:
        yield
    finally:
        console.stderr = False


def print_line(text: str, style: str = "", target: Console = console) -> None:
    """Print a line as it is, however long: paths and commands stay whole."""
    target.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_text(text: str) -> None:
    """Print a paragraph."""
    console.print(text, markup=False, highlight=False)


#: Warnings that are printed; the others are counted.
MOST_WARNINGS = 3


def print_warnings(warnings: Iterable[str], notes: Iterable[str] = (), *, every: bool = False) -> None:
    """Print warnings on standard error, one line each, after notes on what was read if there are any.

    The first few, unless ``every`` one is asked for: a wall of them hides the answer that follows.
    """
    for note in notes:
        print_line(f"  {note}", "dim", errors)
    lines = list(warnings)
    shown = len(lines) if every or len(lines) <= MOST_WARNINGS + 1 else MOST_WARNINGS
    for warning in lines[:shown]:
        print_line(f"warning: {warning}", "yellow", errors)
    if len(lines) > shown:
        print_line(f"warning: and {len(lines) - shown} more; --details prints all of them", "yellow", errors)


def print_notes(*notes: str) -> None:
    """Print notes on standard error, one dim line each."""
    for note in notes:
        print_line(f"  {note}", "dim", errors)


def print_written(*paths: Path) -> None:
    """Name the files that were written."""
    for path in paths:
        print_line(f"wrote {path}")


def print_verdict(lines: Sequence[str], title: str = "") -> None:
    """Print a verdict and a blank line: the answer in bold, after a title if there is one; findings; what is needed."""
    if title:
        console.print(title, style="dim", markup=False, highlight=False)
    for index, line in enumerate(lines):
        console.print(line, style="" if index else "bold", markup=False, highlight=False)
    if lines:
        console.print()


def print_result(result: Result, *, details: bool = False) -> None:
    """Print the verdict, then the tables that the result shows first; the statistics behind them if asked."""
    verdict = result.verdict()
    if verdict is not None:
        print_verdict(verdict.lines(), verdict.question)
    for shown in result.shown():
        console.print(ShownTable(shown, console.width))
    words = result.details()
    if details and words:
        console.print(words, markup=False, highlight=False)


#: Runs of a study, a row for those that differ in their seed only.
RUNS = Columns(
    Column("model", priority=1),
    Column("train set", priority=1),
    Column("runs", priority=1),
    Column("steps"),
    Column("checkpoints"),
)


def print_runs(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table of runs: model, training set, runs, steps, checkpoints."""
    import polars as pl

    frame = pl.DataFrame(rows, schema=[column.name for column in RUNS], orient="row")
    console.print(ShownTable(Shown(title, frame, RUNS), console.width, in_file=False))


def check_outputs(out: Path | None, figure: Path | None = None) -> None:
    """Refuse a table or figure that cannot be written, before anything is computed."""
    if out is not None:
        check_target(out)
    if figure is not None:
        check_target(figure, FORMATS)


def write_tables(out: Path, main: pl.DataFrame, excel_safe: bool = False, **others: pl.DataFrame) -> None:
    """Write the main table to ``out`` and the others that have rows beside it, as ``NAME.other.csv``."""
    frames = {out: main}
    for name, frame in others.items():
        if frame.height:
            frames[out.with_name(f"{out.stem}.{name}{out.suffix}")] = frame
    for path, frame in frames.items():
        print_written(write_table(frame, path, excel_safe=excel_safe))


def write_figure_file(result: Any, figure: Path, heading: str) -> None:
    """Write the figure of a result."""
    print_written(write_figure(result.figure(), figure, heading, result.summary()))


@contextmanager
def count_progress(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with an estimate of the time left, until the work is done."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stage_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show one bar that passes through stages, with an estimate for each."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        stages = [""]

        def show(stage: str, done: int, total: int) -> None:
            if stage != stages[-1]:
                stages.append(stage)
                bar.reset(task, description=stage, total=total if total > 1 else None)
            bar.update(task, completed=done, total=total if total > 1 else None)

        yield show
