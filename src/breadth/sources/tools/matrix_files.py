"""Files of matrices and tables of answers: what looks like one by headers, columns and first rows; and R data.

R data (``.rds``, ``.RData``) are read by pyreadr, which is optional.
"""

from __future__ import annotations

import bz2
import csv
import lzma
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.source_files import MOST_BYTES, SourceFile
from breadth.sources.tables import Table, read_table

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

#: How R data begin, once they are decompressed.
MAGIC = (b"X\n\x00\x00\x00", b"RDX2\nX\n", b"RDX3\nX\n")

#: What to say where pyreadr is missing.
INSTALL = "reading R data needs pyreadr: pip install 'breadth[r]'"


class Header(NamedTuple):
    """What an NPZ file says about one of its arrays."""

    name: str
    shape: tuple[int, ...]
    dtype: npt.DTypeLike
    size: int


def headers(file: SourceFile) -> Iterator[Header]:
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


def is_matrix(file: SourceFile) -> bool:
    """Whether an NPZ file has one matrix of numbers."""
    return sum(len(header.shape) == 2 and np.dtype(header.dtype).kind in "biuf" for header in headers(file)) == 1


def refuse_damaged(file: SourceFile) -> None:
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


def is_sound(file: SourceFile) -> bool:
    """Whether an NPZ file can be read, so that what is wrong with it are its values."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            whole = archive.testzip() is None
    except Exception:  # zipfile raises whatever a damaged archive leads to
        return False
    return whole and not any(np.dtype(header.dtype).hasobject for header in headers(file))


def columns_of(file: SourceFile) -> frozenset[str]:
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
    return columns_of(SourceFile.look(beside)) if beside.is_file() else frozenset()


def first_rows(file: SourceFile, most: int = ROWS) -> list[list[str]]:
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


class _Decompressor(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


#: Compressions that R writes, by their first bytes.
COMPRESSIONS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": lzma.LZMADecompressor,
}


def is_r_data(file: SourceFile) -> bool:
    """Whether a file is R data, compressed or not, by its first bytes."""
    decompressor = _decompressor(file.head)
    if decompressor is None:
        return file.head.startswith(MAGIC)
    try:
        return decompressor.decompress(file.head, 16).startswith(MAGIC)
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return False


def _decompressor(head: bytes) -> _Decompressor | None:
    return next((make() for magic, make in COMPRESSIONS.items() if head.startswith(magic)), None)


def read_r_data(file: SourceFile) -> Iterator[tuple[str, Table]]:
    """The data frames of a file with their names; row names become subjects unless they only count."""
    try:
        pyreadr = import_module("pyreadr")
    except ImportError as error:
        raise InputError(f"{file.path}: {INSTALL}") from error
    _refuse_large(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of objects that it skips
            objects = pyreadr.read_r(str(file.path))
    except Exception as error:  # a C library with errors of its own
        raise InputError(
            f"{file.path}: cannot be read as R data; it is damaged, or holds no data frame ({error})"
        ) from error
    for name, frame in objects.items():
        named = str(name) if name else file.path.stem
        table = read_table(_with_subjects(frame)) if len(frame) and len(frame.columns) else None
        if table is not None:
            yield named, Table(table.frame, f"{file.path}, {named}")


def _with_subjects(frame: Any) -> Any:
    """A pandas frame whose row names are a column, unless they are 1, 2, 3 ..."""
    names = [str(name) for name in frame.index]
    counted = names in ([str(k + 1) for k in range(len(names))], [str(k) for k in range(len(names))])
    plain = frame.reset_index(drop=True)
    plain.columns = [str(name) for name in plain.columns]
    if not counted and "subject" not in plain.columns:
        plain.insert(0, "subject", names)
    return plain


def _refuse_large(file: SourceFile) -> None:
    """Refuse a file that unpacks to more than is read at once."""
    decompressor, size = _decompressor(file.head), 0
    if decompressor is None:
        if file.size > MOST_BYTES:
            raise InputError(f"{file.path}: has {file.size:,} bytes; at most {MOST_BYTES:,} are read at once")
        return
    try:
        with file.path.open("rb") as stream:
            while block := stream.read(1 << 16):
                size += len(decompressor.decompress(block))
                if size > MOST_BYTES:
                    raise InputError(f"{file.path}: unpacks to more than {MOST_BYTES:,} bytes")
    except (zlib.error, OSError, EOFError, lzma.LZMAError, MemoryError) as error:
        raise InputError(f"{file.path}: cannot be unpacked ({error}); the file is damaged") from error
