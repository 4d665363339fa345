"""The one way in, and the one way out, for tables: files and frames of every kind breadth knows."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.files import atomic_write
from breadth.records.formats import READERS, read_csv, read_tsv
from breadth.records.untrusted import check_columns, reading, regular_file

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


def read_table(source: Any, name: str = "table") -> Table:
    """Read a table from a path (CSV, TSV, Parquet, JSON, JSON lines, NPZ, Markdown), or take a frame by this name."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
        reader = READERS.get(kind.lower())
        try:
            folder = stat.S_ISDIR(path.stat().st_mode)
        except PermissionError as error:  # a directory above it may not be entered
            raise InputError(f"{path}: not allowed to be read") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: no such file") from error
        if folder:
            raise InputError(
                f"{path}: is a directory, but not one that `breadth run` made (it has no runs/ and items/); name a "
                f"table file ({listed(READERS)})"
            )
        if reader is None:
            raise InputError(f"{path}: cannot tell the format from {kind!r}; breadth reads {listed(READERS)}")
        if not regular_file(path):
            raise InputError(f"{path}: is empty")
        with reading(path, kind[1:].upper()):
            table = Table(reader(path), str(path), header_lines=1 if reader in (read_csv, read_tsv) else 0)
    elif isinstance(source, pl.DataFrame):
        table = Table(source, name)
    elif type(source).__module__.split(".")[0] == "pandas":
        table = Table(_from_pandas(source, name), name)
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


def _from_pandas(frame: Any, name: str) -> pl.DataFrame:
    """Convert column by column, which needs no Arrow library; row labels become columns if they are named."""
    if any(frame.index.names):
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        repeated = listed(map(str, frame.columns[frame.columns.duplicated()].unique()))
        raise InputError(f"{name}: more than one column is called {repeated}; rename them")
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


def cell_text(value: Any) -> str:
    """A cell for readers: three decimals, or three digits for very small and large numbers; empty for null."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def plain_markdown(text: str) -> str:
    """Text that Markdown, and the HTML made of it, show as it is."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped.replace("\n", " ")


def markdown_table(frame: pl.DataFrame) -> str:
    """A frame as a Markdown table."""
    lines = ["| " + " | ".join(map(plain_markdown, frame.columns)) + " |", "|" + "---|" * frame.width]
    lines += ["| " + " | ".join(plain_markdown(cell_text(cell)) for cell in row) + " |" for row in frame.iter_rows()]
    return "\n".join(lines)


def latex_table(frame: pl.DataFrame) -> str:
    """A frame as a LaTeX tabular; numbers are aligned right."""
    columns = "".join("r" if dtype.is_numeric() else "l" for dtype in frame.dtypes)
    rows = [" & ".join(_latex(cell_text(cell)) for cell in row) + r" \\" for row in frame.iter_rows()]
    head = " & ".join(map(_latex, frame.columns)) + r" \\"
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _latex(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
    special |= {mark: f"\\{mark}" for mark in "&%$#_{}"}
    return "".join(special.get(letter, letter) for letter in text)
