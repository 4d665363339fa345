"""Do these answers measure one ability, and how precisely? The answer."""

from __future__ import annotations

import math

import polars as pl

from breadth.irt.diagnostics import Dimension
from breadth.irt.words import LEAST_RELIABILITY, LINK, TOO_MANY_DIMENSIONS, ItemFlag, not_one_ability
from breadth.results import Answer, Verdict, about
from breadth.results.words import count, joined

#: Reliability from which single subjects are told apart well enough, and the one that a test should reach.
ENOUGH_RELIABILITY, WANTED_RELIABILITY = 0.8, 0.9

#: Items beyond which it is not said how many would reach it: nobody writes more.
MOST_ITEMS = 100_000


def calibration_verdict(items: pl.DataFrame, fit: pl.DataFrame, dimension: Dimension | None = None) -> Verdict | None:
    """Do these answers measure one ability, and how precisely? None where the fit is not on record.

    Not enough data: nothing links blocks of subjects and items (:func:`breadth.irt.components.linked_components`), or
    reliability is below 0.5. No: items run against the scale, or subjects differ most in something else than the score
    counts (:func:`not_one_ability`). It depends: the first residual component is at
    least 1.5 times what noise would show (``dimension``, None where that was not checked), reliability is below 0.8, or
    the fit did not converge. Yes: otherwise. ``needed`` is the number of items for a reliability of 0.9 by the formula
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
    flagged = {flag: items.filter(pl.col("flag") == flag)["item"].to_list() for flag in ItemFlag}
    wrong, parts = flagged[ItemFlag.WRONG_KEY], []
    if wrong:
        parts.append(f"{count(len(wrong), 'item')} may have a wrong label: {joined(wrong, 5)}.")
    extreme = {"right": len(flagged[ItemFlag.ALL_RIGHT]), "wrong": len(flagged[ItemFlag.ALL_WRONG])}
    said = [f"{n} {'was' if n == 1 else 'were'} answered {word} by all" for word, n in extreme.items() if n]
    if said:
        parts.append(f"Of {items.height:,} items, {joined(said)}: they do not tell these subjects apart.")
    return " ".join(parts)
