"""Executors carry out a plan and report progress as events. The local one runs unit after unit in this process.

An executor is one class: subclass :class:`Executor`, call :func:`execute_unit` for every unit wherever it should run,
and add the class to ``EXECUTORS``. Results do not depend on the executor. No torch is imported until a unit runs.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from breadth.errors import InputError, listed
from breadth.execute.directory import begin_run, open_directory, write_environment
from breadth.execute.plan import Plan, Unit, missing_checkpoints, plan_study
from breadth.records import RunStore, StudyStore
from breadth.study import StudyFile, expand, read_study_file

if TYPE_CHECKING:
    import polars as pl

    from breadth.execute.data import StudyData
    from breadth.execute.session import ModelCache
    from breadth.study import RunSpec


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


class Status(StrEnum):
    """What became of a unit."""

    COMPLETE = "complete"
    DONE_BEFORE = "done before"
    ELSEWHERE = "running in another process"
    FAILED = "failed"


class UnitResult(NamedTuple):
    """What became of one run, warnings about its files, and why it failed if it did."""

    run: str
    status: Status
    warnings: tuple[str, ...] = ()
    reason: str = ""


@dataclass
class Outcome:
    """What became of the runs of a study; ``failed`` says why."""

    folder: Path
    complete: list[str] = field(default_factory=list)
    done_before: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, result: UnitResult) -> None:
        """Count a result."""
        if result.status is Status.FAILED:
            self.failed[result.run] = result.reason
        else:
            getattr(self, result.status.name.lower()).append(result.run)
        self.warnings += result.warnings

    def failures(self) -> list[str]:
        """Why runs failed, each reason once, with the runs it is about."""
        runs: dict[str, list[str]] = {}
        for run, reason in self.failed.items():
            runs.setdefault(reason, []).append(run)
        return [f"{listed(names, most=3)}: {reason}" for reason, names in runs.items()]


@dataclass(frozen=True)
class Options:
    """How a cluster is used: its address, the most workers, and threads of each; None leaves the choice to breadth."""

    address: str = ""
    workers: int | None = None
    threads: int | None = None


class Executor(ABC):
    """Carries out a plan."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def check(self) -> None:  # noqa: B027
        """Refuse at once what cannot work here, before anything is prepared; by default nothing."""

    def check_plan(self, plan: Plan) -> None:  # noqa: B027
        """Refuse a plan that cannot be carried out here; by default none."""

    @abstractmethod
    def execute(self, plan: Plan, store: StudyStore, study_data: StudyData, events: Events) -> Iterator[UnitResult]:
        """Bring every unit of the plan to its end and yield what became of it.

        The store and the study's data are open already. Units are independent of each other, in any order: a unit that
        another process works on is left to it.
        """


class LocalExecutor(Executor):
    """Executes unit after unit in this process; a second plan finds what the first has loaded."""

    cache: ModelCache | None = None

    def execute(self, plan: Plan, store: StudyStore, study_data: StudyData, events: Events) -> Iterator[UnitResult]:
        """Execute the units in the order of the plan."""
        from breadth.execute.session import ModelCache

        self.cache = self.cache or ModelCache()
        for unit in plan.units:
            yield execute_unit(unit, store, study_data, events, self.cache)


#: Executors by the name that ``run(on=...)`` takes.
EXECUTORS: dict[str, type[Executor]] = {"local": LocalExecutor}


def executor_of(on: str, options: Options) -> Executor:
    """The executor of a name, or the one for the address of a Ray cluster."""
    if on in EXECUTORS:
        return EXECUTORS[on](options)
    if ":" in on:
        return EXECUTORS["ray"](replace(options, address=on))
    raise InputError(f"--on {on}: give {listed(EXECUTORS)}, or the address of a Ray cluster, such as ray://HOST:10001")


def run(
    study: str | os.PathLike[str] | StudyFile,
    *,
    into: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    shard: str | None = None,
    events: Events | None = None,
    on: str = "local",
    workers: int | None = None,
    threads: int | None = None,
) -> Outcome:
    """Run what is left of a study; the same call again resumes where it stopped.

    If a run fails, the others still run; then the reasons are raised as one ``InputError``.

    Parameters
    ----------
    study
        A study file, or the name of a study that comes with breadth (``"small"``).
    into
        Directory of the study; by default one named after it.
    data
        Directory with files of registered data sets, such as ``mnli.parquet``; otherwise BREADTH_DATA, then the Hub.
    shard
        ``"3/16"`` runs every 16th run from the third on, so that machines can share a study.
    events
        Callbacks for progress.
    on
        Where: ``"local"``, this process; ``"ray"``, a Ray cluster (that of RAY_ADDRESS, or else one that is started on
        this machine); or the address of a Ray cluster, such as ``"ray://head:10001"``.
    workers, threads
        Of a cluster: the most workers, by default as many as there is room for; and threads of each worker.

    Returns
    -------
    Outcome
        Names of the runs that are complete, that were complete before, that run in another process, and that failed;
        warnings.
    """
    from breadth.lm import require_lm

    file = study if isinstance(study, StudyFile) else read_study_file(study)
    executor_of(on, Options()).check()
    require_lm("torch", "transformers", "peft", "accelerate")
    folder = Path(into) if into is not None else Path(file.name)
    plan = plan_study(file, folder, data=None if data is None else Path(data), shard=shard, dry=False)
    outcome = execute_plan(plan, events=events, on=on, options=Options(workers=workers, threads=threads))
    if outcome.failed:
        raise InputError("\n".join(outcome.failures()))
    return outcome


def execute_plan(
    plan: Plan,
    *,
    events: Events | None = None,
    on: str = "local",
    options: Options | None = None,
    executor: Executor | None = None,
) -> Outcome:
    """Write the study's items, then have an executor carry out the plan; failed runs are in the outcome."""
    executor = executor or executor_of(on, options or Options())
    executor.check_plan(plan)
    if plan.study_data is None:
        raise InputError(f"{plan.file.path}: cannot run, because {listed(plan.notes)}")
    events = events or Events()
    store, outcome = StudyStore(plan.folder), Outcome(plan.folder)
    open_directory(plan.file, expand(plan.file), plan.study_data, store, events.note)
    outcome.warnings += report_warnings(store.warnings, events)
    for note in plan.study_data.notes:
        events.note(note)
    for result in executor.execute(plan, store, plan.study_data, events):
        outcome.add(result)
    return outcome


def execute_unit(
    unit: Unit, store: StudyStore, study_data: StudyData, events: Events, cache: ModelCache | None = None
) -> UnitResult:
    """Bring one run to its end. What is missing is derived again from its files, under the run's lock.

    ``cache`` carries encoded test sets from one unit to the next in the same process.
    """
    from breadth.execute.checkpointer import Checkpointer
    from breadth.execute.session import ModelCache, finish_run, remaining_work
    from breadth.execute.swapped import evaluate_run

    run, own = unit.run, store.run(unit.run.name)
    with own.store.lock(own.key, wait=False) as mine:
        if not mine:
            events.passed(run)
            return UnitResult(run.name, Status.ELSEWHERE)
        own.repair()
        begin_run(run, own, study_data.file, store)
        resumed = bool(own.sound_steps())
        copy_step0(own, unit.siblings, store)
        missing = missing_checkpoints(run, own)
        warnings = report_warnings(own.warnings, events)
        if not missing:
            Checkpointer(own).states.clear()
            events.passed(run)
            return UnitResult(run.name, Status.DONE_BEFORE, warnings)
        write_environment(own)
        events.begun(run, remaining_work(run, study_data, missing, own, resumed), unit.number, unit.total)
        status, reason = Status.COMPLETE, ""
        try:
            if run.source is None:
                finish_run(run, study_data, own, missing, cache or ModelCache(), events)
            else:
                evaluate_run(run, study_data, own, missing, cache or ModelCache(), events)
        except InputError as error:
            status, reason = Status.FAILED, str(error)
            events.failed(run, reason)
        except Exception as error:
            error.add_note(f"This happened in the run {run.name}.")
            raise
        finally:
            warnings += report_warnings(own.warnings, events)
    return UnitResult(run.name, status, warnings, reason)


def copy_step0(own: RunStore, siblings: tuple[str, ...], store: StudyStore) -> None:
    """Copy step 0 from a run that began with the same model."""
    if own.sound_part(0) is not None:
        return
    parts = (store.run(name).sound_part(0) for name in siblings)
    content = next((part for part in parts if part is not None), None)
    if content is not None:
        own.write_part_bytes(0, content)


def report_warnings(warnings: list[str], events: Events) -> tuple[str, ...]:
    """Report warnings as soon as they are known; they are returned to be kept for the end."""
    reported = tuple(warnings)
    for warning in reported:
        events.warn(warning)
    warnings.clear()
    return reported
