"""What a study would run, in a table and a sentence."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from breadth.study.expansion import expand
from breadth.study.known import known_sets
from breadth.study.read import StudyFile


class Summary(NamedTuple):
    """Rows of model, training set, runs, steps and checkpoints; and a sentence with the totals."""

    rows: list[tuple[str, str, str, str, str]]
    text: str


def summarise(file: StudyFile) -> Summary:
    """Count a study's runs, checkpoints and answers without starting anything."""
    runs = expand(file)
    groups = Counter((run.model, run.train_set or "-", run.total_steps(), len(run.checkpoints())) for run in runs)
    rows = [
        (model, train_set, f"{count:,}", f"{steps:,}", f"{points:,}")
        for (model, train_set, steps, points), count in groups.items()
    ]
    points = sum(len(run.checkpoints()) for run in runs)
    items = items_per_checkpoint(file)
    sets = len(file.study.evaluate.on)
    text = f"{_count(len(runs), 'run')} with {_count(points, 'checkpoint')} in all, each on {_count(sets, 'test set')}"
    text += (
        f": {items:,} items per checkpoint, {items * points:,} answers."
        if items is not None
        else ". How many items that is depends on data that is not read here."
    )
    return Summary(rows, text)


def items_per_checkpoint(file: StudyFile) -> int | None:
    """Items a checkpoint is evaluated on, None where the size of a set is not known without its data."""
    from breadth.records.tables import read_table

    study, known, total = file.study, known_sets(), 0
    held_out = set(study.train.set) if study.train and study.train.difficulty else set()
    for name in study.evaluate.on:
        own = study.sets.get(name)
        if own is not None:
            # Rows with other labels are dropped when the set is read, so the rows of the file may be too many.
            size = read_table(file.base / own.file).frame.height if own.labels is None else None
        else:
            size = known[name].items
        if name in held_out:
            return None
        if study.evaluate.items is not None:
            size = study.evaluate.items if size is None else min(size, study.evaluate.items)
        if size is None:
            return None
        total += size
    return total


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
