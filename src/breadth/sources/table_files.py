"""Files that hold a table, with a function per format, and what is wrong with a line or a cell of them.

Text is UTF-8, or UTF-16 and UTF-32 with the mark that says so. CSV has any separator, decimal sign and row names. What
a file may cost is decided by :mod:`breadth.sources.limits` before it is read.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from breadth.errors import InputError
from breadth.records.schemas import MISSING
from breadth.sources.limits import (
    MOST_COLUMNS,
    SMALL,
    check_cells,
    check_keys,
    check_nesting,
    check_text,
    inflated,
)
from breadth.sources.npz_files import NamedMatrix, read_matrix_file
from breadth.sources.parquet_footers import declared_values
from breadth.sources.source_files import SourceFile

#: What separates the cells of a file of text.
SEPARATORS = (",", "\t", ";", "|")

#: Lines by which separator, decimal sign and header of a file of text are judged.
HEAD_LINES = 20

#: Most characters of one of them.
LONGEST_LINE = 1 << 23

#: Thousands where the comma is the decimal sign, and any number there.
THOUSANDS = r"-?[1-9]\d{0,2}(\.\d{3})+"
EUROPEAN = rf"^({THOUSANDS}|-?\d+)(,\d+)?$"

#: Marks at the beginning of a text that say how it is encoded. That of UTF-32 begins like that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def utf8_content(path: Path) -> bytes:
    """The content of a file of text as UTF-8, without the mark that some programs put in front."""
    content = inflated(path)
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            content = content[len(mark) :]
            if encoding == "utf-8":
                break
            try:
                return content.decode(encoding).encode()
            except UnicodeError as error:
                raise InputError(f"{path}: is not {encoding.upper()} text, as it says; save it as UTF-8") from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text (byte {error.start + 1:,}); save it as UTF-8 (spreadsheets call it CSV UTF-8)"
        ) from error
    return content


def text_lines(content: bytes) -> io.TextIOWrapper:
    """The lines of UTF-8."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")


def read_csv(path: Path, separator: str = ",") -> pl.DataFrame:
    """A file of text whose header says what separates its cells."""
    content = utf8_content(path)
    if b"\n" not in content:  # as Macintosh computers once ended lines
        content = content.replace(b"\r", b"\n")
    head: list[str] = []
    for line in text_lines(content):
        if line.strip():
            head.append(line)
        if len(head) == HEAD_LINES:
            break
    if not head:
        raise InputError(f"{path}: is empty")
    separator = _separator_of(head[0], separator, path)
    size = path.stat().st_size
    if len(content) > size:  # it was compressed
        check_cells(content.count(separator.encode()) + content.count(b"\n"), size, path)
    rows = [_cells(line, separator) for line in head]
    _refuse_title(rows, path)
    has_comma = separator != "," and _has_decimal_comma(rows)
    options: dict[str, Any] = {"separator": separator, "decimal_comma": has_comma, "infer_schema_length": None}
    if len(rows) > 1 and len(rows[1]) == len(rows[0]) + 1:  # R leaves out the name of the column of row names
        options |= {"has_header": False, "skip_rows": 1, "new_columns": ["", *rows[0]]}
    try:
        frame = pl.read_csv(content, **options)
    except pl.exceptions.ComputeError:
        _refuse_long_line(content, path, separator, len(rows[0]))
        raise
    if frame.height and frame[-1, -1] is None:
        _refuse_short_last_line(content, path, separator, frame.width)
    return _without_thousands(frame) if has_comma else frame


def column_names(file: SourceFile) -> frozenset[str]:
    """The columns of a table, by its first bytes or its footer; empty for what is none."""
    ending = file.path.suffix.lower()
    if ending == ".parquet":
        return file.columns
    if ending in (".jsonl", ".ndjson"):
        return frozenset() if file.is_list else file.keys
    if ending in (".csv", ".tsv"):
        rows = first_rows(file.path, 1)
        return frozenset(rows[0]) if rows else frozenset()
    return frozenset()


def first_rows(path: Path, most: int) -> list[list[str]]:
    """The header and the first rows of a file of text; none if it cannot be read as one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline(LONGEST_LINE)
            if not header.strip() or "\0" in header:
                return []
            separator = _separator_of(header, "\t" if path.suffix.lower() == ".tsv" else ",", path)
            lines = itertools.chain([header], iter(lambda: file.readline(LONGEST_LINE), ""))
            reader = csv.reader((line for line in lines if line.strip()), delimiter=separator)
            return list(itertools.islice(reader, most))
    except (OSError, UnicodeDecodeError, csv.Error, InputError):
        return []


def read_tsv(path: Path) -> pl.DataFrame:
    """A file whose cells are separated by tabs, unless its header says otherwise."""
    return read_csv(path, separator="\t")


def _separator_of(header: str, usual: str, path: Path) -> str:
    """What separates cells: the header says it, since commas of numbers are in the rows below it."""
    counts = {sign: len(_cells(header, sign)) for sign in (usual, *SEPARATORS)}
    separator = max(counts, key=lambda sign: counts[sign])
    if counts[separator] > MOST_COLUMNS:
        raise InputError(f"{path}: has {counts[separator]:,} columns; at most {MOST_COLUMNS:,} are read")
    return separator


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line; a cell that is longer than Python reads is one."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return [line]


def _refuse_title(rows: list[list[str]], path: Path) -> None:
    """Refuse a first line with one cell above rows of several: it would be taken for the names of columns."""
    if len(rows) < 2:
        return
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[:2]]
    if filled[0] == 1 and filled[1] > 2:
        raise InputError(f"{path}, line 1: is a title, not the names of columns; delete it")


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    """Whether numbers are written like 0,84. Then 1.000 is a thousand, and there is no 0.84."""
    cells = [cell.strip() for row in rows[1:] for cell in row]
    if not any(re.fullmatch(r"-?\d+,\d+%?", cell) for cell in cells):
        return False
    points = [cell for cell in cells if re.fullmatch(r"-?\d+\.\d+%?", cell)]
    return all(re.fullmatch(THOUSANDS, cell) for cell in points)


def _without_thousands(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of numbers like 1.234,5, which polars takes for text where the comma is the decimal sign."""
    for name, dtype in frame.schema.items():
        if dtype != pl.String:
            continue
        cells = frame[name].str.strip_chars()
        if cells.drop_nulls().str.contains(EUROPEAN).all():
            plain = cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            frame = frame.with_columns(plain.cast(pl.Float64))
    return frame


def _refuse_long_line(content: bytes, path: Path, separator: str, width: int) -> None:
    """Name the first line that has more fields than the header."""
    reader = csv.reader(text_lines(content), delimiter=separator)
    with suppress(csv.Error):
        for row in reader:
            if len(row) > width:
                raise InputError(
                    f"{path}, line {reader.line_num}: has {len(row)} fields, and the header {width}; remove the "
                    "surplus, or put text that holds the separator in double quotes"
                )


def _refuse_short_last_line(content: bytes, path: Path, separator: str, width: int) -> None:
    """A last line with too few fields means that the file was cut off while it was written."""
    last: list[str] = []
    number = 0
    reader = csv.reader(text_lines(content), delimiter=separator)
    with suppress(csv.Error):  # a cell that is longer than Python reads
        for row in reader:
            if row:
                last, number = row, reader.line_num
    if 0 < len(last) < width:
        raise InputError(f"{path}, line {number}: has {len(last)} of {width} fields; the file seems to be truncated")


#: The key under which writers store their own types, and one of the same length that nobody reads.
_CATEGORIES, _IGNORED = b"ARROW:schema", b"ARROW:unread"


def read_parquet(path: Path) -> pl.DataFrame:
    """A Parquet file, whose footer says how many values it holds."""
    size = path.stat().st_size
    content = path.read_bytes() if size <= SMALL else b""
    scan = pl.scan_parquet(io.BytesIO(content) if content else path, glob=False)
    schema = scan.collect_schema()
    cells = scan.select(pl.len()).collect().item() * len(schema)
    if any(dtype.is_nested() for dtype in schema.dtypes()):  # a single row may hold a list of any length
        with path.open("rb") as file:
            cells = max(cells, declared_values(file, path))
    check_cells(cells, size, path)
    if not content:
        return pl.read_parquet(path, glob=False)
    # Categories are read as text, which shares what is repeated; to number them, polars would read every repetition.
    footer = size - 8 - int.from_bytes(content[-8:-4], "little")
    frame = pl.read_parquet(io.BytesIO(content[:footer] + content[footer:].replace(_CATEGORIES, _IGNORED)))
    check_text(frame, path)
    return frame


def read_ndjson(path: Path) -> pl.DataFrame:
    """A JSON object per line."""
    content = utf8_content(path)
    check_nesting(content, path)
    check_keys(content, content.count(b"\n") + 1, path)
    return pl.read_ndjson(content, infer_schema_length=None)


def read_json(path: Path) -> pl.DataFrame:
    """Rows as objects, columns as lists, what pandas writes, or the ``log_history`` of a Hugging Face trainer."""
    text = utf8_content(path)
    check_nesting(text, path)
    content = json.loads(text)
    if isinstance(content, dict):
        content = content.get("log_history", content)
    if isinstance(content, dict):
        content = _pandas_columns(content)
    if _are_objects(content):
        keys = {key for row in content for key in row}
        check_cells(len(content) * len(keys), len(text), path)
    elif not _are_columns(content):
        raise InputError(
            f"{path}: is not a table (a list of objects, or an object of columns); `breadth import` reads the logs of "
            "other tools"
        )
    return pl.DataFrame(content, infer_schema_length=None, strict=False)


def _pandas_columns(content: dict[str, Any]) -> Any:
    """What pandas writes with orient="split", as rows, or with orient="columns", as columns; anything else as it is."""
    if {"columns", "data"} <= content.keys():
        names, rows = content["columns"], content["data"]
        if not isinstance(names, list) or not isinstance(rows, list):
            return []
        return [dict(zip(map(str, names), row, strict=False)) for row in rows if isinstance(row, list)]
    if all(isinstance(column, dict) for column in content.values()):
        return {name: list(column.values()) for name, column in content.items()}
    return content


def _are_objects(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(isinstance(row, dict) for row in content)


def _are_columns(content: Any) -> bool:
    """Whether JSON is an object of lists of one length."""
    if not isinstance(content, dict) or not all(isinstance(column, list) for column in content.values()):
        return False
    return len({len(column) for column in content.values()}) == 1


def read_markdown(path: Path) -> pl.DataFrame:
    """The table of a Markdown file; of several with one header, as lm-evaluation-harness prints them, all rows.

    The line above such a table names the model. Its table of groups repeats what the tasks say and is left out.
    """
    tables = _markdown_tables([line.strip() for line in text_lines(utf8_content(path))])
    tables = [(names, rows) for names, rows in tables if names[0] != "Groups" and rows]
    if not tables:
        raise InputError(f"{path}: holds no tables; keep one")
    if any(names != tables[0][0] for names, _ in tables):
        raise InputError(f"{path}: holds {len(tables)} tables that differ; keep one")
    frame = pl.DataFrame([row for _, rows in tables for row in rows], infer_schema_length=None)
    for name in frame.columns:
        numbers = frame[name].cast(pl.Float64, strict=False)
        if numbers.null_count() == frame[name].null_count():
            frame = frame.with_columns(numbers)
    return frame


def _markdown_tables(lines: list[str]) -> list[tuple[list[str], list[dict[str, str | None]]]]:
    """The names and rows of every table, each row with the model that is named above it."""
    tables: list[tuple[list[str], list[dict[str, str | None]]]] = []
    model: dict[str, str | None] = {}
    for number, line in enumerate(lines):
        match = re.search(r"\bpretrained=([^,)]+)", line)
        if match:
            model = {"model": match[1]}
        if "|" not in line:
            continue
        cells = [cell.rstrip() for cell in re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))]
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if "--" in below and not below.strip("|:- \t"):
            tables.append((_header_names(cells), []))
        elif tables and "|" in lines[number - 1] and not re.fullmatch(r"[|:\s-]+", line):
            names, rows = tables[-1]
            row = dict(model)
            for name, cell in zip(names, cells, strict=False):
                # Indented names are parts of the group above them.
                row[name] = (cell if cell.lstrip().startswith("- ") else cell.strip()) or None
            rows.append(row)
    return tables


def _header_names(cells: list[str]) -> list[str]:
    """Names of columns; headers of arrows and plus-minus signs are empty, and get a blank name each."""
    names: list[str] = []
    for cell in cells:
        name = cell.strip()
        names.append(name if name and name not in names else " " * (len(names) + 1))
    return names


def read_npz(path: Path) -> pl.DataFrame:
    """An NPZ matrix as a table: wide, a column per test set; or long where its columns are items of test sets.

    Further arrays as long as the rows become columns of the table. If there is an array ``testset`` as long as the
    columns, the columns are items and there is a row per answer (``run, testset, item, correct``). In integer matrices
    -1 means missing; in real ones NaN does.
    """
    return matrix_as_table(read_matrix_file(path))


def matrix_as_table(matrix: NamedMatrix) -> pl.DataFrame:
    """A matrix as a table, as :func:`read_npz` describes it."""
    rows, columns = matrix.values.shape
    values = matrix.values.astype(np.float64)
    if matrix.values.dtype.kind == "i":
        values[matrix.values == MISSING] = np.nan
    names = matrix.column_names or [str(column) for column in range(columns)]
    keys: dict[str, Any] = {"run": matrix.row_names or [str(row) for row in range(rows)]}
    testsets = matrix.of_columns("testset")
    for name, array in matrix.others.items():
        if len(array) == rows and name != "testset":
            keys[name] = array.tolist()
    if testsets is not None and len(testsets) == columns:
        row, column = np.nonzero(~np.isnan(values))
        long = {name: pl.Series(name, cells).gather(row) for name, cells in keys.items()}
        long |= {"testset": pl.Series(testsets).gather(column), "item": pl.Series(names).gather(column)}
        return pl.DataFrame({**long, "correct": values[row, column]})
    if len({*names, *keys}) < len(names) + len(keys):
        raise InputError(f"{matrix.name}: names of columns are not unique; give every column its own")
    return pl.DataFrame({**keys, **dict(zip(names, values.T, strict=True))}).fill_nan(None)


#: Formats by the ending of a file.
READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".jsonl": read_ndjson,
    ".ndjson": read_ndjson,
    ".json": read_json,
    ".md": read_markdown,
    ".npz": read_npz,
}
