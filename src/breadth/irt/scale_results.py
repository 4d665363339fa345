"""What is done with a difficulty scale: abilities of models, levels of questions, and how stable levels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import polars as pl

from breadth.inference import NORMAL
from breadth.irt.columns import LEVEL_SUMMARY, LEVELS, STABILITY, SUBJECTS
from breadth.irt.difficulty_levels import level_name
from breadth.results import Answer, Columns, Question, Result, Shown, State, Verdict
from breadth.results.terminal import MOST_ROWS
from breadth.results.words import count, joined, number_words

#: Models that may be the ablest which a verdict names.
MOST_NAMED = 4

#: Mean chance that a question belongs to its level from which levels are sure, and below which they are not.
SURE, UNSURE = 0.8, 0.5

#: Share of questions on the same or a neighbouring level from which levels are stable.
STABLE = 0.9


@dataclass(frozen=True, repr=False)
class ModelAbilities(Result):
    """Abilities of models on a scale that was estimated before; made by :func:`breadth.ability`.

    ``subjects``: ``subject, n, ability, ability_se, infit, outfit, flag, note``, in the order of the answers. ``mean``
    and ``sd`` are those of ability among the models of the scale, ``reference`` is how many these were, if known.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"subjects": SUBJECTS}

    subjects: pl.DataFrame
    mean: float = 0.0
    sd: float = 1.0
    reference: int | None = None
    warnings: tuple[str, ...] = ()
    noun: str = "model"
    method: str = "eap"

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The abilities."""
        return {"subjects": self.subjects}

    @property
    def ranked(self) -> pl.DataFrame:
        """Models that have an ability, the ablest first, with the ends of the 95 % interval."""
        reach = NORMAL * pl.col("ability_se")
        ranked = self.subjects.drop_nulls("ability").sort("ability", descending=True, maintain_order=True)
        return ranked.with_columns(ability_low=pl.col("ability") - reach, ability_high=pl.col("ability") + reach)

    def candidates(self) -> list[str]:
        """Models that may be the ablest: not clearly behind the first, with Bonferroni's bound for all comparisons."""
        ranked = self.ranked
        first = ranked.row(0, named=True)
        critical = NormalDist().inv_cdf(1 - 0.025 / max(ranked.height - 1, 1))
        error = (pl.col("ability_se") ** 2 + first["ability_se"] ** 2).sqrt()
        near = ranked.filter(first["ability"] - pl.col("ability") <= critical * error)
        return near["subject"].to_list()

    def verdict(self) -> Verdict:
        """Which model is ablest, within what? A name if no other may be; mixed or open where others may be."""
        ranked = self.ranked
        if not ranked.height:
            reason = f"None of {count(self.subjects.height, self.noun)} answered a question whose difficulty is known."
            return Verdict(Answer.UNKNOWN, reason, computed=False, question=Question.ABILITIES)
        best, candidates = ranked.row(0, named=True), self.candidates()
        low, high = number_words(best["ability_low"]), number_words(best["ability_high"])
        score = f"ability {number_words(best['ability'])} (95% interval {low} to {high})"
        total = count(ranked.height, self.noun)
        facts: dict[str, float | str] = {f"{self.noun}s": ranked.height, "may be the ablest": len(candidates)}
        facts |= {"interval from": low, "interval to": high, "mean ability": number_words(self.mean, ".3g")}
        name = best["subject"]
        if ranked.height == 1:
            answer, state = name, State.YES
            reason = f"{name} has {score}."
        elif len(candidates) == 1:
            answer, state = name, State.YES
            reason = f"{name} is the ablest of {total}: {score}."
        elif len(candidates) == ranked.height:
            answer, state = "Not decided", State.OPEN
            reason = f"{name} leads with {score}, but each of the {total} may be the ablest."
        else:
            answer, state = f"{name} leads", State.MIXED
            named = f": {joined(candidates)}" if len(candidates) <= MOST_NAMED else ""
            reason = f"{name} leads with {score}, but {len(candidates)} of {total} may be the ablest{named}."
        return Verdict(answer, reason, self._scale_words(facts), question=Question.ABILITIES, state=state, facts=facts)

    def _scale_words(self, facts: dict[str, float | str]) -> str:
        """What the numbers of the scale mean."""
        mean = number_words(self.mean, ".3g")
        low, high = number_words(self.mean - self.sd, ".3g"), number_words(self.mean + self.sd, ".3g")
        facts |= {"two in three from": low, "two in three to": high}
        of = "the scale"
        if self.reference is not None:
            facts["models of the scale"] = self.reference
            of = f"the {self.reference:,} models behind the scale"
        return f"Among {of} the average ability is {mean}, and two in three lie between {low} and {high}."

    def shown(self) -> Sequence[Shown]:
        """The models, the ablest first."""
        unknown = self.subjects.filter(pl.col("ability").is_null())
        frame = pl.concat([self.ranked, unknown], how="diagonal")
        title = f"{self.noun.capitalize()}s from the ablest down"
        # The interval says what the standard error does.
        return [Shown(title, frame, SUBJECTS.without("ability_se").filled(frame), MOST_ROWS)]

    def details(self) -> str:
        """How abilities were estimated."""
        if self.method == "wle":
            return "Warm's weighted likelihood estimates: almost unbiased, and independent of the models of the scale."
        return (
            "Posterior means, given that abilities are distributed as those behind the scale. They are drawn towards "
            "its mean, more so where a model answered few questions."
        )


@dataclass(frozen=True, repr=False)
class DifficultyLevels(Result):
    """Levels of difficulty of equal size; made by :func:`breadth.levels`.

    ``levels``: ``item, difficulty, difficulty_se, level, level_low, level_high, certainty``, a row per question.
    ``summary``: ``level, items, from, to, certainty, sure``, a row per level.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"levels": LEVELS, "summary": LEVEL_SUMMARY}

    levels: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Questions with their levels, and what every level holds."""
        return {"levels": self.levels, "summary": self.summary_by_level}

    @property
    def summary_by_level(self) -> pl.DataFrame:
        """A row per level: how many questions, which difficulties, how sure their membership is."""
        return summarise_levels(self.levels)

    def verdict(self) -> Verdict:
        """How hard are the levels, and how sure is it which question belongs where?"""
        rows, without = self.summary_by_level, self.levels["level"].null_count()
        if not rows.height:
            reason = "No question has a known difficulty, so none has a level."
            return Verdict(Answer.UNKNOWN, reason, computed=False, question=Question.LEVELS)
        placed = self.levels.height - without
        sure = float(self.levels["certainty"].mean() or 0)  # type: ignore[arg-type]
        facts: dict[str, float | str] = {"levels": rows.height, "questions": placed, "chance": f"{sure:.0%}"}
        facts["middle of the scale"] = 0
        sizes = dict(rows.select("level", "items").iter_rows())
        first, last = rows.row(0, named=True), rows.row(-1, named=True)
        spans = []
        for row in (first, last)[: rows.height]:
            spans.append(f"{number_words(row['from'])} to {number_words(row['to'])}")
        easiest, hardest = (level_name(row["level"], sizes) for row in (first, last))
        reason = f"All questions share one level, of difficulty {spans[0]}."
        if rows.height > 1:
            reason = (
                f"Difficulty rises from {spans[0]} on {easiest} to {spans[1]} on {hardest}; the average model gets "
                "about half of the questions of difficulty 0 right."
            )
        findings = f"A question belongs to its level with a probability of {sure:.0%} on average, else to a neighbour."
        state, advice = State.YES, ""
        if sure < SURE:
            state, advice = State.MIXED, "Take fewer levels, or difficulties from more models, to be surer."
        if sure < UNSURE:
            state = State.OPEN
        needed = ""
        if without:
            facts["without a level"] = without
            verb = "has" if without == 1 else "have"
            needed = f"{count(without, 'question')} {verb} no known difficulty, and so no level."
        answer = count(rows.height, "level")
        return Verdict(
            answer, reason, findings, needed, question=Question.LEVELS, advice=advice, state=state, facts=facts
        )

    def shown(self) -> Sequence[Shown]:
        """What every level holds."""
        return [levels_shown(self.levels)]


def summarise_levels(levels: pl.DataFrame) -> pl.DataFrame:
    """``level, items, from, to, certainty, sure``: a row per level of :meth:`breadth.irt.Calibration.levels`."""
    by_level = levels.drop_nulls("level").group_by("level")
    rows = by_level.agg(
        pl.len().cast(pl.Int64).alias("items"),
        pl.col("difficulty").min().alias("from"),
        pl.col("difficulty").max().alias("to"),
        pl.col("certainty").mean(),
        (pl.col("level_low") == pl.col("level_high")).mean().alias("sure"),
    )
    return rows.sort("level")


def levels_shown(levels: pl.DataFrame) -> Shown:
    """The table of levels, with what has none."""
    without = levels["level"].null_count()
    note = f"{count(without, 'question')} without a known difficulty: not in any level." if without else ""
    return Shown("Levels of difficulty, 0 is the easiest", summarise_levels(levels), LEVEL_SUMMARY, note=note)


@dataclass(frozen=True, repr=False)
class LevelAgreement(Result):
    """How alike the levels are that two samples of different models give, for growing samples.

    ``stability`` is what :meth:`breadth.irt.Calibration.level_stability` returns: ``subjects, repeats, same_level,
    within_one, rank_correlation``.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"stability": STABILITY}

    stability: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The agreement by number of models."""
        return {"stability": self.stability}

    def verdict(self) -> Verdict:
        """From how many models on do nine in ten questions stay on their level or a neighbour of it?"""
        rows = self.stability.sort("subjects")
        enough = rows.filter(pl.col("within_one") >= STABLE)
        row = (enough.head(1) if enough.height else rows.tail(1)).row(0, named=True)
        reason = (
            f"Two groups of {row['subjects']:,} different models put {row['same_level']:.0%} of the questions on the "
            f"same level, and {row['within_one']:.0%} at most one level apart."
        )
        if enough.height:
            answer = f"{row['subjects']:,} models"
            return Verdict(answer, reason, question=Question.STABLE_LEVELS, state=State.YES)
        needed = f"Levels are called stable from {STABLE:.0%} on: that takes more models, or fewer levels."
        facts = {"stable from": f"{STABLE:.0%}"}
        return Verdict(
            f"More than {row['subjects']:,}", reason, needed=needed, question=Question.STABLE_LEVELS,
            state=State.OPEN, facts=facts,
        )  # fmt: skip

    def shown(self) -> Sequence[Shown]:
        """The agreement by number of models."""
        return [Shown("Levels from two groups of different models", self.stability, STABILITY)]
