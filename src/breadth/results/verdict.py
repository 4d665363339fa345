"""The answer of an analysis before its details: one line, the strongest findings, and what more would be needed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from breadth.inference import NORMAL


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
