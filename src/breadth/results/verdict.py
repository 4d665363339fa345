"""The answer of an analysis before its details: one line, the strongest findings, and what more would be needed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """What an analysis answers to its question."""

    YES = "Yes"
    NO = "No"
    DEPENDS = "It depends"
    UNKNOWN = "Not enough data"


@dataclass(frozen=True)
class Verdict:
    """The answer to an analysis's question.

    ``reason`` is the rest of the first line. ``findings`` names the strongest results that remain after controlling
    the false discovery rate; ``needed`` says how much more data would decide the question. Either may be empty.
    """

    answer: Answer
    reason: str
    findings: str = ""
    needed: str = ""

    def lines(self) -> tuple[str, ...]:
        """The first line, the findings, and what is needed, as far as there are any."""
        return tuple(line for line in (f"{self.answer.value}: {self.reason}", self.findings, self.needed) if line)

    def __str__(self) -> str:  # noqa: D105
        return " ".join(self.lines())
