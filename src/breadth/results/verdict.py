"""The answer to a question, in the order in which a busy reader wants it: the answer, why, what to do, what is open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import polars as pl


class Answer(StrEnum):
    """The word in front of a verdict, where the question can be answered by one."""

    YES = "Yes"
    NO = "No"
    MIXED = "Mixed"
    UNKNOWN = "Not enough data"


class State(StrEnum):
    """How a verdict is coloured and marked: a name or a number is an answer like Yes."""

    YES = "yes"
    NO = "no"
    MIXED = "mixed"
    OPEN = "open"


STATES = {Answer.YES: State.YES, Answer.NO: State.NO, Answer.MIXED: State.MIXED, Answer.UNKNOWN: State.OPEN}

#: The sign of every state, for readers who do not see its colour.
MARKS = {State.YES: "✓", State.NO: "✗", State.MIXED: "◐", State.OPEN: "?"}

#: Numbers in a sentence: with thousands separators, a decimal part, without their sign. Digits inside a name, such as
#: those of ``gemma3-270m``, are not numbers.
NUMBER = re.compile(r"(?<![\w.,-])[+−-]?(\d{1,3}(?:,\d{3})+|\d+)?(\.\d+)?(?![\w-]|\.\d)")


@dataclass(frozen=True)
class Verdict:
    """The answer to the question of an analysis, for somebody who is no statistician.

    ``answer`` is the word in front: yes, no, mixed, not enough data; or a name where the question is "which", a number
    where it is "how many". ``reason`` is the answer as a sentence that names models and test sets and gives one number
    with its interval. ``findings`` are further sentences; ``advice`` says what to do; ``needed`` says, last and in one
    line, what cannot be answered and what would be enough. All but ``answer`` and ``reason`` may be empty.
    ``state`` is how a card shows it: by default that of the word; of a name or number, :attr:`State.YES`.
    ``facts`` are the numbers in these sentences that stand in no table, by name. ``computed`` is False where nothing
    could be computed at all: commands then end with exit code 2.
    """

    answer: str
    reason: str
    findings: str = ""
    needed: str = ""
    computed: bool = True
    question: str = ""
    advice: str = ""
    state: State | None = None
    facts: Mapping[str, float | str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Work out how the answer is shown."""
        if self.state is None:
            known = {str(answer): state for answer, state in STATES.items()}
            object.__setattr__(self, "state", known.get(str(self.answer), State.YES))

    @property
    def headline(self) -> str:
        """The answer in a sentence: a word stands in front of it; a name or a number is part of it."""
        if str(self.answer) in {str(word) for word in Answer}:
            return f"{self.answer}. {self.reason}" if self.reason else f"{self.answer}."
        return self.reason

    def lines(self) -> tuple[str, ...]:
        """The headline, further findings, what to do, and what is open, as far as there are any."""
        every = (self.headline, self.findings, self.advice, self.needed)
        return tuple(line for line in every if line)

    def numbers(self) -> list[str]:
        """Every number in the sentences, as it is written, without its sign."""
        found = []
        for match in NUMBER.finditer(" ".join(self.lines())):
            text = match[0].lstrip("+−-")
            if text:
                found.append(text)
        return found

    def fact_table(self) -> pl.DataFrame:
        """The numbers in these sentences that stand in no other table: ``fact, value``."""
        values = [str(value) for value in self.facts.values()]
        return pl.DataFrame({"fact": list(self.facts), "value": values}, schema={"fact": pl.String, "value": pl.String})

    def __str__(self) -> str:  # noqa: D105
        return " ".join(self.lines())
