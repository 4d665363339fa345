"""Gains by level for people: the findings in words, and tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results.terminal import WIDTH, interval_text, make_table, signed_text
from breadth.results.words import SCORE_WORDS, verdict

if TYPE_CHECKING:
    from breadth.level_transfer.transfer import Transfer


def findings(result: Transfer) -> str:
    """How many cells gained, whether gains fade with distance, whether direction matters, and what to train on."""
    cells, best, condition = result.cells, result.best, condition_words(result.by)
    up, down = int((cells["ci_low"] > 0).sum()), int((cells["ci_high"] < 0).sum())
    parts = [] if result.score == "accuracy" else [f"Scored by {SCORE_WORDS[result.score]}; a point is 0.01."]
    parts += [
        f"Of {cells.height} cells ({condition} x test level), {up} gained over the model before training, "
        f"{down} lost and {cells.height - up - down} are undecided (95% interval covers 0)."
    ]
    if result.effects.height:
        fade, direction = result.effects.iter_rows(named=True)
        fading = {-1: "gains fade with distance", 1: "gains grow with distance", 0: "undecided whether gains fade"}
        parts.append(
            f"Per level of distance between training and test, gain changes by {_points(fade)}: "
            f"{fading[verdict(fade['ci_low'], fade['ci_high'])]}."
        )
        decided = "decided" if verdict(direction["ci_low"], direction["ci_high"]) else "undecided"
        parts.append(f"Easy-to-hard gains {_points(direction)} more than hard-to-easy: {decided}.")
    overall = best.row(0, named=True)
    if overall["second"] is not None:
        lead = f"ahead of {overall['second']} by {abs(100 * overall['lead']):.1f} points"
        parts.append(f"Over all test levels, the best {condition} is {overall['best']}, {lead} ({overall['verdict']}).")
    winners = best.filter((pl.col("verdict") == "decided") & pl.col("test_level").is_not_null()).height
    parts.append(f"The best {condition} is decided on {winners} of {best.height - 1} test levels.")
    if result.pairing is not None:
        parts.append(
            f"Standard errors, paired by item, are {result.pairing:.2f} times what they would be unpaired (median over "
            "cells)."
        )
    return " ".join(parts)


def gains_table(cells: pl.DataFrame, by: str, width: int = WIDTH) -> Table:
    """A row per training condition, a column per test level: gain in points, starred if its interval excludes 0."""
    names = [str(level) for level in cells["test_level"].unique().sort()]
    title = "Gain in points by test level (*: 95% interval excludes 0)"
    table = make_table(title, [condition_words(by)], [], width)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=4)
    for part in cells.partition_by(by, maintain_order=True):
        gains = []
        for row in part.sort("test_level").iter_rows(named=True):
            sure = verdict(row["ci_low"], row["ci_high"]) != 0
            gains.append(Text(f"{100 * row['gain']:+.0f}{'*' if sure else ' '}", style="bold" if sure else ""))
        table.add_row(Text(str(part[by][0])), *gains)
    return table


def best_table(best: pl.DataFrame, width: int = WIDTH) -> Table:
    """The best training condition per test level and overall, and its lead over the second best."""
    names, numbers = ["test level", "best", "second", "verdict"], ["gain", "lead", "95% interval"]
    table = make_table("Best training per test level", names, numbers, width)
    for row in best.iter_rows(named=True):
        table.add_row(
            "all" if row["test_level"] is None else str(row["test_level"]),
            Text(row["best"]),
            Text(row["second"] or "-"),
            row["verdict"],
            signed_text(row["gain"]),
            signed_text(row["lead"]),
            interval_text(row["ci_low"], row["ci_high"]),
        )
    return table


def condition_words(by: str) -> str:
    """The column of the training condition in words."""
    return "training level" if by == "train_level" else by


def _points(row: dict[str, Any]) -> str:
    if row["ci_low"] is None:
        return f"{100 * row['estimate']:+.1f} points"
    return f"{100 * row['estimate']:+.1f} points ({100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f})"
