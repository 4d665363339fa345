"""NPZ files: one matrix with named rows and columns, read without ever unpickling anything."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed
from breadth.records.untrusted import EXPANSION, SMALL, check_cells, reading, regular_file

#: What an integer matrix holds where nothing was observed.
MISSING = -1


def read_npz(path: Path) -> pl.DataFrame:
    """Read an NPZ matrix as a table.

    The file holds one two-dimensional array (say ``R``) and one-dimensional arrays that describe it:
    the first text array as long as the matrix has rows names the rows, the first as long as it has
    columns names the columns. Further arrays as long as the rows become columns of the table. If there
    is an array ``testset`` as long as the columns, the columns are items and the table comes out long,
    a row per answer (``run, testset, item, correct``); otherwise it is wide, a column per test set.
    In integer matrices -1 means missing; in real ones NaN does.
    """
    arrays = read_arrays(path)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise InputError(
            f"{path}: expected one two-dimensional array, found {len(matrices)} (arrays: {listed(arrays)})"
        )
    matrix = arrays.pop(matrices[0])
    if matrix.dtype.kind not in "iufb":
        raise InputError(f"{path}: array {matrices[0]!r} holds {matrix.dtype}, not numbers")
    rows, columns = matrix.shape
    check_cells(rows * columns, path.stat().st_size, path)
    vectors = {name: array for name, array in arrays.items() if array.ndim == 1}
    column_name = _naming(vectors, columns, prefer=("items", "testsets", "columns", "testsets"))
    if column_name is None:
        raise InputError(f"{path}: no text array of length {columns} names the columns of {matrices[0]!r}")
    names = [str(name) for name in vectors.pop(column_name)]
    row_name = _naming(vectors, rows, prefer=("models", "subjects", "runs", "rows"))
    keys: dict[str, list[Any]] = {
        "run": [str(name) for name in vectors.pop(row_name)] if row_name else [str(i) for i in range(rows)]
    }
    testsets = vectors.pop("testset", None)
    keys |= {name: array.tolist() for name, array in vectors.items() if len(array) == rows}
    values = matrix.astype(np.float64)
    if matrix.dtype.kind == "i":
        values[matrix == MISSING] = np.nan
    if testsets is not None and len(testsets) == columns:
        return _answers(values, keys, names, [str(name) for name in testsets])
    if len(set(names) | set(keys)) < len(names) + len(keys):
        raise InputError(f"{path}: column names in {column_name!r} are not unique")
    return pl.DataFrame({**keys, **dict(zip(names, values.T, strict=True))}).fill_nan(None)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read every array of an NPZ file; Python objects are refused, because reading them can run code."""
    size = regular_file(path)
    with reading(path, "NPZ"):
        with zipfile.ZipFile(path) as archive:
            declared = sum(_declared_bytes(archive, info, path) for info in archive.infolist())
        most = max(SMALL, EXPANSION * size)
        if declared > most:
            raise InputError(
                f"{path}: declares {declared:,} bytes of arrays, and at most {most:,} are read from a file of its "
                "size; save answers as int8, or without compression"
            )
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        codes = np.ascontiguousarray(array).view(np.uint32) if array.dtype.kind == "U" and array.size else None
        if codes is not None and ((codes > 0x10FFFF) | ((codes >> 11) == 0x1B)).any():  # halves of a character
            raise InputError(f"{path}: array {name!r} holds characters that do not exist; write its names again")
    return arrays


def _declared_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> int:
    """How many bytes an array has by its header, which must be those that are there."""
    with archive.open(info) as member:
        read_header = _HEADERS.get(np.lib.format.read_magic(member))
        if read_header is None:
            raise InputError(f"{path}: {info.filename!r} is not a plain array")
        shape, _, dtype = read_header(member)
        if dtype.hasobject:
            raise InputError(
                f"{path}: holds Python objects, which are not read because that can run code. "
                "Save the names as text arrays (dtype str) instead"
            )
        declared: int = math.prod(shape) * int(dtype.itemsize)
        if declared + member.tell() != info.file_size:
            raise InputError(f"{path}: {info.filename!r} declares {declared:,} bytes and holds others; it is damaged")
        return declared


_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _naming(vectors: dict[str, npt.NDArray[Any]], length: int, prefer: tuple[str, ...]) -> str | None:
    """Choose the text array that names an axis: a well-known name first, else the first that fits."""
    fitting = [
        name
        for name, array in vectors.items()
        if len(array) == length and array.dtype.kind in "US" and name != "testset"
    ]
    return next((name for name in prefer if name in fitting), fitting[0] if fitting else None)


def _answers(
    values: npt.NDArray[np.float64], keys: dict[str, list[Any]], items: list[str], testsets: list[str]
) -> pl.DataFrame:
    """Lay a subject x item matrix out as one row per observed answer."""
    row, column = np.nonzero(~np.isnan(values))
    long = {name: pl.Series(name, column_of_keys).gather(row) for name, column_of_keys in keys.items()}
    return pl.DataFrame(
        {
            **long,
            "testset": pl.Series(testsets).gather(column),
            "item": pl.Series(items).gather(column),
            "correct": values[row, column],
        }
    )
