"""What looks like a matrix or a table of answers, judged by headers of arrays, columns and first rows."""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError
from breadth.importers.reading import MOST_BYTES, LogFile
from breadth.records import reading

#: Endings of tables of text, with their separators.
SEPARATORS = {".csv": ",", ".tsv": "\t"}

#: Columns of a long table.
LONG = frozenset({"item", "correct"})

#: Names of a column that says how often a pattern of answers occurred.
FREQUENCY = re.compile(r"freq|frequency|freqs|counts?", re.IGNORECASE)

#: Columns that describe rows of a wide table, not items.
ABOUT = re.compile(
    r"|subject|models?|run|name|index|id|unnamed: 0|step|epoch|iteration|checkpoint|revision|fold|rank|lr|train_set"
    r"|examples|seed|train_level",
    re.IGNORECASE,
)

#: A cell of a wide table: right, wrong, missing, or an answer that is not scored: a digit or a letter.
CELL = re.compile(r"[0-9A-Ea-e]?|-1|[0-9]\.0|true|false|na|n/a|nan|null|none|-", re.IGNORECASE)

#: Rows by which a wide table is judged, and most characters of one.
ROWS, LONGEST = 20, 1 << 23


class Header(NamedTuple):
    """What an NPZ file says about one of its arrays."""

    name: str
    shape: tuple[int, ...]
    dtype: npt.DTypeLike
    size: int


def headers(file: LogFile) -> Iterator[Header]:
    """The headers of the arrays in an NPZ file; nothing for a file that has none."""
    if not file.members or not all(name.endswith(".npy") for name in file.members):
        return
    try:
        with zipfile.ZipFile(file.path) as archive:
            for info in archive.infolist():
                with archive.open(info) as stream:
                    version = np.lib.format.read_magic(stream)
                    first = version == (1, 0)
                    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
                    shape, _, dtype = read(stream)
                yield Header(info.filename, shape, dtype, info.file_size)
    except Exception:  # numpy and zipfile raise whatever a damaged header leads to
        return


def is_matrix(file: LogFile) -> bool:
    """Whether an NPZ file has one matrix of numbers."""
    return sum(len(header.shape) == 2 and np.dtype(header.dtype).kind in "biuf" for header in headers(file)) == 1


def refuse_damaged(file: LogFile) -> None:
    """Refuse an NPZ file whose arrays are larger than what it holds, which would be reserved before it is read."""
    known = list(headers(file))
    if len(known) < len(file.members):
        raise InputError(f"{file.path}: the header of an array cannot be read; the file is damaged")
    for header in known:
        dtype = np.dtype(header.dtype)
        size = math.prod(header.shape) * dtype.itemsize
        if header.size > MOST_BYTES or (size > header.size and not dtype.hasobject):
            raise InputError(
                f"{file.path}, {header.name}: states {size:,} bytes and holds {header.size:,}, of which at most "
                f"{MOST_BYTES:,} are read; the file is damaged or too large"
            )


def is_sound(file: LogFile) -> bool:
    """Whether an NPZ file can be read, so that what is wrong with it are its values."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            whole = archive.testzip() is None
    except Exception:  # zipfile raises whatever a damaged archive leads to
        return False
    return whole and not any(np.dtype(header.dtype).hasobject for header in headers(file))


def columns_of(file: LogFile) -> frozenset[str]:
    """Columns of a table; empty for other files."""
    suffix = file.path.suffix.lower()
    if suffix == ".parquet":
        return file.columns
    if suffix in (".jsonl", ".ndjson") and not file.is_list:
        return file.keys if file.keys >= LONG else frozenset()
    if suffix in SEPARATORS and b"\x00" not in file.head:
        return frozenset(next(iter(first_rows(file, 1)), ()))
    return frozenset()


def columns_beside(path: Path) -> frozenset[str]:
    """Columns of the responses that a table of items or subjects lies beside."""
    beside = path.with_name(f"responses{path.suffix}")
    return columns_of(LogFile.look(beside)) if beside.is_file() else frozenset()


def first_rows(file: LogFile, most: int = ROWS) -> list[list[str]]:
    """The header and the first rows of a table, as text."""
    try:
        if file.path.suffix.lower() == ".parquet":
            with reading(file.path):
                frame = pl.read_parquet(file.path, n_rows=most)
            if any(dtype.is_nested() or dtype.is_temporal() for dtype in frame.dtypes):
                return []
            cells = [["" if cell is None else str(cell) for cell in row] for row in frame.iter_rows()]
            return [frame.columns, *cells]
        if file.path.suffix.lower() not in SEPARATORS:
            return []
        with file.path.open(encoding="utf-8-sig", newline="") as text:
            lines = (line for line in iter(lambda: text.readline(LONGEST), "") if line.strip())
            rows = csv.reader(lines, delimiter=SEPARATORS[file.path.suffix.lower()])
            return [row for row, _ in zip(rows, range(most), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error, InputError):
        return []


def answers_like(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a header and some rows look like a row per subject and a column per item."""
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return False
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=False))
    items = 0
    for name, cells in columns.items():
        if ABOUT.fullmatch(name) or FREQUENCY.fullmatch(name) or _is_text(cells):
            continue
        if not all(CELL.fullmatch(cell.strip()) for cell in cells):
            return False
        items += 1
    return items >= 2


def _is_text(cells: Iterable[str]) -> bool:
    """Whether a column holds names: longer than an answer, and not numbers."""
    return all(len(cell) > 2 and not re.fullmatch(r"[-+.\d eE]*", cell) for cell in cells)
