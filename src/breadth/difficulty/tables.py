"""Terminal tables about items, subjects and difficulty."""

from __future__ import annotations

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.results.terminal import WIDTH, interval_text, make_table, probability_text, share_text, signed_text


def measures_table(measures: pl.DataFrame, width: int = WIDTH) -> Table:
    """Spearman's rho of every measure with difficulty."""
    numbers = ["n", "rho", "95% interval", "q"]
    table = make_table(
        "Difficulty against other measures", ["measure", "note"], numbers, width, texts=["note"], least=["n"]
    )
    for row in measures.iter_rows(named=True):
        table.add_row(
            Text(row["measure"]),
            Text(row["note"] or ""),
            Text(str(row["n"])),
            Text(signed_text(row["rho"])),
            interval_text(row["ci_low"], row["ci_high"]),
            Text(probability_text(row["q"])),
        )
    return table


def histogram_table(histogram: pl.DataFrame, width: int = WIDTH) -> Table:
    """Items per level of difficulty, before and after a draw, with bars for the shares."""
    numbers, bars = ["level", "from", "to", "before", "after"], "share before | share after"
    table = make_table("Difficulty before and after", [], numbers, width, least=[bars, "from", "to"], in_file=False)
    table.add_column(bars, no_wrap=True)
    totals = [max(1, int(histogram[name].sum())) for name in ("before", "after")]
    for row in histogram.iter_rows(named=True):
        shares = [row[name] / total for name, total in zip(("before", "after"), totals, strict=True)]
        drawn = " | ".join(f"{'█' * round(share * 40):<16.16}" for share in shares)
        ends = (signed_text(row[name]) for name in ("from", "to"))
        table.add_row(str(row["level"]), *ends, f"{row['before']:,}", f"{row['after']:,}", drawn)
    return table


def profile_table(levels: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per subject, a column per level: accuracy in per cent, and half the width of its 95 % interval.

    With more levels than fit otherwise, the interval is below the accuracy.
    """
    names = [str(level) for level in levels["level"].unique().sort()]
    one_line = len(names) <= 6 and 12 + 9 * len(names) <= width
    title = "Accuracy by difficulty level (0 is the easiest), in per cent"
    table = make_table(title, ["subject"], [], width, what="level")
    table.columns[0].max_width = max(10, width - 2 - (9 if one_line else 6) * len(names))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=6 if one_line else 3)
    for part in levels.partition_by("subject", maintain_order=True):
        rows = {str(row["level"]): row for row in part.iter_rows(named=True)}
        cells = (_accuracy(rows.get(name), " " if one_line else "\n") for name in names)
        table.add_row(Text(part["subject"][0]), *cells)
    return table


def differences_table(differences: pl.DataFrame, width: int = WIDTH) -> Table:
    """Where two subjects differ: per level, the paired difference and its share of the whole."""
    first, second = differences.select("subject_1", "subject_2").row(0)
    numbers = ["level", "n", "difference", "95% interval", "q", "share of the whole"]
    least = ["share of the whole", "n"]
    table = make_table(f"{first} minus {second}", [], numbers, width, least=least)
    for row in differences.iter_rows(named=True):
        table.add_row(
            "all" if row["level"] is None else str(row["level"]),
            str(row["n"]),
            signed_text(row["difference"]),
            interval_text(row["ci_low"], row["ci_high"]),
            probability_text(row["q"]),
            share_text(row["share"]),
        )
    return table


def _accuracy(row: dict[str, float] | None, between: str) -> Text:
    if row is None or row["accuracy"] is None:
        return Text("-")
    half_width = f"±{50 * (row['ci_high'] - row['ci_low']):.0f}"
    return Text.assemble(f"{100 * row['accuracy']:.0f}", between, (half_width, "dim"))
