"""Files that hold a table, with a function per format, and what is wrong with a line or a cell of them.

CSV has any separator, decimal sign and row names. NPZ has one matrix with named rows and columns, and is read without
ever unpickling anything.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError, listed
from breadth.records.schemas import MISSING
from breadth.sources.limits import (
    EXPANSION,
    MOST_COLUMNS,
    SMALL,
    check_cells,
    check_keys,
    check_nesting,
    check_text,
    inflated,
    regular_file,
)

#: What separates the cells of a file of text.
SEPARATORS = (",", "\t", ";", "|")

#: Thousands where the comma is the decimal sign, and any number there.
THOUSANDS = r"-?[1-9]\d{0,2}(\.\d{3})+"
EUROPEAN = rf"^({THOUSANDS}|-?\d+)(,\d+)?$"


def read_csv(path: Path, separator: str = ",") -> pl.DataFrame:
    """A file of text whose header says what separates its cells."""
    content = inflated(path)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; save it as UTF-8 (spreadsheets call it CSV UTF-8)") from error
    head = [line for line, _ in zip(filter(str.strip, text_lines(content)), range(20), strict=False)]
    # The header says what separates cells: commas of numbers are in the rows below it.
    counts = {sign: len(_split(head[0], sign)) for sign in (separator, *SEPARATORS)} if head else {separator: 1}
    separator = max(counts, key=lambda sign: counts[sign])
    if counts[separator] > MOST_COLUMNS:
        raise InputError(f"{path}: has {counts[separator]:,} columns; at most {MOST_COLUMNS:,} are read")
    rows = [_split(line, separator) for line in head]
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[:2]]
    if len(filled) == 2 and filled[0] == 1 and filled[1] > 2:  # it would be taken for the names of columns
        raise InputError(f"{path}, line 1: is a title, not the names of columns; delete it")
    cells = [cell.strip() for row in rows[1:] for cell in row]
    comma = separator != "," and any(re.fullmatch(r"-?\d+,\d+%?", cell) for cell in cells)
    points = (cell for cell in cells if re.fullmatch(r"-?\d+\.\d+%?", cell))
    comma = comma and all(re.fullmatch(THOUSANDS, cell) for cell in points)
    options: dict[str, Any] = {"separator": separator, "decimal_comma": comma, "infer_schema_length": None}
    if len(rows) > 1 and len(rows[1]) == len(rows[0]) + 1:  # R leaves out the name of the column of row names
        options |= {"has_header": False, "skip_rows": 1, "new_columns": ["", *rows[0]]}
    try:
        frame = pl.read_csv(content, **options)
    except pl.exceptions.ComputeError:
        _refuse_long_line(content, path, separator, len(rows[0]))
        raise
    if frame.height and frame[-1, -1] is None:
        _refuse_short_last_line(content, path, separator, frame.width)
    if comma:  # then 1.000 is a thousand, and a column of such numbers comes as text
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        whole = [name for name in texts if frame[name].drop_nulls().str.strip_chars().str.contains(EUROPEAN).all()]
        plain = pl.col(whole).str.strip_chars().str.replace_all(".", "", literal=True)
        frame = frame.with_columns(plain.str.replace(",", ".", literal=True).cast(pl.Float64)) if whole else frame
    return frame


def read_tsv(path: Path) -> pl.DataFrame:
    """A file whose cells are separated by tabs, unless its header says otherwise."""
    return read_csv(path, separator="\t")


def _refuse_long_line(content: bytes, path: Path, separator: str, width: int) -> None:
    with suppress(csv.Error):
        for row in (reader := csv.reader(text_lines(content), delimiter=separator)):
            if len(row) > width:
                raise InputError(
                    f"{path}, line {reader.line_num}: has {len(row)} fields, and the header {width}; remove the "
                    "surplus, or put text that holds the separator in double quotes"
                )


def _split(line: str, separator: str) -> list[str]:
    """The cells of a line; a cell that is longer than Python reads is one."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return [line]


def text_lines(content: bytes) -> io.TextIOWrapper:
    """The lines of UTF-8, without the mark that some programs put in front."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def _refuse_short_last_line(content: bytes, path: Path, separator: str, width: int) -> None:
    """A last line with too few fields means that the file was cut off while it was written."""
    last: list[str] = []
    number = 0
    with suppress(csv.Error):  # a cell that is longer than Python reads
        for row in (reader := csv.reader(text_lines(content), delimiter=separator)):
            if row:
                last, number = row, reader.line_num
    if 0 < len(last) < width:
        raise InputError(f"{path}, line {number}: has {len(last)} of {width} fields; the file seems to be truncated")


#: The key under which writers store their own types, and one of the same length that nobody reads.
_CATEGORIES, _IGNORED = b"ARROW:schema", b"ARROW:unread"


def _read_parquet(path: Path) -> pl.DataFrame:
    scan = pl.scan_parquet(path, glob=False)
    rows, columns = scan.select(pl.len()).collect().item(), len(scan.collect_schema())
    size = path.stat().st_size
    check_cells(rows * columns, size, path)
    if size > SMALL:
        return pl.read_parquet(path, glob=False)
    # Categories are read as text, which shares what is repeated; to number them, polars would read every repetition.
    content = path.read_bytes()
    footer = size - 8 - int.from_bytes(content[-8:-4], "little")
    frame = pl.read_parquet(io.BytesIO(content[:footer] + content[footer:].replace(_CATEGORIES, _IGNORED)))
    check_text(frame, path)
    return frame


def _read_ndjson(path: Path) -> pl.DataFrame:
    content = inflated(path)
    check_nesting(content, path)
    check_keys(content, content.count(b"\n") + 1, path)
    return pl.read_ndjson(content, infer_schema_length=None)


def _read_json(path: Path) -> pl.DataFrame:
    """Rows as objects, columns as lists, what pandas writes, or the ``log_history`` of a Hugging Face trainer."""
    text = inflated(path)
    check_nesting(text, path)
    content = json.loads(text.decode("utf-8-sig"))
    if isinstance(content, dict):
        content = content.get("log_history", content)
    if isinstance(content, dict) and {"columns", "data"} <= content.keys():
        names = list(map(str, content["columns"])) if isinstance(content["columns"], list) else []
        rows = content["data"] if isinstance(content["data"], list) else []
        content = [dict(zip(names, row, strict=False)) for row in rows if isinstance(row, list)] if names else []
    elif isinstance(content, dict) and all(isinstance(column, dict) for column in content.values()):
        content = {name: list(column.values()) for name, column in content.items()}
    objects = isinstance(content, list) and content and all(isinstance(row, dict) for row in content)
    columns = isinstance(content, dict) and all(isinstance(column, list) for column in content.values())
    if not objects and not (columns and len({len(column) for column in content.values()}) == 1):
        raise InputError(
            f"{path}: is not a table (a list of objects, or an object of columns); `breadth import` reads the logs of "
            "other tools"
        )
    if objects:
        check_cells(len(content) * len({key for row in content for key in row}), len(text), path)
    return pl.DataFrame(content, infer_schema_length=None, strict=False)


def _read_markdown(path: Path) -> pl.DataFrame:
    """The table of a Markdown file; of several with one header, as lm-evaluation-harness prints them, all rows.

    The line above such a table names the model. Its table of groups repeats what the tasks say and is left out.
    """
    lines = [line.strip() for line in text_lines(inflated(path))]
    tables: list[tuple[list[str], list[dict[str, str | None]]]] = []
    model: dict[str, str | None] = {}
    for number, line in enumerate(lines):
        if match := re.search(r"\bpretrained=([^,)]+)", line):
            model = {"model": match[1]}
        if "|" not in line:
            continue
        cells = [cell.rstrip() for cell in re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))]
        if number + 1 < len(lines) and "--" in lines[number + 1] and not lines[number + 1].strip("|:- \t"):
            names: list[str] = []
            for cell in map(str.strip, cells):  # headers of arrows and plus-minus signs are empty
                names.append(cell if cell and cell not in names else " " * (len(names) + 1))
            tables.append((names, []))
        elif tables and number and "|" in lines[number - 1] and not re.fullmatch(r"[|:\s-]+", line):
            # Indented names are parts of the group above them.
            cells = [cell if cell.lstrip().startswith("- ") else cell.strip() for cell in cells]
            tables[-1][1].append(model | dict(zip(tables[-1][0], (cell or None for cell in cells), strict=False)))
    tables = [table for table in tables if table[0][0] != "Groups" and table[1]]
    if not tables or any(table[0] != tables[0][0] for table in tables):
        raise InputError(f"{path}: holds {len(tables) or 'no'} tables{' that differ' * bool(tables)}; keep one")
    frame = pl.DataFrame([row for _, rows in tables for row in rows], infer_schema_length=None)
    for name in frame.columns:
        numbers = frame[name].cast(pl.Float64, strict=False)
        if numbers.is_not_null().sum() == frame[name].is_not_null().sum():
            frame = frame.with_columns(numbers)
    return frame


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
    column_name = _naming(vectors, columns, prefer=("items", "testsets", "columns"))
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


#: Formats by the ending of a file.
READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": _read_parquet,
    ".jsonl": _read_ndjson,
    ".ndjson": _read_ndjson,
    ".json": _read_json,
    ".md": _read_markdown,
    ".npz": read_npz,
}
