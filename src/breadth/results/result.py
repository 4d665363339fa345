"""What every result can do: print a short table, show as HTML in a notebook, and export to pandas, Markdown, LaTeX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from breadth.errors import InputError, did_you_mean, listed

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

#: Rows that a result prints.
SHOWN_ROWS = 10


class Result(ABC):
    """Base of what an analysis returns: tidy polars frames, a summary in words, warnings, a figure."""

    warnings: tuple[str, ...]

    @abstractmethod
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every frame by name, the main one first."""

    @abstractmethod
    def summary(self) -> str:
        """The answer in plain language."""

    def table(self, name: str | None = None) -> pl.DataFrame:
        """One frame by name; the main one by default."""
        tables = self.tables()
        if name is None:
            return next(iter(tables.values()))
        if name not in tables:
            raise InputError(f"there is no table {name!r}.{did_you_mean([name], tables)} Tables: {listed(tables)}")
        return tables[name]

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """A frame as a pandas frame (needs pandas)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InputError("to_pandas needs pandas; install it with: pip install pandas") from error

        frame = self.table(table)
        return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})

    def to_markdown(self, table: str | None = None) -> str:
        """A frame as a Markdown table."""
        return markdown_table(self.table(table))

    def to_latex(self, table: str | None = None) -> str:
        """A frame as a LaTeX tabular with booktabs rules."""
        return latex_table(self.table(table))

    def __str__(self) -> str:  # noqa: D105
        frame = self.table()
        shown = markdown_table(frame.head(SHOWN_ROWS))
        more = f"... {frame.height - SHOWN_ROWS:,} more rows" if frame.height > SHOWN_ROWS else ""
        warnings = [f"warning: {line}" for line in self.warnings]
        return "\n\n".join(part for part in (*warnings, f"{shown}\n{more}".strip(), self.summary()) if part)

    def _repr_html_(self) -> str:
        frame = self.table()
        warnings = "".join(f"<p><strong>Warning:</strong> {escape(line)}</p>" for line in self.warnings)
        head = "".join(f"<th>{escape(name)}</th>" for name in frame.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>"
            for row in frame.head(SHOWN_ROWS).iter_rows()
        )
        more = f"<p>{frame.height - SHOWN_ROWS:,} more rows</p>" if frame.height > SHOWN_ROWS else ""
        summary = "".join(f"<p>{escape(part)}</p>" for part in self.summary().split("\n\n"))
        return f"{warnings}{summary}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


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
