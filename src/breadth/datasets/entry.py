"""One entry of the registry: where a set comes from, what its columns and labels mean, and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from breadth.datasets.tasks import Task
from breadth.records import Table

Kind = Literal["nli", "qa", "generated"]
#: What a raw label becomes; None: the item is dropped.
Labels = Mapping[int | str, str | None]


@dataclass(frozen=True)
class Entry:
    """A set that can be loaded by name.

    ``columns`` maps a canonical column to the Hub's name for it. ``keep`` is a column and the value it must have.
    ``items`` counts the test items after preprocessing (for generated sets: how many there can be). ``prepare`` turns
    questions with options or worked solutions into canonical columns.
    """

    name: str
    kind: Kind
    description: str
    shift: str
    task: Task
    licence: str
    items: int
    hub: str | None = None
    configs: tuple[str | None, ...] = (None,)
    test_split: str = "test"
    train_split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Labels | None = None
    keep: tuple[str, str] | None = None
    prepare: Callable[[Table], pl.DataFrame] | None = None

    @property
    def config(self) -> str | None:
        """The configuration on the Hub, where there is one for the whole set."""
        return self.configs[0] if len(self.configs) == 1 else None

    @property
    def source(self) -> str:
        """The Hub id with its configuration, or that the set is generated."""
        if self.hub is None:
            return "generated"
        several = f" ({len(self.configs)} configurations)" if len(self.configs) > 1 else ""
        return f"{self.hub} {self.config}" if self.config else f"{self.hub}{several}"

    @property
    def how(self) -> str:
        """How to get the set."""
        if self.hub is None:
            return "generated on demand; nothing to get"
        return (
            f"put {self.name}.parquet (or .jsonl, .csv, .tsv) into a directory and name it with --data or "
            f"BREADTH_DATA, or let breadth[lm] fetch {self.source} from the Hub"
        )
