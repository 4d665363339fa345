"""The one way out for tables: files of every kind, whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import Any

import polars as pl

from breadth.boundary import writing
from breadth.errors import InputError, listed
from breadth.records import Folder, atomic_write

#: Text that a spreadsheet runs as a formula.
FORMULA = r"^\s*[=+\-@]|^[\t\r\n]"


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


def write_table_in(folder: Folder, name: str, frame: pl.DataFrame) -> None:
    """Write ``frame`` whole or not at all into a directory that is held open; the ending of ``name`` is the format."""
    writer = _WRITERS[PurePath(name).suffix]
    with writing(folder.path / name):
        folder.write_by_path(name, lambda temporary: writer(frame, temporary))


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
