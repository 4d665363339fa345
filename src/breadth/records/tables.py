"""The one way in, and the one way out, for tables: files and frames of every kind breadth knows."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.files import atomic_write
from breadth.records.matrices import read_npz

#: How a cell may say that nothing was measured.
BLANKS = ("", "na", "n/a", "nan", "null", "none", "-")


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
            stripped = values.str.strip_chars()
            numbers = stripped.cast(pl.Float64, strict=False)
            text = numbers.is_null() & values.is_not_null() & ~stripped.str.to_lowercase().is_in(BLANKS)
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


def read_table(source: Any) -> Table:
    """Read a table from a path (CSV, TSV, Parquet, JSON lines, NPZ) or take a polars or pandas frame."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, str | os.PathLike):
        table = _read_file(Path(source))
    elif isinstance(source, pl.DataFrame):
        table = Table(source, "table")
    elif type(source).__module__.split(".")[0] == "pandas":
        table = Table(_from_pandas(source), "table")
    else:
        raise InputError(f"a table is a path or a polars or pandas frame, not {type(source).__name__}")
    if not table.frame.height:
        raise InputError(f"{table.name}: has no rows")
    return table


def write_table(frame: pl.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write ``frame`` whole or not at all; the ending of ``path`` chooses the format."""
    target = check_target(path, _WRITERS)
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
}


def _read_file(path: Path) -> Table:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(
            f"{path}: is a directory, but not one that `breadth run` made (it has no runs/ and items/); name a table "
            f"file ({listed(_READERS)})"
        )
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    reader = _READERS.get(kind.lower())
    if reader is None:
        raise InputError(f"{path}: cannot tell the format from {kind!r}; breadth reads {listed(_READERS)}")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: is empty")
        frame = reader(path)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: cannot be read as {kind[1:].upper()}; it is truncated, damaged or in another format ({first})"
        ) from error
    return Table(frame, str(path), header_lines=1 if reader in (_read_csv, _read_tsv) else 0)


def _read_csv(path: Path, separator: str = ",") -> pl.DataFrame:
    frame = pl.read_csv(path, separator=separator, infer_schema_length=None)
    if frame.height and frame[-1, -1] is None:
        _refuse_short_last_line(path, separator, frame.width)
    return frame


def _read_tsv(path: Path) -> pl.DataFrame:
    return _read_csv(path, separator="\t")


def _refuse_short_last_line(path: Path, separator: str, width: int) -> None:
    """A last line with too few fields means that the file was cut off while it was written."""
    last: list[str] = []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        number = 0
        for row in csv.reader(file, delimiter=separator):
            if row:
                last, number = row, number + 1
    if len(last) < width:
        raise InputError(f"{path}, line {number}: has {len(last)} of {width} fields; the file seems to be truncated")


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": pl.read_parquet,
    ".jsonl": lambda path: pl.read_ndjson(path, infer_schema_length=None),
    ".ndjson": lambda path: pl.read_ndjson(path, infer_schema_length=None),
    ".npz": read_npz,
}


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Convert column by column, which needs no Arrow library; row labels become columns if they are named."""
    if any(frame.index.names):
        frame = frame.reset_index()
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
