"""What the logs of several tools have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from breadth.sources.logs.log import Metric, Options
from breadth.sources.source_files import Object, mean_of, number

#: Names of directories that do not name a model.
NO_MODEL = frozenset(
    ("", "samples", "sample", "humaneval", "mbpp", "results", "bigcodebench", "output", "eval", "evaluation", "logs")
)


def epochs_to_read(options: Options, repeats: int) -> Sequence[int | None]:
    """None for the mean over all attempts at a question, or the number of every attempt."""
    if options.epochs == "each" and repeats > 1:
        return range(1, repeats + 1)
    return [None]


def epoch_means(columns: Iterable[Sequence[float | None]], epoch: int | None) -> list[float | None]:
    """The mean over the attempts at every question, or the score of one attempt."""
    if epoch is None:
        return [mean_of(attempts) for attempts in columns]
    return [mean_of(attempts[epoch - 1 : epoch]) for attempts in columns]


def reported_means(report: Object, names: Iterable[str]) -> dict[Metric, float]:
    """The means that a log itself states, of those metrics for which it has a number."""
    means: dict[Metric, float] = {}
    for name in names:
        mean = number(report.get(name))
        if mean is not None:
            means[Metric(name)] = mean
    return means


def drop_empty(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns of texts in which something stands."""
    return {name: column for name, column in columns.items() if any(column)}


def folder_of_model(path: Path) -> str | None:
    """The innermost directory whose name may be a model's."""
    for part in reversed(path.parent.parts):
        if part.lower() not in NO_MODEL:
            return part
    return None
