"""Tables as text: CSV with any separator, decimal sign and row names, and what is wrong with a line of it."""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError
from breadth.records.untrusted import MOST_COLUMNS, inflated

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
    return _without_thousands(frame) if comma else frame


def _without_thousands(frame: pl.DataFrame) -> pl.DataFrame:
    """Where the comma is the decimal sign, 1.000 is a thousand; a column of such numbers comes as text or as ones."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    whole = [name for name in texts if frame[name].drop_nulls().str.strip_chars().str.contains(EUROPEAN).all()]
    number = pl.col(whole).str.strip_chars().str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return frame.with_columns(number.cast(pl.Float64)) if whole else frame


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


def read_tsv(path: Path) -> pl.DataFrame:
    """A file whose cells are separated by tabs, unless its header says otherwise."""
    return read_csv(path, separator="\t")


def text_lines(content: bytes) -> io.TextIOWrapper:
    """The lines of UTF-8, without the mark that some programs put in front."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def _refuse_short_last_line(content: bytes, path: Path, separator: str, width: int) -> None:
    """A last line with too few fields means that the file was cut off while it was written."""
    last: list[str] = []
    number = 0
    with suppress(csv.Error):  # a cell that is longer than Python reads
        for row in csv.reader(text_lines(content), delimiter=separator):
            if row:
                last, number = row, number + 1
    if 0 < len(last) < width:
        raise InputError(f"{path}, line {number}: has {len(last)} of {width} fields; the file seems to be truncated")
