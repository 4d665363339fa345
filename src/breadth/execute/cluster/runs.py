"""One run on a cluster as its driver sees it: the one writer of its files, and where its weights and states are.

What workers send is written whole and under its checksum: outputs of cells (pieces) until their checkpoint is complete,
then the part; states to resume from. The same command therefore resumes from what there is, whenever the driver stops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from breadth.execute.cluster.shipping import DamagedShipmentError, Origin, Pieces, seal, unpack_pieces, unseal
from breadth.execute.cluster.tasks import Cell
from breadth.execute.directory import begin_run, write_environment
from breadth.execute.executors import copy_step0, report_warnings
from breadth.execute.kept_weights import KeptWeights
from breadth.execute.neither import neither_log, neither_shares
from breadth.execute.plan import Unit, missing_checkpoints
from breadth.execute.progress import Events
from breadth.execute.run_files import States, run_states, start_states
from breadth.records import RunStore, StudyStore, checksum
from breadth.study import StudyFile

if TYPE_CHECKING:
    import polars as pl

_PIECE = re.compile(r"^piece-(\d+)\.([0-9a-f]+)\.safetensors$")


@dataclass
class ClusterRun:
    """A run whose lock this process holds.

    ``weights`` and ``states`` are objects of the cluster by step; ``pieces`` are outputs of checkpoints that are not
    complete; ``seconds`` sums up what workers spent on each checkpoint, and ``losses`` the last loss before it.
    """

    unit: Unit
    own: RunStore
    cells: tuple[Cell, ...]
    stack: ExitStack
    missing: list[int] = field(default_factory=list)
    resumed: bool = False
    warnings: tuple[str, ...] = ()
    weights: dict[int, Any] = field(default_factory=dict)
    states: dict[int, Any] = field(default_factory=dict)
    pieces: dict[int, Pieces] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    training: dict[int, float] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)

    @cached_property
    def kept(self) -> KeptWeights:
        """Trained weights that are kept."""
        return KeptWeights(self.unit.run, self.own)

    @property
    def saved(self) -> States:
        """States on the driver's disk."""
        return run_states(self.own)

    @property
    def start(self) -> States:
        """The weights of the run's start on the driver's disk."""
        return start_states(self.unit.run, self.own)

    def position(self) -> int:
        """The step that training resumes from."""
        return max((step for step in self.saved.saved() if step <= self.missing[0]), default=0) if self.missing else 0

    def state(self, step: int) -> Any:
        """The newest state up to a step: an object of the cluster, or from the disk; None if there is none."""
        objects = [known for known in self.states if known <= step]
        disk = self.saved.latest(step)
        if objects and (disk is None or max(objects) > disk[0]):
            return self.states[max(objects)]
        return None if disk is None else seal(disk[1], self.state_origin(disk[0]))

    def state_origin(self, step: int) -> Origin:
        """What a state of this run is."""
        return Origin("the weights in training", self.unit.run.name, step)

    def forget_state(self, state: Any) -> None:
        """An object with a state is lost."""
        self.states = {step: known for step, known in self.states.items() if known is not state}

    def add_state(self, step: int, state: Any) -> None:
        """Keep a new state: the newest serves if the trainer is lost, the oldest is the next to be written."""
        self.states = {
            known: each for known, each in self.states.items() if known == min(self.states) and known < step
        } | {step: state}

    def state_to_write(self) -> tuple[int, Any] | None:
        """The newest state that can be resumed from, if it is newer than the one on the disk."""
        if not self.missing:
            return None
        usable = [step for step in self.states if step <= self.missing[0]]
        if not usable or max(usable) <= max(self.saved.saved(), default=-1):
            return None
        return max(usable), self.states[max(usable)]

    def add_pieces(self, step: int, sealed: Any, cells: tuple[Cell, ...]) -> None:
        """Keep the outputs of some cells, also if the driver stops before their checkpoint is complete."""
        content = unseal(sealed, Origin("the outputs", self.unit.run.name, step, cells))
        pieces = unpack_pieces(content, cells)
        for cell, outputs in pieces.items():
            if len(outputs.index) != len(outputs.values):
                raise DamagedShipmentError(
                    f"the outputs of {cell.testset} are {len(outputs.values)}, not {len(outputs.index)}"
                )
        if len(pieces) < len(cells):
            raise DamagedShipmentError(f"the outputs are those of {len(pieces)} of {len(cells)} cells")
        self.own.store.write(f"{self.own.key}/piece-{step:06d}.{checksum(content)}.safetensors", content)
        self.pieces.setdefault(step, {}).update(pieces)

    def write(self, step: int, answers: pl.DataFrame, files: Mapping[str, bytes] | None = None) -> None:
        """Write a checkpoint, after its weights if they are kept; then delete what it was assembled from."""
        if files:
            self.kept.write_files(step, files)
        self.own.write_part(step, answers)
        self.kept.written(step, answers)
        seconds = self.seconds.pop(step, 0.0)
        self.own.log(
            step=step, loss=self.losses.pop(step, None), train_seconds=self.training.pop(step, 0.0), seconds=seconds,
            items_per_second=answers.height / max(seconds, 1e-9),
            **neither_log(neither_shares(self.unit.run, answers)),
        )  # fmt: skip
        self.drop(step)

    def copy(self, step: int, content: bytes) -> None:
        """Write a checkpoint that another run has in common with this one."""
        self.own.write_part_bytes(step, content)
        self.drop(step)

    def drop(self, step: int) -> None:
        """A checkpoint needs nothing more."""
        if step in self.missing:
            self.missing.remove(step)
        self.weights.pop(step, None)
        self.pieces.pop(step, None)
        for name in self.own.store.names(self.own.key):
            if (match := _PIECE.match(name)) and int(match[1]) == step:
                self.own.store.delete(f"{self.own.key}/{name}")

    def close(self, complete: bool) -> None:
        """Give the run's lock back; states of a complete run are deleted."""
        if complete:
            self.saved.clear()
        self.stack.close()


def open_run(
    unit: Unit,
    file: StudyFile,
    store: StudyStore,
    cells: tuple[Cell, ...],
    environment: dict[str, Any],
    events: Events,
) -> ClusterRun | None:
    """Lock a run, repair its files and find out what is missing; None if another process works on it."""
    own, stack = store.run(unit.run.name), ExitStack()
    if not stack.enter_context(own.store.lock(own.key, wait=False)):
        stack.close()
        return None
    own.repair()
    begin_run(unit.run, own, file, store)
    run = ClusterRun(unit, own, cells, stack, resumed=bool(own.sound_steps()))
    run.kept.tidy()
    copy_step0(own, unit.siblings, store)
    run.missing = list(missing_checkpoints(unit.run, own))
    if run.missing:
        write_environment(own, environment)
        _read_pieces(run)
    run.warnings = report_warnings(own.warnings, events)
    return run


def _read_pieces(run: ClusterRun) -> None:
    """Read the outputs that an earlier call left; those of finished checkpoints and damaged ones are deleted."""
    for name in run.own.store.names(run.own.key):
        match = _PIECE.match(name)
        if match is None:
            continue
        step, key = int(match[1]), f"{run.own.key}/{name}"
        content = run.own.store.read(key)
        sound = content is not None and checksum(content) == match[2] and step in run.missing
        pieces = unpack_pieces(content, run.cells) if sound and content is not None else {}
        if not pieces:
            run.own.store.delete(key)
        else:
            run.pieces.setdefault(step, {}).update(pieces)
