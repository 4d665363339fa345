"""Frames of items and subjects, with notes in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.difficulty import Levels
from breadth.irt import Abilities, Answers, Estimates, Misfit, subject_fit

Floats = npt.NDArray[np.float64]

PARAMETERS = ("difficulty", "discrimination", "guessing")

ITEM_COLUMNS = (
    "item", "n", "p_correct", "difficulty", "difficulty_se", "discrimination", "discrimination_se", "guessing",
    "guessing_se", "infit", "outfit", "point_biserial", "level", "level_low", "level_high", "note",
)  # fmt: skip
SUBJECT_COLUMNS = ("subject", "n", "ability", "ability_se", "infit", "outfit", "note")

#: Mean squares above these are worth a note: outfit for single wild answers, infit for a pattern of them.
WORST_INFIT, WORST_OUTFIT = 1.3, 2.0

#: Reliability of abilities below which subjects cannot be told apart well enough to doubt a key on their word.
LEAST_RELIABILITY = 0.5

#: Standard errors that an item must be on the wrong side of zero for its key to be doubted.
BEYOND_CHANCE = 1.645


def numbers(frame: pl.DataFrame, column: str) -> Floats:
    """A column as floats with NaN for null."""
    return frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def items_frame(
    names: Sequence[str],
    answers: Answers,
    found: Estimates,
    fit: Misfit,
    point_biserial: Floats,
    levels: Levels,
    least: int,
    reliability: float = 1.0,
) -> pl.DataFrame:
    """One row per item, in the order of the matrix."""
    n = answers.item_counts
    share = np.divide(answers.item_sums, n, out=np.full(len(n), np.nan), where=n > 0)
    known = ~np.isnan(found.difficulty)
    frame = pl.DataFrame(
        {
            "item": list(names),
            "n": n.astype(np.int64),
            "p_correct": share,
            "difficulty": found.difficulty,
            "difficulty_se": found.difficulty_se,
            "discrimination": found.discrimination,
            "discrimination_se": found.discrimination_se,
            "guessing": np.where(known, found.guessing, np.nan),
            "guessing_se": np.where(known, found.guessing_se, np.nan),
            "infit": fit.infit,
            "outfit": fit.outfit,
            "point_biserial": point_biserial,
            "level": levels.level,
            "level_low": levels.low,
            "level_high": levels.high,
        }
    ).fill_nan(None)
    whole = [pl.col(name).cast(pl.Int64) for name in ("level", "level_low", "level_high")]
    return frame.with_columns(*whole, _item_note(least, reliability >= LEAST_RELIABILITY).alias("note")).select(
        ITEM_COLUMNS
    )


def subjects_frame(
    names: Sequence[str],
    answers: Answers,
    found: Abilities,
    difficulty: Floats,
    discrimination: Floats,
    guessing: Floats,
) -> pl.DataFrame:
    """One row per subject, in the order of the matrix."""
    fit = subject_fit(answers, difficulty, discrimination, found.ability, guessing)
    return subjects_frame_with(names, answers, found, fit)


def subjects_frame_with(names: Sequence[str], answers: Answers, found: Abilities, fit: Misfit) -> pl.DataFrame:
    """One row per subject whose fit statistics are known already."""
    n = answers.subject_counts
    frame = pl.DataFrame(
        {
            "subject": list(names),
            "n": n.astype(np.int64),
            "ability": found.ability,
            "ability_se": found.standard_error,
            "infit": fit.infit,
            "outfit": fit.outfit,
            "right": answers.subject_sums,
        }
    ).fill_nan(None)
    note = (
        pl.when(pl.col("n") == 0)
        .then(pl.lit("no responses"))
        .when(pl.col("right") == pl.col("n"))
        .then(pl.lit("all answers right: the ability is a lower bound drawn in by the population"))
        .when(pl.col("right") == 0)
        .then(pl.lit("all answers wrong: the ability is an upper bound drawn in by the population"))
        .when((pl.col("infit") > WORST_INFIT) | (pl.col("outfit") > WORST_OUTFIT))
        .then(pl.lit("answers do not follow the order of difficulty: look at what it was asked"))
        .otherwise(None)
    )
    return frame.with_columns(note.alias("note")).select(SUBJECT_COLUMNS)


def _item_note(least: int, told_apart: bool) -> pl.Expr:
    misfit = pl.max_horizontal("infit", "outfit").round(1)
    # Backwards beyond chance (5 %, one-sided): among many weak items some slopes come out negative for no reason.
    slope = pl.col("discrimination") + BEYOND_CHANCE * pl.col("discrimination_se")
    backwards = (slope < 0) | (pl.col("point_biserial") < -BEYOND_CHANCE / pl.col("n").sqrt())
    return (
        pl.when(pl.col("n") == 0)
        .then(pl.lit("no responses"))
        .when(pl.col("n") < least)
        .then(pl.format("{} responses; {} were asked for", "n", pl.lit(least)))
        .when(pl.col("p_correct") == 1)
        .then(pl.lit("right for all: difficulty comes from the prior"))
        .when(pl.col("p_correct") == 0)
        .then(pl.lit("right for none: difficulty comes from the prior"))
        .when(backwards & pl.lit(told_apart))
        .then(pl.lit("able subjects get it wrong more often: the key may be wrong"))
        .when((pl.col("discrimination") < 0) | (pl.col("point_biserial") < 0))
        .then(pl.lit("does not tell able from less able subjects"))
        .when((pl.col("infit") > WORST_INFIT) | (pl.col("outfit") > WORST_OUTFIT))
        .then(pl.format("noisier than the model expects (mean square {})", misfit))
        .otherwise(None)
    )
