"""What every result can do: answer first, print a short table, show as HTML, export to pandas, Markdown, LaTeX, JSON.

The answer is a :class:`breadth.results.Verdict`; what readers see of a frame is declared by its columns.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from breadth.errors import InputError, did_you_mean, in_words_of_the_caller, listed
from breadth.inference import NORMAL
from breadth.results.columns import Columns, Shown, columns_of
from breadth.results.table_writing import latex_table, markdown_table
from breadth.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


#: Rows that a result prints.
SHOWN_ROWS = 10

#: Shares of the results that are tested from which "almost all" and up to which "almost none" of them are findings.
ALMOST_ALL, ALMOST_NONE = 0.9, 0.1

#: Standard errors that an effect must have to be seen with a probability of 80 % in a two-sided test at 5 %, and how
#: many of them are for the 80 %. What data could not have seen, its absence does not tell.
POWER = NormalDist().inv_cdf(0.8)
SEEN = NORMAL + POWER

#: A gain of accuracy that is worth seeing.
WORTH_SEEING = 0.05


def times_more(error: float, effect: float = WORTH_SEEING) -> float:
    """How many times as much data would see an effect, given its standard error; at most 1 where this is enough."""
    return (SEEN * error / effect) ** 2


def about(number: float) -> str:
    """A number that is not known exactly: two digits, and from 10 on no decimals."""
    digits = 0 if number >= 9.95 else 1
    rounded = round(number, digits - max(0, len(str(int(number))) - 2))
    return f"{rounded:,.{0 if rounded == int(rounded) else digits}f}"


def as_many(times: float, what: str) -> str:
    """So many times as much of something as there is, in words.

    >>> as_many(1.04, "items"), as_many(2.6, "items")
    ('a few more items than there are', 'about 2.6 times as many items')
    """
    if about(times) == "1":
        return f"a few more {what} than there are"
    return f"about {about(times)} times as many {what}"


class Result(ABC):
    """Base of what an analysis returns: a verdict, tidy polars frames with declared columns, warnings, a figure.

    A subclass declares in ``COLUMNS``, by the name of a frame, what readers see of it.
    """

    warnings: tuple[str, ...]

    #: What readers see of every frame, by its name; a frame without an entry is shown as it is.
    COLUMNS: ClassVar[Mapping[str, Columns]] = {}

    @abstractmethod
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every frame by name, the main one first."""

    def verdict(self) -> Verdict | None:
        """The answer to the question that the analysis asks; None where it asks none."""
        return None

    def details(self) -> str:
        """The statistics behind the verdict, for whoever asks: what was assumed, checked and computed."""
        return ""

    def shown(self) -> Sequence[Shown]:
        """The tables that terminal, notebook and page show first; by default the main one."""
        name, frame = next(iter(self.tables().items()))
        return [Shown("", frame, self.columns(name).filled(frame))]

    def columns(self, name: str | None = None) -> Columns:
        """What readers see of a frame; of the main one by default."""
        tables = self.tables()
        chosen = next(iter(tables)) if name is None else name
        return self.COLUMNS.get(chosen) or columns_of(tables[chosen])

    def summary(self, details: bool = True) -> str:
        """The verdict, a line each for the answer, further findings, what to do and what is open; then the details."""
        verdict = self.verdict()
        parts = ["\n".join(verdict.lines()) if verdict else ""]
        if details:
            parts.append(self.details())
        return "\n\n".join(part for part in parts if part)

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

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values: ``verdict``, ``tables``, ``details`` and ``warnings``. What ``--json`` prints."""
        verdict = self.verdict()
        said: dict[str, Any] | None = None
        if verdict is not None:
            said = {
                "question": verdict.question,
                "answer": str(verdict.answer),
                "state": str(verdict.state),
                "reason": verdict.reason,
                "findings": verdict.findings,
                "advice": verdict.advice,
                "needed": verdict.needed,
                "facts": dict(verdict.facts),
            }
        tables = {name: frame.to_dicts() for name, frame in self.tables().items()}
        return {"verdict": said, "tables": tables, "details": self.details(), "warnings": list(self.warnings)}

    def __str__(self) -> str:
        """The verdict, a few warnings, and the first rows: never more than a screen."""
        shown, parts = self.shown()[0], []
        if verdict := self.verdict():
            parts.append("\n".join(filter(None, (verdict.question, *verdict.lines()))))
        if self.warnings:
            more = f" (and {len(self.warnings) - 1} more: see .warnings)" if len(self.warnings) > 1 else ""
            parts.append(f"warning: {in_words_of_the_caller(self.warnings[0])}{more}")
        parts.append(plain_table(shown, SHOWN_ROWS))
        return "\n\n".join(parts)

    __repr__ = __str__

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep a dataclass from printing every frame that it holds."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Result.__str__  # type: ignore[method-assign, assignment]

    def _repr_html_(self) -> str:
        shown, verdict = self.shown()[0], self.verdict()
        lines = []
        if verdict is not None:
            lines.append(f"<p>{escape(verdict.question)}</p>" if verdict.question else "")
            first, *others = map(escape, verdict.lines())
            lines.append(f"<p><strong>{first}</strong></p>")
            lines += [f"<p>{line}</p>" for line in others]
        for warning in map(in_words_of_the_caller, self.warnings):
            lines.append(f"<p><strong>Warning:</strong> {escape(warning)}</p>")
        head = "".join(f'<th title="{escape(column.meaning)}">{escape(column.title)}</th>' for column in shown.columns)
        rows = []
        for cells in shown.columns.rows(shown.frame.head(SHOWN_ROWS)):
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        more = shown.frame.height - SHOWN_ROWS
        rest = f"<p>{more:,} more rows</p>" if more > 0 else ""
        details = "".join(f"<p>{escape(part)}</p>" for part in self.details().split("\n\n") if part)
        folded = f"<details><summary>Statistics</summary>{details}</details>" if details else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"
        return f"{''.join(lines)}{table}{folded}"


def plain_table(shown: Shown, most: int) -> str:
    """A table as text, as wide as a terminal; without colours, so that it can be printed anywhere."""
    from rich.console import Console

    from breadth.results.terminal import WIDTH, ShownTable

    console = Console(width=WIDTH, color_system=None, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(ShownTable(replace(shown, most=min(most, shown.most))))
    # Tables end lines in spaces, which nobody sees and everybody copies.
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")
