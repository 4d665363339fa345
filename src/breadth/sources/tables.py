"""The one way in for tables: files and frames of every kind breadth knows."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError, listed
from breadth.sources.limits import check_columns, regular_file
from breadth.sources.paths import path_text
from breadth.sources.table_files import READERS, read_csv, read_tsv

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
        if values.dtype == pl.Boolean or values.dtype.is_numeric() or values.dtype == pl.Null:
            numbers = values.cast(pl.Float64)
        elif values.dtype == pl.String:
            numbers, text = numbers_in(values)
            self._refuse_cells(column, text, "is not a number. Leave the cell empty where nothing was measured")
        else:
            raise InputError(f"{self.name}, column {column!r}: holds {values.dtype}, not numbers")
        numbers = numbers.fill_nan(None)
        self._refuse_cells(column, numbers.is_infinite().fill_null(False), "is not a finite number")
        return numbers

    def _refuse_cells(self, column: str, wrong: pl.Series, complaint: str) -> None:
        """Name the first cell of a column with something wrong, and how many more there are."""
        if not wrong.any():
            return
        row = int(wrong.arg_max() or 0)
        others = int(wrong.sum()) - 1
        more = f" ({others} more such cells in this column)" if others else ""
        raise InputError(f"{self.place(row, column)}: {self.frame[column][row]!r} {complaint}{more}")


def numbers_in(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The numbers in a column of text, and which cells hold something else; words for right and wrong are 1 and 0."""
    cells = values.str.strip_chars()
    numbers = cells.cast(pl.Float64, strict=False)
    lowered = cells.str.to_lowercase()
    text = numbers.is_null() & values.is_not_null() & ~lowered.is_in(BLANKS)
    if not text.any():
        return numbers, text
    words = set(lowered.filter(text).unique().head(9))
    truth = next((one for one in TRUTH if words <= one.keys()), None)
    if truth is not None:
        if numbers.is_not_null().any():  # words among numbers are strays
            return numbers, text
        return lowered.replace_strict(truth, default=None, return_dtype=pl.Float64), text & False
    # 0,84 has a decimal comma, 12,345 one of thousands, unless all are like 84,321: then they are percentages.
    commas = cells.filter(text)
    if commas.str.contains(r"^[1-9]\d{0,2}(,\d{3})+$").all() and not _are_percentages(commas):
        cells = cells.str.replace_all(",", "")
    else:
        cells = cells.str.replace(r"^([-+]?\d+),(\d+)", "$1.$2")
    marked = cells.str.extract(NUMBER).cast(pl.Float64, strict=False)
    return numbers.zip_with(~text, marked), text & marked.is_null()


def _are_percentages(cells: pl.Series) -> bool:
    """Whether numbers with a comma before three digits are percentages: most have two digits before and none is round.

    Counts of this size (steps, tokens) are mostly round.
    """
    if not cells.str.contains(r"^\d{1,2},\d{3}$").all() or cells.str.contains("00$").any():
        return False
    return 2 * int(cells.str.contains(r"^\d{2},\d{3}$").sum()) > len(cells)


def read_table(source: Any, name: str = "table") -> Table:
    """Read a table from a path (CSV, TSV, Parquet, JSON, JSON lines, NPZ, Markdown), or take a frame by this name."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, str | os.PathLike):
        table = _read_file(Path(source))
    elif isinstance(source, pl.DataFrame):
        table = Table(source, name)
    elif type(source).__module__.split(".")[0] == "pandas":
        table = Table(_from_pandas(source, name), name)
    else:
        raise InputError(f"a table is a path or a polars or pandas frame, not {type(source).__name__}")
    if not table.frame.height:
        raise InputError(f"{table.name}: has no rows")
    check_columns(table.frame.columns, table.name)
    return replace(table, frame=_with_plain_types(table.frame))


def _read_file(path: Path) -> Table:
    """Read a file by the ending of its name."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except PermissionError as error:  # a directory above it may not be entered
        raise InputError(f"{path}: not allowed to be read") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no such file") from error
    if is_folder:
        raise InputError(
            f"{path}: is a directory, but not one that `breadth run` made (it has no runs/ and items/); name a "
            f"table file ({listed(READERS)})"
        )
    kind = path.suffix
    if kind.lower() == ".gz" and len(path.suffixes) > 1:
        kind = path.suffixes[-2]
    reader = READERS.get(kind.lower())
    if reader is None:
        raise InputError(f"{path}: cannot tell the format from {kind!r}; breadth reads {listed(READERS)}")
    if not regular_file(path):
        raise InputError(f"{path}: is empty")
    with reading(path, kind[1:].upper()):
        frame = reader(path)
    return Table(frame, path_text(path), header_lines=1 if reader in (read_csv, read_tsv) else 0)


def _with_plain_types(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame in which names are text and numbers are numbers, however they were stored."""
    changed = []
    for column, dtype in frame.schema.items():
        if dtype in (pl.Categorical, pl.Enum):
            changed.append(frame[column].cast(pl.String))
        elif dtype == pl.Decimal:
            changed.append(frame[column].cast(pl.Float64))
        elif dtype == pl.Binary:
            # Some writers of Parquet do not say that bytes are text.
            changed.append(_text_of_bytes(frame[column]))
    return frame.with_columns(changed) if changed else frame


def _text_of_bytes(values: pl.Series) -> pl.Series:
    """Bytes as text; those that are no UTF-8 are written as \\xff."""
    with suppress(pl.exceptions.ComputeError):
        return values.cast(pl.String)
    texts = [None if one is None else one.decode(errors="backslashreplace") for one in values.to_list()]
    return pl.Series(values.name, texts, dtype=pl.String)


def _from_pandas(frame: Any, name: str) -> pl.DataFrame:
    """Convert column by column, which needs no Arrow library; row labels become columns if they are named."""
    if any(frame.index.names):
        frame = frame.reset_index()
    names = [str(column) for column in frame.columns]
    repeated = [column for column, times in Counter(names).items() if times > 1]
    if repeated:
        raise InputError(f"{name}: more than one column is called {listed(repeated)}; rename them")
    columns = {}
    for column in frame.columns:
        values = frame[column]
        if values.dtype.kind in "iufb":
            numbers = values.to_numpy(dtype=float, na_value=float("nan")) if values.hasnans else values.to_numpy()
            columns[str(column)] = pl.Series(str(column), numbers, nan_to_null=True)
        else:
            cells = [None if missing else cell for cell, missing in zip(values, values.isna(), strict=True)]
            columns[str(column)] = pl.Series(str(column), cells, strict=False)
    return pl.DataFrame(columns)
