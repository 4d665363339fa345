"""A user's own file as a test set: which columns, which labels, which question."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

import polars as pl

from breadth.datasets.canonical import Reading, canonical, identify
from breadth.datasets.checks import check_task, label_text
from breadth.datasets.inference import NLI_PATTERN
from breadth.datasets.load import SPLITS, Loaded, Split, finish
from breadth.datasets.options import letters, lined_up, read_options, right_letter
from breadth.datasets.questions import BOXED, NUMBER
from breadth.datasets.splits import Parts, part
from breadth.datasets.tasks import Choice, Generate, Metric, Pattern, Task
from breadth.errors import InputError, listed, unknown_column
from breadth.records import SHIFTS, Table, read_table

Kind = Literal["pattern", "choice", "generate"]
_QUESTION = "Question: {question}\nAnswer:"
_CHOICES = "Question: {question}\n{choices}\nAnswer:"
#: What counts as the answer where nothing is said: the first line, the last number, or what is boxed.
_EXTRACT: dict[str, str] = {"exact": r"\A\s*([^\n]*\S)", "number": NUMBER, "math": BOXED}


def load_own(
    name: str,
    *,
    file: str | os.PathLike[str],
    shift: str = "domain",
    fields: Mapping[str, str] | None = None,
    label: str = "label",
    labels: Mapping[str, str] | None = None,
    item: str | None = None,
    train_file: str | os.PathLike[str] | None = None,
    kind: Kind = "pattern",
    pattern: str | None = None,
    answers: Mapping[str, str] | None = None,
    shorten: str | None = None,
    options: str | None = None,
    normalise: bool = False,
    extract: str | None = None,
    metric: Metric = "exact",
    most_tokens: int = 256,
    split: Split = "test",
) -> Loaded:
    """Load a file as the set ``name``; rules for ids, splits and checks are those of `load`.

    ``fields`` maps fields of the pattern to columns (only where names differ), ``labels`` raw labels to labels,
    ``answers`` labels to answer words. ``item`` is the column of ids; without it a column ``id`` or ``item`` is
    taken, or else a hash of the texts. ``options`` is the column with the options of a choice: a list, or a list
    written as text; the label is the letter, the text or the position (from 0) of the right one. With ``train_file``
    the whole of ``file`` is for testing; items that also stand in ``train_file`` are dropped.
    """
    if split not in SPLITS:
        raise InputError(f"{name}: split {split!r} is none of {listed(SPLITS)}")
    if shift not in SHIFTS:
        raise InputError(f"{name}: shift {shift!r} is none of {listed(SHIFTS)}")
    task = _task(name, kind, pattern, answers, shorten, normalise, extract, metric, most_tokens)
    check_task(task, name)
    column = options or ("options" if kind == "choice" else None)
    reading = Reading(
        name, shift, task, columns=dict(fields or {}), label=label,
        labels=None if labels is None else dict(labels.items()),
        item=item, prepare=None if column is None else lambda table: _with_options(table, column, label),
        explicit=True,
    )  # fmt: skip
    frame, notes = _read(file, "test", reading, one_file=train_file is None)
    if train_file is not None:
        other, more = _read(train_file, "train", reading, one_file=False)
        frame, notes = pl.concat([frame, other], how="diagonal_relaxed"), [*notes, *more]
    frame, more = identify(frame, reading, str(file))
    parts = part(frame, "test", "train", str(file))
    source = f"{file}: {parts.how}"
    if train_file is not None:
        parts, source = _apart(frame), f"{file} (train: {train_file})"
    return finish(reading, parts, split, source, [*notes, *more], str(file))


def _read(path: str | os.PathLike[str], split: str, reading: Reading, one_file: bool) -> tuple[pl.DataFrame, list[str]]:
    table = read_table(path)
    for name, column in reading.columns.items():
        if column not in table.frame.columns:
            raise unknown_column(column, table.frame.columns, table.name, f"field {name!r} of the pattern")
    frame, notes = canonical(table, reading)
    return (frame if one_file else frame.with_columns(pl.lit(split).alias("split"))), notes


def _apart(frame: pl.DataFrame) -> Parts:
    train, test = (frame.filter(pl.col("split") == name) for name in ("train", "test"))
    return Parts(train, test, "two files")


def _with_options(table: Table, column: str, label: str) -> pl.DataFrame:
    """Options, their letters, the letter of the right one, and the options as a text for prompts that generate."""
    texts = read_options(table, column)
    if label not in table.frame.columns:
        raise unknown_column(label, table.frame.columns, table.name, "the right option")
    right = [
        right_letter(label_text(said), row, letters(len(row)), table.place(number, label))
        for number, (said, row) in enumerate(zip(table.frame[label].to_list(), texts, strict=True))
    ]
    return table.frame.drop(column).with_columns(
        pl.Series("options", texts, dtype=pl.List(pl.String)),
        pl.Series("option_labels", [letters(len(row)) for row in texts], dtype=pl.List(pl.String)),
        pl.Series("choices", [lined_up(row) for row in texts], dtype=pl.String),
        pl.Series(label, right, dtype=pl.String),
    )


def _task(
    name: str,
    kind: Kind,
    pattern: str | None,
    answers: Mapping[str, str] | None,
    shorten: str | None,
    normalise: bool,
    extract: str | None,
    metric: Metric,
    most_tokens: int,
) -> Task:
    if kind == "pattern":
        words = NLI_PATTERN.answers if answers is None else tuple(answers.items())
        default = NLI_PATTERN.shorten if pattern is None else None
        return Pattern(pattern or NLI_PATTERN.template, words, shorten or default)
    if kind == "choice":
        return Choice(pattern or _CHOICES, "text", normalise, shorten)
    if kind == "generate":
        return Generate(
            pattern or _QUESTION, _checked(name, extract or _EXTRACT[metric]), metric, most_tokens, shorten=shorten
        )
    raise InputError(f"{name}: kind {kind!r} is none of pattern, choice, generate")


def _checked(name: str, extract: str) -> str:
    try:
        groups = re.compile(extract).groups
    except re.error as error:
        raise InputError(f"{name}: extract {extract!r} is no regular expression ({error})") from error
    if not groups:
        raise InputError(f"{name}: extract {extract!r} has no group; put brackets round the answer")
    return extract
