"""How a study progresses: what happens, as callbacks for whoever shows it, and how long the rest takes.

The estimate is the measured pace of every model, corrected by what its runs really take, and it is steady. A model is
timed by itself, so a slow one does not come as a surprise after a fast one; answers count by whole checkpoints, because
items are sorted by length and the first of them are quicker than the last; and what was measured before the study keeps
some weight, so one slow step changes little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute.plan import StudyPlan
    from breadth.study import RunSpec

#: The weight of what was measured before the study: as so many training steps, and as so many checkpoints.
PRIOR_STEPS, PRIOR_CHECKPOINTS = 8, 1

#: Models that have not run are corrected by the others once those have run for much longer than these seconds.
PRIOR_SECONDS = 20.0


@dataclass(frozen=True)
class Work:
    """The amount of work of a run: the last step to train, the items at all checkpoints, and how much of both is done.

    ``resumed``: an earlier call did some of it.
    """

    steps: int
    items: int
    steps_done: int = 0
    items_done: int = 0
    resumed: bool = False


@dataclass(frozen=True)
class ClusterStatus:
    """How a cluster is doing: workers there and busy, units of work, items and runs that wait, what went wrong."""

    workers: int
    busy: int
    units_done: int
    units_per_minute: float
    waiting_items: int
    runs_open: int
    runs_waiting: int
    retries: int
    set_aside: int
    seconds_left: float | None
    finished: bool = False


class Events:
    """Callbacks for progress. This class does nothing; override the methods you need."""

    def fetching(self, stage: str, done: int, total: int) -> None:
        """A model is being fetched or converted."""

    def note(self, text: str) -> None:
        """A note to show once."""

    def warn(self, text: str) -> None:
        """Something is damaged and was set aside."""

    def passed(self, run: RunSpec) -> None:
        """A run is complete already, or is running in another process."""

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """A run starts or resumes."""

    def prepared(self, items: int) -> None:
        """Some items went through the frozen layers, which happens once."""

    def starting(self, step: int, steps: int, loss: float) -> None:
        """A step of the start that all runs of a model share is done."""

    def ready(self, run: RunSpec) -> None:
        """The run's model is loaded, and its test sets are encoded."""

    def trained(self, step: int, loss: float) -> None:
        """A training step is done."""

    def answered(self, items: int) -> None:
        """Some items were evaluated."""

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """A checkpoint was evaluated and written."""

    def ended(self, run: RunSpec) -> None:
        """A run is complete."""

    def failed(self, run: RunSpec, reason: str) -> None:
        """A run ended with an error; the other runs go on."""

    def cluster(self, status: ClusterStatus) -> None:
        """How the cluster is doing, every few seconds. Only executors that use one report it."""


@dataclass(frozen=True)
class Pace:
    """Measured seconds: to load a model; for all items to pass the frozen layers, and to be evaluated; per training
    step; and per training example that passes the frozen layers."""

    load: float
    trunk: float
    answers: float
    step: float
    example: float


@dataclass
class _Spent:
    """Work of one kind that one model has done, and the seconds it took."""

    amount: float = 0.0
    seconds: float = 0.0

    def add(self, amount: float, seconds: float) -> None:
        self.amount += amount
        self.seconds += seconds


@dataclass
class _Model:
    pace: Pace | None
    steps: _Spent = field(default_factory=_Spent)
    checkpoints: _Spent = field(default_factory=_Spent)
    setups: _Spent = field(default_factory=_Spent)


@dataclass
class _RunWork:
    model: str
    steps: int
    answers: float
    #: Training examples that pass the frozen layers, and steps and examples of the start if this run trains it.
    examples: int = 0
    first: bool = False
    start_steps: int = 0
    waiting: bool = True


class TimeLeft:
    """Estimates the seconds that the rest of a plan takes, before it starts and while it runs.

    Feed it what happens; times are in seconds since any moment. ``items`` are those of all test sets together.
    """

    def __init__(self, plan: StudyPlan, paces: Mapping[str, Pace] | None = None) -> None:
        self.items = max(plan.items, 1)
        self.models = {unit.run.label: _Model((paces or {}).get(unit.run.label)) for unit in plan.units}
        self.runs: dict[str, _RunWork] = {}
        for unit in plan.units:
            if unit.missing:
                run, first = unit.run, all(each.model != unit.run.label for each in self.runs.values())
                examples = (run.examples or 0) + (run.start.examples if run.start and first else 0)
                answers = unit.to_evaluate * plan.items_of(run)
                self.runs[run.name] = _RunWork(run.label, unit.steps_left, answers, examples, first, run.start_steps())
        self._running: _RunWork | None = None
        self._pending = _Spent()

    def passed(self, run: str) -> None:
        """A run needs nothing more from this process."""
        self.runs.pop(run, None)
        self._running, self._pending = None, _Spent()

    def begun(self, run: str, steps: int, answers: int) -> None:
        """A run begins, with so many steps and answers to go."""
        self._running, self._pending = self.runs.get(run), _Spent()
        if self._running is not None:
            self._running.steps, self._running.answers = steps, answers

    def ready(self, seconds: float) -> None:
        """The run's model was loaded and prepared in so many seconds."""
        if self._running is not None:
            self._running.waiting = False
            if not self._running.first:
                self.models[self._running.model].setups.add(1, seconds)

    def trained(self, seconds: float) -> None:
        """A step took so many seconds."""
        if self._running is not None:
            self._running.steps = max(self._running.steps - 1, 0)
            self.models[self._running.model].steps.add(1, seconds)

    def answered(self, items: int, seconds: float) -> None:
        """So many items were evaluated in so many seconds."""
        if self._running is not None:
            self._running.answers = max(self._running.answers - items, 0)
            self._pending.add(items, seconds)

    def checkpoint(self) -> None:
        """All items of a checkpoint were evaluated."""
        if self._running is not None and self._pending.amount:
            share = self._pending.amount / self.items
            self.models[self._running.model].checkpoints.add(share, self._pending.seconds)
        self._pending = _Spent()

    @property
    def done(self) -> bool:
        """Whether no run has anything left to do."""
        return not any(run.steps or run.answers for run in self.runs.values())

    def seconds(self) -> float | None:
        """Seconds left for the models in ``known``; None if there is none."""
        known, total = self.known, 0.0
        if self.runs and not known:
            return None
        for run in self.runs.values():
            if run.model in known:
                step, checkpoint = self._per_step(run.model) or 0.0, self._per_checkpoint(run.model) or 0.0
                total += run.steps * step + run.answers / self.items * checkpoint
                total += self._setup(run, step) if run.waiting else 0.0
        return total

    @property
    def known(self) -> set[str]:
        """Models with work to do whose pace was measured, or has been observed."""
        return {run.model for run in self.runs.values()} - self.unknown

    @property
    def unknown(self) -> set[str]:
        """Models with work to do whose pace is not known yet."""
        return {
            run.model
            for run in self.runs.values()
            if (run.steps and self._per_step(run.model) is None)
            or (run.answers and self._per_checkpoint(run.model) is None)
        }

    def _per_step(self, name: str) -> float | None:
        model = self.models[name]
        return self._rate(model, model.steps, None if model.pace is None else model.pace.step, PRIOR_STEPS)

    def _per_checkpoint(self, name: str) -> float | None:
        model = self.models[name]
        prior = None if model.pace is None else model.pace.answers
        return self._rate(model, model.checkpoints, prior, PRIOR_CHECKPOINTS)

    def _rate(self, model: _Model, spent: _Spent, prior: float | None, weight: float) -> float | None:
        if prior is not None:
            return (prior * self._drift(model) * weight + spent.seconds) / (weight + spent.amount)
        return spent.seconds / spent.amount if spent.amount else None

    def _drift(self, model: _Model) -> float:
        """How much slower than measured the other models are, halved: the machine may have become busier since then,
        or those may have been measured badly."""
        taken = expected = PRIOR_SECONDS
        for other in self.models.values():
            if other is not model and other.pace is not None:
                taken += other.steps.seconds + other.checkpoints.seconds
                expected += other.steps.amount * other.pace.step + other.checkpoints.amount * other.pace.answers
        return math.sqrt(taken / expected)

    def _setup(self, run: _RunWork, step: float) -> float:
        """Seconds to load and prepare a run; only the first one of a model passes all items and trains a start."""
        model = self.models[run.model]
        if model.pace is None:
            return model.setups.seconds / model.setups.amount if model.setups.amount else 0.0
        drift, pace = self._drift(model), model.pace
        first = pace.trunk * drift + run.start_steps * step if run.first else 0.0
        return (pace.load + run.examples * pace.example) * drift + first
