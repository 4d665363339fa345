"""How the next task of a worker is chosen. This reads the state of the schedule, and ``schedule`` changes it.

Four rules keep workers busy without piling up weights:

- A trainer trains on only as long as the other workers would run out of evaluation meanwhile (``_may_train``).
- The closer a worker is to the end of what waits, the smaller the unit it gets (guided self-scheduling).
- A worker prefers cells whose frozen layers it has computed before, and computes others only if that pays.
- A worker leaves a model that others still train only if waiting for weights would cost more (``_stays``).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from breadth.execute.cluster.tasks import (
    Cell,
    Chain,
    CheckpointCells,
    OpenChain,
    Rates,
    TaskKind,
    WorkerState,
    WorkerTask,
)

#: Seconds that a unit of evaluation takes at least and at most, as far as the pace is known.
LEAST, MOST = 1.0, 120.0

#: Checkpoints of one run whose weights may wait for evaluation.
PUBLISHED = 16


class SchedulingPolicy:
    """What is left to do, who is there to do it, and what it costs."""

    def __init__(self, chains: Iterable[Chain], rates: dict[str, Rates] | None = None) -> None:
        self.unopened = {chain.run: chain for chain in chains}
        self.open: dict[str, OpenChain] = {}
        self.workers: dict[str, WorkerState] = {}
        self.rates: dict[str, Rates] = defaultdict(Rates, rates or {})
        self.starts: dict[str, str] = {}
        self.aside: dict[tuple[str, int], str] = {}
        self.done_tasks = self.retries = 0
        self._tries: Counter[object] = Counter()
        self._waiting: dict[str, float] = defaultdict(float)
        self._left = Counter(chain.group for chain in self.unopened.values() for _ in chain.steps)

    def choose(self, worker: str) -> WorkerTask | None:
        """The best task for a worker; nothing changes."""
        state = self.workers[worker]
        shape = [run for run in self.open.values() if run.chain.shape == state.shape]
        own = [run for run in shape if run.chain.group == state.group]
        task = (
            self._score(shape, state)
            or self._train(worker, state, (run for run in own if run.trainer == worker))
            or self._evaluate(state, own)
            or self._train(worker, state, (run for run in own if run.trainer is None))
            or self._open_run(state, state.group)
        )
        if task is not None or any(self._stays(state, run) for run in own):
            return task
        return (
            self._train(worker, state, (run for run in shape if run.trainer is None))
            or self._evaluate(state, [run for run in shape if run.chain.group not in self._loaded()])
            or self._open_run(state, None)
            or self._evaluate(state, [run for run in shape if run.chain.group != state.group])
        )

    def _loaded(self) -> set[str | None]:
        return {worker.group for worker in self.workers.values()}

    def _stays(self, state: WorkerState, run: OpenChain) -> bool:
        """Whether to wait for weights that are being trained, rather than load another model.

        Who leaves loads a model, and others compute its frozen states again. Who stays is idle as long as training a
        segment takes longer than evaluating one, shared out among all who have the model.
        """
        rates, target = self.rates[run.chain.group], run.target()
        if not run.training or target is None or rates.step is None or rates.answer is None:
            return False
        having = sum(worker.group == run.chain.group for worker in self.workers.values())
        segment = (target - run.position) * rates.step
        idle = max(0.0, segment - (segment + run.chain.items * rates.answer) / having)
        lost = (rates.load or 0.0) + (rates.trunk or 0.0) * sum(cell.items for cell in state.warm)
        return idle * self._left[run.chain.group] <= lost

    def _score(self, runs: list[OpenChain], state: WorkerState) -> WorkerTask | None:
        loaded = self._loaded()
        for run in runs:
            if run.chain.group == state.group or run.chain.group not in loaded:
                for step, checkpoint in run.checkpoints.items():
                    ready = checkpoint.evaluated and not run.lacks_weights(step)
                    if ready and not checkpoint.scoring:
                        return WorkerTask(TaskKind.SCORE, run.chain.run, step)
        return None

    def _train(self, worker: str, state: WorkerState, runs: Iterator[OpenChain]) -> WorkerTask | None:
        for run in runs:
            target = run.target()
            if run.training or target is None:
                continue
            start = run.chain.start
            if start is not None and self.starts[start] != "done":
                if not self.starts[start]:
                    return WorkerTask(TaskKind.START, run.chain.run)
                continue
            if self._may_train(run, target):
                resume = run.trainer != worker or state.run != run.chain.run or target < run.position
                return WorkerTask(TaskKind.TRAIN, run.chain.run, target, resume=resume)
        return None

    def _may_train(self, run: OpenChain, target: int) -> bool:
        """Whether the other workers would run out of evaluation while this segment is trained."""
        ahead = run.ahead()
        if ahead >= PUBLISHED:
            return False
        others = self._serving(run.chain) - 1
        waiting = self._waiting_seconds(run.chain.group)
        if others <= 0 or waiting == 0:
            return waiting == 0
        rates = self.rates[run.chain.group]
        if rates.step is None:
            return ahead <= 1
        return waiting <= others * ((target - run.position) * rates.step + self._unit(run.chain))

    def _serving(self, chain: Chain) -> int:
        """Workers that have a chain's model, and those that have nothing to do; the one that asks is among them."""
        workers = [worker for worker in self.workers.values() if worker.shape == chain.shape]
        return sum(worker.group == chain.group or worker.task is None for worker in workers)

    def _waiting_seconds(self, group: str) -> float:
        """Seconds of evaluation that wait; an item of an unknown pace counts as one second."""
        waiting = self._waiting[group]
        return 0.0 if waiting < 1e-6 else waiting * (self.rates[group].answer or 1.0)

    def _unit(self, chain: Chain) -> float:
        """Seconds that the next unit should take: a share of what waits, within limits."""
        share = self._waiting_seconds(chain.group) / (2 * max(self._serving(chain), 1))
        return min(max(share, LEAST), MOST)

    def _evaluate(self, state: WorkerState, runs: list[OpenChain]) -> WorkerTask | None:
        for run in runs:
            for step, checkpoint in run.checkpoints.items():
                if not checkpoint.published or not checkpoint.waiting or (step == 0 and run.copies):
                    continue
                rates = self.rates[run.chain.group]
                if run.chain.group == state.group:
                    warm = [cell for cell in checkpoint.waiting if cell in state.warm]
                    cells = warm or self._cold(state, run, checkpoint, rates)
                elif self._worth_loading(run, rates):
                    cells = self._cold(state, run, checkpoint, rates)
                else:
                    continue
                if cells:
                    return WorkerTask(TaskKind.EVALUATE, run.chain.run, step, self._bundle(state, run, cells, rates))
        return None

    def _cold(self, state: WorkerState, run: OpenChain, checkpoint: CheckpointCells, rates: Rates) -> list[Cell]:
        """Cells that are new to a worker: those that no other worker knows, and others if computing them here pays.

        It pays if so many checkpoints are left that the frozen layers are a small part of it. Otherwise the worker
        takes as many as it finishes while those who know the cells do the rest.
        """
        group = run.chain.group
        others = [each for each in self.workers.values() if each.group == group and each is not state]
        trunk, answer = rates.trunk or 0.0, rates.answer or 0.0
        if trunk <= 0.5 * self._left[group] * answer:
            return list(checkpoint.waiting)
        known = [cell for cell in checkpoint.waiting if any(cell in each.warm for each in others)]
        share = int(len(known) * answer / (trunk + 2 * answer))
        return [cell for cell in checkpoint.waiting if cell not in known] or known[len(known) - share :]

    def _worth_loading(self, run: OpenChain, rates: Rates) -> bool:
        """Whether the workers that have a group's model are busy for longer than it takes to load it once more."""
        having = sum(worker.group == run.chain.group for worker in self.workers.values())
        if having == 0 or rates.load is None or rates.answer is None:
            return True
        items = run.chain.items * self._left[run.chain.group]
        return items * rates.answer / having > 2 * rates.load

    def _bundle(self, state: WorkerState, run: OpenChain, cells: list[Cell], rates: Rates) -> tuple[Cell, ...]:
        """So many of the cells as make a unit."""
        if rates.answer is None:
            return tuple(cells[: max(1, math.ceil(len(cells) / (2 * self._serving(run.chain))))])
        unit, chosen, seconds = self._unit(run.chain), [], 0.0
        for cell in cells:
            chosen.append(cell)
            seconds += rates.seconds(cell.items, cold=cell not in state.warm) or 0.0
            if seconds >= unit:
                break
        return tuple(chosen)

    def _open_run(self, state: WorkerState, group: str | None) -> WorkerTask | None:
        for chain in self.unopened.values():
            if chain.shape == state.shape and (group is None or chain.group == group):
                return WorkerTask(TaskKind.OPEN, chain.run)
        return None
