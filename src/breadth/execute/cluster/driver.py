"""The driver of a cluster: asks the schedule what comes next, hands it to workers and writes what they send.

It knows workers through a :class:`WorkerPool`; that of Ray is in ``pool``, and tests have one that needs no cluster.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import polars as pl

from breadth.errors import listed
from breadth.execute.cluster.runs import ClusterRun, open_run
from breadth.execute.cluster.schedule import TRIES, Schedule
from breadth.execute.cluster.shipping import (
    DamagedShipmentError,
    Origin,
    answers_origin,
    seal,
    start_origin,
    unpack_answers,
    unseal,
)
from breadth.execute.cluster.tasks import TaskKind, WorkerTask
from breadth.execute.data import StudyData
from breadth.execute.executors import Status, UnitResult, lacks_weights
from breadth.execute.neither import neither_note, neither_shares
from breadth.execute.plan import StudyPlan, Unit
from breadth.execute.progress import ClusterStatus, Events
from breadth.execute.run_files import remaining_work
from breadth.records import StudyStore
from breadth.study import start_key

#: Seconds that a worker trains at one go, so that little is lost with it.
SEGMENT = 120.0

#: Seconds between two reports of the status, and over which units per minute are counted.
REPORT, WINDOW = 2.0, 120.0

#: The file in a run's directory that says what went wrong with its units.
FAILURES = "failures.log"

#: How often weights or a state may be lost on the way to a task before that counts as a failure.
LOST = 10


class Fault(StrEnum):
    """Why a task gave nothing."""

    ERROR = "error"
    DIED = "worker died"
    NODE = "node lost"
    OBJECT = "object lost"
    DAMAGED = "damaged result"


class Completion(NamedTuple):
    """A task that has ended: what it returned (objects stay in the cluster), or its fault and what is known of it."""

    worker: str
    value: Any = None
    objects: tuple[Any, ...] = ()
    fault: Fault | None = None
    text: str = ""


class ObjectLostError(Exception):
    """An object is gone with its node."""


class WorkerPool(Protocol):
    """Workers of a cluster."""

    def refresh(self, wanted: Mapping[str, int]) -> Iterable[tuple[str, str]]:
        """Start workers as far as the cluster has room for the shapes that are wanted: names and shapes of new ones."""

    def environment(self) -> dict[str, Any]:
        """Versions and hardware of the workers."""

    def submit(self, worker: str, method: str, arguments: tuple[Any, ...], objects: int = 0) -> None:
        """Have a worker call a method that returns a value and so many objects."""

    def wait(self, seconds: float) -> list[Completion]:
        """Tasks that have ended, at the latest after so many seconds; workers that are gone are listed, too."""

    def discard(self, worker: str) -> None:
        """Stop a worker that gives damaged results; another one may take its place."""

    def read(self, reference: Any) -> Any:
        """The content of an object; raises :class:`ObjectLostError`."""


@dataclass
class Driver:
    """Carries out the units of a plan on a pool of workers; ``chains`` are those of its runs that need anything."""

    plan: StudyPlan
    store: StudyStore
    data: StudyData
    events: Events
    pool: WorkerPool
    schedule: Schedule
    runs: dict[str, ClusterRun] = field(default_factory=dict)
    starts: dict[str, Any] = field(default_factory=dict)
    results: list[UnitResult] = field(default_factory=list)
    _used: dict[str, Any] = field(default_factory=dict)
    _lost: Counter[tuple[str, TaskKind, int]] = field(default_factory=Counter)
    _ends: deque[float] = field(default_factory=deque)
    _reported: float = 0.0
    _noted: set[str] = field(default_factory=set)

    def execute(self) -> Iterator[UnitResult]:
        """Bring every run to its end, or set aside what fails again and again."""
        self._units = {unit.run.name: unit for unit in self.plan.units}
        try:
            while not self.schedule.finished:
                for worker, shape in self.pool.refresh(self.schedule.shapes_wanted()):
                    self.schedule.add_worker(worker, shape)
                for worker in [name for name, state in self.schedule.workers.items() if state.task is None]:
                    self._assign(worker)
                if not self.schedule.finished:
                    for completion in self.pool.wait(REPORT / 2):
                        self._complete(completion)
                self._close_runs()
                self._report()
                yield from self.results
                self.results.clear()
            self._report(last=True)
        finally:
            for run in self.runs.values():
                run.close(complete=False)

    # Handing out

    def _assign(self, worker: str) -> None:
        while (task := self.schedule.next_task(worker)) is not None:
            if task.kind is not TaskKind.OPEN:
                self._submit(worker, task)
                return
            self._open(self._units[task.run])

    def _open(self, unit: Unit) -> None:
        name, cells = unit.run.name, self.schedule.unopened[unit.run.name].cells
        run = open_run(unit, self.plan.file, self.store, cells, self.pool.environment(), self.events)
        if run is None or not run.missing:
            self.schedule.passed(name)
            self.events.passed(unit.run)
            status = Status.ELSEWHERE if run is None else Status.DONE_BEFORE
            if run is None:
                self.results.append(UnitResult(name, status))
                return
            lacks = lacks_weights(unit.run, run.own)
            self.results.append(UnitResult(name, status, run.warnings, lacks_weights=lacks))
            run.close(complete=True)
            return
        self.runs[name] = run
        work = remaining_work(unit.run, self.data, run.missing, run.own, run.resumed)
        self.events.begun(unit.run, work, unit.number, unit.total)
        self.schedule.opened(name, run.missing, run.position())
        for step, pieces in run.pieces.items():
            self.schedule.evaluated_before(name, step, pieces)
        if unit.run.start and start_key(unit.run) not in self.starts:
            weights = run.start.latest(unit.run.start_steps())
            if weights is not None:
                self.starts[start_key(unit.run)] = seal(weights[1], start_origin(unit.run))
                self.schedule.start_ready(start_key(unit.run))
        self.events.ready(unit.run)

    def _submit(self, worker: str, task: WorkerTask) -> None:
        run = self.runs[task.run]
        start = self.starts.get(start_key(run.unit.run)) if run.unit.run.start else None
        if task.kind is TaskKind.START:
            self.pool.submit(worker, "train_start", (task.run,), 1)
        elif task.kind is TaskKind.TRAIN:
            state = self._used[worker] = run.state(task.step) if task.resume else None
            first = start if task.resume and state is None else None
            self.pool.submit(worker, "train", (task.run, task.step, task.resume, state, first, SEGMENT), 2)
        elif task.kind is TaskKind.EVALUATE:
            weights = run.weights.get(task.step, start if task.step == 0 else None)
            self.pool.submit(worker, "evaluate", (task.run, task.step, task.cells, weights))
        elif run.kept.may_keep(task.step):
            weights = run.weights[task.step]
            arguments = (task.run, task.step, run.pieces[task.step], weights, run.kept.base, run.kept.best())
            self.pool.submit(worker, "score_and_keep", arguments, 1)
        else:
            self.pool.submit(worker, "score", (task.run, task.step, run.pieces[task.step]))

    # Taking back

    def _complete(self, completion: Completion) -> None:
        state = self.schedule.workers.get(completion.worker)
        if state is None:
            return
        task = state.task
        if completion.fault is None and task is not None:
            try:
                self._take(task, completion)
                self._ends.append(time.monotonic())
                return
            except ObjectLostError as error:
                completion = completion._replace(fault=Fault.OBJECT, text=str(error))
            except DamagedShipmentError as error:
                completion = completion._replace(fault=Fault.DAMAGED, text=str(error))
        if task is not None:
            self._log_failure(task, completion)
        before = set(self.schedule.aside)
        self._fail(task, completion)
        for name, step in set(self.schedule.aside) - before:
            reason = _failure_reason(completion)
            where = f"{self.store.folder}/runs/{name}/{FAILURES}"
            self.events.warn(f"{name}, step {step}: set aside after {TRIES} failures ({reason}); see {where}")
            self.runs[name].drop(step)

    def _take(self, task: WorkerTask, completion: Completion) -> None:
        """Keep what a task gave, then tell the schedule."""
        run = self.runs[task.run]
        if task.kind is TaskKind.SCORE:
            report, packed = completion.value
            # A checkpoint that was written or set aside meanwhile needs no answers, and has no outputs any more.
            if task.step in run.missing:
                origin = answers_origin(task.run, task.step, run.pieces[task.step])
                answers = unpack_answers(packed, origin, self._items(run))
                # Another checkpoint may have become the best while this one was scored.
                wanted = run.kept.wants(task.step, answers)
                files = None
                if wanted:
                    sent = self.pool.read(completion.objects[0])
                    files = {}
                    for name, content in sent.items():
                        files[name] = unseal(content, Origin(f"the weights in {name}", task.run, task.step))
                run.write(task.step, answers, files)
                self.events.checkpoint(run.unit.run, task.step, answers)
                if note := neither_note(run.unit.run, task.step, neither_shares(run.unit.run, answers)):
                    self.events.note(note)
            self.schedule.done(completion.worker, report.measured)
            self._after_write(run, task.step)
            return
        report = completion.value
        for note in report.notes:
            if note not in self._noted:
                self._noted.add(note)
                self.events.note(note)
        if task.kind is TaskKind.START:
            weights = self.pool.read(completion.objects[0])
            run.start.write(run.unit.run.start_steps(), unseal(weights, start_origin(run.unit.run)))
            self.starts[start_key(run.unit.run)] = weights
        elif task.kind is TaskKind.TRAIN:
            for step, loss in report.losses:
                self.events.trained(step, loss)
                run.losses[task.step] = loss
            run.training[task.step] = run.training.get(task.step, 0.0) + report.measured.train
            if report.reached == task.step and self.schedule.needs(task.run, task.step):
                run.weights[task.step] = completion.objects[0]
            if report.has_state:
                run.add_state(report.reached, completion.objects[1])
                self._write_state(run)
        elif task.step in run.missing:
            run.add_pieces(task.step, report.pieces, task.cells)
            spent = report.measured.trunk + report.measured.answers
            run.seconds[task.step] = run.seconds.get(task.step, 0.0) + spent
            self.events.answered(round(task.items))
        self.schedule.done(completion.worker, report.measured, report.reached)
        if task.kind is TaskKind.EVALUATE and not self.schedule.needs(task.run, task.step):
            run.weights.pop(task.step, None)

    def _after_write(self, run: ClusterRun, step: int) -> None:
        copies = self.schedule.written(run.unit.run.name, step)
        content = run.own.sound_part(step) if copies else None
        for name in copies:
            assert content is not None
            self.runs[name].copy(step, content)
            self._after_write(self.runs[name], step)
        self._write_state(run)

    def _write_state(self, run: ClusterRun) -> None:
        state = run.state_to_write()
        if state is None:
            return
        try:
            run.saved.write(state[0], unseal(self.pool.read(state[1]), run.state_origin(state[0])))
        except (ObjectLostError, DamagedShipmentError):
            # Whoever trains the run goes on; only a resume would begin earlier.
            run.forget_state(state[1])

    def _items(self, run: ClusterRun) -> pl.DataFrame:
        """The items that a checkpoint of a run is evaluated on, in order."""
        testsets = self.data.testsets_of(run.unit.run)
        return pl.concat([testset.frame.select("testset", "item") for testset in testsets.values()])

    def _fail(self, task: WorkerTask | None, completion: Completion) -> None:
        worker, fault = completion.worker, completion.fault
        error = _failure_reason(completion)
        if fault is Fault.DAMAGED and task is not None:
            # Whatever damaged one result may damage the next: another process, and if there is one another machine,
            # does the task again.
            name = f"{task.run}, step {task.step}"
            self.events.warn(f"{name}: {worker} gave a {error}; it is stopped, and its task is done again")
            self.pool.discard(worker)
            self.schedule.remove_worker(worker, error)
        elif fault in (Fault.DIED, Fault.NODE):
            self.schedule.remove_worker(worker, None if fault is Fault.NODE else error)
        elif fault is Fault.OBJECT and task is not None:
            key = (task.run, task.kind, task.step)
            self._lost[key] += 1
            run = self.runs[task.run]
            self.schedule.failed(worker, error if self._lost[key] > LOST else None)
            if task.kind in (TaskKind.EVALUATE, TaskKind.SCORE):
                run.weights.pop(task.step, None)
                self.schedule.weights_lost(task.run, task.step)
            elif task.kind is TaskKind.TRAIN:
                run.forget_state(self._used.get(worker))
        else:
            self.schedule.failed(worker, error)

    def _log_failure(self, task: WorkerTask, completion: Completion) -> None:
        head = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {task.kind} step {task.step}: {completion.fault}"
        cells = ", ".join(f"{cell.testset} {cell.index + 1}/{cell.of}" for cell in task.cells)
        text = "\n".join(filter(None, [head, cells, completion.text.strip()]))
        own = self.runs[task.run].own
        own.store.append(f"{own.key}/{FAILURES}", text.encode())

    def _close_runs(self) -> None:
        for name in [name for name in self.runs if name not in self.schedule.open]:
            run = self.runs.pop(name)
            failed = {step: error for (other, step), error in self.schedule.aside.items() if other == name}
            run.close(complete=not failed)
            status, reason, lacks = Status.COMPLETE, "", lacks_weights(run.unit.run, run.own)
            if failed:
                steps = listed(map(str, sorted(failed)), 6)
                reason = (
                    f"{next(iter(failed.values()))} (step {steps}; see {self.store.folder}/{run.own.key}/{FAILURES}). "
                    "The same command tries again what failed"
                )
                status, lacks = Status.FAILED, False
            self.results.append(UnitResult(name, status, run.warnings, reason, lacks))
            self.events.ended(run.unit.run)

    # Telling

    def _report(self, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._reported < REPORT:
            return
        self._reported = now
        while self._ends and now - self._ends[0] > WINDOW:
            self._ends.popleft()
        busy = sum(state.task is not None for state in self.schedule.workers.values())
        span = min(WINDOW, now - self._ends[0]) if self._ends else WINDOW
        status = ClusterStatus(
            workers=len(self.schedule.workers),
            busy=busy,
            units_done=self.schedule.done_tasks,
            units_per_minute=60 * len(self._ends) / max(span, 1.0),
            waiting_items=round(self.schedule.waiting_items),
            runs_open=len(self.schedule.open),
            runs_waiting=len(self.schedule.unopened),
            retries=self.schedule.retries,
            set_aside=len(self.schedule.aside),
            seconds_left=self.schedule.seconds_left(),
            finished=last,
        )
        self.events.cluster(status)
        content = json.dumps({**asdict(status), "time": time.time()}, indent=1) + "\n"
        self.store.store.write("cluster.json", content.encode())


def _failure_reason(completion: Completion) -> str:
    """What went wrong in one line; the log has the rest."""
    last = (completion.text.strip().splitlines() or [""])[-1].strip()
    return last if completion.fault is Fault.ERROR and last else f"{completion.fault}: {last}".rstrip(": ")
