"""What ``advise together`` says, and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.comparison import points
from breadth.results import Answer, Verdict
from breadth.results.terminal import WIDTH, make_table
from breadth.results.words import count

if TYPE_CHECKING:
    from breadth.advice.together import TogetherAdvice

#: An honest gain that is worth the cost of several models.
WORTH = 0.01


def together_verdict(result: TogetherAdvice) -> Verdict:
    """Would several models do better than the best one?

    Yes: the interval of the largest honest gain lies above 0. No: that of none reaches one point. Not enough data:
    otherwise.
    """
    known = result.gains.drop_nulls("honest").sort("honest", descending=True)
    row = known.row(0, named=True)
    single = f"{result.best} ({result.accuracy:.1%} on {count(result.n_items, 'item')})"
    span = f"{100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f}".replace("-", "−")
    said = f"{row['combination']} gains {points(row['honest'])} ({span}) over {single} on items it was not chosen on."
    naive = f"Naively it looks like {points(row['naive'])}."
    if row["ci_low"] > 0:
        return Verdict(Answer.YES, said, naive)
    if known["ci_high"].max() < WORTH:  # type: ignore[operator]
        return Verdict(Answer.NO, f"no combination gains a point over {single}.", f"The largest: {said}")
    return Verdict(Answer.UNKNOWN, said, naive, "More items would tell whether the gain is real.")


def together_details(result: TogetherAdvice) -> str:
    """What the gains are measured against, and how far the naive ones are off."""
    known = result.gains.drop_nulls("honest")
    off = float((known["naive"] - known["honest"]).mean() or 0)  # type: ignore[arg-type]
    oracle = result.gains.filter(pl.col("combination") == "oracle")["naive"][0]
    side = "higher" if off > 0 else "lower"
    return (
        f"{count(result.n_models, 'model')}. Honest gains come from nested cross-validation over items; naive ones "
        f"are {abs(100 * off):.1f} points {side} on average. "
        f"The oracle ({points(oracle)}) knows who is right; no rule can."
    )


def gains_table(gains: pl.DataFrame, width: int = WIDTH) -> Table:
    """Gains over the best single model, in points."""
    names, numbers = ["combination", "members"], ["naive", "honest", "interval"]
    title = "Gain in points over the best model"
    table = make_table(title, names, numbers, width, texts=["members"], least=["naive"])
    for row in gains.iter_rows(named=True):
        honest = "-" if row["honest"] is None else f"{100 * row['honest']:+.1f}"
        span = "-" if row["ci_low"] is None else f"{100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f}"
        table.add_row(row["combination"], Text(row["members"]), f"{100 * row['naive']:+.1f}", honest, span)
    return table
