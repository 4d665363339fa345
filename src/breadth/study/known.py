"""What a study file may name without saying more: data sets of the registry and embedded models."""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.registry import REGISTRY
from breadth.datasets.tasks import Task
from breadth.lm.models import EMBEDDED


class KnownSet(NamedTuple):
    """What a study needs to know of a data set: its task, its kind of shift, its size if that is fixed."""

    task: Task
    shift: str
    items: int | None = None


def known_sets() -> dict[str, KnownSet]:
    """Every data set of the registry; generated ones have any size."""
    return {
        name: KnownSet(entry.task, entry.shift, None if entry.kind == "generated" else entry.items)
        for name, entry in REGISTRY.items()
    }


def known_models() -> tuple[str, ...]:
    """Names of the embedded models."""
    return tuple(EMBEDDED)
