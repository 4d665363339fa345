"""What happens while a study runs, as callbacks for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

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
