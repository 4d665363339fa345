"""What ``advise items`` and ``advise score`` say, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results import Answer, Verdict
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count

if TYPE_CHECKING:
    from breadth.advice.items import ShortForm, ShortScores

#: Largest RMSE, and smallest coverage, with which items can stand for all.
LARGEST_ERROR, LEAST_COVERAGE = 0.05, 0.9


def short_form_verdict(result: ShortForm) -> Verdict:
    """Can these items stand for all?

    Yes: the error on models like these and on stronger ones is at most 5 points, and intervals cover in 90 % of cases.
    It depends: on one of the two. No: on neither.
    """
    size, k = len(result.strata), result.items.height
    rows = {row["models"]: row for row in result.errors.iter_rows(named=True)}
    good = [row["rmse"] <= LARGEST_ERROR and row["coverage"] >= LEAST_COVERAGE for row in rows.values()]
    answer = Answer.YES if all(good) else Answer.DEPENDS if any(good) else Answer.NO
    like, strong = rows["like these"], rows["stronger"]
    reason = (
        f"{k} of {size:,} items give the full score within {100 * like['rmse']:.1f} points on models like these, and "
        f"within {100 * strong['rmse']:.1f} on stronger ones (root mean square)."
    )
    covers = f"95% intervals hold the full score in {like['coverage']:.0%} and {strong['coverage']:.0%} of cases."
    needed = "" if answer is Answer.YES else "Choose more items (-k) for a smaller error."
    return Verdict(answer, reason, covers, needed)


def short_form_details(result: ShortForm) -> str:
    """How the items were drawn, and how errors were measured."""
    models = len(result.references.models)
    like, strong = result.errors.iter_rows(named=True)
    return (
        f"The items are a random sample, stratified by test set and by difficulty. Errors were measured on held-out "
        f"models, out of {count(models, 'model')}: a random quarter, and the strongest 30% predicted from the weaker "
        f"half. The mean of the strata alone would err by {100 * like['plain_rmse']:.1f} and "
        f"{100 * strong['plain_rmse']:.1f} points; reference models helped {like['assisted']:.0%} and "
        f"{strong['assisted']:.0%} of models."
    )


def errors_table(errors: pl.DataFrame, width: int = WIDTH) -> Table:
    """Expected errors in points."""
    table = make_table("Expected error in points", ["models"], ["RMSE", "plain", "coverage", "assisted"], width)
    for row in errors.iter_rows(named=True):
        numbers = (f"{100 * row['rmse']:.1f}", f"{100 * row['plain_rmse']:.1f}")
        table.add_row(Text(row["models"]), *numbers, f"{row['coverage']:.0%}", f"{row['assisted']:.0%}")
    return table


def scores_verdict(result: ShortScores) -> Verdict:
    """Are the full scores known? By the median half-width of their intervals: yes up to 5 points, no beyond 10."""
    frame = result.scores
    half = frame.select(((pl.col("ci_high") - pl.col("ci_low")) / 2).median()).item() or 0.0
    helped = frame.filter(pl.col("estimate") == "assisted").height
    reason = (
        f"the full score of {count(frame.height, 'model')} on {result.n_all:,} items is known within "
        f"{100 * half:.1f} points from {result.n_items} items (median half-width of 95% intervals)."
    )
    line = f"Reference models helped for {helped} of {frame.height}; the others have the plain mean of the strata."
    needed = "" if half <= LARGEST_ERROR else "A short form of more items narrows the intervals."
    answer = Answer.YES if half <= LARGEST_ERROR else Answer.DEPENDS if half <= 2 * LARGEST_ERROR else Answer.NO
    return Verdict(answer, reason, line, needed)


def score_details(result: ShortScores) -> str:
    """Which estimate was used, and which checks passed."""
    frame = result.scores
    said = "do" if frame["predicts"].all() else "do not"
    inside, agrees = int(frame["in_range"].sum()), int(frame["agrees"].sum())
    return (
        f"The assisted estimate is used where three checks pass: the reference models {said} predict each other (R "
        f"squared {result.r2:.2f}); {inside} of {frame.height} lie in their range; {agrees} agree with the plain "
        "estimate's interval."
    )


def scores_table(result: ShortScores, width: int = WIDTH) -> Table:
    """A row per model: estimate, interval, which estimate, and the check that failed if one did."""
    frame = result.scores
    title = "Full scores in per cent" + (
        f": the first {MOST_ROWS} of {frame.height}" if frame.height > MOST_ROWS else ""
    )
    table = make_table(title, ["model", "estimate", "failed check"], ["score", "interval", "plain"], width)
    for row in frame.head(MOST_ROWS).iter_rows(named=True):
        failed = next((words for key, words in CHECKS.items() if not row[key]), "-")
        span = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"
        numbers = (f"{100 * row['score']:.1f}", span, f"{100 * row['plain']:.1f}")
        table.add_row(Text(row["subject"]), row["estimate"], failed, *numbers)
    return table


#: Checks of the assisted estimate, and what it means that one fails.
CHECKS = {"predicts": "references differ", "in_range": "out of range", "agrees": "disagrees"}
