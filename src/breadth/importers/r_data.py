"""R data files (``.rds``, ``.RData``): their data frames as tables, by pyreadr, which is optional."""

from __future__ import annotations

import bz2
import lzma
import warnings
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Protocol

from breadth.errors import InputError
from breadth.importers.reading import MOST_BYTES, LogFile
from breadth.records import Table, read_table

#: How R data begin, once they are decompressed.
MAGIC = (b"X\n\x00\x00\x00", b"RDX2\nX\n", b"RDX3\nX\n")

#: What to say where pyreadr is missing.
INSTALL = "reading R data needs pyreadr: pip install 'breadth[r]'"


class _Decompressor(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


#: Compressions that R writes, by their first bytes.
COMPRESSIONS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": lzma.LZMADecompressor,
}


def is_r_data(file: LogFile) -> bool:
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


def read_r_data(file: LogFile) -> Iterator[tuple[str, Table]]:
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


def _refuse_large(file: LogFile) -> None:
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
