"""What the logs of several tools have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from breadth.sources.logs.log import Metric, Options
from breadth.sources.registry import Detection, Part
from breadth.sources.source_files import Object, mean_of, number

#: Names of directories that do not name a model.
NO_MODEL = frozenset(
    ("", "samples", "sample", "humaneval", "mbpp", "results", "bigcodebench", "output", "eval", "evaluation", "logs")
)


def beside_answers(has_answers: bool, reason: str) -> Detection:
    """A file that is read along with answers, where there are some; else it holds scores of whole test sets only."""
    return Detection(Part.COMPANION if has_answers else Part.SCORES, reason)


def column_of(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """One column of rows that were read by declared columns."""
    return [row[name] for row in rows]


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


def texts_of_items(rows: Iterable[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Columns of texts, given for every item its question, options, their labels, the right label, and the target."""
    names = ("text", "options", "option_labels", "label", "target")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, one in zip(names, row, strict=True):
            columns[name].append(one or None)
    return drop_empty(columns)


def folder_of_model(path: Path) -> str | None:
    """The innermost directory whose name may be a model's."""
    for part in reversed(path.parent.parts):
        if part.lower() not in NO_MODEL:
            return part
    return None
