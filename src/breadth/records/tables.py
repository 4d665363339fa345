"""The one way in, and the one way out, for tables: files and frames of every kind breadth knows."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.csv_files import read_csv, read_tsv, text_lines
from breadth.records.files import atomic_write
from breadth.records.markup import latex_table, markdown_table
from breadth.records.matrices import read_npz
from breadth.records.untrusted import (
    SMALL,
    check_cells,
    check_columns,
    check_keys,
    check_nesting,
    check_text,
    inflated,
    reading,
    regular_file,
)

#: How a cell may say that nothing was measured.
BLANKS = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "–", "—")

#: How a cell may say right or wrong, by the words that go together; the third kind is that of Inspect.
TRUTH = (
    {"true": 1.0, "false": 0.0},
    {"t": 1.0, "f": 0.0},
    {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0},
    {"y": 1.0, "n": 0.0},
    {"yes": 1.0, "no": 0.0},
    {"correct": 1.0, "incorrect": 0.0, "wrong": 0.0},
    {"right": 1.0, "wrong": 0.0},
    {"pass": 1.0, "fail": 0.0},
    {"passed": 1.0, "failed": 0.0},
    {"resolved": 1.0, "unresolved": 0.0},
)

#: A number in text: perhaps bold, as a percentage, with its error or interval, or with a mark of a footnote.
NUMBER = (
    r"^\*{0,2}([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*%?\*{0,2}"
    r"(?:\s*(?:±|\+/-|\(|\[)[\d., ±+/%-]*[)\]]?)?[*†‡§]*$"
)

#: Text that a spreadsheet runs as a formula.
FORMULA = r"^\s*[=+\-@]|^[\t\r\n]"


@dataclass(frozen=True)
class Table:
    """A frame and where it came from, so that a message can name file, row and column."""

    frame: pl.DataFrame
    name: str
    header_lines: int = 0
    warnings: tuple[str, ...] = ()

    def place(self, row: int, column: str) -> str:
        """Name a cell as the user can find it; ``row`` counts from 0."""
        line = f" (line {row + 1 + self.header_lines})" if self.header_lines else ""
        return f"{self.name}, row {row + 1}{line}, column {column!r}"

    def numbers(self, column: str) -> pl.Series:
        """Return a column as floats: blank markers are null, and anything else that is text is an error."""
        values = self.frame[column]
        wrong: dict[str, pl.Series] = {}
        if values.dtype == pl.Boolean or values.dtype.is_numeric() or values.dtype == pl.Null:
            numbers = values.cast(pl.Float64)
        elif values.dtype == pl.String:
            numbers, text = numbers_in(values)
            wrong["is not a number. Leave the cell empty where nothing was measured"] = text
        else:
            raise InputError(f"{self.name}, column {column!r}: holds {values.dtype}, not numbers")
        numbers = numbers.fill_nan(None)
        wrong["is not a finite number"] = numbers.is_infinite().fill_null(False)
        for complaint, cells in wrong.items():
            if cells.any():
                row, others = int(cells.arg_max() or 0), int(cells.sum()) - 1
                more = f" ({others} more such cells in this column)" if others else ""
                raise InputError(f"{self.place(row, column)}: {values[row]!r} {complaint}{more}")
        return numbers


def numbers_in(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The numbers in a column of text, and which cells hold something else; words for right and wrong are 1 and 0."""
    cells = values.str.strip_chars()
    numbers = cells.cast(pl.Float64, strict=False)
    lowered = cells.str.to_lowercase()
    text = numbers.is_null() & values.is_not_null() & ~lowered.is_in(BLANKS)
    if text.any():
        words = set(lowered.filter(text).unique().head(9))
        if truth := next((one for one in TRUTH if words <= one.keys()), None):
            if not numbers.is_not_null().any():
                return lowered.replace_strict(truth, default=None, return_dtype=pl.Float64), text & False
        else:
            # 0,84 has a decimal comma, 12,345 one of thousands, unless all are like 84,321: then they are percentages.
            commas = cells.filter(text)
            thousands = commas.str.contains(r"^[1-9]\d{0,2}(,\d{3})+$").all() and not _are_percentages(commas)
            cells = cells.str.replace_all(",", "") if thousands else cells.str.replace(r"^([-+]?\d+),(\d+)", "$1.$2")
            marked = cells.str.extract(NUMBER).cast(pl.Float64, strict=False)
            numbers, text = numbers.zip_with(~text, marked), text & marked.is_null()
    return numbers, text


def _are_percentages(cells: pl.Series) -> bool:
    """Whether numbers with a comma before three digits are percentages: most have two digits before and none is round.

    Counts of this size (steps, tokens) are mostly round.
    """
    usual = cells.str.contains(r"^\d{2},\d{3}$").mean() or 0.0
    return bool(cells.str.contains(r"^\d{1,2},\d{3}$").all() and usual > 0.5 and not cells.str.contains("00$").any())  # type: ignore[operator]


def read_table(source: Any) -> Table:
    """Read a table from a path (CSV, TSV, Parquet, JSON, JSON lines, NPZ, Markdown), or take a frame."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
        reader = _READERS.get(kind.lower())
        try:
            folder = stat.S_ISDIR(path.stat().st_mode)
        except PermissionError as error:  # a directory above it may not be entered
            raise InputError(f"{path}: not allowed to be read") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: no such file") from error
        if folder:
            raise InputError(
                f"{path}: is a directory, but not one that `breadth run` made (it has no runs/ and items/); name a "
                f"table file ({listed(_READERS)})"
            )
        if reader is None:
            raise InputError(f"{path}: cannot tell the format from {kind!r}; breadth reads {listed(_READERS)}")
        if not regular_file(path):
            raise InputError(f"{path}: is empty")
        with reading(path, kind[1:].upper()):
            table = Table(reader(path), str(path), header_lines=1 if reader in (read_csv, read_tsv) else 0)
    elif isinstance(source, pl.DataFrame):
        table = Table(source, "table")
    elif type(source).__module__.split(".")[0] == "pandas":
        table = Table(_from_pandas(source), "table")
    else:
        raise InputError(f"a table is a path or a polars or pandas frame, not {type(source).__name__}")
    if not table.frame.height:
        raise InputError(f"{table.name}: has no rows")
    check_columns(table.frame.columns, table.name)
    return table


def write_table(frame: pl.DataFrame, path: str | os.PathLike[str], *, excel_safe: bool = False) -> Path:
    """Write ``frame`` whole or not at all; the ending of ``path`` chooses the format.

    Markdown and LaTeX are for readers: numbers have three decimals there. With ``excel_safe``, text in CSV and TSV that
    a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are, negative ones too.
    """
    target = check_target(path, _WRITERS)
    if excel_safe and target.suffix.lower() in (".csv", ".tsv"):
        text = pl.col(pl.String)
        frame = frame.with_columns(pl.when(text.str.contains(FORMULA)).then("'" + text).otherwise(text).name.keep())
        frame = frame.rename({name: f"'{name}" for name in frame.columns if re.search(FORMULA, name)})
    writer = _WRITERS[target.suffix.lower()]
    atomic_write(target, lambda temporary: writer(frame, temporary))
    return target


def check_target(path: str | os.PathLike[str], endings: Iterable[str] | None = None) -> Path:
    """Refuse a path that could not be written, so that nobody computes for an hour to find out.

    ``endings`` are the formats to choose from; by default those of tables.
    """
    target, known = Path(path), list(_WRITERS if endings is None else endings)
    if target.suffix.lower() not in known:
        raise InputError(f"{target}: cannot tell the format from {target.suffix!r}; use {listed(known)}")
    if not target.parent.is_dir():
        raise InputError(f"{target}: cannot be written, because there is no directory {target.parent}")
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: cannot be written there; choose another place")
    return target


_WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    ".parquet": lambda frame, path: frame.write_parquet(path),
    ".jsonl": lambda frame, path: frame.write_ndjson(path),
    ".json": lambda frame, path: frame.write_json(path),
    ".md": lambda frame, path: path.write_text(markdown_table(frame) + "\n", encoding="utf-8"),
    ".tex": lambda frame, path: path.write_text(latex_table(frame) + "\n", encoding="utf-8"),
}


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
        content = [dict(zip(names, row, strict=False)) for row in _lists(content["data"])] if names else []
    elif isinstance(content, dict) and all(isinstance(column, dict) for column in content.values()):
        content = {name: list(column.values()) for name, column in content.items()}
    rows = isinstance(content, list) and content and all(isinstance(row, dict) for row in content)
    columns = isinstance(content, dict) and all(isinstance(column, list) for column in content.values())
    if not rows and not (columns and len({len(column) for column in content.values()}) == 1):
        raise InputError(
            f"{path}: is not a table (a list of objects, or an object of columns); `breadth import` reads the logs of "
            "other tools"
        )
    if rows:
        check_cells(len(content) * len({key for row in content for key in row}), len(text), path)
    return pl.DataFrame(content, infer_schema_length=None, strict=False)


def _lists(rows: Any) -> list[list[Any]]:
    return [row for row in rows if isinstance(row, list)] if isinstance(rows, list) else []


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


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": _read_parquet,
    ".jsonl": _read_ndjson,
    ".ndjson": _read_ndjson,
    ".json": _read_json,
    ".md": _read_markdown,
    ".npz": read_npz,
}


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Convert column by column, which needs no Arrow library; row labels become columns if they are named."""
    if any(frame.index.names):
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        raise InputError(f"table: {listed(map(str, frame.columns[frame.columns.duplicated()]))} names several columns")
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind in "iufb":
            numbers = values.to_numpy(dtype=float, na_value=float("nan")) if values.hasnans else values.to_numpy()
            columns[str(name)] = pl.Series(str(name), numbers, nan_to_null=True)
        else:
            cells = [None if missing else cell for cell, missing in zip(values, values.isna(), strict=True)]
            columns[str(name)] = pl.Series(str(name), cells, strict=False)
    return pl.DataFrame(columns)
