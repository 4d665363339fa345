"""The answers in the files of a study as one lazy table, made only from bytes whose checksum is right.

A path that is opened once more after its file was checked may lead to another file by then. So no library gets a path:
files are read and checked when the table is collected, some at a time, and forgotten when their rows are handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.records.files import LocalStore
from breadth.records.store import PART_SCHEMA, RunStore

#: Rows that are read at once: many small files together take a third of the time, one large file no more memory.
ROWS_AT_ONCE = 100_000


class PartFile(NamedTuple):
    """The file of a subject's answers, and how many it holds."""

    subject: str
    path: Path
    rows: int


def scan_parts(parts: Sequence[PartFile]) -> pl.LazyFrame:
    """A row per answer: the subject, and the columns of a part. A file that is gone or changed fails the collection."""
    return register_io_source(partial(_frames, parts), schema={"subject": pl.String, **PART_SCHEMA})


def _frames(
    parts: Sequence[PartFile],
    columns: list[str] | None,
    predicate: pl.Expr | None,
    most_rows: int | None,
    _rows_at_once: int | None,
) -> Iterator[pl.DataFrame]:
    """The rows of the parts in order, as polars asks for them: some columns, the first rows, and of these some."""
    for batch in _batches(parts):
        frame = _answers(batch, columns or ["subject", *PART_SCHEMA])
        if most_rows is not None:
            frame = frame.head(most_rows)
            most_rows -= frame.height
        yield frame if predicate is None else frame.filter(predicate)
        if most_rows == 0:
            return


def _batches(parts: Sequence[PartFile]) -> Iterator[list[PartFile]]:
    batch: list[PartFile] = []
    rows = 0
    for part in parts:
        if batch and rows + part.rows > ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
        batch.append(part)
        rows += part.rows
    if batch:
        yield batch


def _answers(parts: Sequence[PartFile], columns: Sequence[str]) -> pl.DataFrame:
    contents = [_sound_content(part) for part in parts]
    # Without any column of the files there would be no rows.
    stored = [name for name in columns if name != "subject"] or ["correct"]
    with reading(parts[0].path):
        answers = pl.scan_parquet(contents, glob=False, hive_partitioning=False).select(stored).collect()
    owner = np.repeat(np.arange(len(parts)), [part.rows for part in parts])
    subjects = pl.Series("subject", [part.subject for part in parts], dtype=pl.String)
    return answers.with_columns(subjects.gather(owner)).select(columns)


def _sound_content(part: PartFile) -> bytes:
    run = RunStore(LocalStore(part.path.parents[2]), part.path.parent.name)
    content = run.read_sound(part.path.name)
    if content is None:
        raise InputError(f"{part.path}: was damaged or removed after {part.subject} was read; read the study again")
    return content
