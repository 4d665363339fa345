"""A correlation analysis in words and as terminal tables; "undecided" where an interval covers 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.correlation.partial import Flag
from breadth.results.terminal import (
    MOST_ROWS,
    WIDTH,
    distinct_names,
    interval_text,
    make_table,
    probability_text,
)
from breadth.results.words import count, joined

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: Why pairs have no interval, for a sentence.
REASONS = {
    Flag.TOO_FEW_ROWS: "too few complete rows",
    Flag.CONSTANT_A: "a test set is constant",
    Flag.CONSTANT_B: "a test set is constant",
    Flag.CONSTANT_CONTROL: "the control is constant",
    Flag.CONTROL_EXPLAINS_A: "the control explains a test set fully",
    Flag.CONTROL_EXPLAINS_B: "the control explains a test set fully",
    Flag.IDENTICAL_RESIDUALS: "the residuals are identical",
}


class Verdicts(NamedTuple):
    """How many correlations are positive, negative or undecided (interval covers 0), and how many are not known.

    ``known`` is the sum of the first three.
    """

    positive: int
    negative: int
    undecided: int
    unknown: int
    known: int


def verdicts(frame: pl.DataFrame) -> Verdicts:
    """Count the rows whose interval lies above 0, lies below 0, or covers it."""
    positive = int((frame["ci_low"] > 0).sum())
    negative = int((frame["ci_high"] < 0).sum())
    known = frame.height - int(frame["ci_low"].null_count())
    return Verdicts(positive, negative, known - positive - negative, frame.height - known, known)


def correlation_summary(result: Correlation) -> str:
    """The answer in one paragraph: how many pairs go together, how much groups differ, and what that means."""
    pairs, windows, by = result.pairs, result.windows, result.trajectories.by
    counts, control = verdicts(pairs), " and ".join(result.trajectories.controls)
    # Why pairs have no interval, the commonest reason first.
    flags = pairs.filter(pl.col("ci_low").is_null())["flag"].replace_strict(REASONS, default=None).drop_nulls()
    numbers = flags.value_counts().sort(["count", "flag"], descending=[True, False])
    reasons = ", ".join(f"{reason} ({number:,})" for reason, number in numbers.iter_rows())
    if not counts.known:
        return f"No partial correlation could be computed: {reasons}. Column note gives the reason for every pair."
    given = f"after controlling for {control}" if control else "without a control"
    remain = verdicts(pairs.filter(pl.col("q") < 0.05))
    text = (
        f"Of {count(counts.known, 'correlation')} between test sets {given}, {counts.positive} "
        f"{'is' if counts.positive == 1 else 'are'} positive, {counts.negative} negative and {counts.undecided} "
        f"undecided (95% interval covers 0). Controlling the false discovery rate at 5%, {remain.positive} positive "
        f"and {remain.negative} negative remain."
    )
    if counts.unknown:
        text += f" {count(counts.unknown, 'pair')} could not be computed: {reasons}."
    if result.trajectories.turned:
        text += f" Lower is better on {joined(result.trajectories.turned, 6)}: a gain there is a fall."
    if "r_plain" in pairs.columns:
        text += f" {_robust_words(pairs)}"
    # How much groups differ.
    if by and (several := result.heterogeneity.filter(pl.col("k") > 1)).height:
        agree, i2 = (several.select(pl.col(name).median().fill_null(0)).item() for name in ("sign_agreement", "i2"))
        text += (
            f" In the median pair, {agree:.0%} of groups share the sign of the mean, and {i2:.0%} of the variation "
            f"between groups exceeds sampling error (I2). {int((several['p_differ'] < 0.05).sum())} of "
            f"{several.height} pairs differ between groups (Cochran's test at 5%)."
        )
        predicted = several.drop_nulls("predict_low")
        if predicted.height:
            same = int(((predicted["predict_low"] > 0) | (predicted["predict_high"] < 0)).sum())
            text += f" The sign in a new group can be predicted for {same} of {predicted.height} pairs."
    # The first window against the last one.
    if windows.height:
        keys = [*by, "a", "b"]
        first, last = (windows.filter(pl.col("window") == edge) for edge in (1, windows["window"].max()))
        both = first.join(last, on=keys, suffix="_last", nulls_equal=True).drop_nulls(["ci_low", "ci_low_last"])
        apart = (both["ci_low"] > both["ci_high_last"]) | (both["ci_high"] < both["ci_low_last"])
        text += (
            f" From the first to the last window, {int(apart.sum())} of {count(both.height, 'correlation')} changed "
            "beyond their intervals."
            if both.height
            else " The first and the last window have too few rows to compare them."
        )
    # What it means.
    beyond = f" beyond what {control} explains" if control else ""
    positive, negative, undecided = (value / counts.known for value in counts[:3])
    if positive >= 0.9:
        return f"{text} A gain on one of these test sets goes with a gain on almost every other one{beyond}."
    if undecided > 0.9:
        return (
            f"{text} A gain on one of these test sets says almost nothing about the others{beyond}: measure the test "
            "sets you care about."
        )
    return (
        f"{text} A gain on one test set goes with a gain on another in {positive:.0%} of pairs and with a loss in "
        f"{negative:.0%}; {undecided:.0%} are undecided. Measure the test sets you care about."
    )


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
        return f"{start}the plain ones lead to the same verdicts."
    # The two that are farthest apart.
    row = disputed.sort((pl.col("r") - pl.col("r_plain")).abs(), descending=True).row(0, named=True)
    text = (
        f"{start}the plain ones disagree on {count(disputed.height, 'pair')} of {known.height}, most of all on "
        f"{row['a']} and {row['b']} ({row['r']:+.2f} robust, {row['r_plain']:+.2f} plain)."
    )
    if rest := known.filter(outside).height:
        text += f" On {count(rest, 'pair')}, a few rows decide the plain correlation: look at `residuals` for them."
    return text


def pairs_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Pairs; where not all fit, the best supported ones."""
    shown = pairs
    title = "Partial correlations"
    if pairs.height > MOST_ROWS:
        shown = pairs.sort(["p", pl.col("r").abs()], descending=[False, True], nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} best supported of {pairs.height:,}"
    corrected = "r_corrected" in pairs.columns and bool(pairs["r_corrected"].is_not_null().any())
    numbers = ["n", "n_eff", "r_raw", "r", "95% interval", *(["r_corr"] if corrected else []), "q"]
    table = make_table(title, [*by, "a", "b"], numbers, width)
    short = distinct_names([value for name in (*by, "a", "b") for value in shown[name].unique()], table)
    for row in shown.iter_rows(named=True):
        cells = [Text(short[str(row[name])]) for name in (*by, "a", "b")]
        cells += [Text(str(row["n"])), _number(row["n_eff"], ".0f"), _number(row["r_raw"])]
        if row["r"] is None:
            cells += [Text("-"), Text("see note", style="dim italic")]
        else:
            cells += [_number(row["r"], low=row["ci_low"], high=row["ci_high"])]
            cells += [interval_text(row["ci_low"], row["ci_high"])]
        cells += [_number(row["r_corrected"])] if corrected else []
        table.add_row(*cells, Text(probability_text(row["q"])))
    return table


def heterogeneity_table(frame: pl.DataFrame, width: int = WIDTH) -> Table:
    """Per pair, the mean over groups and how far groups differ; where not all fit, the widest disagreements."""
    title = "Over groups"
    shown = frame
    if frame.height > MOST_ROWS:
        shown = frame.sort("tau2", descending=True, nulls_last=True).head(MOST_ROWS)
        title += f": the {MOST_ROWS} pairs that differ most, of {frame.height:,}"
    table = make_table(title, ["a", "b"], ["groups", "mean r", "95% interval", "new group", "I2", "same sign"], width)
    short = distinct_names([*shown["a"], *shown["b"]], table)
    for row in shown.iter_rows(named=True):
        table.add_row(
            Text(short[row["a"]]),
            Text(short[row["b"]]),
            Text(str(row["k"])),
            _number(row["r_mean"], low=row["ci_low"], high=row["ci_high"]),
            interval_text(row["ci_low"], row["ci_high"]),
            interval_text(row["predict_low"], row["predict_high"]),
            _number(row["i2"], ".0%"),
            _number(row["sign_agreement"], ".0%"),
        )
    return table


def groups_table(pairs: pl.DataFrame, by: Sequence[str], width: int = WIDTH) -> Table:
    """Per group, how many pairs are positive, negative and undecided."""
    parts = pairs.partition_by(by, maintain_order=True)
    title = "Groups" if len(parts) <= MOST_ROWS else f"Groups: the first {MOST_ROWS} of {len(parts):,}"
    numbers = ["rows", "n_eff", "positive", "negative", "undecided", "not computed", "median r"]
    table = make_table(title, by, numbers, width)
    short = distinct_names([part[name][0] for part in parts[:MOST_ROWS] for name in by], table)
    for part in parts[:MOST_ROWS]:
        counts = verdicts(part)
        table.add_row(
            *(Text(short[str(part[name][0])]) for name in by),
            Text(str(part["n"].max())),
            _number(part["n_eff"].median(), ".0f"),
            *(Text(str(number)) for number in counts[:4]),
            _number(part["r"].median()),
        )
    return table


def _number(value: object, form: str = "+.2f", low: float | None = None, high: float | None = None) -> Text:
    """A number, or a dash; bold where its interval excludes 0."""
    sure = low is not None and high is not None and (low > 0 or high < 0)
    return Text(format(value, form) if isinstance(value, float) else "-", style="bold" if sure else "")
