"""A correlation analysis in words and as terminal tables; "undecided" is what the false discovery rate leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.correlation.moderator_words import moderator_words
from breadth.correlation.noise import deciding
from breadth.correlation.unmeasured import unmeasured_words
from breadth.correlation.verdict import count_findings, group_count, group_noun, why_not_computed
from breadth.results.terminal import MOST_ROWS, WIDTH, interval_text, make_table, probability_text
from breadth.results.words import FINDING, count, joined

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation


def correlation_details(result: Correlation) -> str:
    """One paragraph: how many correlations are findings, how much groups differ, and what changed through training."""
    pairs, windows, by = deciding(result.pairs), deciding(result.windows), result.by
    counts, noun = count_findings(pairs), group_noun(result)
    if not counts.known:
        return "Column note gives the reason for every pair."
    start = f"Of {count(counts.known, 'correlation')} between test sets"
    if by:
        # What the verdict counts are means over these, which may be clear where single ones are not.
        each = f"{count(group_count(result), noun)} x {count(pairs_of(result), 'pair')}"
        start = f"Each {noun} on its own: of {count(counts.known, 'correlation')} between test sets ({each})"
    text = (
        f"{start} {result.given}, {counts.positive} "
        f"{'is a positive finding' if counts.positive == 1 else 'are positive findings'}, {counts.negative} negative, "
        f"and {counts.undecided} undecided (false discovery rate 5%)."
    )
    if counts.unknown:
        text += f" {count(counts.unknown, 'pair')} could not be computed: {why_not_computed(pairs)}."
    if result.corrected:
        shares = result.pairs.select("reliability_a", "reliability_b").to_numpy()
        middle = float(np.median(np.clip(shares[~np.isnan(shares)], 0, 1)))
        left = "how a score varies"
        if result.trajectories.controls and result.settings.adjust != "none":
            left = "what the control leaves of a score"
        text += f" They are corrected for the noise of finite test sets: of {left}, {middle:.0%} is signal (median)."
    if result.trajectories.turned:
        text += f" Lower is better on {joined(result.trajectories.turned, 6)}: a gain there is a fall."
    if "r_plain" in pairs.columns:
        text += f" {_robust_words(pairs)}"
    # How much units differ.
    noun = result.units.noun
    if by and (several := result.heterogeneity.filter(pl.col("k") > 1).drop_nulls("r_mean")).height:
        agree, i2 = (several.select(pl.col(name).median().fill_null(0)).item() for name in ("sign_agreement", "i2"))
        text += (
            f" In the median pair, {agree:.0%} of {noun}s share the sign of the mean, and {i2:.0%} of the variation "
            f"between {noun}s exceeds sampling error (I2). {int((several['q_differ'] < FINDING).sum())} of "
            f"{several.height} pairs differ between {noun}s (Cochran's test, false discovery rate 5%)."
        )
        predicted = several.drop_nulls("predict_low")
        if predicted.height:
            same = int(((predicted["predict_low"] > 0) | (predicted["predict_high"] < 0)).sum())
            text += f" The sign in a new {noun} can be predicted for {same} of {predicted.height} pairs."
    if windows.height:
        text += f" {_change_words(result)}"
    if result.moderators.height:
        text += f"\n\n{moderator_words(result.moderators, result.moderator_means)}"
    if result.unmeasured.height:
        text += f"\n\n{unmeasured_words(result.unmeasured)}"
    return text


def pairs_of(result: Correlation) -> int:
    """How many pairs of test sets there are."""
    return comb(len(result.trajectories.testsets), 2)


def _change_words(result: Correlation) -> str:
    """How many correlations changed from the first part of training to the last, and which most clearly."""
    changes = result.changes.drop_nulls("p")
    if not changes.height:
        return "The first and the last window have too few rows to compare them."
    found = changes.filter(pl.col("q") < FINDING).sort("p", maintain_order=True)
    over = f" (mean over {count(int(changes['k'].max() or 0), result.units.noun)})"  # type: ignore[arg-type]
    if "unit" in changes.columns:
        units = changes["unit"].n_unique()
        over = f" (in this {result.units.noun})"
        if units > 1:
            over = f" ({count(units, result.units.noun)}, each on its own)"
    text = (
        f"From the first to the last window, {found.height} of {count(changes.height, 'correlation')} "
        f"changed{over if result.by else ''}, with a false discovery rate of 5%."
    )
    if found.height:
        row = found.row(0, named=True)
        where = f" in {row['unit']}" if "unit" in row else ""
        text += f" Clearest: {row['a']} and {row['b']}{where}, from {row['early']:+.2f} to {row['late']:+.2f}."
    return text


def _robust_words(pairs: pl.DataFrame) -> str:
    """On how many pairs the robust and the plain correlation disagree, and on which most."""
    known = pairs.drop_nulls(["ci_low", "ci_low_plain"])
    robust, plain = (
        (pl.col(f"ci_low{end}") > 0).cast(pl.Int8) - (pl.col(f"ci_high{end}") < 0).cast(pl.Int8)
        for end in ("", "_plain")
    )
    outside = ~pl.col("r_plain").is_between("ci_low", "ci_high")
    disputed = known.filter((robust != plain) | outside)
    start = "These correlations give rows far out little weight (--robust); "
    if not disputed.height:
        return f"{start}the plain ones say the same."
    # The two that are farthest apart.
    row = disputed.sort((pl.col("r") - pl.col("r_plain")).abs(), descending=True).row(0, named=True)
    text = (
        f"{start}the plain ones disagree on {count(disputed.height, 'pair')} of {known.height}, most of all on "
        f"{row['a']} and {row['b']} ({row['r']:+.2f} robust, {row['r_plain']:+.2f} plain)."
    )
    if rest := known.filter(outside).height:
        text += f" On {count(rest, 'pair')}, a few rows decide the plain correlation: look at `residuals` for them."
    return text


def correlations_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Pairs; where not all fit, the best supported ones."""
    shown = pairs
    title = "Partial correlations"
    if "r_corrected" in pairs.columns:
        title += ", corrected for noise"
    if pairs.height > MOST_ROWS:
        shown = pairs.sort(["p", pl.col("r").abs()], descending=[False, True], nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} best supported of {pairs.height:,}"
    corrected = "r_corrected" in pairs.columns
    plain = ["r_partial"] if corrected else []
    numbers = ["n", "n_eff", "r_raw", *plain, "r", "95% interval", "q"]
    table = make_table(title, [*by, "a", "b"], numbers, width, least=["n", "r_raw", "n_eff", "r_partial"])
    for row, decides in zip(shown.iter_rows(named=True), deciding(shown).iter_rows(named=True), strict=True):
        cells = [Text(str(row[name])) for name in (*by, "a", "b")]
        cells += [Text(str(row["n"])), _number_text(row["n_eff"], ".0f"), _number_text(row["r_raw"])]
        if corrected:
            cells.append(_number_text(row["r"]))
        if decides["r"] is None:
            cells += [Text("-"), Text("see note", style="dim italic")]
        else:
            cells.append(_number_text(decides["r"], q=row["q"]))
            cells.append(interval_text(decides["ci_low"], decides["ci_high"]))
        table.add_row(*cells, Text(probability_text(row["q"])))
    return table


def heterogeneity_table(frame: pl.DataFrame, width: int = WIDTH, noun: str = "group") -> Table:
    """Per pair, the mean over units and how far units differ; where not all fit, the widest disagreements."""
    title = f"Over {noun}s (*: q < 0.05)"
    shown = frame
    if frame.height > MOST_ROWS:
        shown = frame.sort("tau2", descending=True, nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} pairs that differ most, of {frame.height:,}"
    numbers = [f"{noun}s", "raw r", "mean r", "95% interval", f"new {noun}", "I2", "same sign"]
    table = make_table(title, ["a", "b"], numbers, width, least=[f"{noun}s", "I2", "raw r", f"new {noun}"])
    for row in shown.iter_rows(named=True):
        table.add_row(
            Text(row["a"]),
            Text(row["b"]),
            Text(str(row["k"])),
            _number_text(row["r_raw"]),
            _number_text(row["r_mean"], "+.2f", row["q"], mark=True),
            interval_text(row["ci_low"], row["ci_high"]),
            interval_text(row["predict_low"], row["predict_high"]),
            _number_text(row["i2"], ".0%"),
            _number_text(row["sign_agreement"], ".0%"),
        )
    return table


def groups_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Per group, how many pairs are positive and negative findings, and undecided."""
    parts = deciding(pairs).partition_by(by, maintain_order=True)
    title = "Groups (positive and negative: q < 0.05)"
    title += f": the first {MOST_ROWS} of {len(parts):,}" if len(parts) > MOST_ROWS else ""
    numbers = ["rows", "n_eff", "positive", "negative", "undecided", "not computed", "median r"]
    least = ["n_eff", "not computed", "rows", "undecided"]
    table = make_table(title, by, numbers, width, least=least, in_file=False)
    for part in parts[:MOST_ROWS]:
        counts = count_findings(part)
        table.add_row(
            *(Text(str(part[name][0])) for name in by),
            Text(str(part["n"].max())),
            _number_text(part["n_eff"].median(), ".0f"),
            *(Text(str(number)) for number in counts[:4]),
            _number_text(part["r"].median()),
        )
    return table


def _number_text(value: object, form: str = "+.2f", q: float | None = None, mark: bool = False) -> Text:
    """A number, or a dash; bold where it is a finding, and with a star if ``mark``."""
    sure = q is not None and q < FINDING
    text = format(value, form) if isinstance(value, float) else "-"
    return Text(text + ("*" if sure else " ") * mark, style="bold" if sure else "")
