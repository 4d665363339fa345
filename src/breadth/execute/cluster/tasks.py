"""What a schedule knows: runs as chains, checkpoints cut into cells, tasks and their cost, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: A checkpoint is cut into about this many cells, of at least this many items each.
CELLS, CELL_ITEMS = 128, 8


class TaskKind(StrEnum):
    """What a task is. The driver opens runs itself; the rest is done by workers."""

    OPEN = "open"
    START = "start"
    TRAIN = "train"
    EVALUATE = "evaluate"
    SCORE = "score"


@dataclass(frozen=True)
class Cell:
    """Part ``index`` of ``of`` equal parts of the batches of a test set, with about ``items`` items."""

    testset: str
    index: int
    of: int
    items: float


@dataclass(frozen=True)
class WorkerTask:
    """What one worker does at one go.

    ``step`` is the checkpoint to train to, to evaluate or to score. ``resume``: the worker does not have the run's
    training in memory and restores it from a saved state.
    """

    kind: TaskKind
    run: str
    step: int = 0
    cells: tuple[Cell, ...] = ()
    resume: bool = False

    @property
    def items(self) -> float:
        """Items of its cells."""
        return sum(cell.items for cell in self.cells)


@dataclass(frozen=True)
class Chain:
    """A run as the schedule sees it.

    ``group`` is what a worker must have loaded for it, ``shape`` the resources such a worker has. ``siblings`` are runs
    with the same responses at step 0, ``start`` is the key of a start that must be trained first, ``steps`` the
    checkpoints that are missing. ``begins_published``: workers know the weights at step 0 without a trainer. ``kept``
    are checkpoints whose weights may be written to the disk when they are scored.
    """

    run: str
    group: str
    shape: str
    cells: tuple[Cell, ...]
    steps: tuple[int, ...]
    trained: bool = True
    start: str | None = None
    start_steps: int = 0
    siblings: tuple[str, ...] = ()
    begins_published: bool = True
    kept: tuple[int, ...] = ()

    @property
    def items(self) -> float:
        """Items of a checkpoint."""
        return sum(cell.items for cell in self.cells)


@dataclass(frozen=True)
class Measured:
    """Seconds that parts of a task took, and how much was done in them."""

    load: float = 0.0
    trunk: float = 0.0
    trunk_items: float = 0.0
    answers: float = 0.0
    items: float = 0.0
    train: float = 0.0
    steps: int = 0


@dataclass
class Rates:
    """What the work of a group costs, from what was measured so far; None until then."""

    load: float | None = None
    trunk: float | None = None
    answer: float | None = None
    step: float | None = None
    _sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, measured: Measured) -> None:
        """Count a task. Early tasks are forgotten slowly, because the first of everything is slower."""
        pairs = {
            "load": (measured.load, float(measured.load > 0)),
            "trunk": (measured.trunk, measured.trunk_items),
            "answer": (measured.answers, measured.items),
            "step": (measured.train, measured.steps),
        }
        for name, (seconds, amount) in pairs.items():
            if amount > 0:
                sums = self._sums.setdefault(name, [0.0, 0.0])
                sums[0], sums[1] = 0.9 * sums[0] + seconds, 0.9 * sums[1] + amount
                setattr(self, name, sums[0] / sums[1])

    def seconds(self, items: float, cold: bool = False) -> float | None:
        """Seconds to evaluate some items; if ``cold``, they have to pass the frozen layers first."""
        if self.answer is None:
            return None
        return items * (self.answer + (self.trunk or 0.0) * cold)


def cut(sizes: Mapping[str, int]) -> tuple[Cell, ...]:
    """Cut the test sets of a checkpoint into cells of similar size.

    >>> [(cell.testset, cell.index, cell.of, cell.items) for cell in cut({"a": 16, "b": 5})]
    [('a', 0, 2, 8.0), ('a', 1, 2, 8.0), ('b', 0, 1, 5.0)]
    """
    size = max(CELL_ITEMS, sum(sizes.values()) / CELLS)
    counts = {name: max(1, round(items / size)) for name, items in sizes.items()}
    return tuple(
        Cell(name, index, counts[name], items / counts[name])
        for name, items in sizes.items()
        for index in range(counts[name])
    )


@dataclass
class CheckpointCells:
    """Cells of a checkpoint that wait, those in flight, and whether its weights are there."""

    waiting: dict[Cell, None]
    flying: set[Cell] = field(default_factory=set)
    published: bool = False
    counted: bool = False
    scoring: bool = False

    @property
    def items(self) -> float:
        """Items that wait."""
        return sum(cell.items for cell in self.waiting)

    @property
    def evaluated(self) -> bool:
        """Whether the outputs of all cells are there."""
        return not self.waiting and not self.flying


@dataclass
class OpenChain:
    """A run that has been opened: its checkpoints that are not written, and who trains it."""

    chain: Chain
    checkpoints: dict[int, CheckpointCells]
    position: int = 0
    trainer: str | None = None
    training: bool = False
    copies: str | None = None

    def target(self) -> int | None:
        """The next checkpoint whose weights are needed and not there."""
        if not self.chain.trained:
            return None
        steps = (step for step in self.checkpoints if self.lacks_weights(step))
        return next((step for step in steps if not (step == 0 and self.copies)), None)

    def lacks_weights(self, step: int) -> bool:
        """Whether the weights of a checkpoint are not there, and are needed to evaluate it or to be kept."""
        checkpoint = self.checkpoints[step]
        return not checkpoint.published and (not checkpoint.evaluated or step in self.chain.kept)

    def steps_left(self) -> int:
        """Training steps up to the last checkpoint whose weights are not there."""
        steps = [step for step, each in self.checkpoints.items() if not each.published]
        return max(0, max(steps, default=0) - self.position)

    def checkpoints_left(self) -> float:
        """Evaluation that is left, in checkpoints."""
        cells = sum(len(each.waiting) + len(each.flying) for each in self.checkpoints.values())
        return cells / len(self.chain.cells)

    def ahead(self) -> int:
        """Checkpoints whose weights wait for evaluation."""
        return sum(each.published and not each.evaluated for each in self.checkpoints.values())


@dataclass
class WorkerState:
    """What a worker has loaded and which run it trains; the cells whose frozen layers it has computed; its task."""

    shape: str
    group: str | None = None
    run: str | None = None
    warm: set[Cell] = field(default_factory=set)
    task: WorkerTask | None = None
