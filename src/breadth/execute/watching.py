"""What a study says while it runs; the command line shows it, tests record it, nobody need listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from breadth.study import RunSpec


@dataclass(frozen=True)
class Work:
    """What a run has to do: the step up to which it trains, its items at all checkpoints, how much of both is done.

    ``resumed``: some of it was done by an earlier call.
    """

    steps: int
    items: int
    steps_done: int = 0
    items_done: int = 0
    resumed: bool = False


class Watcher:
    """Does nothing; override what is of interest."""

    def fetching(self, stage: str, done: int, total: int) -> None:
        """A model is being fetched or converted."""

    def note(self, text: str) -> None:
        """Something worth saying once."""

    def warn(self, text: str) -> None:
        """Something is damaged and was set aside."""

    def passed(self, run: RunSpec) -> None:
        """A run is complete already, or another process is doing it."""

    def begun(self, run: RunSpec, work: Work, number: int, runs: int) -> None:
        """A run starts or goes on."""

    def prepared(self, items: int) -> None:
        """Some items went through the trunk, which happens once."""

    def starting(self, step: int, steps: int, loss: float) -> None:
        """A step was taken of what all runs of a model have in common."""

    def ready(self, run: RunSpec) -> None:
        """The run's model is loaded, and its test sets are prepared."""

    def trained(self, step: int, loss: float) -> None:
        """A training step was taken."""

    def answered(self, items: int) -> None:
        """Some items were answered."""

    def checkpoint(self, run: RunSpec, step: int, answers: pl.DataFrame) -> None:
        """A checkpoint was evaluated and stored."""

    def ended(self, run: RunSpec) -> None:
        """A run is complete."""
