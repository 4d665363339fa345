"""Words that a page explains where they stand, and sentences that belong to the terminal and not on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from markupsafe import Markup


class Term(NamedTuple):
    """How a word is found in a sentence, and what it means."""

    pattern: str
    name: str
    meaning: str


TERMS = (
    Term(
        r"95% intervals?",
        "95% interval",
        "The values that these data leave possible: 95 of 100 such intervals hold the true value.",
    ),
    Term(
        r"findings?|discover(?:y|ies)",
        "finding",
        "A result that remains when all results of its kind are judged together: about one finding in twenty is false.",
    ),
    Term(
        r"false discovery rate",
        "false discovery rate",
        "The share of findings that are false, on average; here it is kept at 5%.",
    ),
    Term(
        r"shifted",
        "shifted test set",
        "A test set that differs from what was trained on: in its domain, style or difficulty, or made to mislead.",
    ),
    Term(r"in-domain", "in-domain", "Of the same kind as what the model was trained on."),
    Term(
        r"difficulty levels?|levels? of difficulty|levels?",
        "difficulty level",
        "A group of questions of about the same difficulty; level 0 is the easiest.",
    ),
    Term(
        r"auc|area under the ROC curve",
        "auc",
        "How well a model tells one answer from the other, whichever it leans to: 50% is chance, 100% is best.",
    ),
    Term(r"sensitivity", "sensitivity", "What a model can distinguish, whichever answer it leans to."),
    Term(r"bias", "bias", "How often a model gives one of the two answers, right or wrong."),
    Term(
        r"partial correlations?",
        "partial correlation",
        "Whether two test sets move together beyond what the in-domain score explains: 0 is not at all, 1 is exactly.",
    ),
    Term(r"correlations?", "correlation", "Whether two scores move together: 0 is not at all, 1 is exactly."),
    Term(
        r"difficulty scale|calibration",
        "difficulty scale",
        "One line on which questions are placed by how hard they are, and models by how able they are.",
    ),
    Term(r"reliability", "reliability", "How much of the spread of abilities is real: 1 is all of it, 0 is noise."),
    Term(
        r"control(?:led|ling)? for", "controlling for", "Looking at what is left after another score is accounted for."
    ),
    Term(r"checkpoints?", "checkpoint", "A model as it was saved at one step of its training."),
    Term(r"residuals?", "residual", "What is left of a score after another one has been subtracted from it."),
)

#: Options of the command line, commands, and arguments of Python: a page has neither.
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*|`breadth[^`]*`|\b[a-z_]+=(?=[\s\"'(,.]|$)")
_IN_BRACKETS = re.compile(r"\s*\((?:breadth [a-z][^()]*|--[a-z][^()]*)\)")
_SENTENCE = re.compile(r"(?<=[.;?!])\s+")


def page_words(text: str) -> str:
    """A text without what only somebody at a terminal can use; empty if nothing else is in it."""
    text = _IN_BRACKETS.sub("", text).replace("`", "")
    if not _OPTION.search(text):
        return text
    kept = [sentence for sentence in _SENTENCE.split(text) if not _OPTION.search(sentence)]
    kept_text = " ".join(kept).strip()
    return re.sub(r"[;,:]$", ".", kept_text)


def terminal_words(text: str) -> list[str]:
    """The sentences of a text that name options or commands: how to correct what was read."""
    return [sentence for sentence in _SENTENCE.split(text) if _OPTION.search(sentence)]


class Explainer:
    """Marks the first use of every term in a section, so that pointing at it or tabbing to it says what it means."""

    def __init__(self) -> None:
        self.used: dict[str, str] = {}
        self._said: set[str] = set()

    def start(self) -> str:
        """A new section begins: terms are explained again."""
        self._said.clear()
        return ""

    def __call__(self, text: str) -> Markup:
        """A text as HTML with its terms marked."""
        words = page_words(str(text))
        parts, place = [], 0
        for match in _TERM.finditer(words):
            term = TERMS[int(str(match.lastgroup)[1:])]
            if term.name in self._said:
                continue
            self._said.add(term.name)
            self.used[term.name] = term.meaning
            parts.append(escape(words[place : match.start()]))
            parts.append(
                f'<span class="term" tabindex="0" role="note" aria-label="{escape(match[0])}: {escape(term.meaning)}" '
                f'data-meaning="{escape(term.meaning)}">{escape(match[0])}</span>'
            )
            place = match.end()
        parts.append(escape(words[place:]))
        # Every part was escaped above.
        return Markup("".join(parts))


_TERM = re.compile(
    "|".join(rf"(?P<t{number}>(?<![\w-])(?:{term.pattern})(?![\w-]))" for number, term in enumerate(TERMS)),
    re.IGNORECASE,
)


def corrections(texts: Iterable[str]) -> list[str]:
    """What names options in some texts, every sentence once."""
    found: dict[str, None] = {}
    for text in texts:
        for sentence in terminal_words(text):
            found.setdefault(sentence.strip())
    return list(found)
