"""Studies described for people: what a study would run, which studies come with breadth, the table of all keys."""

from __future__ import annotations

import json
import typing
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.fields import FieldInfo

from breadth.datasets import REGISTRY
from breadth.records import read_table
from breadth.study.expansion import expand
from breadth.study.read import StudyFile, read_study_file, shipped_studies
from breadth.study.schema import StudySpec
from breadth.study.sections import sections

if TYPE_CHECKING:
    import polars as pl


class Summary(NamedTuple):
    """Rows of model, training set, runs, steps and checkpoints; and a sentence with the totals."""

    rows: list[tuple[str, str, str, str, str]]
    text: str


def summarise(file: StudyFile) -> Summary:
    """Count a study's runs, checkpoints and responses without running anything."""
    runs = expand(file)
    groups = Counter((run.model, run.train_set or "-", run.total_steps(), len(run.checkpoints())) for run in runs)
    rows = [
        (model, train_set, f"{count:,}", f"{steps:,}", f"{points:,}")
        for (model, train_set, steps, points), count in groups.items()
    ]
    points = sum(len(run.checkpoints()) for run in runs)
    sizes = [expected_items(file, name) for name in file.study.evaluate.on]
    text = f"{_count(len(runs), 'run')} with {_count(points, 'checkpoint')} in all, each evaluated on "
    text += _count(len(sizes), "test set")
    if None in sizes:
        return Summary(rows, f"{text}. The number of items depends on data that is not read here.")
    items = sum(size or 0 for size in sizes)
    return Summary(rows, f"{text}: {items:,} items per checkpoint, {items * points:,} responses.")


def expected_items(file: StudyFile, name: str) -> int | None:
    """Items of a test set that a checkpoint is evaluated on; None if only its data can tell."""
    study = file.study
    own, wanted = study.sets.get(name), study.evaluate.items
    if study.train and study.train.difficulty and name in study.train.set:
        return None  # some items have no difficulty, and half of the others are held out
    if own is not None:
        # Rows with other labels are dropped when the set is read, so the file may have more rows than items.
        size = read_table(file.base / own.file).frame.height if own.labels is None else None
    else:
        size = None if REGISTRY[name].kind == "generated" else REGISTRY[name].items
    return wanted if size is None else size if wanted is None else min(size, wanted)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_studies() -> pl.DataFrame:
    """One row per study that comes with breadth: name, models, runs, description."""
    import polars as pl

    rows = []
    for name in shipped_studies():
        file = read_study_file(name)
        rows.append((name, len(file.study.models), len(expand(file)), file.study.description))
    schema = {"name": pl.String, "models": pl.Int64, "runs": pl.Int64, "description": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def key_tables() -> str:
    """Markdown tables of every key of a study file with its default and meaning, one per section."""
    parts = []
    for prefix, section in sections(StudySpec):
        title = f"### `{prefix.rstrip('.')}`" if prefix else "### The whole file"
        rows = [
            f"| `{prefix}{name}` | {_default(field)} | {_meaning(field)} |"
            for name, field in section.all_fields().items()
        ]
        parts.append(
            "\n".join([f"{title}\n", f"{section.__doc__}\n", "| key | default | meaning |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, float):
        return f"`{value:g}`"
    return "none" if value in ([], {}) else f"`{json.dumps(value)}`"


def _meaning(field: FieldInfo) -> str:
    choices = list(dict.fromkeys(_choices(field.annotation)))
    listed = f"; one of {', '.join(f'`{choice}`' for choice in choices)}" if len(choices) > 1 else ""
    return f"{field.description}{listed}".replace("|", "\\|")


def _choices(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
