"""What is wrong with an item, with a subject, or with the scale: flags with their notes, and doubts in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import polars as pl
from scipy import special

from breadth.inference import benjamini_hochberg
from breadth.irt.models import MODELS
from breadth.irt.one_scale import BEYOND_CHANCE
from breadth.results.words import FINDING

#: Mean squares above these are worth a note: outfit for single wild answers, infit for a pattern of them.
WORST_INFIT, WORST_OUTFIT = 1.3, 2.0

#: Reliability of abilities below which subjects cannot be told apart well enough to doubt a key.
LEAST_RELIABILITY = 0.5

#: Share of items that run clearly against the scale, and rank correlation of ability with score, beyond which the
#: answers do not measure one ability. Chance alone puts at most 5 % of the items clearly below 0.
MOST_AGAINST, LEAST_CORRELATION = 0.15, 0.8

#: Subjects below which slopes may follow noise.
FEW_SUBJECTS = 100

NOT_ONE_ABILITY = (
    "these questions do not measure one ability: {why}. {it} may show a preference for one answer, guessing, or "
    "several abilities{few}. No label is doubted for that alone. Do not use these difficulties and levels; {remedy}"
)
REMEDY = "make a scale of one test set or one kind of question at a time, or leave out models that only guess{}"
BY_SLOPES = "{:.0%} of them run clearly against the scale, and the rank correlation of ability with score is {}"
BY_COMPONENT = (
    "what the models differ in most (first principal component) has a rank correlation of {1} with the score, and "
    "{0:.0%} of the questions run clearly against it"
)
SEPARATE = (
    "the answers fall into {blocks:,.0f} blocks that share no model and no question ({sizes}): difficulties, levels "
    "and abilities cannot be compared between blocks. {remedy}"
)
LINK = "Make a scale of each block by itself, or add models that answered questions of several blocks"
UNRELIABLE = (
    "the models are too alike to rank (reliability {:.2f}): difficulties say little more than the share of right "
    "answers, and no label is doubted; add models of other abilities"
)


class NotOneAbility(NamedTuple):
    """Why answers do not measure one ability, what to do about it, and both in one sentence.

    ``against`` is the share of questions that run clearly against the scale, ``correlation`` that of the scale with the
    score, by rank; None where it is not known.
    """

    why: str
    remedy: str
    warning: str
    against: float
    correlation: float | None


def not_one_ability(fit: Mapping[str, Any]) -> NotOneAbility | None:
    """Why the answers do not measure one ability, from the row of a fit; None where nothing speaks against it.

    The rank correlation must be clearly below 0.8 (one-sided 5 %, variance of Bonett and Wright 2000): with few
    subjects slopes are noisy, and ability then strays from the score by chance. Where items share a slope, ability
    follows the score whatever the answers measure: the first principal component is judged instead.
    """
    component = fit.get("main_correlation") is not None
    names = ("against_main", "main_correlation") if component else ("against_scale", "score_correlation")
    against, rho, n = fit.get(names[0]) or 0.0, fit.get(names[1]), fit.get("subjects") or 0
    strays = False
    if rho is not None and n > 3 and abs(rho) < 1:
        highest = math.atanh(rho) + BEYOND_CHANCE * math.sqrt((1 + rho**2 / 2) / (n - 3))
        strays = highest < math.atanh(LEAST_CORRELATION)
    if against <= MOST_AGAINST and not strays:
        return None
    few = fit.get("model") in MODELS and MODELS[fit["model"]].slope == "item" and n < FEW_SUBJECTS
    why = (BY_COMPONENT if component else BY_SLOPES).format(against, "unknown" if rho is None else f"{rho:.2f}")
    remedy = REMEDY.format(", or see whether the simplest scale (1pl) says the same" if few else "")
    words = {
        "it": "It" if component else "The scale",
        "few": f"; or {n} models are too few to give every question a slope" if few else "",
    }
    return NotOneAbility(why, remedy, NOT_ONE_ABILITY.format(why=why, remedy=remedy, **words), against, rho)


def scale_warning(fit: Mapping[str, Any]) -> str | None:
    """Why the scale of a calibration cannot be trusted, from the row of its fit; None where it can."""
    if fit.get("blocks"):
        return SEPARATE.format(blocks=fit["blocks"], sizes=fit["block_sizes"], remedy=LINK)
    doubt, reliable = not_one_ability(fit), fit.get("reliability")
    if doubt is not None:
        return doubt.warning
    return UNRELIABLE.format(reliable) if reliable is not None and reliable < LEAST_RELIABILITY else None


class ItemFlag(StrEnum):
    """What is wrong with an item, the most serious first."""

    NO_ANSWERS = "no_answers"
    TOO_FEW_ANSWERS = "too_few_answers"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    WRONG_KEY = "wrong_key"
    NO_DISCRIMINATION = "no_discrimination"
    UNKNOWN_DIFFICULTY = "unknown_difficulty"
    MISFIT = "misfit"


class SubjectFlag(StrEnum):
    """What is wrong with the measurement of a subject, the most serious first."""

    NO_ANSWERS = "no_answers"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    AT_CHANCE = "at_chance"
    MISFIT = "misfit"


class Rule(NamedTuple):
    """When a flag is raised, and its note: a sentence, or an expression that writes one."""

    flag: StrEnum
    when: pl.Expr
    note: str | pl.Expr


def flagged(frame: pl.DataFrame, rules: Sequence[Rule]) -> pl.DataFrame:
    """Add ``flag`` and ``note`` of the first rule that applies; both are null where none does."""
    return frame.with_columns(
        pl.coalesce(pl.when(when).then(pl.lit(flag.value)) for flag, when, _ in rules).alias("flag"),
        pl.coalesce(
            pl.when(when).then(pl.lit(note) if isinstance(note, str) else note) for _, when, note in rules
        ).alias("note"),
    )


MISFIT = (pl.col("infit") > WORST_INFIT) | (pl.col("outfit") > WORST_OUTFIT)

#: Against the scale beyond chance (5 %, one-sided): by the item's own slope, else by its correlation with the rest.
AGAINST = (
    pl.when("own_slopes")
    .then(pl.col("discrimination") + BEYOND_CHANCE * pl.col("discrimination_se") < 0)
    .otherwise(pl.col("point_biserial") < -BEYOND_CHANCE / pl.col("n").sqrt())
)

#: How far an item runs against the scale, in standard errors; negative with the scale. By the slope or, where the slope
#: is below 0, by the correlation if that says so more clearly: the slope of an item that runs against all others is
#: held back by its prior and has a large error.
AGAINST_Z = pl.max_horizontal(
    pl.when("own_slopes").then(-pl.col("discrimination") / pl.col("discrimination_se")),
    pl.when(~pl.col("own_slopes") | (pl.col("discrimination") < 0)).then(
        -pl.col("point_biserial") * pl.col("n").sqrt()
    ),
)

#: Of every item that can be judged. An item that goes with its own test set is not among them: a whole set that runs
#: against the scale is a shift, and not a set of wrong labels.
JUDGED = pl.col("p_correct").is_between(0, 1, "none") & (pl.col("n") >= pl.col("least"))
WITHIN_TOO = ~(pl.col("within") >= 0).fill_null(False)

#: The same as a false discovery rate over all items that can be judged.
AGAINST_Q = (
    pl.when(JUDGED)
    .then(AGAINST_Z)
    .map_batches(
        lambda z: pl.Series(benjamini_hochberg(special.ndtr(-z.fill_null(float("nan")).to_numpy())), nan_to_null=True),
        return_dtype=pl.Float64,
    )
)

#: Doubt about a label: how far the item runs against the scale, null where it does not clearly.
DOUBT = pl.when(JUDGED & WITHIN_TOO & (AGAINST_Z > BEYOND_CHANCE)).then(AGAINST_Z)

#: Not clearly with the scale: a slope that is not clearly above 0, or a correlation below 0.
NOT_CLEAR = (
    pl.when("own_slopes")
    .then(~(pl.col("discrimination") > BEYOND_CHANCE * pl.col("discrimination_se")).fill_null(False))
    .otherwise(pl.col("point_biserial") < 0)
)

#: What an item that runs against the scale may be, apart from one that does not separate subjects.
MAY_BE_WRONG = (
    pl.when("trusted")
    .then(pl.lit("its label may be wrong"))
    .otherwise(pl.lit("its label may be wrong, or it measures something else"))
)

#: Rules for items, on a frame that also has the ``least`` number of answers, the correlation with the rest of the own
#: test set (``within``), whether items have ``own_slopes``, whether a difficulty is ``unknown``, the ``label_doubt``,
#: and whether the scale is ``trusted``: others do not make a key doubtful.
ITEM_RULES = [
    Rule(ItemFlag.NO_ANSWERS, pl.col("n") == 0, "no answers"),
    Rule(
        ItemFlag.TOO_FEW_ANSWERS,
        pl.col("n") < pl.col("least"),
        pl.format("{} answers; at least {} are required", "n", "least"),
    ),
    Rule(ItemFlag.ALL_RIGHT, pl.col("p_correct") == 1, "every answer is right: the difficulty comes from the prior"),
    Rule(ItemFlag.ALL_WRONG, pl.col("p_correct") == 0, "every answer is wrong: the difficulty comes from the prior"),
    Rule(
        ItemFlag.WRONG_KEY,
        (AGAINST_Q < FINDING) & pl.col("label_doubt").is_not_null() & pl.col("trusted"),
        pl.format(
            "the label may be wrong: abler models get it wrong more often (item-rest correlation {}), so it does not "
            "separate able from less able models",
            pl.col("point_biserial").round(2),
        ),
    ),
    Rule(
        ItemFlag.NO_DISCRIMINATION,
        NOT_CLEAR,
        pl.when(~pl.col("own_slopes") & pl.col("label_doubt").is_not_null())
        .then(
            pl.format(
                "right answers go against the score (item-rest correlation {}): it does not separate able from less "
                "able models, and {}",
                pl.col("point_biserial").round(2),
                MAY_BE_WRONG,
            )
        )
        .when(~pl.col("own_slopes"))
        .then(
            pl.format(
                "right answers do not go with the score (item-rest correlation {})", pl.col("point_biserial").round(2)
            )
        )
        .when(pl.col("label_doubt").is_not_null())
        .then(pl.format("the slope is below 0, so it has no difficulty, and {}", MAY_BE_WRONG))
        .when(AGAINST)
        .then(pl.lit("the slope is below 0, so it has no difficulty"))
        .otherwise(pl.lit("the slope is not clearly above 0, so it has no difficulty")),
    ),
    Rule(
        ItemFlag.UNKNOWN_DIFFICULTY,
        pl.col("unknown"),
        "the difficulty lies outside the range of ability or is too uncertain to be used",
    ),
    Rule(
        ItemFlag.MISFIT,
        MISFIT,
        pl.format("noisier than the model expects (mean square {})", pl.max_horizontal("infit", "outfit").round(1)),
    ),
]

#: Rules for subjects, on a frame that also has the number of ``right`` answers and whether it is ``above_chance``.
SUBJECT_RULES = [
    Rule(SubjectFlag.NO_ANSWERS, pl.col("n") == 0, "no answers"),
    Rule(
        SubjectFlag.ALL_RIGHT,
        pl.col("right") == pl.col("n"),
        "every answer is right: the ability may be higher than estimated",
    ),
    Rule(SubjectFlag.ALL_WRONG, pl.col("right") == 0, "every answer is wrong: the ability may be lower than estimated"),
    Rule(SubjectFlag.AT_CHANCE, ~pl.col("above_chance"), "not clearly above chance: the ability says little"),
    Rule(SubjectFlag.MISFIT, MISFIT, "answers do not follow the order of difficulty: check how it was evaluated"),
]


def doubted_items(items: pl.DataFrame) -> list[str]:
    """Items whose label may be wrong, the most doubtful first: the one list that every text and page takes."""
    return _by_doubt(items, ItemFlag.WRONG_KEY)


def suspect_items(items: pl.DataFrame) -> list[str]:
    """Items that do not separate subjects and run clearly against the scale, though not clearly enough for a flag.

    None where they are more than a few of all: that is another scale, and not so many wrong labels.
    """
    if "label_doubt" not in items.columns:
        return []
    suspects = _by_doubt(items.filter(pl.col("label_doubt").is_not_null()), ItemFlag.NO_DISCRIMINATION)
    return suspects if len(suspects) <= MOST_AGAINST * items.height else []


def _by_doubt(items: pl.DataFrame, flag: ItemFlag) -> list[str]:
    if "flag" not in items.columns:
        return []
    chosen = items.filter(pl.col("flag") == flag.value)
    if "label_doubt" in items.columns:
        chosen = chosen.sort("label_doubt", descending=True, nulls_last=True, maintain_order=True)
    return chosen["item"].to_list()


def is_placed(items: pl.DataFrame) -> pl.Expr:
    """Items whose difficulty comes from answers: not those that all or none got right, which only the prior places."""
    flag = pl.col("flag") if "flag" in items.columns else pl.lit(None, dtype=pl.String)
    unplaced = flag.is_in([ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG]).fill_null(False)
    return ~unplaced & pl.col("difficulty").is_finite().fill_null(False)
