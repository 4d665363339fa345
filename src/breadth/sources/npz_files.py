"""NPZ files, as numpy writes them: their arrays, and the one matrix with names for its rows and columns.

Nothing is unpickled, and what a file declares is compared with what it holds before memory is reserved for it.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.boundary import reading
from breadth.errors import InputError, listed
from breadth.sources.limits import EXPANSION, check_cells, most_unpacked, regular_file

Array = npt.NDArray[Any]

#: Arrays that name rows and columns, the likeliest first, and those that describe columns one by one.
ROW_NAMES = ("models", "subjects", "runs", "rows")
COLUMN_NAMES = ("items", "testsets", "columns")
OF_COLUMNS = ("testset", "label")

#: How numpy reads the header of an array, by the version of the format; version 3 differs in the names of fields only.
_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class ArrayHeader(NamedTuple):
    """What an NPZ file says about one of its arrays, and how many bytes it holds of it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    held: int

    @property
    def declared(self) -> int:
        """Bytes that the array takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix of numbers."""
        return len(self.shape) == 2 and self.dtype.kind in "iufb"


@dataclass(frozen=True)
class NamedMatrix:
    """The matrix of an NPZ file, as it is. Names of rows or columns that the file does not have are None.

    ``others`` are the further arrays of one dimension that are as long as it has rows or columns.
    """

    name: str
    values: Array
    row_names: list[str] | None
    column_names: list[str] | None
    others: Mapping[str, Array]
    warnings: tuple[str, ...] = ()

    def of_columns(self, name: str) -> list[str] | None:
        """An array that describes the columns, as text."""
        return _texts(self.others[name]) if name in self.others else None


def read_headers(path: Path) -> list[ArrayHeader]:
    """What an NPZ file says about its arrays, by a few bytes of each."""
    headers = []
    with reading(path, "NPZ"), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                read_header = _HEADER_READERS.get(np.lib.format.read_magic(member))
                if read_header is None:
                    raise InputError(f"{path}: {info.filename!r} is not a plain array")
                shape, _, dtype = read_header(member)
                name = info.filename.removesuffix(".npy")
                headers.append(ArrayHeader(name, shape, dtype, info.file_size - member.tell()))
    return headers


def read_arrays(path: Path) -> dict[str, Array]:
    """Read every array of an NPZ file; Python objects are refused, because reading them can run code."""
    size = regular_file(path)
    headers = read_headers(path)
    for header in headers:
        if header.dtype.hasobject:
            raise InputError(
                f"{path}: array {header.name!r} holds Python objects, which are not read because that can run code. "
                "Save names as text arrays (dtype str) instead"
            )
        if header.declared != header.held:
            raise InputError(
                f"{path}: array {header.name!r} declares {header.declared:,} bytes and holds {header.held:,}; the file "
                "is damaged"
            )
        if header.is_matrix:
            check_cells(math.prod(header.shape), size, path)
    declared = sum(header.declared for header in headers)
    if declared > most_unpacked(size):
        raise InputError(
            f"{path}: declares {declared:,} bytes of arrays, over {EXPANSION} times its size; save answers as int8, or "
            "without compression"
        )
    with reading(path, "NPZ"), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        _refuse_broken_text(path, name, array)
    return arrays


def _refuse_broken_text(path: Path, name: str, array: Array) -> None:
    """Refuse text with numbers that are no characters, or halves of one: no other library takes it."""
    if array.dtype.kind != "U" or not array.size:
        return
    codes = np.ascontiguousarray(array).view(np.uint32)
    if ((codes > 0x10FFFF) | ((codes >> 11) == 0x1B)).any():
        raise InputError(f"{path}: array {name!r} holds characters that do not exist; write its names again")


def read_matrix_file(path: Path) -> NamedMatrix:
    """Read the one matrix of an NPZ file with what names its rows and columns."""
    return named_matrix(read_arrays(path), str(path))


def named_matrix(arrays: Mapping[str, Array], name: str) -> NamedMatrix:
    """The one matrix among some arrays, with what names its rows and columns; numbers will do for those without names.

    Well-known arrays name rows (``models``) and columns (``items``); where there is none of them, a text array of the
    right length whose entries all differ. A matrix whose columns are the subjects, by the numbers of names, is turned.
    """
    matrices = [key for key, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "iufb"]
    if len(matrices) != 1:
        shapes = [f"{key} {array.dtype} {array.shape}" for key, array in arrays.items()]
        raise InputError(
            f"{name}: expected one two-dimensional array of numbers, found {len(matrices)} (arrays: {listed(shapes)})"
        )
    matrix = arrays[matrices[0]]
    vectors = {key: array for key, array in arrays.items() if array.ndim == 1}
    row_key = next((key for key in ROW_NAMES if key in vectors), None)
    column_key = next((key for key in COLUMN_NAMES if key in vectors), None)
    warnings: tuple[str, ...] = ()
    if _is_turned(matrix, vectors, row_key, column_key):
        matrix = matrix.T
        warnings = (f"{name}: the matrix was transposed, because its columns are the subjects",)
    rows, columns = matrix.shape
    _refuse_wrong_lengths(name, matrix, vectors, row_key, column_key)
    if column_key is None:
        column_key = _text_array(vectors, columns, {row_key})
    if row_key is None:
        row_key = _text_array(vectors, rows, {column_key})
    row_names = None if row_key is None else _texts(vectors.pop(row_key))
    column_names = None if column_key is None else _texts(vectors.pop(column_key))
    others = {key: array for key, array in vectors.items() if len(array) in (rows, columns)}
    return NamedMatrix(name, matrix, row_names, column_names, others, warnings)


def _is_turned(matrix: Array, vectors: Mapping[str, Array], row_key: str | None, column_key: str | None) -> bool:
    """Whether a matrix has a column per subject: there are as many names of subjects as columns, and not as rows."""
    rows, columns = matrix.shape
    if row_key is None or len(vectors[row_key]) != columns or rows == columns:
        return False
    return column_key is None or len(vectors[column_key]) == rows


def _refuse_wrong_lengths(
    name: str, matrix: Array, vectors: Mapping[str, Array], row_key: str | None, column_key: str | None
) -> None:
    """Refuse names of rows or columns of which there are too few or too many, all in one message."""
    rows, columns = matrix.shape
    wrong = []
    for key, array in vectors.items():
        length = len(array)
        if key == row_key and length != rows:
            wrong.append(f"{key} has {length:,} names for {rows:,} rows")
        elif key == column_key and length != columns:
            wrong.append(f"{key} has {length:,} names for {columns:,} columns")
        elif key in OF_COLUMNS and length not in (rows, columns):
            wrong.append(f"{key} has {length:,} entries for {columns:,} columns")
    if wrong:
        raise InputError(f"{name}: {'; '.join(wrong)}. Write one for each row (subject) or column (item)")


def _text_array(vectors: Mapping[str, Array], length: int, taken: set[str | None]) -> str | None:
    """The first text array of a length whose entries all differ, so that it names something."""
    for key, array in vectors.items():
        if key in taken or key in OF_COLUMNS or len(array) != length or array.dtype.kind not in "US":
            continue
        if len(np.unique(array)) == length:
            return key
    return None


def _texts(array: Array) -> list[str]:
    """The entries of an array as text."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return [str(entry) for entry in array]
