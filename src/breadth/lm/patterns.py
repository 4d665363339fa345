"""Scoring by pattern: the log-odds of the right answer among the answers, from the language model's own head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.datasets.tasks import Pattern
from breadth.errors import InputError, listed
from breadth.lm.prompts import encode_endings
from breadth.lm.queries import LastToken, Query, continuations

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The answers of a pattern as tokens; ``whole`` if they must be read whole, because one has several tokens."""

    labels: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether some answer has more than one token."""
        return any(len(tokens) > 1 for tokens in self.tokens)


def encode_answers(tokenizer: Any, task: Pattern) -> Answers:
    """Encode a pattern's answers; a shared first token is noted.

    Two answers with the same tokens are refused. One that another begins with is noted: read whole, it is never the
    less likely one.
    """
    tokens = tuple(tuple(ids) for ids in encode_endings(tokenizer, [words for _, words in task.answers]))
    empty = [label for label, ids in zip(task.labels, tokens, strict=True) if not ids]
    if empty:
        raise InputError(f"the answer for {listed(empty)} is empty; give every label words")
    if len(set(tokens)) < len(tokens):
        raise InputError(f"two answers are the same to the model: {listed(repr(words) for _, words in task.answers)}")
    notes = []
    if len({ids[0] for ids in tokens}) < len(tokens):
        words = listed(repr(words) for _, words in task.answers)
        notes.append(f"answers {words} begin with the same token, so the whole answers are scored")
    for (_, short), begin in zip(task.answers, tokens, strict=True):
        for (_, long), ids in zip(task.answers, tokens, strict=True):
            if begin != ids and ids[: len(begin)] == begin:
                notes.append(
                    f"answer {long!r} begins with answer {short!r}, which is therefore never the less likely one"
                )
    return Answers(task.labels, tokens, tuple(notes))


def pattern_query(answers: Answers, prompts: list[list[int]]) -> Query:
    """Ask for every answer after every prompt: at one position, or as whole continuations item by item."""
    if not answers.whole:
        return LastToken(prompts, [ids[0] for ids in answers.tokens])
    repeated = [prompt for prompt in prompts for _ in answers.tokens]
    return continuations(repeated, [list(ids) for _ in prompts for ids in answers.tokens])


def pattern_results(answers: Answers, scores: Floats, labels: list[str]) -> pl.DataFrame:
    """Right or wrong, margin and answer of every item from the scores of its answers [items, answers].

    The margin is the log-odds of the right answer among the answers: s_right - log sum of exp over the others. Equal
    scores count as wrong, so a model that cannot tell gets no credit.
    """
    table = scores.reshape(len(labels), len(answers.labels))
    right = np.array([answers.labels.index(label) for label in labels], dtype=np.intp)
    rows = np.arange(len(labels))
    others = table.copy()
    others[rows, right] = -np.inf
    margin = table[rows, right] - special.logsumexp(others, axis=1)
    best = table.argmax(axis=1)
    return pl.DataFrame(
        {
            "correct": (table[rows, right] > others.max(axis=1)).astype(np.float32),
            "margin": margin.astype(np.float32),
            "answer": [answers.labels[k] for k in best],
        }
    )
