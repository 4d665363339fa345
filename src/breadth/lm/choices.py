"""Scoring by choice: which of an item's options the model finds most likely after the prompt (acc, acc_norm)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.datasets.tasks import Choice
from breadth.errors import InputError, listed
from breadth.lm.prompts import encode_endings, option_texts
from breadth.lm.queries import Continuations, continuations


def encode_options(tokenizer: Any, task: Choice, items: pl.DataFrame) -> list[list[list[int]]]:
    """What is compared for every item, as tokens."""
    for column in ("options", "option_labels"):
        if column not in items.columns:
            raise InputError(f"a choice needs the column {column!r}; columns: {listed(items.columns, 40)}")
    sizes: list[int] = []
    texts: list[str] = []
    for row in items.iter_rows(named=True):
        own = option_texts(task, row)
        if len(own) < 2 or len(row["options"]) != len(row["option_labels"]) or row["label"] not in row["option_labels"]:
            raise InputError(
                f"item {row['item']!r}: {len(own)} options with labels {listed(row['option_labels'])}, the right one "
                f"being {row['label']!r}; a choice has at least two options, one of them right"
            )
        sizes.append(len(own))
        texts += [f" {text}" for text in own]
    encoded = iter(encode_endings(tokenizer, texts))
    return [[next(encoded) for _ in range(size)] for size in sizes]


def choice_query(options: list[list[list[int]]], prompts: list[list[int]]) -> Continuations:
    """One continuation per option of every item, item by item."""
    repeated = [prompt for prompt, own in zip(prompts, options, strict=True) for _ in own]
    return continuations(repeated, [ending for own in options for ending in own])


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
            own = own / np.array([max(len(text), 1) for text in texts])
        right = row["option_labels"].index(row["label"])
        others = np.delete(own, right)
        correct.append(float(own[right] > others.max()))
        margin.append(float(own[right] - special.logsumexp(others)))
        answer.append(row["option_labels"][int(own.argmax())])
    return pl.DataFrame(
        {"correct": correct, "margin": margin, "answer": answer},
        schema={"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String},
    )
