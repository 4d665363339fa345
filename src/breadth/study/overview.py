"""Studies described for people: what a study would run, which studies come with breadth, the table of all keys."""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.fields import FieldInfo

from breadth.datasets import REGISTRY
from breadth.records import read_table
from breadth.study.expansion import RunSpec, expand
from breadth.study.read import StudyFile, read_study_file, shipped_studies
from breadth.study.schema import StudySpec
from breadth.study.sections import sections

if TYPE_CHECKING:
    import polars as pl


#: Rows of models that a table shows one by one.
MOST_ROWS = 12

#: Model, training sets, runs, steps, checkpoints.
RunRow = tuple[str, str, str, str, str]


class Summary(NamedTuple):
    """Rows of model, training sets, runs, steps and checkpoints; and a sentence with the totals."""

    rows: list[RunRow]
    text: str


def summarise(file: StudyFile) -> Summary:
    """Count a study's runs, checkpoints and answers without running anything."""
    runs = expand(file)
    points = sum(len(run.checkpoints()) for run in runs)
    sizes = [expected_items(file, name) for name in file.study.evaluate.on]
    text = f"{count_of(len(runs), 'run')} with {count_of(points, 'checkpoint')} in all, each evaluated on "
    text += count_of(len(sizes), "test set")
    if None in sizes:
        return Summary(run_rows(runs), f"{text}. The number of items depends on data that is not read here.")
    items = sum(size or 0 for size in sizes)
    return Summary(run_rows(runs), f"{text}: {items:,} items per checkpoint, {items * points:,} answers.")


def run_rows(runs: Sequence[RunSpec]) -> list[RunRow]:
    """Models with their training sets, and how many runs, steps and checkpoints those have.

    Runs of a model that are equally long share a row; so do models, if there would be more than ``MOST_ROWS`` rows.
    """
    methods = {run.method for run in runs}
    groups: dict[tuple[str, int, int], list[str]] = {}
    for run in runs:
        model = run.model if len(methods) == 1 else f"{run.model}, {run.method}"
        groups.setdefault((model, run.total_steps(), len(run.checkpoints())), []).append(run.train_set or "-")
    alike: dict[tuple[str, str, int, int, int], list[str]] = {}
    for (model, steps, points), train_sets in groups.items():
        own = model if len(groups) <= MOST_ROWS else ""
        alike.setdefault((own, ", ".join(dict.fromkeys(train_sets)), len(train_sets), steps, points), []).append(model)
    rows = []
    for (_, names, count, steps, points), models in alike.items():
        more = f" and {len(models) - 1} more" if len(models) > 1 else ""
        rows.append((models[0] + more, names, f"{count * len(models):,}", f"{steps:,}", f"{points:,}"))
    return rows


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


def count_of(number: int, what: str) -> str:
    """A number and what it counts, in the plural if it is not 1."""
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
    return meaning(field, "`").replace("|", "\\|")


def meaning(field: FieldInfo, mark: str = "") -> str:
    """What a key means and which words it takes, each between two of ``mark``."""
    choices, text = list(dict.fromkeys(_choices(field.annotation))), str(field.description)
    if len(choices) < 2 or all(choice in text for choice in choices):
        return text
    return f"{text}; one of {', '.join(f'{mark}{choice}{mark}' for choice in choices)}"


def _choices(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
