"""Which worker does what next: a state machine over training chains and the evaluation of their checkpoints.

It knows neither Ray nor a clock, so the cluster and the simulation drive the same code. Training a run is a chain of
tasks that stay on one worker; a checkpoint whose weights are published is cut into cells that any worker evaluates.
``scheduling_policy`` has the rules by which a worker gets its next task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from breadth.execute.cluster.scheduling_policy import SchedulingPolicy
from breadth.execute.cluster.tasks import Cell, CheckpointCells, Measured, OpenChain, TaskKind, WorkerState, WorkerTask

#: A unit that fails this often is set aside.
TRIES = 3


class Schedule(SchedulingPolicy):
    """Chooses tasks for workers and keeps what is left; see the module."""

    # What the driver reports

    def add_worker(self, worker: str, shape: str) -> None:
        """A worker is there."""
        self.workers[worker] = WorkerState(shape)

    def remove_worker(self, worker: str, error: str | None) -> None:
        """A worker is gone; with ``error``, its task counts as failed, otherwise it is just done again."""
        lost = self.workers.pop(worker, None)
        for run in self.open.values():
            if run.trainer == worker:
                run.trainer = None
        if lost is not None and lost.task is not None:
            self._again(lost.task, error)

    def opened(self, run: str, missing: Iterable[int], position: int = 0) -> None:
        """A run was opened: its missing checkpoints, and the step of the state that its training resumes from."""
        chain = self.unopened.pop(run)
        self._left[chain.group] -= len(chain.steps)
        steps = sorted(missing)
        self._left[chain.group] += len(steps)
        opened = OpenChain(chain, {step: CheckpointCells(dict.fromkeys(chain.cells)) for step in steps}, position)
        self.open[run] = opened
        if 0 in opened.checkpoints:
            siblings = (self.open.get(name) for name in chain.siblings)
            first = next((each for each in siblings if each and 0 in each.checkpoints and not each.copies), None)
            opened.copies = None if first is None else first.chain.run
        if chain.start is not None:
            self.starts.setdefault(chain.start, "")
        if not chain.trained:
            for step in steps:
                self._publish(opened, step)
        elif chain.begins_published and (chain.start is None or self.starts[chain.start] == "done"):
            self._publish(opened, 0)
        self._close_if_done(opened)

    def passed(self, run: str) -> None:
        """A run needs nothing, or belongs to another process."""
        chain = self.unopened.pop(run)
        self._left[chain.group] -= len(chain.steps)

    def done(self, worker: str, measured: Measured, reached: int | None = None) -> WorkerTask:
        """A worker has done its task; training has ``reached`` a step, which may be before the checkpoint."""
        state = self.workers[worker]
        task, state.task = state.task, None
        assert task is not None
        self.done_tasks += 1
        run = self.open.get(task.run)
        if run is None:  # the last of its checkpoints was set aside meanwhile
            return task
        self.rates[run.chain.group].add(measured)
        if task.kind is TaskKind.START:
            self.start_ready(run.chain.start or "")
        elif task.kind is TaskKind.TRAIN:
            run.training, run.position = False, task.step if reached is None else reached
            if run.position == task.step:
                self._publish(run, task.step)
                self._close_if_done(run)
        elif task.kind is TaskKind.EVALUATE:
            state.warm.update(task.cells)
            checkpoint = run.checkpoints.get(task.step)
            if checkpoint is not None:
                checkpoint.flying.difference_update(task.cells)
        return task

    def start_ready(self, key: str) -> None:
        """The weights of a start are there."""
        self.starts[key] = "done"
        for run in self.open.values():
            if run.chain.start == key:
                self._publish(run, 0)

    def written(self, run: str, step: int) -> list[str]:
        """A checkpoint was written; returns the runs that copy it."""
        opened = self.open[run]
        self._drop(opened, step)
        copies = [name for name, each in self.open.items() if each.copies == run] if step == 0 else []
        for name in copies:
            self.open[name].copies = None
        self._close_if_done(opened)
        return copies

    def evaluated_before(self, run: str, step: int, cells: Iterable[Cell]) -> None:
        """Cells of a checkpoint whose outputs were kept by an earlier call."""
        checkpoint = self.open[run].checkpoints[step]
        for cell in cells:
            if cell in checkpoint.waiting:
                del checkpoint.waiting[cell]
                self._waiting[self.open[run].chain.group] -= cell.items * checkpoint.counted

    def failed(self, worker: str, error: str | None) -> None:
        """A worker could not do its task, and is ready for another; without ``error``, it is not to blame."""
        state = self.workers[worker]
        task, state.task = state.task, None
        if task is not None:
            self._again(task, error)

    def weights_lost(self, run: str, step: int) -> None:
        """The weights of a checkpoint are gone with the node that had them: they are trained again."""
        opened = self.open.get(run)
        checkpoint = opened.checkpoints.get(step) if opened else None
        if opened is None or checkpoint is None or not checkpoint.published:
            return
        self._count(opened, checkpoint, False)
        checkpoint.published = False
        opened.position = min(opened.position, step)
        opened.trainer = None

    # What the driver asks

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return not self.unopened and not self.open

    @property
    def waiting_items(self) -> float:
        """Items that could be evaluated now."""
        return sum(self._waiting.values())

    def shapes_wanted(self) -> Counter[str]:
        """How many workers of each shape could have work: waiting units, and runs that nobody trains."""
        wanted = Counter(chain.shape for chain in self.unopened.values())
        for run in self.open.values():
            wanted[run.chain.shape] += 1 + sum(len(c.waiting) for c in run.checkpoints.values() if c.published)
        return wanted

    def seconds_left(self) -> float | None:
        """Seconds that the rest should take; None if the pace is not known."""
        left = [(chain, float(len(chain.steps)), max(chain.steps, default=0)) for chain in self.unopened.values()]
        left += [(run.chain, run.checkpoints_left(), run.steps_left()) for run in self.open.values()]
        total = longest = 0.0
        for chain, checkpoints, steps in left:
            rates = self.rates[chain.group]
            seconds = rates.seconds(chain.items * checkpoints)
            if seconds is None or (steps and chain.trained and rates.step is None):
                return None
            training = steps * (rates.step or 0.0) if chain.trained else 0.0
            total, longest = total + seconds + training, max(longest, training)
        return max(total / max(len(self.workers), 1), longest)

    def needs(self, run: str, step: int) -> bool:
        """Whether the weights of a checkpoint may still be needed."""
        opened = self.open.get(run)
        if opened is None or step not in opened.checkpoints:
            return False
        return not opened.checkpoints[step].evaluated or step in opened.chain.kept

    def next_task(self, worker: str) -> WorkerTask | None:
        """The next task for a worker that has none; a task to open a run is not the worker's but the driver's."""
        state = self.workers[worker]
        task = self.choose(worker)
        if task is None or task.kind is TaskKind.OPEN:
            return task
        run = self.open[task.run]
        if state.group != run.chain.group:
            state.group, state.run, state.warm = run.chain.group, None, set()
        if task.kind in (TaskKind.TRAIN, TaskKind.START):
            for other in self.open.values():
                if other.trainer == worker and other is not run:
                    other.trainer = None
        if task.kind is TaskKind.TRAIN:
            run.training, run.trainer, state.run = True, worker, task.run
        elif task.kind is TaskKind.START:
            self.starts[run.chain.start or ""], state.run = "training", None
        elif task.kind is TaskKind.SCORE:
            run.checkpoints[task.step].scoring = True
        else:
            checkpoint = run.checkpoints[task.step]
            for cell in task.cells:
                del checkpoint.waiting[cell]
            checkpoint.flying.update(task.cells)
            self._waiting[run.chain.group] -= task.items * checkpoint.counted
        state.task = task
        return task

    # How the state changes

    def _publish(self, run: OpenChain, step: int) -> None:
        checkpoint = run.checkpoints.get(step)
        if checkpoint is not None and not checkpoint.published:
            checkpoint.published = True
            self._count(run, checkpoint, not (step == 0 and run.copies))

    def _count(self, run: OpenChain, checkpoint: CheckpointCells, counted: bool) -> None:
        """Count the cells of a checkpoint among those that wait, or no longer."""
        self._waiting[run.chain.group] += checkpoint.items * (counted - checkpoint.counted)
        checkpoint.counted = counted

    def _drop(self, run: OpenChain, step: int) -> None:
        """A checkpoint needs nothing more."""
        checkpoint = run.checkpoints.pop(step, None)
        if checkpoint is not None:
            self._left[run.chain.group] -= 1
            self._count(run, checkpoint, False)

    def _close_if_done(self, run: OpenChain) -> None:
        if not run.checkpoints:
            self.open.pop(run.chain.run, None)

    def _again(self, task: WorkerTask, error: str | None) -> None:
        """Put the work of a task back; work that failed too often is set aside."""
        run = self.open.get(task.run)
        if run is None:
            return
        self.retries += 1
        keys: list[object] = [(task.run, task.kind, task.step)]
        if task.kind is TaskKind.TRAIN:
            run.training, run.trainer = False, None
        elif task.kind is TaskKind.START:
            self.starts[run.chain.start or ""] = ""
            keys = [(run.chain.start, task.kind)]
        elif task.step in run.checkpoints:
            checkpoint = run.checkpoints[task.step]
            if task.kind is TaskKind.SCORE:
                checkpoint.scoring = False
            else:
                checkpoint.flying.difference_update(task.cells)
                checkpoint.waiting.update(dict.fromkeys(task.cells))
                self._waiting[run.chain.group] += task.items * checkpoint.counted
                keys = [(task.run, task.step, cell) for cell in task.cells]
        if error is not None:
            self._tries.update(keys)
            if any(self._tries[key] >= TRIES for key in keys):
                self._set_aside(run, task, error)

    def _set_aside(self, run: OpenChain, task: WorkerTask, error: str) -> None:
        runs, steps = [run], [task.step]
        if task.kind is TaskKind.START:
            runs = [each for each in self.open.values() if each.chain.start == run.chain.start]
            steps = list(run.checkpoints)
        elif task.kind is TaskKind.TRAIN:
            steps = [step for step in run.checkpoints if run.lacks_weights(step)]
        for each in runs:
            for step in [step for step in each.checkpoints if each is not run or step in steps]:
                self.aside[each.chain.run, step] = error
                self._drop(each, step)
                if step == 0:
                    self._release(each.chain.run)
            self._close_if_done(each)

    def _release(self, run: str) -> None:
        """Runs that would have copied step 0 from this one evaluate their own."""
        for other in self.open.values():
            if other.copies == run:
                other.copies = None
                self._count(other, other.checkpoints[0], other.checkpoints[0].published)
