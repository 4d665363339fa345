"""People's ideas of difficulty (length, steps, grade, ...) against difficulty as models show it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from breadth.difficulty.levels import Floats
from breadth.stats.intervals import independent_interval

QUESTIONS = ("question", "problem", "prompt", "text", "premise", "input")
ANSWERS = ("answer", "solution", "target", "output")

WORD = re.compile(r"[^\W\d_]+")
SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")


class RankCorrelation(NamedTuple):
    """Spearman's rho between a measure and difficulty, with its 95 % interval; NaN where it cannot be said."""

    n: int
    rho: float
    low: float
    high: float
    p: float


def text_measures(items: pl.DataFrame) -> pl.DataFrame:
    """Measure the text of items: a column per measure that the columns of ``items`` allow.

    question_length, answer_length
        characters
    sentences, digits
        of the question
    rare_words
        mean over the question's words of -log of the share of items that use the word: how unusual its vocabulary is
        among these items
    steps
        calculations marked ``<<...>>`` in the answer, as GSM8K has them; lines of the answer where there are none
    """
    columns: dict[str, pl.Series] = {}
    question = next((items[name] for name in QUESTIONS if name in items.columns), None)
    answer = next((items[name] for name in ANSWERS if name in items.columns and items[name].dtype == pl.String), None)
    if question is not None and question.dtype == pl.String:
        columns["question_length"] = question.str.len_chars()
        texts = question.to_list()
        columns["sentences"] = pl.Series(
            [_or_none(text, lambda t: len(SENTENCE_END.findall(t)) or 1) for text in texts]
        )
        columns["digits"] = question.str.count_matches(r"\d")
        columns["rare_words"] = pl.Series(_rarity(texts))
    if answer is not None:
        columns["answer_length"] = answer.str.len_chars()
        marked = answer.str.count_matches("<<", literal=True)
        lines = answer.str.strip_chars().str.count_matches("\n", literal=True) + 1
        columns["steps"] = marked if int(marked.sum() or 0) else lines
    return pl.DataFrame({name: series.cast(pl.Float64) for name, series in columns.items()})


def rank_correlation(measure: Floats, difficulty: Floats) -> RankCorrelation:
    """Spearman's rho of a measure with difficulty over the items that have both.

    Interval on Fisher's z scale with variance (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000), p from t with n - 2
    degrees of freedom. Takes items as independent. Error in difficulty pulls rho towards 0; with hundreds of subjects
    that is little.
    """
    both = np.isfinite(measure) & np.isfinite(difficulty)
    n = int(both.sum())
    if n < 5 or np.ptp(measure[both]) == 0 or np.ptp(difficulty[both]) == 0:
        return RankCorrelation(n, *(float("nan"),) * 4)
    from scipy.stats import spearmanr  # takes half a second to load

    rho = np.array([float(spearmanr(measure[both], difficulty[both]).statistic)])
    found = independent_interval(rho, np.array([float(n)]), np.zeros(1), rank=True)
    return RankCorrelation(n, float(rho[0]), float(found.low[0]), float(found.high[0]), float(found.p[0]))


def _or_none(text: str | None, measure: object) -> float | None:
    return None if text is None else float(measure(text))  # type: ignore[operator]


def _rarity(texts: Sequence[str | None]) -> list[float | None]:
    words = [set(WORD.findall(text.lower())) if text else set() for text in texts]
    uses = Counter(word for some in words for word in some)
    total = max(len(texts), 1)
    return [float(np.mean([-np.log(uses[word] / total) for word in some])) if some else None for some in words]
