"""What every result can do: answer first, print a short table, show as HTML, and export to pandas, Markdown, LaTeX.

The answer is a :class:`Verdict`: one line, the strongest findings, and what more would be needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import NORMAL
from breadth.results.table_writing import cell_text, latex_table, markdown_table

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


#: Rows that a result prints.
SHOWN_ROWS = 10


class Answer(StrEnum):
    """What an analysis answers to its question."""

    YES = "Yes"
    NO = "No"
    DEPENDS = "It depends"
    UNKNOWN = "Not enough data"


#: Shares of the results that are tested from which "almost all" and up to which "almost none" of them are findings.
ALMOST_ALL, ALMOST_NONE = 0.9, 0.1

#: Standard errors that an effect must have to be seen with a probability of 80 % in a two-sided test at 5 %, and how
#: many of them are for the 80 %. What data could not have seen, its absence does not tell.
POWER = NormalDist().inv_cdf(0.8)
SEEN = NORMAL + POWER

#: A gain of accuracy that is worth seeing.
WORTH_SEEING = 0.05


@dataclass(frozen=True)
class Verdict:
    """The answer to an analysis's question.

    ``reason`` is the rest of the first line. ``findings`` names the strongest results that remain after controlling
    the false discovery rate; ``needed`` says how much more data would decide the question. Either may be empty.
    ``computed`` is False where nothing could be computed at all: commands then end with exit code 2.
    """

    answer: Answer
    reason: str
    findings: str = ""
    needed: str = ""
    computed: bool = True

    def lines(self) -> tuple[str, ...]:
        """The first line, the findings, and what is needed, as far as there are any."""
        return tuple(line for line in (f"{self.answer.value}: {self.reason}", self.findings, self.needed) if line)

    def __str__(self) -> str:  # noqa: D105
        return " ".join(self.lines())


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
    """Base of what an analysis returns: tidy polars frames, a verdict, details in words, warnings, a figure."""

    warnings: tuple[str, ...]

    @abstractmethod
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Every frame by name, the main one first."""

    def verdict(self) -> Verdict | None:
        """The answer to the question that the analysis asks; None where it asks none."""
        return None

    @abstractmethod
    def details(self) -> str:
        """What lies behind the verdict, in plain language."""

    def summary(self) -> str:
        """The verdict, a line each for the answer, the strongest findings and what is needed; then the details."""
        verdict = self.verdict()
        return "\n\n".join(part for part in ("\n".join(verdict.lines()) if verdict else "", self.details()) if part)

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
        frame, verdict = self.table(), self.verdict()
        shown = markdown_table(frame.head(SHOWN_ROWS))
        more = f"... {frame.height - SHOWN_ROWS:,} more rows" if frame.height > SHOWN_ROWS else ""
        answer = "\n".join(verdict.lines()) if verdict else ""
        warnings = [f"warning: {line}" for line in self.warnings]
        return "\n\n".join(part for part in (answer, *warnings, f"{shown}\n{more}".strip(), self.details()) if part)

    def _repr_html_(self) -> str:
        frame, verdict = self.table(), self.verdict()
        answer, *others = map(escape, verdict.lines()) if verdict else [""]
        lines = "".join(f"<p>{line}</p>" for line in (f"<strong>{answer}</strong>" if answer else "", *others) if line)
        warnings = "".join(f"<p><strong>Warning:</strong> {escape(line)}</p>" for line in self.warnings)
        head = "".join(f"<th>{escape(name)}</th>" for name in frame.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>"
            for row in frame.head(SHOWN_ROWS).iter_rows()
        )
        more = f"<p>{frame.height - SHOWN_ROWS:,} more rows</p>" if frame.height > SHOWN_ROWS else ""
        details = "".join(f"<p>{escape(part)}</p>" for part in self.details().split("\n\n") if part)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
        return f"{lines}{warnings}{table}{details}"
