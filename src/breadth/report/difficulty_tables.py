"""Terminal tables about items, subjects and difficulty."""

from __future__ import annotations

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.report.terminal import (
    MOST_ROWS,
    WIDTH,
    interval_text,
    make_table,
    number_text,
    probability_text,
    share_text,
)


def items_table(items: pl.DataFrame, width: int = WIDTH) -> Table:
    """The easiest and hardest items and, between them, those with a note."""
    known = items.drop_nulls("difficulty").sort("difficulty")
    noted = items.filter(pl.col("note").is_not_null()).sort("outfit", descending=True, nulls_last=True).head(10)
    shown = (
        items
        if items.height <= MOST_ROWS
        else pl.concat([known.head(5), noted, known.tail(5)]).unique("item", maintain_order=True)
    )
    title = (
        "Items"
        if items.height <= MOST_ROWS
        else f"Items: the easiest, the hardest and some with a note, of {items.height:,}"
    )
    numbers = ["n", "right", "difficulty", "se", "slope", "outfit", "level"]
    table = make_table(title, ["item", "note"], numbers, width)
    for row in shown.iter_rows(named=True):
        table.add_row(
            Text(row["item"]),
            Text(row["note"] or ""),
            Text(str(row["n"])),
            Text(share_text(row["p_correct"])),
            Text(_signed(row["difficulty"])),
            Text(number_text(row["difficulty_se"], 2)),
            Text(number_text(row["discrimination"], 2)),
            Text(number_text(row["outfit"], 2)),
            Text(_levels(row)),
        )
    return table


def subjects_table(subjects: pl.DataFrame, width: int = WIDTH) -> Table:
    """Subjects from the ablest down, the first thirty."""
    shown = subjects.sort("ability", descending=True, nulls_last=True).head(MOST_ROWS)
    title = "Subjects" if subjects.height <= MOST_ROWS else f"Subjects: the {MOST_ROWS} ablest of {subjects.height:,}"
    table = make_table(title, ["subject", "note"], ["n", "ability", "se", "outfit"], width)
    for row in shown.iter_rows(named=True):
        table.add_row(
            Text(row["subject"]),
            Text(row["note"] or ""),
            Text(str(row["n"])),
            Text(_signed(row["ability"])),
            Text(number_text(row["ability_se"], 2)),
            Text(number_text(row["outfit"], 2)),
        )
    return table


def levels_table(levels: pl.DataFrame, width: int = WIDTH) -> Table:
    """Per level: how many items, which difficulties, and how sure their membership is."""
    grouped = (
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
    table = make_table(
        "Difficulty levels, 0 is the easiest",
        [],
        ["level", "items", "from", "to", "certainty", "in one level only"],
        width,
    )
    for row in grouped.iter_rows(named=True):
        table.add_row(
            str(row["level"]),
            str(row["items"]),
            _signed(row["from"]),
            _signed(row["to"]),
            share_text(row["certainty"]),
            share_text(row["sure"]),
        )
    return table


def stability_table(stability: pl.DataFrame, width: int = WIDTH) -> Table:
    """How alike levels are between two samples of subjects, by sample size."""
    numbers = ["subjects", "same level", "at most one apart", "rank correlation"]
    table = make_table("Levels from two samples of different subjects", [], numbers, width)
    for row in stability.iter_rows(named=True):
        table.add_row(
            f"{row['subjects']:,}",
            share_text(row["same_level"]),
            share_text(row["within_one"]),
            number_text(row["rank_correlation"], 3),
        )
    return table


def measures_table(measures: pl.DataFrame, width: int = WIDTH) -> Table:
    """Spearman's rho of every measure with difficulty."""
    table = make_table(
        "Difficulty against other measures", ["measure", "note"], ["n", "rho", "95% interval", "q"], width
    )
    for row in measures.iter_rows(named=True):
        table.add_row(
            Text(row["measure"]),
            Text(row["note"] or ""),
            Text(str(row["n"])),
            Text(_signed(row["rho"])),
            interval_text(row["ci_low"], row["ci_high"]),
            Text(probability_text(row["q"])),
        )
    return table


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _levels(row: dict[str, int | None]) -> str:
    low, level, high = row["level_low"], row["level"], row["level_high"]
    if level is None:
        return "-"
    return str(level) if low == high else f"{level} ({low}-{high})"


def histogram_table(histogram: pl.DataFrame, width: int = WIDTH) -> Table:
    """Items per tenth of the range of difficulty, before and after a draw, with bars for the shares."""
    table = make_table("Difficulty before and after", [], ["level", "from", "to", "before", "after"], width)
    table.add_column("share before | share after", no_wrap=True)
    totals = [max(1, int(histogram[name].sum())) for name in ("before", "after")]
    for row in histogram.iter_rows(named=True):
        shares = [row[name] / total for name, total in zip(("before", "after"), totals, strict=True)]
        bars = " | ".join(f"{'█' * round(share * 40):<16.16}" for share in shares)
        cells = [str(row["level"]), _signed(row["from"]), _signed(row["to"]), f"{row['before']:,}", f"{row['after']:,}"]
        table.add_row(*cells, bars)
    return table


def profile_table(levels: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per subject, a column per level: accuracy in per cent, and half the width of its 95 % interval.

    With more levels than fit otherwise, the interval stands below the accuracy.
    """
    names = [str(level) for level in levels["level"].unique().sort()]
    roomy = len(names) <= 6
    table = make_table("Accuracy by difficulty level (0 is the easiest), in per cent", ["subject"], [], width)
    table.columns[0].max_width = max(10, width - 2 - (9 if roomy else 6) * len(names))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=6 if roomy else 3)
    for part in levels.partition_by("subject", maintain_order=True):
        cells = {str(row["level"]): row for row in part.iter_rows(named=True)}
        table.add_row(Text(part["subject"][0]), *(_accuracy(cells.get(name), " " if roomy else "\n") for name in names))
    return table


def differences_table(differences: pl.DataFrame, width: int = WIDTH) -> Table:
    """Where two subjects differ: per level, the paired difference and its share of the whole."""
    first, second = differences.select("subject_1", "subject_2").row(0)
    title = f"{first} minus {second}"
    table = make_table(title, [], ["level", "n", "difference", "95% interval", "q", "share of the whole"], width)
    for row in differences.iter_rows(named=True):
        table.add_row(
            "all" if row["level"] is None else str(row["level"]),
            str(row["n"]),
            _signed(row["difference"]),
            interval_text(row["ci_low"], row["ci_high"]),
            probability_text(row["q"]),
            share_text(row["share"]),
        )
    return table


def _accuracy(row: dict[str, float] | None, between: str) -> Text:
    if row is None or row["accuracy"] is None:
        return Text("-")
    reach = f"±{50 * (row['ci_high'] - row['ci_low']):.0f}"
    return Text.assemble(f"{100 * row['accuracy']:.0f}", between, (reach, "dim"))


def gains_table(cells: pl.DataFrame, by: str, width: int = WIDTH) -> Table:
    """A row per way of training, a column per test level: gain in points, starred if its interval leaves 0 out."""
    names = [str(level) for level in cells["test_level"].unique().sort()]
    title = "Gain over the model before training in points, per test level (* = 95% interval leaves 0 out)"
    table = make_table(title, [by.replace("_", " ")], [], width)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=4)
    for part in cells.partition_by(by, maintain_order=True):
        gains = []
        for row in part.sort("test_level").iter_rows(named=True):
            sure = row["ci_low"] is not None and (row["ci_low"] > 0 or row["ci_high"] < 0)
            gains.append(Text(f"{100 * row['gain']:+.0f}{'*' if sure else ' '}", style="bold" if sure else ""))
        table.add_row(Text(str(part[by][0])), *gains)
    return table


def best_table(best: pl.DataFrame, width: int = WIDTH) -> Table:
    """The best way of training per test level and overall, and its lead over the second best."""
    table = make_table(
        "Best training", ["test level", "best", "second", "verdict"], ["gain", "lead", "95% interval"], width
    )
    for row in best.iter_rows(named=True):
        table.add_row(
            "all" if row["test_level"] is None else str(row["test_level"]),
            Text(row["best"]),
            Text(row["second"] or "-"),
            row["verdict"],
            _signed(row["gain"]),
            _signed(row["lead"]),
            interval_text(row["ci_low"], row["ci_high"]),
        )
    return table
