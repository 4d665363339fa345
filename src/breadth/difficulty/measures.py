"""Human measures of difficulty (length, steps, grade, ...) against difficulty as the answers of models show it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from breadth.correlation import independent_interval
from breadth.difficulty.sampling import item_column, with_difficulty
from breadth.errors import unknown_column
from breadth.inference import NORMAL, Floats, benjamini_hochberg
from breadth.irt import Calibration, numbers
from breadth.results import POWER, Answer, Column, Columns, Question, Result, Shown, Verdict, about
from breadth.results.words import FINDING, capitalised, joined, number_words
from breadth.sources import read_table

QUESTIONS = ("question", "problem", "prompt", "text", "premise", "input")
ANSWERS = ("answer", "solution", "target", "output")

WORD = re.compile(r"[^\W\d_]+")
SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")

#: Fewest items for a rank correlation.
LEAST_ITEMS = 5

#: Short names of measures.
ALIASES = {"length": "question_length"}


#: Rank correlation from which a measure agrees with the models, and below which it would hardly matter.
AGREES, HARDLY = 0.5, 0.2

#: What measures are called in a sentence.
MEASURE_WORDS = {
    "question_length": "longer questions",
    "answer_length": "questions with longer answers",
    "sentences": "questions of more sentences",
    "digits": "questions with more digits",
    "rare_words": "questions with rarer words",
    "steps": "questions with more steps",
}

MEASURES = Columns(
    Column("measure", priority=1, meaning="a column of the questions, or a measure of their text"),
    Column(
        "n", header="questions", format=",d", priority=3, meaning="questions that have the measure and a difficulty"
    ),
    Column(
        "rho",
        header="rank correlation",
        format="+.2f",
        priority=1,
        meaning="of the measure with difficulty: 1 is the same order, 0 none, −1 the reverse",
    ),
    Column("ci_low", "ci_high", format="+.2f", priority=1, meaning="95% interval of the rank correlation"),
    Column("p", format="p", priority=4, meaning="p-value of the rank correlation"),
    Column("q", format="p", priority=3, meaning="p-value that allows for all measures"),
    Column("flag", priority=4, meaning="code of why there is no rank correlation"),
    Column("note", words=True, priority=2, meaning="why there is no rank correlation"),
)


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


@dataclass(frozen=True, repr=False)
class HumanMeasures(Result):
    """Human measures of difficulty against that of the models; made by :func:`breadth.difficulty_vs`.

    ``measures``: ``measure, n, rho, ci_low, ci_high, p, q, flag, note``. Where rho is null, ``flag`` is
    ``few_items`` or ``constant``.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"measures": MEASURES}

    measures: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """A row per measure."""
        return {"measures": self.measures}

    def verdict(self) -> Verdict:
        """Do measures agree with the models? By the one with the strongest rank correlation that is clear (q < 0.05).

        Yes: it is 0.5 or more, in either direction. Mixed: it is smaller. No: none is clear, and all intervals lie
        within 0.2 of 0. Not enough data: otherwise.
        """
        known = self.measures.drop_nulls("rho").sort(pl.col("rho").abs(), descending=True, maintain_order=True)
        question = Question.HUMAN_MEASURES
        if not known.height:
            reason = "No measure varies over enough questions of known difficulty to be compared with the models."
            return Verdict(Answer.UNKNOWN, reason, computed=False, question=question)
        found, unclear = known.filter(pl.col("q") < FINDING), known.filter(pl.col("q") >= FINDING)
        facts: dict[str, float | str] = {"complete agreement": 1}
        if not found.height:
            return _without_agreement(known, facts)
        strongest = found.row(0, named=True)
        answer, how = Answer.MIXED, "somewhat"
        if abs(strongest["rho"]) >= AGREES:
            answer, how = Answer.YES, "mostly"
        low, high = number_words(strongest["ci_low"]), number_words(strongest["ci_high"])
        side = "harder" if strongest["rho"] > 0 else "easier"
        reason = (
            f"{_measure_words(strongest['measure'])} are {how} {side} for the models: rank correlation "
            f"{number_words(strongest['rho'])} (95% interval {low} to {high}; 1 would be the same order)."
        )
        reason = capitalised(reason)
        parts = []
        for row in found.tail(-1).iter_rows(named=True):
            parts.append(f"{row['measure']} ({number_words(row['rho'])})")
        findings = f"Also related: {joined(parts, 3)}." if parts else ""
        if len(parts) > 3:
            facts["related measures not named"] = len(parts) - 3
        needed = ""
        if unclear.height:
            needed = f"Whether {joined(unclear['measure'].to_list(), 3)} goes with difficulty is not clear."
            facts["unclear measures not named"] = unclear.height - 3
        advice = "Order questions by the models' difficulty, not by this measure." if answer is Answer.MIXED else ""
        return Verdict(answer, reason, findings, needed, question=question, advice=advice, facts=facts)

    def shown(self) -> Sequence[Shown]:
        """The measures."""
        return [Shown("Human measures against difficulty", self.measures, MEASURES.filled(self.measures))]

    def details(self) -> str:
        """How correlations and their intervals were computed."""
        return (
            "Spearman's rank correlation over the questions that have both, with an interval on Fisher's z scale "
            f"(Bonett and Wright 2000). A correlation is clear where q < {FINDING} over the measures. Errors of the "
            "difficulty draw it towards 0."
        )


def _without_agreement(known: pl.DataFrame, facts: dict[str, float | str]) -> Verdict:
    """The verdict where no measure clearly goes with difficulty: is that for want of questions?"""
    names = joined(known["measure"].to_list(), 3)
    facts |= {"measures not named": known.height - 3, "hardly": HARDLY}
    reason = f"{capitalised(names)}: no clear relation with what is hard for the models."
    widest = known.select(pl.max_horizontal(pl.col("ci_low").abs(), pl.col("ci_high").abs()).max()).item()
    if widest is not None and widest < HARDLY:
        return Verdict(Answer.NO, reason, question=Question.HUMAN_MEASURES, facts=facts)
    # Fisher's z of a small correlation is about the correlation, with variance 1 / (n - 3).
    facts["questions needed"] = about(((NORMAL + POWER) / HARDLY) ** 2 + 3)
    facts["questions"] = int(known["n"].max())  # type: ignore[arg-type]
    needed = (
        f"About {facts['questions needed']} questions would show a rank correlation of {HARDLY}; there are "
        f"{facts['questions']:,}."
    )
    return Verdict(Answer.UNKNOWN, reason, needed=needed, question=Question.HUMAN_MEASURES, facts=facts)


def _measure_words(measure: str) -> str:
    return MEASURE_WORDS.get(measure, f"questions with a higher {measure}")


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


def _missing_flag(row: RankCorrelation) -> MeasureFlag | None:
    """Why a measure has no correlation; None where it has one."""
    if not np.isnan(row.rho):
        return None
    return MeasureFlag.FEW_ITEMS if row.n < LEAST_ITEMS else MeasureFlag.CONSTANT


def difficulty_vs(
    calibration: str | os.PathLike[str] | Calibration, items: Any, *, measures: str | Sequence[str] | None = None
) -> HumanMeasures:
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
    HumanMeasures
        A verdict, and the frame ``measures`` with a row per measure.

    Examples
    --------
    >>> import breadth, polars as pl
    >>> items = pl.DataFrame({"item": list("abcdef"), "difficulty": range(6), "grade": [1, 2, 2, 3, 5, 4]})
    >>> calibration = breadth.Calibration(items.select("item", "difficulty"), pl.DataFrame(), pl.DataFrame())
    >>> breadth.difficulty_vs(calibration, items).measures["rho"].round(2).to_list()
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
    flags = [_missing_flag(row) for row in rows]
    schema = {"n": pl.Int64, **dict.fromkeys(("rho", "ci_low", "ci_high", "p"), pl.Float64)}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    compared = frame.select(
        pl.Series("measure", chosen, dtype=pl.String),
        pl.all().fill_nan(None),
        pl.Series("q", benjamini_hochberg(frame["p"].to_numpy()), nan_to_null=True),
        pl.Series("flag", [flag and flag.value for flag in flags], dtype=pl.String),
        pl.Series("note", [flag and MEASURE_NOTES[flag] for flag in flags], dtype=pl.String),
    )
    return HumanMeasures(compared)
