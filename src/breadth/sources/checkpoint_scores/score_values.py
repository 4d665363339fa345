"""Values of checkpoints as they are read: which are scores, by their names, and which of two for one cell is used.

``eval_hans_accuracy`` is the accuracy on hans.
"""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from breadth.errors import listed
from breadth.sources.checkpoint_scores.scores import CheckpointScore, TrainingRun
from breadth.sources.registry import Source
from breadth.sources.vocabulary import (
    LONGEST_NAME,
    NameParts,
    Role,
    is_loss,
    is_metric,
    is_unnamed,
    parse_name,
    role_of,
)

#: Why a value is left out, by what it is; None for names that say nothing.
LEFT_OUT: dict[Role | None, str] = {
    Role.LOSS: "a loss; --losses keeps losses",
    Role.TRAINING: "of training, not of a test set",
    Role.OTHER: "not a score",
    None: "not known as a score; --metric takes such names, or wildcards",
}

#: Two values of one cell that differ by less are one, written with fewer digits.
SAME_VALUE = 1e-5

#: Trainers log how fast they evaluate with so many digits: counts of items from it differ this much.
SAME_COUNT = 1e-3


def role_of_value(name: str) -> Role | None:
    """What a logged value is by its name: a score, a loss, of training, something else, or (None) not known.

    Columns of tables are judged by the same words (:func:`~breadth.sources.vocabulary.role_of`). But nobody makes a
    column of what is no score, while a tracker logs anything, so a name must say more here.
    """
    if not 0 < len(name.strip()) <= LONGEST_NAME:
        return None
    role, parts = role_of(name), parse_name(name)
    if role is Role.LOSS and not parts.stage and not parts.testset:
        # What a loop logs as "loss" is what it minimises.
        return Role.TRAINING
    if role in (Role.SCORE, Role.AVERAGE):
        if parts.stage:
            return Role.SCORE if parts.testset or parts.metric else None
        return Role.SCORE if parts.metric and not is_unnamed(parts.metric) else None
    if role in (Role.LOSS, Role.TRAINING, None):
        return role
    return None if role is Role.CORRECT else Role.OTHER


def role_of_metric(metric: str) -> Role | None:
    """What a metric is, where a file keeps it apart from the test set."""
    if is_loss(metric):
        return Role.LOSS
    return Role.SCORE if is_metric(metric) and not is_unnamed(metric) else None


class ScoredTestset(NamedTuple):
    """What gets a column of its own, given its metric."""

    stage: str
    name: str
    setting: str


class ScoredMetric(NamedTuple):
    """A metric of a test set, and whether it is a loss."""

    name: str
    variant: str
    loss: bool

    def __str__(self) -> str:
        """The name as messages show it."""
        name = self.name or "value"
        return f"{name} ({self.variant})" if self.variant else name


class KeptValue(NamedTuple):
    """A value; of several, the one with the greatest ``place`` counts: priority of its format, time of logging."""

    place: tuple[int, float]
    value: float


@dataclass
class ScoreSeries:
    """The values of one metric on one test set, by run and step."""

    cells: dict[tuple[TrainingRun, float | None], KeptValue] = field(default_factory=dict)
    items: Counter[int] = field(default_factory=Counter)
    asked: bool = False

    @property
    def runs(self) -> set[TrainingRun]:
        """Runs that have values."""
        return {run for run, _ in self.cells}


def usual_count(counts: Counter[int]) -> int | None:
    """The number of items of a test set: speeds are rounded in logs, so counts may differ a little; else None."""
    if not counts:
        return None
    usual = max(counts, key=lambda count: (counts[count], count))
    near = all(math.isclose(count, usual, rel_tol=SAME_COUNT, abs_tol=1) for count in counts)
    return usual if near else None


class _NameMeaning(NamedTuple):
    """The parts of a name that is kept, and whether the user asked for it."""

    parts: NameParts
    asked: bool


class ScoreCollection:
    """Collects the values of all files, without those that are no scores."""

    def __init__(self, metric: str | None, losses: bool) -> None:
        self.metric, self.losses = metric, losses
        self.testsets: dict[ScoredTestset, dict[ScoredMetric, ScoreSeries]] = {}
        self.sources: list[tuple[str, str, int]] = []
        self.left_out: dict[str, str] = {}
        self.names: dict[str, None] = {}
        self.replaced: Counter[TrainingRun] = Counter()
        self.models: dict[TrainingRun, str] = {}
        self._order: dict[TrainingRun, int] = {}
        self._meanings: dict[tuple[str, str | None, str, bool, bool], _NameMeaning | None] = {}

    def add_file(self, path: str, source: Source, scores: Iterable[CheckpointScore], priority: int) -> None:
        """Add what a file of a source holds."""
        count = 0
        for score in scores:
            count += 1
            if score.mean_of:
                self.left_out[score.name] = f"mean of {listed(score.mean_of, 3)}, which are here themselves"
                continue
            key = (score.name, score.metric, score.variant, score.training, source.exported)
            if key not in self._meanings:
                self._meanings[key] = self._judge_name(score, source.exported)
            meaning = self._meanings[key]
            if meaning is not None:
                self._add(score, meaning, priority)
        if count:
            self.sources.append((path, source.looks_like, count))
        else:
            self.left_out[path] = f"no scores, though it looks like {source.looks_like}"

    @property
    def runs(self) -> list[TrainingRun]:
        """All runs that have values, in the order in which they were read."""
        runs: set[TrainingRun] = set()
        for series in self._every_series():
            runs |= series.runs
        return sorted(runs, key=lambda run: self._order[run])

    def join_stages(self) -> None:
        """Let ``hans`` and ``eval_hans`` be one test set, unless a run has both or there are other stages of it."""
        alike: dict[tuple[str, str], list[ScoredTestset]] = {}
        for testset in self.testsets:
            if testset.name:
                alike.setdefault((testset.name, testset.setting), []).append(testset)
        for group in alike.values():
            if len(group) != 2 or not any(not testset.stage for testset in group):
                continue
            plain, staged = sorted(group, key=lambda testset: testset.stage)
            if self._runs_of(plain) & self._runs_of(staged):
                continue
            for metric, series in self.testsets.pop(plain).items():
                joined = self.testsets[staged].setdefault(metric, ScoreSeries())
                joined.cells |= series.cells
                joined.items += series.items
                joined.asked |= series.asked

    def keep_steps(self) -> tuple[bool, list[TrainingRun]]:
        """Drop values without a training step if any value has one: whether that is so, and runs that lost values."""
        lost: set[TrainingRun] = set()
        any_step = False
        for series in self._every_series():
            for run, step in series.cells:
                if step is None:
                    lost.add(run)
                else:
                    any_step = True
        if not any_step:
            return False, []
        stepped: dict[ScoredTestset, dict[ScoredMetric, ScoreSeries]] = {}
        for testset, metrics in self.testsets.items():
            for metric, series in metrics.items():
                series.cells = {cell: value for cell, value in series.cells.items() if cell[1] is not None}
                if series.cells:
                    stepped.setdefault(testset, {})[metric] = series
        self.testsets = stepped
        return True, sorted(lost, key=lambda run: self._order[run])

    def _every_series(self) -> Iterator[ScoreSeries]:
        for metrics in self.testsets.values():
            yield from metrics.values()

    def _runs_of(self, testset: ScoredTestset) -> set[TrainingRun]:
        return set().union(*(series.runs for series in self.testsets[testset].values()))

    def _judge_name(self, score: CheckpointScore, exported: bool) -> _NameMeaning | None:
        """What the name of a value means; None, with the reason in ``left_out``, if such values are left out."""
        if score.metric is not None:
            full = f"{score.name}/{score.metric}"
            parts = NameParts("", score.name, score.metric, score.variant)
            role = role_of_metric(score.metric)
        else:
            full = score.name
            parts = parse_name(score.name)
            role = role_of_value(score.name)
            if score.training and role is not Role.OTHER:
                role = Role.TRAINING
        if parts.filter == "none":
            parts = parts._replace(filter="")
        shown = f"{full},{score.variant}" if score.variant else full
        for name in (parts.metric, full):
            if name:
                self.names[name] = None
        asked = self._is_asked_for(score, parts, full, shown)
        matches = self.metric is not None and fnmatch.fnmatchcase(full, self.metric)
        kept = asked or role is Role.SCORE
        if role is Role.LOSS and self.losses:
            kept = True
        if role is None and matches:
            kept = True
        if exported and role is not Role.OTHER:
            # Who exports a chart chose what is on it.
            kept = True
        if not kept:
            self.left_out[shown] = LEFT_OUT[role]
            return None
        return _NameMeaning(parts, asked or matches)

    def _is_asked_for(self, score: CheckpointScore, parts: NameParts, full: str, shown: str) -> bool:
        """Whether the user named this value, or its metric, with or without the filter."""
        names = (score.name, full, shown, parts.metric, f"{parts.metric},{parts.filter or 'none'}")
        return self.metric is not None and self.metric in names

    def _add(self, score: CheckpointScore, meaning: _NameMeaning, priority: int) -> None:
        parts = meaning.parts
        testset = ScoredTestset(parts.stage, parts.testset, score.setting)
        metric = ScoredMetric(parts.metric, parts.filter, is_loss(parts.metric))
        series = self.testsets.setdefault(testset, {}).setdefault(metric, ScoreSeries())
        series.asked |= meaning.asked
        if score.items is not None:
            series.items[score.items] += 1
        run = score.run._replace(model=None)  # not every file of a run names the model
        if score.run.model:
            self.models[run] = score.run.model
        self._order.setdefault(run, len(self._order))
        step = None if score.step is None else float(score.step)
        cell = (run, step)
        value = KeptValue((priority, score.time), score.value)
        before = series.cells.get(cell)
        if before is not None and not math.isclose(before.value, value.value, rel_tol=SAME_VALUE):
            self.replaced[run] += 1
        if before is None or value.place >= before.place:
            series.cells[cell] = value
