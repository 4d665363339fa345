"""Load a user's own file as a test set: its columns, its labels, its question."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from pydantic import ValidationError

from breadth.datasets.canonical import Layout, canonical, check_columns, identify
from breadth.datasets.examples import Parts, part
from breadth.datasets.load import Loaded, Split, check_split, finish
from breadth.datasets.public import with_choices, with_options
from breadth.datasets.tasks import DEFAULT_KIND, KINDS, Task
from breadth.errors import InputError, did_you_mean, listed
from breadth.records import SHIFTS, Table, read_table


def load_own(
    name: str,
    *,
    file: Any,
    shift: str = "domain",
    fields: Mapping[str, str] | None = None,
    label: str = "label",
    labels: Mapping[str, str] | None = None,
    item: str | None = None,
    train_file: Any = None,
    kind: str = DEFAULT_KIND,
    pattern: str | None = None,
    shorten: str | None = None,
    options: str | None = None,
    split: Split = "test",
    **keys: Any,
) -> Loaded:
    """Load a file, or a pandas or polars frame, as the set ``name``, with the same rules for ids and checks as `load`.

    ``fields`` maps fields of the pattern to columns (only where names differ), ``labels`` raw labels to labels.
    ``item`` is the column of ids; by default the column ``id`` or ``item``, or else a hash of the texts. ``options``
    is the column with the options of a choice: a list, or a list written as text; the label is the letter, the text
    or the position (from 0) of the correct one. With ``train_file`` all of ``file`` is for testing, and items that
    also occur in ``train_file`` are dropped. ``keys`` are those of the scoring kind: ``answers`` (label to answer
    words) for pattern, ``normalise`` for choice, ``extract``, ``metric`` and ``max_tokens`` for generate.
    """
    check_split(name, split)
    if shift not in SHIFTS:
        raise InputError(f"{name}: unknown shift {shift!r}; use one of {listed(SHIFTS)}")
    task = _task(name, kind, {"pattern": pattern, "shorten": shorten}, keys)
    column = options or ("options" if task.uses_options else None)
    layout = Layout(
        name=name, shift=shift, task=task, columns=dict(fields or {}), label=label,
        labels=None if labels is None else dict(labels.items()), item=item, explicit=True,
        prepare=None if column is None else lambda table: with_choices(with_options(table, column, label)),
    )  # fmt: skip
    table = _table(file, name)
    frame, notes = _read(table, "test", layout, one_file=train_file is None)
    if train_file is not None:
        train_table = _table(train_file, f"{name} (train)")
        other, more = _read(train_table, "train", layout, one_file=False)
        frame, notes = pl.concat([frame, other], how="diagonal_relaxed"), [*notes, *more]
    frame, more = identify(frame, layout, table.name)
    parts = part(frame, "test", "train", table.name)
    source = f"{table.name}: {parts.how}"
    if train_file is not None:
        train, test = (frame.filter(pl.col("split") == name) for name in ("train", "test"))
        parts, source = Parts(train, test, "two files"), f"{table.name} (train: {train_table.name})"
    return finish(layout, parts, split, source, [*notes, *more], table.name)


def _table(source: Any, name: str) -> Table:
    """A file, or a frame that messages call by the name of the set."""
    table = read_table(source)
    return table if isinstance(source, str | os.PathLike) else replace(table, name=name)


def _read(table: Table, split: str, layout: Layout, one_file: bool) -> tuple[pl.DataFrame, list[str]]:
    for name, column in layout.columns.items():
        check_columns(table, [column], f"field {name!r} of the pattern")
    frame, notes = canonical(table, layout)
    return (frame if one_file else frame.with_columns(pl.lit(split).alias("split"))), notes


def _task(name: str, kind: str, common: Mapping[str, Any], keys: Mapping[str, Any]) -> Task:
    if kind not in KINDS:
        raise InputError(f"{name}: unknown kind {kind!r}; use one of {listed(KINDS)}")
    defaults = {key: field.default for each in KINDS.values() for key, field in each.Keys.model_fields.items()}
    own = KINDS[kind].Keys.model_fields
    for key, value in keys.items():
        if key not in defaults:
            raise InputError(f"{name}: unknown option {key!r}.{did_you_mean([key], defaults)}")
        if key not in own and value != defaults[key]:
            raise InputError(f"{name}: option {key!r} does not apply to kind {kind}; remove it or change kind")
    try:
        values = KINDS[kind].Keys(**{key: value for key, value in keys.items() if key in own})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    task = KINDS[kind].from_keys({**common, **values.model_dump()})
    task.check(name)
    return task
