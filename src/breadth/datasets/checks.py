"""What is wrong with a test set: every mistake in one line, with file, row and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from breadth.datasets.entry import Labels
from breadth.datasets.tasks import Choice, Pattern, Task, fields_of
from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table


def text_fields(task: Task) -> tuple[str, ...]:
    """Columns that the template needs; the options of a choice are written from their own columns."""
    fields = fields_of(task.template)
    return tuple(name for name in fields if name != "choices") if isinstance(task, Choice) else fields


def check_task(task: Task, where: str) -> None:
    """Refuse a template without fields, a field to shorten that is none, and answers that cannot be told apart."""
    fields = text_fields(task)
    if not fields:
        raise InputError(f"{where}: pattern {task.template!r} has no field; write the names of columns in braces")
    if task.shorten is not None and task.shorten not in fields:
        raise InputError(
            f"{where}: shorten names {task.shorten!r}, which is no field of the pattern ({listed(fields)})"
        )
    if isinstance(task, Pattern):
        words = [answer for _, answer in task.answers]
        if len(words) < 2:
            raise InputError(f"{where}: answers must be given for two labels or more")
        if len(set(words)) < len(words) or not all(word.strip() for word in words):
            raise InputError(f"{where}: answers must differ and not be empty; found {listed(map(repr, words))}")


def check_fields(table: Table, fields: Iterable[str]) -> None:
    """Refuse a field of the template that is not a column."""
    for name in fields:
        if name not in table.frame.columns:
            raise unknown_column(name, table.frame.columns, table.name, "a field of the pattern")


def faulty_texts(texts: pl.Series) -> pl.Series:
    """Where a text is missing or blank."""
    return texts.is_null() | (texts.cast(pl.String).str.strip_chars() == "").fill_null(True)


def check_texts(table: Table, fields: Iterable[str]) -> None:
    """Refuse texts that are missing, blank or hold NUL characters, which tokenizers and files cut short."""
    for name in fields:
        texts = table.frame[name]
        if texts.dtype.is_nested():
            raise InputError(f"{table.name}, column {name!r}: holds {texts.dtype}, not texts")
        _refuse(table, name, faulty_texts(texts), "the text is empty; fill it in or leave the row out")
        nul = texts.cast(pl.String).str.contains("\0", literal=True)
        _refuse(table, name, nul, "the text holds a NUL character; remove it from the file")


def _refuse(table: Table, column: str, wrong: pl.Series, complaint: str) -> None:
    if wrong.any():
        others = int(wrong.sum()) - 1
        more = f" ({others} more such {'row' if others == 1 else 'rows'})" if others else ""
        raise InputError(f"{table.place(int(wrong.arg_max() or 0), column)}: {complaint}{more}")


def label_text(value: Any) -> str:
    """A raw label as text: 1, 1.0 and "1 " are the same label."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def map_labels(table: Table, column: str, labels: Labels | None, task: Task | None = None) -> list[str | None]:
    """The label of every row; None where the mapping drops it. Without a mapping, labels stay as they are.

    A pattern needs an answer for every label that occurs.
    """
    if column not in table.frame.columns:
        raise unknown_column(column, table.frame.columns, table.name, "the label")
    values = table.frame[column]
    blank = faulty_texts(values) if not values.dtype.is_nested() else values.is_null()
    _refuse(table, column, blank, "the label is missing; fill it in or leave the row out")
    raw = [label_text(value) for value in values.to_list()]
    known = {label: label for label in raw} if labels is None else {str(key): to for key, to in labels.items()}
    for row, label in enumerate(raw):
        if label not in known:
            raise InputError(
                f"{table.place(row, column)}: label {label[:60]!r} is not one of the known labels ({listed(known)})"
            )
    found = [known[label] for label in raw]
    if isinstance(task, Pattern):
        unanswered = pl.Series([label is not None and label not in task.labels for label in found], dtype=pl.Boolean)
        first = found[int(unanswered.arg_max() or 0)] if found else None
        complaint = f"there is no answer for label {str(first)[:60]!r}; answers are given for {listed(task.labels)}"
        _refuse(table, column, unanswered, complaint)
    return found


def check_labels(labels: pl.Series, task: Task, where: str) -> None:
    """A test set with one label measures nothing."""
    if not isinstance(task, Pattern):
        return
    there: Sequence[str] = labels.unique().sort().to_list()
    if len(there) == 1:
        raise InputError(
            f"{where}: every item has the label {there[0]!r}; a test set needs items of two labels or more"
        )
