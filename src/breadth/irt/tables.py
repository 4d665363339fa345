"""Terminal tables of a calibration: items, subjects, levels, and how stable levels are."""

from __future__ import annotations

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text, share_text, signed_text
from breadth.results.words import count


def items_table(items: pl.DataFrame, width: int = WIDTH) -> Table:
    """The easiest and hardest items and, between them, some with a note."""
    known = items.drop_nulls("difficulty").sort("difficulty")
    noted = items.filter(pl.col("note").is_not_null()).sort("outfit", descending=True, nulls_last=True).head(10)
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
