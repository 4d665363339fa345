"""What a calibration says: flags of items and subjects, findings in plain language, terminal tables."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.irt.diagnostics import Dimension, Patterns
from breadth.irt.models import MODELS
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text, share_text, signed_text

#: Mean squares above these are worth a note: outfit for single wild answers, infit for a pattern of them.
WORST_INFIT, WORST_OUTFIT = 1.3, 2.0

#: Standard errors that an item must be on the wrong side of zero for its key to be doubted.
BEYOND_CHANCE = 1.645

#: First residual component, as a multiple of what noise would show, above which one ability is not enough.
TOO_MANY_DIMENSIONS = 1.5


class ItemFlag(StrEnum):
    """What is wrong with an item, the most serious first."""

    NO_ANSWERS = "no_answers"
    TOO_FEW_ANSWERS = "too_few_answers"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    WRONG_KEY = "wrong_key"
    NO_DISCRIMINATION = "no_discrimination"
    MISFIT = "misfit"


class SubjectFlag(StrEnum):
    """What is wrong with the measurement of a subject, the most serious first."""

    NO_ANSWERS = "no_answers"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
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

#: Backwards beyond chance (5 %, one-sided): among many weak items some slopes come out negative for no reason.
BACKWARDS = (pl.col("discrimination") + BEYOND_CHANCE * pl.col("discrimination_se") < 0) | (
    pl.col("point_biserial") < -BEYOND_CHANCE / pl.col("n").sqrt()
)

#: Rules for items, on a frame that also has the ``least`` number of answers and whether subjects can be ``told_apart``:
#: others do not make a key doubtful.
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
        BACKWARDS & pl.col("told_apart"),
        "able subjects get it wrong more often: the key may be wrong",
    ),
    Rule(
        ItemFlag.NO_DISCRIMINATION,
        (pl.col("discrimination") < 0) | (pl.col("point_biserial") < 0),
        "does not separate able from less able subjects",
    ),
    Rule(
        ItemFlag.MISFIT,
        MISFIT,
        pl.format("noisier than the model expects (mean square {})", pl.max_horizontal("infit", "outfit").round(1)),
    ),
]

#: Rules for subjects, on a frame that also has the number of ``right`` answers.
SUBJECT_RULES = [
    Rule(SubjectFlag.NO_ANSWERS, pl.col("n") == 0, "no answers"),
    Rule(
        SubjectFlag.ALL_RIGHT,
        pl.col("right") == pl.col("n"),
        "every answer is right: the ability may be higher than estimated",
    ),
    Rule(SubjectFlag.ALL_WRONG, pl.col("right") == 0, "every answer is wrong: the ability may be lower than estimated"),
    Rule(SubjectFlag.MISFIT, MISFIT, "answers do not follow the order of difficulty: check how it was evaluated"),
]


#: What the summary says about items, and the flags that it counts.
BROKEN = {
    "may have a wrong key": (ItemFlag.WRONG_KEY,),
    "do not separate able from less able subjects": (ItemFlag.NO_DISCRIMINATION,),
    "are noisier than the model expects": (ItemFlag.MISFIT,),
    "were answered right by all or by none": (ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG),
    "have too few answers or none": (ItemFlag.TOO_FEW_ANSWERS, ItemFlag.NO_ANSWERS),
}


def calibration_findings(
    items: pl.DataFrame,
    subjects: pl.DataFrame,
    fit: pl.DataFrame,
    copies: Patterns | None = None,
    dimension: Dimension | None = None,
) -> str:
    """Say what was fitted, how hard items are for these subjects, which are broken, and whether one scale fits.

    ``copies`` and ``dimension`` are None where that was not checked.
    """
    parts = []
    if fit.height:
        row = fit.row(0, named=True)
        model = MODELS[row["model"]].title if row["model"] in MODELS else row["model"]
        parts.append(
            f"{model} on {row['subjects']:,} subjects x {row['items']:,} items ({row['responses']:,} answers): "
            f"{'converged' if row['converged'] else 'did NOT converge'} after {row['iterations']} iterations, "
            f"log-likelihood {row['log_likelihood']:,.1f}, BIC {row['bic']:,.1f}; abilities are measured with "
            f"reliability {row['reliability']:.2f}."
        )
    difficulty = items["difficulty"].drop_nulls()
    ability = subjects["ability"].drop_nulls() if "ability" in subjects.columns else pl.Series()
    if difficulty.len() and ability.len():
        low, middle, high = (float(difficulty.quantile(q) or 0) for q in (0.05, 0.5, 0.95))
        gap = middle - float(ability.quantile(0.5) or 0)
        match = f"too {'hard' if gap > 0 else 'easy'} for the typical subject"
        match = "about as hard as the subjects are able" if abs(gap) < 0.5 else match
        parts.append(
            f"Nine in ten items have a difficulty between {low:.2f} and {high:.2f} (ability has mean 0 and standard "
            f"deviation 1); the typical item is {match}."
        )
    if "flag" in items.columns:
        raised = dict(items["flag"].drop_nulls().value_counts().iter_rows())
        counts = {text: sum(raised.get(flag.value, 0) for flag in flags) for text, flags in BROKEN.items()}
        broken = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
        parts.append(f"Of {items.height:,} items, {broken} (column flag)." if broken else "No item looks broken.")
    if copies is not None:
        text = f"The {subjects.height:,} subjects have {copies.distinct:,} distinct answer patterns"
        parts.append(
            f"{text}; {len(copies.pairs):,} pairs are near-copies, which leaves {copies.cluster.max() + 1:,} groups. "
            "Standard errors treat all subjects as independent and are therefore too small (--copies weigh counts "
            "every group once)."
            if len(copies.pairs)
            else f"{text}, and there are no near-copies among them."
        )
    if dimension is not None:
        meaning = (
            "one ability describes these answers."
            if dimension.ratio < TOO_MANY_DIMENSIONS
            else "something besides one ability moves groups of items together (another skill, answer format, or "
            "families of copied models). Difficulty is then an average over these, and may rank items differently for "
            "another mix of subjects."
        )
        parts.append(
            f"The first residual component holds {dimension.share:.1%} of the residual variance, "
            f"{dimension.ratio:.1f} times what noise would show: {meaning}"
        )
    return " ".join(parts)


def items_table(items: pl.DataFrame, width: int = WIDTH) -> Table:
    """The easiest and hardest items and, between them, some with a note."""
    known = items.drop_nulls("difficulty").sort("difficulty")
    noted = items.filter(pl.col("note").is_not_null()).sort("outfit", descending=True, nulls_last=True).head(10)
    shown, title = items, "Items"
    if items.height > MOST_ROWS:
        shown = pl.concat([known.head(5), noted, known.tail(5)]).unique("item", maintain_order=True)
        title = f"Items: the easiest, the hardest and some with a note, of {items.height:,}"
    numbers = ["n", "right", "difficulty", "se", "slope", "outfit", "level"]
    table = make_table(title, ["item", "note"], numbers, width)
    for row in shown.iter_rows(named=True):
        cells = [row["item"], row["note"] or "", str(row["n"]), share_text(row["p_correct"])]
        decimals = (number_text(row[name], 2) for name in ("difficulty_se", "discrimination", "outfit"))
        low, level, high = row["level_low"], row["level"], row["level_high"]
        levels = "-" if level is None else str(level) if low == high else f"{level} ({low}-{high})"
        table.add_row(*map(Text, [*cells, signed_text(row["difficulty"]), *decimals, levels]))
    return table


def subjects_table(subjects: pl.DataFrame, width: int = WIDTH) -> Table:
    """Subjects from the ablest down, the first thirty."""
    shown = subjects.sort("ability", descending=True, nulls_last=True).head(MOST_ROWS)
    title = "Subjects" if subjects.height <= MOST_ROWS else f"Subjects: the {MOST_ROWS} ablest of {subjects.height:,}"
    table = make_table(title, ["subject", "note"], ["n", "ability", "se", "outfit"], width)
    for row in shown.iter_rows(named=True):
        cells = [row["subject"], row["note"] or "", str(row["n"]), signed_text(row["ability"])]
        table.add_row(*map(Text, [*cells, *(number_text(row[name], 2) for name in ("ability_se", "outfit"))]))
    return table


def levels_table(levels: pl.DataFrame, width: int = WIDTH) -> Table:
    """Per level: how many items, which difficulties, and how sure their membership is."""
    rows = (
        levels.drop_nulls("level")
        .group_by("level")
        .agg(
            pl.len().alias("items"),
            pl.col("difficulty").min().alias("from"),
            pl.col("difficulty").max().alias("to"),
            pl.col("certainty").mean(),
            (pl.col("level_low") == pl.col("level_high")).mean().alias("sure"),
        )
        .sort("level")
    )
    numbers = ["level", "items", "from", "to", "certainty", "in one level only"]
    table = make_table("Difficulty levels, 0 is the easiest", [], numbers, width)
    for level, items, low, high, certainty, sure in rows.iter_rows():
        table.add_row(
            str(level), str(items), signed_text(low), signed_text(high), share_text(certainty), share_text(sure)
        )
    return table


def stability_table(stability: pl.DataFrame, width: int = WIDTH) -> Table:
    """How alike levels are between two samples of subjects, by sample size."""
    numbers = ["subjects", "same level", "at most one apart", "rank correlation"]
    table = make_table("Levels from two samples of different subjects", [], numbers, width)
    for row in stability.iter_rows(named=True):
        shares = (share_text(row[name]) for name in ("same_level", "within_one"))
        table.add_row(f"{row['subjects']:,}", *shares, number_text(row["rank_correlation"], 3))
    return table
