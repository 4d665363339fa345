"""Tables for the terminal: never wider than 100 columns, never longer than a screen or two."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from breadth.report.findings import verdicts

WIDTH = 100
MOST_ROWS = 30


def pairs_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Show pairs, the best supported first where not all fit."""
    shown = pairs
    title = "Partial correlations"
    if pairs.height > MOST_ROWS:
        shown = pairs.sort(["p", pl.col("r").abs()], descending=[False, True], nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} best supported of {pairs.height:,}"
    corrected = "r_corrected" in pairs.columns and bool(pairs["r_corrected"].is_not_null().any())
    numbers = ["n", "n_eff", "r_raw", "r", "95% interval", *(["r_corr"] if corrected else []), "q"]
    table = make_table(title, [*by, "a", "b"], numbers, width)
    for row in shown.iter_rows(named=True):
        cells = [Text(str(row[name])) for name in (*by, "a", "b")]
        cells += [Text(str(row["n"])), Text(number_text(row["n_eff"], 0)), _r(row["r_raw"])]
        if row["r"] is None:
            cells += [Text("-"), Text("see note", style="dim italic")]
        else:
            cells += [_r(row["r"], row["ci_low"], row["ci_high"]), interval_text(row["ci_low"], row["ci_high"])]
        cells += [_r(row["r_corrected"])] if corrected else []
        table.add_row(*cells, Text(probability_text(row["q"])))
    return table


def heterogeneity_table(frame: pl.DataFrame, width: int = WIDTH) -> Table:
    """Show, per pair, the mean over groups and how far groups differ, widest disagreement first."""
    title = "Over groups"
    shown = frame
    if frame.height > MOST_ROWS:
        shown = frame.sort("tau2", descending=True, nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} pairs that differ most, of {frame.height:,}"
    table = make_table(title, ["a", "b"], ["groups", "mean r", "95% interval", "new group", "I2", "same sign"], width)
    for row in shown.iter_rows(named=True):
        table.add_row(
            Text(row["a"]),
            Text(row["b"]),
            Text(str(row["k"])),
            _r(row["r_mean"], row["ci_low"], row["ci_high"]),
            interval_text(row["ci_low"], row["ci_high"]),
            interval_text(row["predict_low"], row["predict_high"]),
            Text(share_text(row["i2"])),
            Text(share_text(row["sign_agreement"])),
        )
    return table


def groups_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Show, per group, how many pairs are positive, negative and undecided."""
    parts = pairs.partition_by(by, maintain_order=True)
    title = "Groups" if len(parts) <= MOST_ROWS else f"Groups: the first {MOST_ROWS} of {len(parts):,}"
    numbers = ["rows", "n_eff", "positive", "negative", "undecided", "not computed", "median r"]
    table = make_table(title, by, numbers, width)
    for part in parts[:MOST_ROWS]:
        counts = verdicts(part)
        n_eff, r = part["n_eff"].median(), part["r"].median()
        table.add_row(
            *(Text(str(part[name][0])) for name in by),
            Text(str(part["n"].max())),
            Text(number_text(n_eff, 0)),
            *(Text(str(count)) for count in (counts.positive, counts.negative, counts.undecided, counts.unknown)),
            _r(r),
        )
    return table


def make_table(title: str, names: Sequence[str], numbers: Sequence[str], width: int) -> Table:
    """A table whose numbers are never cut: where it would be too wide, the names are shortened."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    fixed = {"95% interval": 13, "new group": 11, "n": 4, "level": 8}
    widths = [fixed.get(name, max(5, len(name))) for name in numbers]
    # Every column but the last is followed by three blanks, and one stands on either side.
    spare = width - 2 - sum(widths) - 3 * (len(names) + len(widths) - 1)
    for name in names:
        table.add_column(Text(name), overflow="ellipsis", no_wrap=True, max_width=max(6, spare // max(len(names), 1)))
    for name, size in zip(numbers, widths, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=size)
    return table


def _r(value: object, low: float | None = None, high: float | None = None) -> Text:
    """A correlation with its sign, bold where its interval leaves 0 out."""
    if not isinstance(value, float):
        return Text("-")
    sure = low is not None and high is not None and (low > 0 or high < 0)
    return Text(f"{value:+.2f}", style="bold" if sure else "")


def interval_text(low: float | None, high: float | None) -> Text:
    """Both ends with their sign, or a dash."""
    return Text("-" if low is None or high is None else f"{low:+.2f} {high:+.2f}")


def number_text(value: object, digits: int) -> str:
    """A number with so many digits, or a dash."""
    return f"{value:.{digits}f}" if isinstance(value, float | int) else "-"


def share_text(value: float | None) -> str:
    """A share in per cent, or a dash."""
    return "-" if value is None else f"{value:.0%}"


def probability_text(value: float | None) -> str:
    """A p- or q-value without its leading zero, or a dash."""
    if value is None:
        return "-"
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"
