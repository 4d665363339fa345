"""Files that somebody else made are looked at before they are read.

Limits are on what a file declares, before anything is read: no file below 10 MB may take a gigabyte of memory.
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

#: Most levels of lists and objects in a cell of JSON: polars takes exponential memory over nested types.
MOST_NESTED = 32

#: Most times its own size that a file may hold, and how much any file may hold.
EXPANSION, SMALL = 16, 1 << 26

#: Most cells per byte of a binary table, and how many any file may hold.
CELLS_PER_BYTE, SMALL_CELLS = 4, 20_000_000

#: Most columns of a table, and most characters in the name of one.
MOST_COLUMNS, LONGEST_NAME = 100_000, 10_000

#: Most bytes of text in a column of a small file, repetitions included.
MOST_TEXT = 1 << 32

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
        raise InputError(f"{path}: is not a regular file; copy what it holds into a file")
    return status.st_size


def inflated(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz; refused if it holds far more than its size."""
    size = regular_file(path)
    if path.suffix != ".gz":
        return path.read_bytes()
    most = max(SMALL, EXPANSION * size)
    with reading(path), gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: holds more than {most:,} bytes, over {EXPANSION} times its size; unpack it first")
    return content


def check_nesting(content: bytes, name: object) -> None:
    """Refuse JSON whose lists and objects are nested deeper than a table needs."""
    if content.count(b"[") + content.count(b"{") <= MOST_NESTED:
        return
    depth, bare = 0, np.frombuffer(_STRING.sub(b"", content), np.uint8) & 0xDF  # which makes [ and {, ] and } one
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


def check_text(frame: pl.DataFrame, name: object) -> None:
    """Refuse a table whose repeated texts would fill the memory if each were written out."""
    for column, size in frame.select(pl.col(pl.String).str.len_bytes().cast(pl.UInt64).sum()).to_dicts()[0].items():
        if size > MOST_TEXT:
            raise InputError(
                f"{name}: column {column!r} repeats {size:,} bytes of text; at most {MOST_TEXT:,} are read. Leave it "
                "out, or give its texts once for each item"
            )


def check_keys(content: bytes, rows: int, name: object) -> None:
    """Refuse rows of JSON that have other keys each: their table would be as wide as it is long."""
    if len(content) <= SMALL:
        check_cells(rows * len({match[0] for match in _KEY.finditer(content)}), len(content), name)


def check_columns(names: list[str], name: object) -> None:
    """Refuse columns that no analysis could name: too many of them, or a name that polars takes for a pattern."""
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{name}: has {len(names):,} columns; at most {MOST_COLUMNS:,} are read")
    if long := next((each for each in names if len(each) > LONGEST_NAME), None):
        raise InputError(f"{name}: column {long[:20]!r}... has a name of {len(long):,} characters; rename it")
    if wrong := next((each for each in names if each.startswith("^") and each.endswith("$")), None):
        raise InputError(f"{name}: column {wrong!r} is named like a regular expression; rename it")
