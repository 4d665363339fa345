"""CSV exports of W&B charts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator
from typing import ClassVar, NamedTuple

from breadth.errors import InputError, listed
from breadth.sources.checkpoint_scores.scores import CheckpointScore, ScoreOptions, TrainingRun, decimal
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import SourceFile

#: X axes of W&B charts that are training steps.
STEPS = frozenset(("Step", "_step", "global_step", "train/global_step", "trainer/global_step"))

#: Between the name of a run and that of a value; and the ends of the names of ranges.
CHART = " - "
RANGES = ("__MIN", "__MAX")


class ChartColumn(NamedTuple):
    """A column of a chart's table: its place, the run and the value."""

    place: int
    run: TrainingRun
    metric: str


class WandbChart(Source):
    """The table of a W&B chart: a column for the x axis, then ``RUN - METRIC`` with its minimum and maximum."""

    name: ClassVar[str] = "wandb"
    looks_like: ClassVar[str] = "CSV exports of W&B charts"
    exported: ClassVar[bool] = True

    def detect(self, file: SourceFile) -> Detection | None:
        """A CSV whose columns but the first are called ``RUN - METRIC``."""
        if b"\0" in file.head or file.keys:
            return None
        header, _, rest = file.head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        first, comma, others = header.partition(b",")
        if not comma or b" - " in first or b" - " not in others:
            return None
        if b"__MIN" in others:
            return Detection(Part.SCORES, "a CSV with columns RUN - METRIC and their __MIN", has_scores=True)
        if not all(b" - " in name for name in others.split(b",")):
            return None
        # W&B quotes every field; a program that saved the file again may not have.
        if header.startswith(b'"') or decimal(rest.partition(b",")[0].decode(errors="replace")) is not None:
            return Detection(Part.SCORES, "a CSV with columns RUN - METRIC", has_scores=True)
        return None

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the values of every run in every row."""
        try:
            rows = list(csv.reader(io.StringIO(file.read().decode("utf-8-sig"), newline="")))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{file.path}: cannot be read as CSV ({error}); export the chart again") from error
        header = rows[0]
        ranges = _ranges(header)
        columns = _columns_of_runs(header, ranges)
        _note_repeated_runs(columns, file, options)
        if header[0] not in STEPS:
            options.notes.append(f"{file.path}: 'step' is the x axis of the chart, {header[0]!r}")
        thinned = False
        for line, row in enumerate(rows[1:], 2):
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(
                    f"{file.path}, line {line}: has {len(row)} of {len(header)} fields; the file is damaged"
                )
            step = decimal(row[0])
            if step is None:
                raise InputError(
                    f"{file.path}, line {line}: {row[0][:40]!r} in column {header[0]!r} is not a number; export the "
                    "chart with a step as its x axis"
                )
            for column in columns:
                value = decimal(row[column.place])
                if value is not None:
                    yield CheckpointScore(column.run, step, column.metric, value)
            thinned = thinned or _has_spread(row, header, ranges)
        if thinned:
            options.notes.append(
                f"{file.path}: minima and maxima differ from the values, so these are means over steps or over grouped "
                "runs; W&B thins out long series. scan_history() of its API gives every step of every run"
            )


def _ranges(header: list[str]) -> dict[int, int]:
    """Places of minima and maxima, each with the place of its value."""
    places = {name: place for place, name in enumerate(header)}
    ranges: dict[int, int] = {}
    for place, name in enumerate(header):
        if name.endswith(RANGES) and name[: -len(RANGES[0])] in places:
            ranges[place] = places[name[: -len(RANGES[0])]]
    return ranges


def _has_spread(row: list[str], header: list[str], ranges: dict[int, int]) -> bool:
    """Whether a minimum or maximum of a row differs from its value."""
    for place, of_value in ranges.items():
        # A chart over epochs has many steps in each, so those of _step and _runtime say nothing.
        own = CHART + "_" in header[place]
        if not own and row[place] and row[place] != row[of_value]:
            return True
    return False


def _columns_of_runs(header: list[str], ranges: Collection[int]) -> list[ChartColumn]:
    """The columns of runs; those of one name, which W&B does not forbid, are numbered."""
    seen: Counter[str] = Counter()
    columns: list[ChartColumn] = []
    for place, name in enumerate(header):
        # Names of runs may hold " - ", those of metrics do not.
        title, dash, metric = name.rpartition(CHART)
        if place == 0 or place in ranges or not dash:
            continue
        seen[name] += 1
        number = (f"({seen[name]})",) if seen[name] > 1 else ()
        columns.append(ChartColumn(place, TrainingRun(title, number), metric))
    return columns


def _note_repeated_runs(columns: list[ChartColumn], file: SourceFile, options: ScoreOptions) -> None:
    times = Counter((column.run.name, column.metric) for column in columns)
    repeated = [repr(run) for (run, _), count in times.items() if count > 1]
    if repeated:
        options.notes.append(f"{file.path}: several runs are called {listed(repeated, 3)}; they are numbered")
