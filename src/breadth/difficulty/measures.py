"""Human measures of difficulty (length, steps, grade, ...) against difficulty as the answers of models show it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.correlation import independent_interval
from breadth.difficulty.sampling import item_column, with_difficulty
from breadth.errors import unknown_column
from breadth.inference import Floats, benjamini_hochberg
from breadth.irt import Calibration, numbers
from breadth.results.terminal import WIDTH, interval_text, make_table, probability_text, signed_text
from breadth.sources import read_table

QUESTIONS = ("question", "problem", "prompt", "text", "premise", "input")
ANSWERS = ("answer", "solution", "target", "output")

WORD = re.compile(r"[^\W\d_]+")
SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")

#: Fewest items for a rank correlation.
LEAST_ITEMS = 5

#: Short names of measures.
ALIASES = {"length": "question_length"}


class MeasureFlag(StrEnum):
    """Why a measure has no correlation."""

    FEW_ITEMS = "few_items"
    CONSTANT = "constant"


MEASURE_NOTES = {
    MeasureFlag.FEW_ITEMS: f"fewer than {LEAST_ITEMS} items have it",
    MeasureFlag.CONSTANT: "constant over the items",
}


class RankCorrelation(NamedTuple):
    """Spearman's rho between a measure and difficulty, with its 95 % interval; NaN where it cannot be computed."""

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
        calculations marked ``<<...>>`` in the answer, as GSM8K has them; lines of the answer if no answer marks any
    """
    columns: dict[str, pl.Series] = {}
    question = next((items[name] for name in QUESTIONS if name in items.columns), None)
    answer = next((items[name] for name in ANSWERS if name in items.columns and items[name].dtype == pl.String), None)
    if question is not None and question.dtype == pl.String:
        texts = question.to_list()
        sentences = [None if text is None else len(SENTENCE_END.findall(text)) or 1 for text in texts]
        columns["question_length"] = question.str.len_chars()
        columns["sentences"] = pl.Series(sentences, dtype=pl.Float64)
        columns["digits"] = question.str.count_matches(r"\d")
        words = [set(WORD.findall(text.lower())) if text else set() for text in texts]
        uses = Counter(word for some in words for word in some)
        # Sorted, because the rounding of a sum depends on its order, and ranks of equal means on that.
        rare = [[-np.log(uses[word] / len(texts)) for word in sorted(some)] for some in words]
        columns["rare_words"] = pl.Series([float(np.mean(some)) if some else None for some in rare], dtype=pl.Float64)
    if answer is not None:
        columns["answer_length"] = answer.str.len_chars()
        marked = answer.str.count_matches("<<", literal=True)
        lines = answer.str.strip_chars().str.count_matches("\n", literal=True) + 1
        columns["steps"] = marked if int(marked.sum() or 0) else lines
    return pl.DataFrame({name: series.cast(pl.Float64) for name, series in columns.items()})


def rank_correlation(measure: Floats, difficulty: Floats) -> RankCorrelation:
    """Spearman's rho of a measure with difficulty over the items that have both.

    Interval on Fisher's z scale with variance (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000), p from t with n - 2
    degrees of freedom. Assumes independent items. Error in difficulty biases rho towards 0; with hundreds of subjects
    the bias is small.
    """
    both = np.isfinite(measure) & np.isfinite(difficulty)
    n = int(both.sum())
    if n < LEAST_ITEMS or np.ptp(measure[both]) == 0 or np.ptp(difficulty[both]) == 0:
        return RankCorrelation(n, *(float("nan"),) * 4)
    from scipy.stats import spearmanr  # takes half a second to load

    rho = np.array([float(spearmanr(measure[both], difficulty[both]).statistic)])
    interval = independent_interval(rho, np.array([float(n)]), np.zeros(1), rank=True)
    return RankCorrelation(n, float(rho[0]), float(interval.low[0]), float(interval.high[0]), float(interval.p[0]))


def difficulty_vs(
    calibration: str | os.PathLike[str] | Calibration, items: Any, *, measures: str | Sequence[str] | None = None
) -> pl.DataFrame:
    """Do human measures of difficulty agree with the calibrated one? Spearman's rho with a 95 % interval per measure.

    See :func:`breadth.difficulty.rank_correlation` for the interval.

    Parameters
    ----------
    calibration
        Calibrated items.
    items
        Table with a column ``item`` or ``id``, and columns of numbers or text.
    measures
        Columns of numbers, or measures computed from the text (question_length, answer_length, sentences, digits,
        rare_words, steps). By default all that are available.

    Returns
    -------
    A row per measure: ``measure, n, rho, ci_low, ci_high, p, q, flag, note``. Where rho is null, ``flag`` is
    ``few_items`` or ``constant``.

    Examples
    --------
    >>> import breadth, polars as pl
    >>> items = pl.DataFrame({"item": list("abcdef"), "difficulty": range(6), "grade": [1, 2, 2, 3, 5, 4]})
    >>> calibration = breadth.Calibration(items.select("item", "difficulty"), pl.DataFrame(), pl.DataFrame())
    >>> breadth.difficulty_vs(calibration, items)["rho"].round(2).to_list()
    [0.93]
    """
    table = read_table(items)
    difficulty = numbers(with_difficulty(table, calibration), "difficulty")
    computed = text_measures(table.frame)
    taken = (item_column(table), "difficulty")
    own = [name for name, dtype in table.frame.schema.items() if dtype.is_numeric() and name not in taken]
    available = [*own, *(name for name in computed.columns if name not in own)]
    chosen = available
    if measures is not None:
        entries = [measures] if isinstance(measures, str) else measures
        names = [part.strip() for entry in entries for part in entry.split(",") if part.strip()]
        chosen = [name if name in available else ALIASES.get(name, name) for name in names]
        if unknown := [name for name, full in zip(names, chosen, strict=True) if full not in available]:
            raise unknown_column(unknown[0], available, table.name, "measure")
    values = [table.numbers(name) if name in own else computed[name] for name in chosen]
    rows = [rank_correlation(one.fill_null(float("nan")).to_numpy(), difficulty) for one in values]
    flags = [
        None if not np.isnan(row.rho) else MeasureFlag.FEW_ITEMS if row.n < LEAST_ITEMS else MeasureFlag.CONSTANT
        for row in rows
    ]
    schema = {"n": pl.Int64, **dict.fromkeys(("rho", "ci_low", "ci_high", "p"), pl.Float64)}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.select(
        pl.Series("measure", chosen, dtype=pl.String),
        pl.all().fill_nan(None),
        pl.Series("q", benjamini_hochberg(frame["p"].to_numpy()), nan_to_null=True),
        pl.Series("flag", [flag and flag.value for flag in flags], dtype=pl.String),
        pl.Series("note", [flag and MEASURE_NOTES[flag] for flag in flags], dtype=pl.String),
    )


def measures_table(measures: pl.DataFrame, width: int = WIDTH) -> Table:
    """Spearman's rho of every measure with difficulty."""
    numbers = ["n", "rho", "95% interval", "q"]
    table = make_table(
        "Difficulty against other measures", ["measure", "note"], numbers, width, texts=["note"], least=["n"]
    )
    for row in measures.iter_rows(named=True):
        table.add_row(
            Text(row["measure"]),
            Text(row["note"] or ""),
            Text(str(row["n"])),
            Text(signed_text(row["rho"])),
            interval_text(row["ci_low"], row["ci_high"]),
            Text(probability_text(row["q"])),
        )
    return table
