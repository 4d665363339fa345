"""What a calibration says: the verdict, details in plain language, and tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.irt.diagnostics import Dimension, Patterns
from breadth.irt.flags import (
    LEAST_RELIABILITY,
    LINK,
    ItemFlag,
    doubted_items,
    is_placed,
    not_one_ability,
    scale_warning,
    suspect_items,
)
from breadth.irt.models import MODELS
from breadth.results import Answer, Verdict, about
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text, share_text, signed_text
from breadth.results.words import count, joined

#: Reliability from which single subjects are told apart well enough, and the one that a test should reach.
ENOUGH_RELIABILITY, WANTED_RELIABILITY = 0.8, 0.9

#: Items beyond which it is not said how many would reach it: nobody writes more.
MOST_ITEMS = 100_000

#: First residual component, as a multiple of what noise would show, above which one ability is not enough.
TOO_MANY_DIMENSIONS = 1.5

#: Answers right beyond guessing below which items are hard for the subjects, and above which they are easy.
HARD, EASY = 0.35, 0.65

#: A label is named if it has this many items; labels differ if their shares of negative slopes differ by this much,
#: and by this many standard errors.
LEAST_LABELLED, LABELS_APART, LABELS_SURE = 5, 0.5, 3.3

#: What the summary says about items, and the flags that it counts.
BROKEN = {
    "may have a wrong label": (ItemFlag.WRONG_KEY,),
    "do not clearly separate able from less able subjects": (ItemFlag.NO_DISCRIMINATION,),
    "have a difficulty that is not known": (ItemFlag.UNKNOWN_DIFFICULTY,),
    "are noisier than the model expects": (ItemFlag.MISFIT,),
    "were answered right by all or by none": (ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG),
    "have too few answers or none": (ItemFlag.TOO_FEW_ANSWERS, ItemFlag.NO_ANSWERS),
}


def calibration_verdict(items: pl.DataFrame, fit: pl.DataFrame, dimension: Dimension | None = None) -> Verdict | None:
    """Do these answers measure one ability, and how precisely? None where the fit is not on record.

    Not enough data: nothing links blocks of subjects and items (:func:`breadth.irt.one_scale.linked_components`), or
    reliability is below 0.5. No: items run against the scale, or subjects differ most in something else than the score
    counts (:func:`breadth.irt.flags.not_one_ability`). It depends: the first residual component is at least 1.5 times
    what noise would show (``dimension``, None where that was not checked), reliability is below 0.8, or the fit did not
    converge. Yes: otherwise. ``needed`` is the number of items for a reliability of 0.9 by the formula
    of Spearman and Brown: with f times as many items like these, r becomes f r / (1 + (f - 1) r).
    """
    if not fit.height:
        return None
    row = fit.row(0, named=True)
    reliable, doubt, lines = row["reliability"], not_one_ability(row), _doubted(items)
    if row.get("blocks"):
        reason = (
            f"nothing links {row['blocks']:,.0f} blocks of answers, which share no subject and no item "
            f"({row['block_sizes']})."
        )
        return Verdict(Answer.UNKNOWN, reason, lines, f"{LINK}.")
    if doubt is not None:
        reason = f"the answers do not measure one ability here: {doubt.why}."
        return Verdict(Answer.NO, reason, lines, f"Do not use these difficulties and levels; {doubt.remedy}.")
    needed = _needed_items(reliable, row["items"])
    if reliable < LEAST_RELIABILITY:
        reason = f"the subjects are too alike to be told apart (reliability {reliable:.2f})."
        return Verdict(Answer.UNKNOWN, reason, lines, needed)
    limits = [] if row["converged"] else ["the fit did not converge"]
    if dimension is not None and dimension.ratio >= TOO_MANY_DIMENSIONS:
        limits.append(
            "something besides one ability moves groups of items together (residual component "
            f"{dimension.ratio:.1f} times what noise would show)"
        )
    precise = f"abilities are measured with reliability {reliable:.2f}"
    if reliable < ENOUGH_RELIABILITY:
        limits.append(f"{precise}, too low to tell single subjects apart")
    if limits:
        rest = "" if reliable < ENOUGH_RELIABILITY else f"; {precise}"
        return Verdict(Answer.DEPENDS, f"{joined(limits)}{rest}.", lines, needed)
    return Verdict(Answer.YES, f"one ability describes these answers; {precise}.", lines, needed)


def _needed_items(reliable: float, items: int) -> str:
    """How many items reach the wanted reliability; nothing where it is reached."""
    if reliable >= WANTED_RELIABILITY:
        return ""
    times = WANTED_RELIABILITY * (1 - reliable) / ((1 - WANTED_RELIABILITY) * reliable) if reliable > 0 else math.inf
    if not times * items <= MOST_ITEMS:
        return "No number of items like these is enough: add subjects of other abilities, or harder and easier items."
    number = f"{about(times * items)} items like these (now {items:,})"
    return f"A reliability of {WANTED_RELIABILITY} takes about {number}, or subjects that differ more in ability."


def _doubted(items: pl.DataFrame) -> str:
    """Items whose label is doubted, and items that all or none got right."""
    if "flag" not in items.columns:
        return ""
    wrong, suspects, parts = doubted_items(items), suspect_items(items), []
    if wrong:
        parts.append(f"{count(len(wrong), 'item')} may have a wrong label: {joined(wrong, 5)}.")
    elif suspects:
        # On a scale that is not trusted no label is flagged, but whoever checks labels begins with these.
        parts.append(
            f"{count(len(suspects), 'item')} {'runs' if len(suspects) == 1 else 'run'} against the score, so "
            f"{'its label' if len(suspects) == 1 else 'their labels'} may be wrong; check first: {joined(suspects, 5)}."
        )
    extreme = {
        "right": items.filter(pl.col("flag") == ItemFlag.ALL_RIGHT).height,
        "wrong": items.filter(pl.col("flag") == ItemFlag.ALL_WRONG).height,
    }
    said = [f"{n} {'was' if n == 1 else 'were'} answered {word} by all" for word, n in extreme.items() if n]
    if said:
        parts.append(f"Of {items.height:,} items, {joined(said)}: they do not tell these subjects apart.")
    return " ".join(parts)


def calibration_details(
    items: pl.DataFrame,
    subjects: pl.DataFrame,
    fit: pl.DataFrame,
    copies: Patterns | None = None,
    dimension: Dimension | None = None,
) -> str:
    """Say what was fitted, how hard items are, which are broken, and how it fits.

    ``copies`` and ``dimension`` are None where that was not checked.
    """
    row = fit.row(0, named=True) if fit.height else {}
    doubt, parts = scale_warning(row), []
    if row:
        fitted, causes = _fitted_words(row), _cause_words(items, row)
        parts += [fitted, *causes] if doubt is None else [*causes, fitted]
    difficulty = items.filter(is_placed(items))["difficulty"]
    if difficulty.len() and row and {"n", "p_correct"} <= {*items.columns}:
        low, high = (float(difficulty.quantile(q) or 0) for q in (0.05, 0.95))
        right = items.select((pl.col("p_correct") * pl.col("n")).sum() / pl.col("n").sum()).item()
        chance = row.get("chance") or 0.0
        beyond = (right - chance) / (1 - chance)
        corrected = f" ({beyond:.0%} after correction for chance)" if chance else ""
        match = "are hard for" if beyond < HARD else "are easy for" if beyond > EASY else "suit"
        scale = f"mean {row.get('ability_mean', 0.0):.3g} and standard deviation {row.get('ability_sd', 1.0):.3g}"
        # Difficulties that should not be used are not described.
        parts.append(
            f"Nine in ten items have a difficulty between {low:.2f} and {high:.2f} (ability has {scale}); "
            f"{right:.0%} of the answers are right{corrected}: the items {match} these subjects."
            if doubt is None
            else f"{right:.0%} of the answers are right."
        )
    if "flag" in items.columns:
        parts += _broken_words(items, doubt is None)
    if copies is not None:
        text = f"The {subjects.height:,} subjects have {copies.distinct:,} distinct answer patterns"
        parts.append(
            f"{text}; {count(len(copies.pairs), 'pair')} are near-copies, which leaves {copies.cluster.max() + 1:,} "
            "groups. "
            "Standard errors treat all subjects as independent and are therefore too small (--copies weigh counts "
            "every group once)."
            if len(copies.pairs)
            else f"{text}, and there are no near-copies among them."
        )
    if dimension is not None:
        one = "one ability" if doubt is None else "this scale"
        meaning = (
            f"something besides {one} moves groups of items together (another skill, answer format, or families of "
            "copied models)."
        )
        if dimension.ratio < TOO_MANY_DIMENSIONS:
            meaning = f"{one} describes these answers."
        elif doubt is None:
            meaning += (
                " Difficulty is then an average over these, and may rank items differently for another mix of subjects."
            )
        parts.append(
            f"The first residual component holds {dimension.share:.1%} of the residual variance, "
            f"{dimension.ratio:.1f} times what noise would show: {meaning}"
        )
    return " ".join(parts)


def _fitted_words(row: Mapping[str, Any]) -> str:
    """What was fitted to what, and how it went."""
    model = MODELS[row["model"]].title if row["model"] in MODELS else row["model"]
    if row.get("floor") is not None:
        model += f" with the chance of guessing fixed at {row['floor']:.0%}"
    answers = f"{row['responses']:,} answers"
    if row.get("repeated"):
        answers += f"; {row['repeated']:,} more repeat those before training"
    rho = row.get("score_correlation")
    beside = "" if rho is None else f", and their rank correlation with the score is {rho:.2f}"
    return (
        f"{model} on {row['subjects']:,} subjects x {row['items']:,} items ({answers}): "
        f"{'converged' if row['converged'] else 'did NOT converge'} after {row['iterations']} iterations, "
        f"log-likelihood {row['log_likelihood']:,.1f}, BIC {row['bic']:,.1f}; abilities are measured with "
        f"reliability {row['reliability']:.2f}{beside}."
    )


def _cause_words(items: pl.DataFrame, row: Mapping[str, Any]) -> list[str]:
    """What may explain how the answers are: the label, and guessing."""
    own_slopes = row["model"] in MODELS and MODELS[row["model"]].slope == "item"
    by_label = label_finding(items, own_slopes)
    causes = [] if by_label is None else [by_label]
    if row.get("chance") is not None:
        causes.append(
            f"Chance is {row['chance']:.0%}: {row['subjects_at_chance']:,.0f} of {row['subjects']:,} subjects and "
            f"{row['items_at_chance']:,.0f} of {row['items']:,} items are not clearly above it (one-sided 5%)"
            f"{_floor_refused(row)}."
        )
    return causes


def _broken_words(items: pl.DataFrame, trusted: bool) -> list[str]:
    """How many items have which flag, and how many have no difficulty."""
    raised = dict(items["flag"].drop_nulls().value_counts().iter_rows())
    suspects, said, parts = len(suspect_items(items)), [], []
    for text, flags in BROKEN.items():
        number = sum(raised.get(flag.value, 0) for flag in flags)
        if not number:
            continue
        also = ""
        if suspects and ItemFlag.NO_DISCRIMINATION in flags:
            also = f" ({suspects} of them run against the score: the label may be wrong as well)"
        said.append(f"{number} {text}{also}")
    if said:
        parts.append(f"Of {items.height:,} items, {', '.join(said)} (column flag).")
    elif trusted:
        parts.append("No item looks broken.")
    if unplaced := items["difficulty"].null_count():
        parts.append(f"{count(unplaced, 'item')} {'has' if unplaced == 1 else 'have'} no difficulty and no level.")
    return parts


def _floor_refused(row: Mapping[str, Any]) -> str:
    """Why curves do not start at the known chance, and what that means for difficulties; nothing where they do."""
    if row.get("floor") is not None or row.get("below_chance") is None:
        return ""
    why = f"{row['below_chance']:.0%} of the items are clearly below it"
    if row.get("floor_gain") is not None:
        why = f"curves without guessing fit better (log-likelihood {-row['floor_gain']:,.0f} higher)"
    return f"; {why}, so guessing is not allowed for"


def label_finding(items: pl.DataFrame, own_slopes: bool) -> str | None:
    """Name two labels if nearly all items of one run against the scale and few of the other; None where none do so.

    A subject that prefers an answer gets the items right that have it as their label and the others wrong. If subjects
    differ in this more than in ability, the preference becomes the scale, and slopes have the sign of the label.
    """
    column, what = ("discrimination", "slope") if own_slopes else ("point_biserial", "item-rest correlation")
    if not {"label", "p_correct", column} <= set(items.columns):
        return None  # a saved calibration may lack what was dropped from it
    rows = (
        items.filter(
            pl.col("label").is_not_null() & pl.col(column).is_not_null() & pl.col("p_correct").is_between(0, 1, "none")
        )
        .group_by("label")
        .agg(pl.len().alias("n"), (pl.col(column) < 0).mean().alias("negative"))
        .filter(pl.col("n") >= LEAST_LABELLED)
        .sort("negative", "label")
    )
    if rows.height < 2:
        return None
    (low_label, low_n, low), (high_label, high_n, high) = rows.row(0), rows.row(-1)
    pooled = (low * low_n + high * high_n) / (low_n + high_n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / low_n + 1 / high_n))
    if high - low < LABELS_APART or high - low < LABELS_SURE * error:
        return None
    return (
        f"{what.capitalize()}s depend on the label: {high:.0%} of the {high_n:,} items labelled {high_label} have a "
        f"negative one, and {low:.0%} of the {low_n:,} labelled {low_label}. The scale shows which of these answers a "
        "subject prefers."
    )


def items_table(items: pl.DataFrame, width: int = WIDTH) -> Table:
    """The easiest and hardest items and, between them, some with a note."""
    known = items.drop_nulls("difficulty").sort("difficulty")
    # The most doubtful labels first, then what is noisiest.
    order = [pl.col(name) for name in ("label_doubt", "outfit") if name in items.columns]
    noted = items.filter(pl.col("note").is_not_null()).sort(order, descending=True, nulls_last=True).head(10)
    shown, title = items, "Items"
    if items.height > MOST_ROWS:
        shown = pl.concat([known.head(5), noted, known.tail(5)]).unique("item", maintain_order=True)
        title = f"Items: the easiest, the hardest and some with a note, of {items.height:,}"
    numbers = ["n", "right", "difficulty", "se", "slope", "outfit", "level"]
    least = ["n", "slope", "outfit", "se", "right"]
    table = make_table(title, ["item", "note"], numbers, width, texts=["note"], least=least)
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
    numbers = ["n", "ability", "se", "outfit"]
    table = make_table(title, ["subject", "note"], numbers, width, texts=["note"], least=["n"])
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
    without = levels["level"].null_count()
    title = "Difficulty levels, 0 is the easiest"
    if without:
        title += f"; {count(without, 'item')} {'has' if without == 1 else 'have'} none"
    table = make_table(title, [], numbers, width, in_file=False)
    for level, items, low, high, certainty, sure in rows.iter_rows():
        table.add_row(
            str(level), str(items), signed_text(low), signed_text(high), share_text(certainty), share_text(sure)
        )
    return table


def stability_table(stability: pl.DataFrame, width: int = WIDTH) -> Table:
    """How alike levels are between two samples of subjects, by sample size."""
    numbers = ["subjects", "same level", "at most one apart", "rank correlation"]
    table = make_table("Levels from two samples of different subjects", [], numbers, width, in_file=False)
    for row in stability.iter_rows(named=True):
        shares = (share_text(row[name]) for name in ("same_level", "within_one"))
        table.add_row(f"{row['subjects']:,}", *shares, number_text(row["rank_correlation"], 3))
    return table
