"""How long a study takes on so many workers: the same schedule as on a cluster, driven by a simulated clock.

``forecast`` takes the pace that was measured on this machine; it is what ``--dry-run --on ray`` prints.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from breadth.execute.cluster.executor import chains_of
from breadth.execute.cluster.resources import shape_of
from breadth.execute.cluster.schedule import Schedule
from breadth.execute.cluster.tasks import Chain, Measured, TaskKind, WorkerTask
from breadth.execute.plan import StudyPlan
from breadth.execute.progress import Pace

#: Seconds until the workers of a cluster are there, most of which is importing libraries.
STARTING = 15.0

#: Seconds between a task's end and the next task's beginning on the same worker, measured on a Ray of one machine.
DISPATCH = 0.01


@dataclass(frozen=True)
class Costs:
    """Seconds: to start a worker; to load a model; per item in the frozen layers, and to be evaluated; per training
    step; before the first step of a run (its examples pass the frozen layers); to publish or fetch the weights of a
    checkpoint."""

    load: float
    trunk: float
    answer: float
    step: float
    prepare: float = 0.0
    transfer: float = 0.0


@dataclass(frozen=True)
class Simulation:
    """A simulated study: seconds in all, worker-seconds of every shape, seconds that workers were busy, and the
    longest training chain, without which no number of workers can finish."""

    workers: int
    seconds: float
    busy: float
    chain: float
    tasks: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the workers' time that they were busy."""
        return self.busy / (self.workers * self.seconds) if self.seconds else 1.0

    @property
    def limit(self) -> str:
        """What to change to be faster."""
        return "the longest training chain" if self.chain > 0.6 * self.seconds else "the number of workers"


@dataclass
class _WorkerMemory:
    """What a simulated worker has in memory."""

    group: str | None = None
    run: str | None = None
    warm: set[object] = field(default_factory=set)


def simulate(
    chains: Iterable[Chain], costs: Mapping[str, Costs], workers: Mapping[str, int], start: float = 0.0
) -> Simulation:
    """Simulate chains whose groups cost ``costs`` on so many ``workers`` of each shape, which take ``start`` seconds
    to come up."""
    chains = list(chains)
    schedule, count = Schedule(chains), sum(workers.values())
    of = {chain.run: chain for chain in chains}
    places: dict[str, _WorkerMemory] = {}
    for shape, n in workers.items():
        for k in range(n):
            name = f"{shape} {k}"
            schedule.add_worker(name, shape)
            places[name] = _WorkerMemory()
    now, busy, tasks = start, 0.0, 0
    events: list[tuple[float, int, str, Measured]] = []
    idle = list(places)
    while not schedule.finished:
        waiting: list[str] = []
        for worker in idle:
            task = _next(schedule, worker, of)
            if task is None:
                waiting.append(worker)
                continue
            measured, seconds = _carry_out(task, of[task.run], costs[of[task.run].group], places[worker], schedule)
            busy, tasks = busy + seconds, tasks + 1
            heapq.heappush(events, (now + seconds + DISPATCH, tasks, worker, measured))
        idle = waiting
        if not events:
            break
        now, _, worker, measured = heapq.heappop(events)
        task = schedule.done(worker, measured)
        if task.kind is TaskKind.SCORE:
            for copy in schedule.written(task.run, task.step):
                schedule.written(copy, 0)
        idle.append(worker)
    longest = max((_chain_seconds(chain, costs[chain.group]) for chain in chains), default=0.0)
    return Simulation(count, now, busy, start + longest, tasks)


def _next(schedule: Schedule, worker: str, of: Mapping[str, Chain]) -> WorkerTask | None:
    while (task := schedule.next_task(worker)) is not None and task.kind is TaskKind.OPEN:
        schedule.opened(task.run, of[task.run].steps)
    return task


def _carry_out(
    task: WorkerTask, chain: Chain, costs: Costs, place: _WorkerMemory, schedule: Schedule
) -> tuple[Measured, float]:
    """What a task takes on a worker; what the worker has in memory changes."""
    load = costs.load if place.group != chain.group else 0.0
    if load:
        place.group, place.run, place.warm = chain.group, None, set()
    if task.kind is TaskKind.START:
        place.run = None
        train = chain.start_steps * costs.step
        return Measured(load=load, train=train, steps=chain.start_steps), load + costs.prepare + train
    if task.kind is TaskKind.TRAIN:
        steps = max(task.step - schedule.open[task.run].position, 0)
        prepare = costs.prepare if place.run != task.run else 0.0
        place.run = task.run
        train = steps * costs.step
        return Measured(load=load, train=train, steps=steps), load + prepare + train + costs.transfer
    if task.kind is TaskKind.SCORE:
        return Measured(load=load), load
    cold = sum(cell.items for cell in task.cells if cell not in place.warm)
    place.warm.update(task.cells)
    trunk, answers = cold * costs.trunk, task.items * costs.answer
    measured = Measured(load=load, trunk=trunk, trunk_items=cold, answers=answers, items=task.items)
    return measured, load + trunk + answers + costs.transfer


def _chain_seconds(chain: Chain, costs: Costs) -> float:
    """A run from its first step to the last, and the evaluation of the last checkpoint on all workers at once."""
    if not chain.trained:
        return costs.load
    return costs.load + costs.prepare + (chain.start_steps + max(chain.steps, default=0)) * costs.step


def forecast(plan: StudyPlan, paces: Mapping[str, Pace], workers: int) -> Simulation:
    """Simulate a plan on so many equal workers; models without a pace are left out."""
    runs = {unit.run.name: unit.run for unit in plan.units}
    chains = [chain for chain in chains_of(plan, dict.fromkeys(paces, "worker")) if runs[chain.run].label in paces]
    costs = {}
    for chain in chains:
        run, pace = runs[chain.run], paces[runs[chain.run].label]
        examples = (run.examples or 0) + (run.start.examples if run.start else 0)
        costs[chain.group] = Costs(
            load=pace.load,
            trunk=pace.trunk / max(plan.items, 1) if run.is_trained else 0.0,
            answer=pace.answers / max(plan.items, 1),
            step=pace.step,
            prepare=examples * pace.example,
        )
    return simulate(chains, costs, {"worker": workers}, STARTING)


def default_workers(threads: int | None) -> int:
    """As many workers as this machine has room for."""
    import torch

    return torch.cuda.device_count() or max(1, (os.cpu_count() or 1) // (threads or 1))


def worker_gpus(plan: StudyPlan, paces: Mapping[str, Pace]) -> float:
    """GPUs of the largest worker; 0 without GPUs."""
    import torch

    runs = {unit.run.label: unit.run for unit in plan.units if unit.run.label in paces}
    return max(shape_of(plan.file, run, torch.cuda.is_available()).gpus for run in runs.values())
