"""Values of checkpoints as they are read: what counts as a score, and which of two values for one cell is used."""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from breadth.errors import listed
from breadth.importers.score_files import Run, Score, ScoreFormat
from breadth.importers.score_names import Kind, ScoreName, kind_of, parse_name


class Testset(NamedTuple):
    """What gets a column of its own, given its metric."""

    stage: str
    name: str
    setting: str


class TestsetMetric(NamedTuple):
    """A metric of a test set, and whether it is a loss."""

    name: str
    variant: str
    loss: bool

    def __str__(self) -> str:
        """The name as messages show it."""
        return f"{self.name or 'value'} ({self.variant})" if self.variant else self.name or "value"


class _Value(NamedTuple):
    """A value; of several, the one with the greatest ``place`` counts: priority of its format, time of logging."""

    place: tuple[int, float]
    value: float


@dataclass
class Series:
    """The values of one metric on one test set."""

    cells: dict[tuple[Run, float | None], _Value] = field(default_factory=dict)
    items: Counter[int] = field(default_factory=Counter)
    asked: bool = False

    @property
    def runs(self) -> set[Run]:
        """Runs that have values."""
        return {run for run, _ in self.cells}


class Values:
    """Collects the values of all files, without those that are no scores."""

    def __init__(self, metric: str | None, losses: bool) -> None:
        self.metric, self.losses = metric, losses
        self.testsets: dict[Testset, dict[TestsetMetric, Series]] = {}
        self.sources: list[tuple[str, str, int]] = []
        self.left_out: dict[str, str] = {}
        self.names: dict[str, None] = {}
        self.replaced: Counter[Run] = Counter()
        self.models: dict[Run, str] = {}
        self._order: dict[Run, int] = {}
        self._parsed: dict[tuple[str, bool, bool], tuple[ScoreName, bool] | None] = {}

    def add_file(self, path: str, known: ScoreFormat, scores: Iterable[Score], priority: int) -> None:
        """Add what a file of a known format holds."""
        count = 0
        for score in scores:
            count += 1
            if score.mean_of:
                self.left_out[score.name] = f"mean of {listed(score.mean_of, 3)}, which are here themselves"
            elif (parsed := self._parse(score, known.exported)) is not None:
                self._add(score, *parsed, priority)
        if count:
            self.sources.append((path, known.name, count))
        else:
            self.left_out[path] = f"no scores, though it looks like {known.name}"

    @property
    def runs(self) -> list[Run]:
        """All runs that have values, in the order in which they were read."""
        runs = dict.fromkeys(
            run for metrics in self.testsets.values() for one in metrics.values() for run, _ in one.cells
        )
        return sorted(runs, key=lambda run: self._order[run])

    def join_stages(self) -> None:
        """Let ``hans`` and ``eval_hans`` be one test set, unless a run has both or there are other stages of it."""
        alike: dict[tuple[str, str], list[Testset]] = {}
        for testset in self.testsets:
            alike.setdefault((testset.name, testset.setting), []).append(testset)
        for group in alike.values():
            plain = next((testset for testset in group if not testset.stage), None)
            if plain is None or not plain.name or len(group) != 2:
                continue
            staged = next(testset for testset in group if testset.stage)
            runs = [set().union(*(one.runs for one in self.testsets[one_of].values())) for one_of in (plain, staged)]
            if not runs[0] & runs[1]:
                for metric, series in self.testsets.pop(plain).items():
                    joined = self.testsets[staged].setdefault(metric, Series())
                    joined.cells |= series.cells
                    joined.items += series.items
                    joined.asked |= series.asked

    def keep_steps(self) -> tuple[bool, list[Run]]:
        """Drop values without a training step if any value has one: whether that is so, and runs that lost values."""
        every = [one for metrics in self.testsets.values() for one in metrics.values()]
        if not any(step is not None for one in every for _, step in one.cells):
            return False, []
        lost = {run for one in every for run, step in one.cells if step is None}
        for one in every:
            one.cells = {cell: value for cell, value in one.cells.items() if cell[1] is not None}
        for testset, metrics in list(self.testsets.items()):
            self.testsets[testset] = {metric: one for metric, one in metrics.items() if one.cells}
        self.testsets = {testset: metrics for testset, metrics in self.testsets.items() if metrics}
        return True, sorted(lost, key=lambda run: self._order[run])

    def _parse(self, score: Score, exported: bool) -> tuple[ScoreName, bool] | None:
        """What a value is and whether the user asked for it; None if it is left out."""
        full = score.name if score.metric is None else f"{score.name}/{score.metric}"
        variant = f",{score.variant}" if score.variant else ""
        key = (full + variant, exported, score.training)
        if key not in self._parsed:
            parts = parse_name(score.name)
            if score.metric is not None:
                parts = ScoreName("", score.name, score.metric, kind_of(score.metric), score.variant)
            elif score.training and parts.kind is not Kind.BOOKKEEPING:
                parts = parts._replace(kind=Kind.TRAINING)
            self.names |= dict.fromkeys(filter(None, (parts.metric, full)))
            asked = self.metric is not None and self.metric in (
                *(score.name, full, key[0], parts.metric),
                f"{parts.metric},{parts.variant or 'none'}",
            )
            wild = self.metric is not None and fnmatch.fnmatchcase(full, self.metric)
            kept = asked or parts.kind is Kind.SCORE or (parts.kind is Kind.LOSS and self.losses)
            kept |= (parts.kind is Kind.UNKNOWN and wild) or (exported and parts.kind is not Kind.BOOKKEEPING)
            self._parsed[key] = (parts, asked or wild) if kept else None
            if not kept:
                self.left_out[key[0]] = parts.kind.value
        return self._parsed[key]

    def _add(self, score: Score, parts: ScoreName, asked: bool, priority: int) -> None:
        testset = Testset(parts.stage, parts.testset, score.setting)
        metric = TestsetMetric(parts.metric, parts.variant, kind_of(parts.metric) is Kind.LOSS)
        series = self.testsets.setdefault(testset, {}).setdefault(metric, Series())
        series.asked |= asked
        if score.items is not None:
            series.items[score.items] += 1
        run = score.run._replace(model=None)  # not every file of a run names the model
        if score.run.model:
            self.models[run] = score.run.model
        self._order.setdefault(run, len(self._order))
        step = None if score.step is None else float(score.step)
        cell, value = (run, step), _Value((priority, score.time), score.value)
        before = series.cells.get(cell)
        if before is not None and not math.isclose(before.value, value.value, rel_tol=1e-5):
            self.replaced[run] += 1
        if before is None or value.place >= before.place:
            series.cells[cell] = value
