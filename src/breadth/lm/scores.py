"""From a model's outputs to correct, margin and answer, and whether an extracted answer is the right one. No torch.

A model on this machine and one behind an endpoint are scored by the same functions.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets import NEITHER, Choice, Generate, Metric, Pattern, extract_answer
from breadth.errors import InputError

Floats = npt.NDArray[np.float64]

#: What is known about every item after scoring.
SCORES = {"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String}

#: A number with an optional sign, commas between thousands, and decimals.
NUMBER = r"(?:(?<![\d.])[-+])?\$?\d[\d,]*(?:\.\d+)?"

#: Maximum seconds to parse or compare one formula.
MATH_SECONDS = 5


@dataclass(frozen=True)
class Outputs:
    """What a model computed for some sequences of a test set, or the texts that it wrote for some items."""

    index: list[int]
    values: Any


def pattern_scores(task: Pattern, items: pl.DataFrame, scores: Floats) -> pl.DataFrame:
    """Correct, margin and answer from the scores [items, answers] of all answers.

    The margin is the log-odds of the correct answer: its score minus the log-sum-exp of the others. Equal scores count
    as wrong, so that a model that cannot tell gets no credit.
    """
    from scipy import special

    rows = np.arange(items.height)
    correct = np.array([task.labels.index(label) for label in items["label"]], dtype=np.intp)
    others = scores.copy()
    others[rows, correct] = -np.inf
    margin = scores[rows, correct] - special.logsumexp(others, axis=1)
    return pl.DataFrame(
        {
            "correct": (scores[rows, correct] > others.max(axis=1)).astype(np.float32),
            "margin": margin.astype(np.float32),
            "answer": [task.labels[k] for k in scores.argmax(axis=1)],
        }
    )


def vocabulary_scores(
    task: Pattern, items: pl.DataFrame, scores: Floats, begins: npt.NDArray[np.bool_]
) -> pl.DataFrame:
    """Correct, margin and answer where the model may answer with any token of its vocabulary.

    ``begins`` [items, answers] says which answers begin with the most likely token. The answer is the best of these, by
    its score; if there is none, it is ``neither`` and wrong. The margin is that among the answers (`pattern_scores`).
    """
    among = pattern_scores(task, items, scores)
    rows = np.arange(items.height)
    possible = np.where(begins, scores, -np.inf)
    best = possible.argmax(axis=1)
    answers = []
    for row, label in enumerate(best):
        # Where no answer begins with the token, the best one is just the first.
        answers.append(task.labels[label] if begins[row, label] else NEITHER)
    right = np.array([task.labels.index(label) for label in items["label"]], dtype=np.intp)
    others = possible.copy()
    others[rows, right] = -np.inf
    # Equal scores count as wrong here, too.
    correct = begins[rows, right] & (scores[rows, right] > others.max(axis=1))
    return among.with_columns(correct=pl.Series(correct.astype(np.float32)), answer=pl.Series(answers, dtype=pl.String))


def choice_scores(task: Choice, items: pl.DataFrame, outputs: Floats) -> pl.DataFrame:
    """Correct, margin and answer from the log-likelihoods of all options, item by item.

    With ``normalise`` a log-likelihood is divided by the number of characters of the option, as acc_norm does. The
    margin is the log-odds of the correct option among the options, on the scale that decides.
    """
    from scipy import special

    rows = list(items.iter_rows(named=True))
    texts = [task.option_texts(row) for row in rows]
    lengths = [max(len(text), 1) if task.normalise else 1 for own in texts for text in own]
    parts = np.split(outputs.ravel() / np.array(lengths), np.cumsum([len(own) for own in texts])[:-1])
    answers, correct, margin = [], [], []
    for scores, row in zip(parts, rows, strict=True):
        right = row["option_labels"].index(row["label"])
        others = np.delete(scores, right)
        correct.append(float(scores[right] > others.max()))
        margin.append(float(scores[right] - special.logsumexp(others)))
        answers.append(row["option_labels"][int(scores.argmax())])
    return pl.DataFrame({"correct": correct, "margin": margin, "answer": answers}, schema=SCORES)


def written_scores(task: Generate, items: pl.DataFrame, texts: Sequence[str]) -> pl.DataFrame:
    """Correct for every text that was written; the answer is the whole text, and there is no margin."""
    correct = []
    for text, label in zip(texts, items["label"], strict=True):
        answer = extract_answer(task.extract, text, str(label))
        correct.append(float(same_answer(answer, str(label), task.metric)))
    return pl.DataFrame({"correct": correct, "margin": [None] * len(texts), "answer": list(texts)}, schema=SCORES)


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """A text up to its first stop string.

    >>> cut_at_stop("4 birds\\n\\nProblem: 2", ("\\n\\nProblem:", "####"))
    '4 birds'
    """
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


def same_answer(given: str | None, wanted: str, metric: Metric) -> bool:
    """Whether an extracted answer is correct: compared as text, as words, as a number, or by symbolic equality.

    >>> same_answer("1,200.0", "1200", "number"), same_answer("Yes.", "yes", "exact"), same_answer("(B)", "b", "words")
    (True, True, True)
    """
    if given is None:
        return False
    if metric == "number":
        numbers = [_last_number(text) for text in (given, wanted)]
        return None not in numbers and numbers[0] == numbers[1]
    if metric == "math":
        return _same_formula(given, wanted)
    if metric == "words":
        return _words(given) == _words(wanted)
    return _normalise_text(given) == _normalise_text(wanted)


def _normalise_text(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def _words(text: str) -> str:
    """Text without case and punctuation; a minus in front of a digit is a sign, not punctuation."""
    kept = re.sub(r"-(?!\d)|[^\w\s-]|_", " ", text)
    return " ".join(kept.split()).casefold()


def _last_number(text: str) -> Decimal | None:
    numbers = re.findall(NUMBER, text)
    try:
        return Decimal(re.sub(r"[,$]", "", numbers[-1])) if numbers else None
    except InvalidOperation:
        return None


def _same_formula(given: str, wanted: str) -> bool:
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise InputError("metric math needs math-verify; install with: pip install 'breadth[math]'") from error
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # what cannot be parsed is wrong
    # Its time limits use signals, which only the main thread may set.
    limit = MATH_SECONDS if threading.current_thread() is threading.main_thread() else None
    texts = [text if "$" in text or "\\boxed" in text else f"${text}$" for text in (wanted, given)]
    return bool(verify(*(parse(text, parsing_timeout=limit) for text in texts), timeout_seconds=limit))
