"""Gains by level for people: the verdict, the details in words, and tables for the terminal."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.level_transfer.transfer import CellFlag, Transfer
from breadth.results import ALMOST_ALL, ALMOST_NONE, Answer, Verdict, about, times_more
from breadth.results.terminal import WIDTH, interval_text, make_table, signed_text
from breadth.results.words import FINDING, SCORE_WORDS, interval, points


def transfer_verdict(result: Transfer) -> Verdict:
    """Does training on one level help on the others? By strategy: does training help on every level?

    From the cells off the diagonal (all cells for strategies). A gain or a loss is a finding if q < 0.05, over all
    cells. Yes: at least 90 % are gains. No: at least 90 % are losses; or at most 10 % are findings, and the median cell
    would have shown a gain of 5 points with a probability of 80 %. Not enough data: the same, if it would not. It
    depends: otherwise.
    """
    cells, levels = result.cells, result.by == "train_level"
    away = cells.filter(pl.col(result.by).cast(pl.String) != pl.col("test_level").cast(pl.String)) if levels else cells
    away = away if away.height else cells
    known = away.drop_nulls("q")
    where = "training on one level" if levels else "training"
    others = "the others" if levels else "test levels"
    if not known.height:
        reason = f"no gain on {others} has an interval, because all items of a level gain the same."
        return Verdict(Answer.UNKNOWN, reason)
    up, down = _gains(known)
    counted = f"{up} of {known.height} cells ({condition_words(result.by)} x test level) gain and {down} lose"
    lines = _strongest(result, known)
    if up >= ALMOST_ALL * known.height:
        return Verdict(Answer.YES, f"{where} helps on {others}: {counted}.", lines)
    if down >= ALMOST_ALL * known.height:
        return Verdict(Answer.NO, f"{where} harms {others}: {counted}.", lines)
    if up + down > ALMOST_NONE * known.height:
        return Verdict(
            Answer.DEPENDS, f"{where} helps on some {'of the others' if levels else others}: {counted}.", lines
        )
    times = times_more(float(known["se"].median() or 0))  # type: ignore[arg-type]
    if times <= 1:
        reason = f"{where} hardly changes {others}: {counted}, although a gain of 5 points would have been seen."
        return Verdict(Answer.NO, reason, lines)
    needed = f"To see a gain of 5 points takes about {about(times)} times as many test items and seeds."
    return Verdict(Answer.UNKNOWN, f"whether {where} helps on {others} is open: {counted}.", lines, needed)


def _gains(cells: pl.DataFrame) -> tuple[int, int]:
    """How many cells gain, and how many lose, with the false discovery rate at 5 %."""
    gains = cells.filter(pl.col("q") < FINDING)["gain"]
    return int((gains > 0).sum()), int((gains < 0).sum())


def _strongest(result: Transfer, cells: pl.DataFrame) -> str:
    """The largest change that is a finding, and the effects of distance and direction that are."""
    parts = []
    found = cells.filter(pl.col("q") < FINDING).sort(pl.col("gain").abs(), descending=True, maintain_order=True)
    if found.height:
        row, word = found.row(0, named=True), "level " if result.by == "train_level" else ""
        change = f"{points(row['gain'])} ({interval(row)})"
        parts.append(f"Largest: trained on {word}{row[result.by]}, tested on level {row['test_level']}: {change}.")
    if result.effects.height:
        fade, direction = result.effects.iter_rows(named=True)
        if _side(fade):
            parts.append(f"Gains {'fade' if _side(fade) < 0 else 'grow'} with distance: {_points(fade)} per level.")
        if _side(direction):
            first, second = ("easy-to-hard", "hard-to-easy")[:: _side(direction)]
            parts.append(f"Training {first} gains more than {second}: {_points(direction)}.")
    return " ".join(parts)


def _side(row: dict[str, Any]) -> int:
    """1 if an effect is a finding above 0, -1 below, 0 if it is undecided."""
    found = row["q"] is not None and row["q"] < FINDING
    return found * (1 if row["estimate"] > 0 else -1)


def transfer_details(result: Transfer) -> str:
    """How many cells gained, whether gains fade with distance, whether direction matters, and what to train on."""
    cells, best, condition = result.cells, result.best, condition_words(result.by)
    up, down = _gains(cells)
    open_ = cells.height - up - down
    parts = [] if result.score == "accuracy" else [f"Scored by {SCORE_WORDS[result.score]}; a point is 0.01."]
    parts += [
        f"Of all {cells.height} cells ({condition} x test level), {up} gained over the model before training, "
        f"{down} lost and {open_} {'is' if open_ == 1 else 'are'} undecided (false discovery rate 5%)."
    ]
    if result.effects.height:
        fade, direction = result.effects.iter_rows(named=True)
        fading = {-1: "gains fade with distance", 1: "gains grow with distance", 0: "undecided whether gains fade"}
        parts.append(
            f"Per level of distance between training and test, gain changes by {_points(fade)}: {fading[_side(fade)]}."
        )
        decided = "decided" if _side(direction) else "undecided"
        parts.append(f"Easy-to-hard minus hard-to-easy gain: {_points(direction)}, {decided}.")
    overall = best.row(0, named=True)
    if overall["second"] is not None:
        lead = f"ahead of {overall['second']} by {abs(100 * overall['lead']):.1f} points"
        parts.append(f"Over all test levels, the best {condition} is {overall['best']}, {lead} ({overall['verdict']}).")
    winners = best.filter((pl.col("verdict") == "decided") & pl.col("test_level").is_not_null()).height
    parts.append(f"The best {condition} is decided on {winners} of {best.height - 1} test levels.")
    if "flag" in cells.columns and (cells["flag"] == CellFlag.ONE_SEED).any():
        parts.append("Cells of one seed (flag one_seed) leave out how much training runs vary.")
    if result.pairing is not None:
        parts.append(
            f"Standard errors, paired by item, are {result.pairing:.2f} times what they would be unpaired (median over "
            "cells)."
        )
    return " ".join(parts)


def gains_table(cells: pl.DataFrame, by: str, width: int = WIDTH) -> Table:
    """A row per training condition, a column per test level: gain in points, starred if it is a finding."""
    names = [str(level) for level in cells["test_level"].unique().sort()]
    title = "Gain in points by test level (*: q < 0.05)"
    table = make_table(title, [condition_words(by)], [], width, what="test level")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=4)
    for part in cells.partition_by(by, maintain_order=True):
        gains = []
        for row in part.sort("test_level").iter_rows(named=True):
            sure = row["q"] is not None and row["q"] < FINDING
            gains.append(Text(f"{100 * row['gain']:+.0f}{'*' if sure else ' '}", style="bold" if sure else ""))
        table.add_row(Text(str(part[by][0])), *gains)
    return table


def best_table(best: pl.DataFrame, width: int = WIDTH) -> Table:
    """The best training condition per test level and overall, and its lead over the second best."""
    names, numbers = ["test level", "best", "second", "verdict"], ["gain", "lead", "95% interval"]
    least = ["gain", "95% interval", "second"]
    table = make_table("Best training per test level", names, numbers, width, least=least)
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
