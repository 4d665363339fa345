"""R data (``.rds``, ``.RData``): data frames, which pyreadr reads; it is optional (``pip install 'breadth[r]'``)."""

from __future__ import annotations

import bz2
import lzma
import warnings
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.limits import MOST_BYTES, check_size
from breadth.sources.source_files import SourceFile
from breadth.sources.tables import Table, read_table

#: How R data begin, once they are unpacked.
MAGIC = (b"X\n\x00\x00\x00", b"RDX2\nX\n", b"RDX3\nX\n")

#: Packed bytes that are unpacked at once: of a bomb, they hold a thousand times as many and more.
BLOCK = 1 << 16

#: What unpacks the compressions that R writes, by their first bytes.
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": lzma.LZMADecompressor,
}


def is_r_data(file: SourceFile) -> bool:
    """Whether a file is R data, compressed or not, by its first bytes."""
    decompressor = _decompressor_for(file)
    if decompressor is None:
        return file.head.startswith(MAGIC)
    try:
        with reading(file.path):
            start: bytes = decompressor.decompress(file.head, max(map(len, MAGIC)))
    except InputError:
        return False
    return start.startswith(MAGIC)


def read_r_data(file: SourceFile) -> Iterator[tuple[str, Table]]:
    """The data frames of a file with their names; that of an ``.rds``, which has none, is called like the file."""
    try:
        pyreadr = import_module("pyreadr")
    except ImportError as error:
        raise InputError(f"{file.path}: reading R data needs pyreadr: pip install 'breadth[r]'") from error
    _check_unpacked_size(file)
    with reading(file.path, "R data"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of objects that it skips
        objects = pyreadr.read_r(str(file.path))
    for key, frame in objects.items():
        if frame.ndim != 2 or not frame.size:  # arrays of R may have more dimensions
            continue
        name = str(key or file.path.stem)
        yield name, read_table(_with_subjects(frame), f"{file.path}, {name}")


def _decompressor_for(file: SourceFile) -> Any:
    """A decompressor at the beginning of a file; None for a file that is not compressed."""
    for magic, decompressor in _DECOMPRESSORS.items():
        if file.head.startswith(magic):
            return decompressor()
    return None


def _check_unpacked_size(file: SourceFile) -> None:
    """Refuse a file that unpacks to more than is read at once: pyreadr would hold all of it."""
    remedy = "save its data frames one by one"
    check_size(file.size, file.path, remedy)
    decompressor = _decompressor_for(file)
    if decompressor is None:
        return
    size = 0
    with reading(file.path, "R data"), file.path.open("rb") as packed:
        for block in iter(lambda: packed.read(BLOCK), b""):
            size += len(decompressor.decompress(block, MOST_BYTES + 1))
            check_size(size, f"{file.path}, unpacked", remedy)
            if decompressor.eof:
                return


def _with_subjects(frame: Any) -> Any:
    """A pandas frame whose row names are a column, unless they only count the rows, from 1 as in R or from 0."""
    names = [str(name) for name in frame.index]
    plain = frame.reset_index(drop=True)
    plain.columns = [str(name) for name in plain.columns]
    for first in (0, 1):
        if names == [str(number) for number in range(first, first + len(names))]:
            return plain
    if "subject" not in plain.columns:
        plain.insert(0, "subject", names)
    return plain
