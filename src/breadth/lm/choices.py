"""Scoring by choice: which of an item's options the model finds most likely after the prompt (acc, acc_norm)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.datasets.tasks import Choice
from breadth.errors import InputError
from breadth.lm.prompts import encode_text, option_texts
from breadth.lm.queries import Continuations, continuations


def choice_query(tokenizer: Any, task: Choice, items: pl.DataFrame, prompts: list[list[int]]) -> Continuations:
    """One continuation per option of every item, item by item."""
    repeated, endings = [], []
    for prompt, row in zip(prompts, items.iter_rows(named=True), strict=True):
        texts = option_texts(task, row)
        if len(texts) < 2 or row["label"] not in row["option_labels"]:
            raise InputError(
                f"item {row['item']!r}: {len(texts)} options with labels {row['option_labels']}, the right one being "
                f"{row['label']!r}; a choice has at least two options, one of them right"
            )
        repeated += [prompt] * len(texts)
        endings += [encode_text(tokenizer, f" {text}") for text in texts]
    return continuations(repeated, endings)


def choice_results(task: Choice, items: pl.DataFrame, scores: npt.NDArray[np.float64]) -> pl.DataFrame:
    """Right or wrong, margin and answer of every item from the log-likelihoods of all options.

    With ``normalise`` a log-likelihood is divided by the characters of the option, as acc_norm does. The margin is
    the log-odds of the right option among the options, on the scale that decides.
    """
    correct, margin, answer = [], [], []
    start = 0
    for row in items.iter_rows(named=True):
        texts = option_texts(task, row)
        own = scores[start : start + len(texts)]
        start += len(texts)
        if task.normalise:
            own = own / np.array([len(text) for text in texts])
        right = row["option_labels"].index(row["label"])
        others = np.delete(own, right)
        correct.append(float(own[right] > others.max()))
        margin.append(float(own[right] - special.logsumexp(others)))
        answer.append(row["option_labels"][int(own.argmax())])
    return pl.DataFrame(
        {"correct": correct, "margin": margin, "answer": answer},
        schema={"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String},
    )
