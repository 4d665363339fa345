"""What reading a file may cost, decided before it is read.

A few bytes can declare anything: a matrix that unpacks to terabytes, a list nested a million deep. So every reader asks
here first, by what a file declares: its size, the bytes that it unpacks to, its cells and columns, the depth and number
of its values. No file below 10 MB may take a gigabyte of memory.
"""

from __future__ import annotations

import gzip
import re
import stat
from pathlib import Path

import numpy as np
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.paths import NOT_REGULAR

# ---- Bytes ----

#: Most bytes of a file, or of one member of an archive, that are held in memory at once.
MOST_BYTES = 1 << 29

#: What has fewer bytes than this is read without asking how much it was compressed or how many values it has.
SMALL = 1 << 26

#: Most times its own size that a compressed table or matrix may hold: answers of real models are packed 8 to 1.
EXPANSION = 16

#: The same of a zip archive of logs as a whole, of which a member is read at a time: logs shrink 5 to 100 times.
MOST_RATIO = 200

#: Most bytes of text in a column of a small file, repetitions included.
MOST_TEXT = 1 << 32

# ---- Values ----

#: Most values in what is parsed at once: a few bytes of JSON may take a hundred as Python objects.
MOST_VALUES = 20_000_000

#: Most levels of lists and objects in a cell of JSON: polars takes exponential memory over nested types.
MOST_NESTED = 32

# ---- Cells ----

#: Cells that any table may have, and most cells per byte of one that has more.
SMALL_CELLS, CELLS_PER_BYTE = 20_000_000, 4

#: Most columns of a table, and most characters in the name of one.
MOST_COLUMNS, LONGEST_NAME = 100_000, 10_000

#: Most subjects that tabulated patterns of answers may become.
MOST_SUBJECTS = 1_000_000

#: Most scores of a study, one for each subject and test set: each of them becomes a row of many tables.
MOST_SCORES = 5_000_000

_STRING = re.compile(rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?')
_KEY = re.compile(rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?\s*:')


def regular_file(path: Path) -> int:
    """The size of a file; refused if it is a pipe or a device, from which reading may never end."""
    try:
        with reading(path):
            status = path.stat()
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(f"{path}: no such file") from error
        raise
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: {NOT_REGULAR}")
    return status.st_size


def most_unpacked(size: int) -> int:
    """How many bytes a compressed table of some size may hold."""
    return max(SMALL, EXPANSION * size)


def inflated(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz; refused if it holds far more than its size."""
    size = regular_file(path)
    if path.suffix.lower() != ".gz":
        return path.read_bytes()
    most = most_unpacked(size)
    with reading(path), gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: holds more than {most:,} bytes, over {EXPANSION} times its size; unpack it first")
    return content


def check_size(size: int, name: object, remedy: str) -> None:
    """Refuse what is too large to be held in memory at once."""
    if size > MOST_BYTES:
        raise InputError(f"{name}: has {size:,} bytes; at most {MOST_BYTES:,} are read at once; {remedy}")


def check_nesting(content: bytes, name: object) -> None:
    """Refuse JSON whose lists and objects are nested deeper than a table needs."""
    if content.count(b"[") + content.count(b"{") <= MOST_NESTED:
        return
    depth = 0
    # Without the bit that tells the two kinds of brackets apart, [ and { are one, and ] and } are one.
    bare = np.frombuffer(_STRING.sub(b"", content), np.uint8) & 0xDF
    for start in range(0, len(bare), SMALL // 8):
        block = bare[start : start + SMALL // 8]
        inside = depth + np.cumsum((block == ord("[")).astype(np.int8) - (block == ord("]")), dtype=np.int64)
        if inside.max() > MOST_NESTED:
            raise InputError(f"{name}: is nested deeper than {MOST_NESTED} levels; a table is flat")
        depth = int(inside[-1])


def check_cells(cells: int, size: int, name: object) -> None:
    """Refuse a table that declares far more cells than a file of its size holds."""
    most = max(SMALL_CELLS, CELLS_PER_BYTE * size)
    if cells > most:
        raise InputError(f"{name}: declares {cells:,} cells in {size:,} bytes; at most {most:,} are read")


def check_keys(content: bytes, rows: int, name: object) -> None:
    """Refuse rows of JSON that have other keys each: their table would be as wide as it is long."""
    if len(content) <= SMALL:
        keys = {match[0] for match in _KEY.finditer(content)}
        check_cells(rows * len(keys), len(content), name)


def check_text(frame: pl.DataFrame, name: object) -> None:
    """Refuse a table whose repeated texts would fill the memory if each were written out."""
    for column in frame.iter_columns():
        if column.dtype != pl.String:
            continue
        size = int(column.str.len_bytes().cast(pl.UInt64).sum())
        if size > MOST_TEXT:
            raise InputError(
                f"{name}: column {column.name!r} repeats {size:,} bytes of text; at most {MOST_TEXT:,} are read. Leave "
                "it out, or give its texts once for each item"
            )


def check_columns(names: list[str], name: object) -> None:
    """Refuse columns that no analysis could name: too many of them, or a name that polars takes for a pattern."""
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{name}: has {len(names):,} columns; at most {MOST_COLUMNS:,} are read")
    for column in names:
        if len(column) > LONGEST_NAME:
            raise InputError(f"{name}: column {column[:20]!r}... has a name of {len(column):,} characters; rename it")
        if column == "*":
            raise InputError(f"{name}: column '*' is named like a pattern for all columns; rename it")
        if column.startswith("^") and column.endswith("$"):
            raise InputError(f"{name}: column {column!r} is named like a regular expression; rename it")


def check_scores(subjects: int, testsets: int, name: object) -> None:
    """Refuse answers with so many subjects and test sets that their scores alone would fill the memory."""
    if subjects * testsets > MOST_SCORES:
        raise InputError(
            f"{name}: has {subjects:,} subjects and {testsets:,} test sets, so {subjects * testsets:,} scores; at most "
            f"{MOST_SCORES:,} are computed. If the column of test sets names something smaller, leave it out"
        )
