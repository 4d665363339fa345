"""Executors carry out a plan and report progress as events. The local one runs unit after unit in this process.

An executor is one class: subclass :class:`Executor`, call :func:`execute_unit` for every unit wherever it should run,
and add the class to ``EXECUTORS``. Results do not depend on the executor. No torch is imported until a unit runs.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from breadth.endpoints import BudgetSpentError, Connections
from breadth.errors import InputError, listed
from breadth.execute.directory import begin_run, environment, open_directory, write_environment
from breadth.execute.kept_weights import KeptWeights
from breadth.execute.plan import StudyPlan, Unit, missing_checkpoints, plan_study
from breadth.execute.progress import Events, Work
from breadth.records import RunStore, StudyStore
from breadth.study import StudyFile, expand, read_study_file

if TYPE_CHECKING:
    from breadth.execute.data import StudyData
    from breadth.study import RunSpec


class Status(StrEnum):
    """What became of a unit."""

    COMPLETE = "complete"
    DONE_BEFORE = "done before"
    ELSEWHERE = "running in another process"
    STOPPED = "stopped by --max-requests"
    FAILED = "failed"


class UnitResult(NamedTuple):
    """What became of one run, warnings about its files, and why it failed if it did.

    ``lacks_weights``: it is complete, but weights that ``recipe.keep`` asks for are not there.
    """

    run: str
    status: Status
    warnings: tuple[str, ...] = ()
    reason: str = ""
    lacks_weights: bool = False


@dataclass
class Outcome:
    """What became of the runs of a study; ``failed`` says why, and ``stopped`` how far they came.

    ``without_weights`` are complete runs that lack weights which ``recipe.keep`` asks for.
    """

    folder: Path
    complete: list[str] = field(default_factory=list)
    done_before: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    without_weights: list[str] = field(default_factory=list)

    def add(self, result: UnitResult) -> None:
        """Count a result."""
        if result.status in (Status.FAILED, Status.STOPPED):
            getattr(self, result.status.name.lower())[result.run] = result.reason
        else:
            getattr(self, result.status.name.lower()).append(result.run)
        self.warnings += result.warnings
        if result.lacks_weights:
            self.without_weights.append(result.run)

    def about_weights(self) -> str:
        """Which runs lack weights, and what to do about it."""
        runs = listed(self.without_weights, most=3)
        return (
            f"weights that recipe.keep asks for are missing or damaged: {runs}. What was evaluated before keep was set "
            "is not trained again; to get its weights, run the study into a new directory with --into"
        )

    def failures(self) -> list[str]:
        """Why runs failed, each reason once, with the runs it is about."""
        runs: dict[str, list[str]] = {}
        for run, reason in self.failed.items():
            runs.setdefault(reason, []).append(run)
        return [f"{listed(names, most=3)}: {reason}" for reason, names in runs.items()]


@dataclass(frozen=True)
class ClusterOptions:
    """How a cluster is used: its address, the most workers, and threads of each; None leaves the choice to breadth.

    ``max_requests`` is the most requests to endpoints in all.
    """

    address: str = ""
    workers: int | None = None
    threads: int | None = None
    max_requests: int | None = None


class Executor(ABC):
    """Carries out a plan."""

    #: Whether it runs models behind an endpoint.
    asks_endpoints: ClassVar[bool] = False

    def __init__(self, options: ClusterOptions | None = None) -> None:
        self.options = options or ClusterOptions()

    def check(self) -> None:  # noqa: B027
        """Refuse at once what cannot work here, before anything is prepared; by default nothing."""

    def check_plan(self, plan: StudyPlan) -> None:  # noqa: B027
        """Refuse a plan that cannot be carried out here; by default none."""

    def check_models(self, file: StudyFile) -> None:
        """Refuse models behind an endpoint, and a limit on requests, where they have no place."""
        behind = [entry.name for entry in file.study.models if entry.endpoint is not None]
        if behind and not self.asks_endpoints:
            raise InputError(
                f"{file.path}: {listed(behind, most=3)} is behind an endpoint, which no cluster is needed for; run the "
                "study without --on, or put its other models into a study of their own"
            )
        if self.options.max_requests is not None and not behind:
            raise InputError("--max-requests is for models behind an endpoint, and the study has none")

    @abstractmethod
    def execute(
        self, plan: StudyPlan, store: StudyStore, study_data: StudyData, events: Events
    ) -> Iterator[UnitResult]:
        """Bring every unit of the plan to its end and yield what became of it.

        The store and the study's data are open already. Units are independent of each other, in any order: a unit that
        another process works on is left to it.
        """


class Runner(Protocol):
    """Does the work of runs, one after the other: on this machine, or by asking an endpoint."""

    def remaining(
        self, run: RunSpec, study_data: StudyData, missing: Sequence[int], store: RunStore, resumed: bool
    ) -> Work:
        """How much a run has to do."""

    def finish(
        self, run: RunSpec, study_data: StudyData, store: RunStore, missing: Sequence[int], events: Events
    ) -> None:
        """Evaluate at the ``missing`` checkpoints and write each."""

    def forget(self, store: RunStore) -> None:
        """Delete what a complete run needs no more."""


def local_runner() -> Runner:
    """Runs models on this machine."""
    from breadth.execute.session import LocalRunner

    return LocalRunner()


class LocalExecutor(Executor):
    """Executes unit after unit in this process; a second plan finds what the first has loaded."""

    asks_endpoints = True
    computing: Runner | None = None

    def execute(
        self, plan: StudyPlan, store: StudyStore, study_data: StudyData, events: Events
    ) -> Iterator[UnitResult]:
        """Execute the units in the order of the plan; what is wrong with an endpoint is known before the first."""
        from breadth.execute.endpoint_session import EndpointRunner

        asking = EndpointRunner(Connections(self.options.max_requests))
        asking.check(plan, store, events)
        if self.computing is None and any(unit.run.endpoint is None for unit in plan.units):
            self.computing = local_runner()
        for unit in plan.units:
            runner = asking if unit.run.endpoint is not None else self.computing
            yield execute_unit(unit, store, study_data, events, runner)


#: Executors by the name that ``run(on=...)`` takes.
EXECUTORS: dict[str, type[Executor]] = {"local": LocalExecutor}


def executor_of(on: str, options: ClusterOptions) -> Executor:
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
    max_requests: int | None = None,
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
    max_requests
        The most requests to models behind an endpoint; the same call again asks for what is missing.

    Returns
    -------
    Outcome
        Names of the runs that are complete, that were complete before, that run in another process, that
        ``max_requests`` stopped, and that failed; warnings.
    """
    file = study if isinstance(study, StudyFile) else read_study_file(study)
    options = ClusterOptions(workers=workers, threads=threads, max_requests=max_requests)
    check_executor(executor_of(on, options), file)
    folder = Path(into) if into is not None else Path(file.name)
    plan = plan_study(file, folder, data=None if data is None else Path(data), shard=shard, dry=False)
    outcome = execute_plan(plan, events=events, on=on, options=options)
    if outcome.failed:
        raise InputError("\n".join(outcome.failures()))
    return outcome


def check_executor(executor: Executor, file: StudyFile, dry: bool = False) -> None:
    """Refuse what an executor cannot do with a study before anything is read or computed."""
    executor.check_models(file)
    if not dry:
        executor.check()
    if any(entry.endpoint is None for entry in file.study.models):
        from breadth.lm import require_lm

        require_lm("torch", "transformers", "peft", "accelerate")


def execute_plan(
    plan: StudyPlan,
    *,
    events: Events | None = None,
    on: str = "local",
    options: ClusterOptions | None = None,
    executor: Executor | None = None,
) -> Outcome:
    """Write the study's items, then have an executor carry out the plan; failed runs are in the outcome."""
    executor = executor or executor_of(on, options or ClusterOptions())
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
    unit: Unit,
    store: StudyStore,
    study_data: StudyData,
    events: Events,
    runner: Runner | None = None,
) -> UnitResult:
    """Bring one run to its end. What is missing is derived again from its files, under the run's lock.

    ``runner`` does the work, by default a new one on this machine. One for all units carries over what they share.
    """
    runner = runner or local_runner()
    run, own = unit.run, store.run(unit.run.name)
    with own.store.lock(own.key, wait=False) as mine:
        if not mine:
            events.passed(run)
            return UnitResult(run.name, Status.ELSEWHERE)
        own.repair()
        begin_run(run, own, study_data.file, store)
        KeptWeights(run, own).tidy()
        resumed = bool(own.sound_steps())
        copy_step0(own, unit.siblings, store)
        missing = missing_checkpoints(run, own)
        warnings = report_warnings(own.warnings, events)
        if not missing:
            runner.forget(own)
            events.passed(run)
            return UnitResult(run.name, Status.DONE_BEFORE, warnings, lacks_weights=lacks_weights(run, own))
        write_environment(own, environment(computes=run.endpoint is None))
        events.begun(run, runner.remaining(run, study_data, missing, own, resumed), unit.number, unit.total)
        status, reason = Status.COMPLETE, ""
        try:
            runner.finish(run, study_data, own, missing, events)
        except BudgetSpentError as stop:
            status, reason = Status.STOPPED, str(stop)
            events.passed(run)
        except InputError as error:
            status, reason = Status.FAILED, str(error)
            events.failed(run, reason)
        except Exception as error:
            error.add_note(f"This happened in the run {run.name}.")
            raise
        finally:
            warnings += report_warnings(own.warnings, events)
        lacks = status is Status.COMPLETE and lacks_weights(run, own)
    return UnitResult(run.name, status, warnings, reason, lacks)


def lacks_weights(run: RunSpec, own: RunStore) -> bool:
    """Whether a run that is complete lacks weights that ``recipe.keep`` asks for: it is not trained again for them."""
    return bool(KeptWeights(run, own).lacking())


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
