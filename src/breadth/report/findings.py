"""What the numbers say, in plain language; "undecided" where they say so."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import polars as pl

from breadth.records import Trajectories


class CorrelationLike(Protocol):
    """What a finding needs to know of a correlation analysis."""

    @property
    def pairs(self) -> pl.DataFrame:
        """A row per group and pair."""

    @property
    def windows(self) -> pl.DataFrame:
        """A row per group, window and pair."""

    @property
    def heterogeneity(self) -> pl.DataFrame:
        """A row per pair."""

    @property
    def trajectories(self) -> Trajectories:
        """What was analysed."""


class Verdicts(NamedTuple):
    """How many correlations are positive, negative, undecided (interval covers 0), or could not be computed."""

    positive: int
    negative: int
    undecided: int
    unknown: int

    @property
    def known(self) -> int:
        """Correlations that could be computed."""
        return self.positive + self.negative + self.undecided


def verdicts(frame: pl.DataFrame) -> Verdicts:
    """Count the rows whose interval lies above 0, below 0, or covers it."""
    positive = int((frame["ci_low"] > 0).sum())
    negative = int((frame["ci_high"] < 0).sum())
    known = frame.height - int(frame["ci_low"].null_count())
    return Verdicts(positive, negative, known - positive - negative, frame.height - known)


def correlation_findings(result: CorrelationLike) -> str:
    """Say how many pairs go together, how much groups differ, and what that means for one measured test set."""
    counts = verdicts(result.pairs)
    if not counts.known:
        return (
            f"No partial correlation could be computed ({_reasons(result.pairs)}); "
            "column note of the table says why for every pair."
        )
    parts = [_overall(result, counts)]
    if result.trajectories.by and result.heterogeneity.height:
        parts.append(_between_groups(result.heterogeneity))
    if result.windows.height:
        parts.append(_through_the_run(result.windows, list(result.trajectories.by)))
    parts.append(_meaning(counts, result))
    return " ".join(part for part in parts if part)


def _overall(result: CorrelationLike, counts: Verdicts) -> str:
    controls = result.trajectories.controls
    given = f"once {' and '.join(controls)} is taken out" if controls else "with nothing controlled for"
    sure = result.pairs.filter(pl.col("q") < 0.05)
    discoveries = verdicts(sure)
    text = (
        f"Of {_count(counts.known, 'correlation')} between test sets, {given}, {counts.positive} "
        f"{_are(counts.positive)} positive, {counts.negative} negative and {counts.undecided} undecided "
        "(their 95% interval covers 0); "
        f"with the false discovery rate held at 5%, {discoveries.positive} positive and "
        f"{discoveries.negative} negative remain."
    )
    if counts.unknown:
        text += f" {_count(counts.unknown, 'pair')} could not be computed ({_reasons(result.pairs)})."
    return text


def _between_groups(heterogeneity: pl.DataFrame) -> str:
    several = heterogeneity.filter(pl.col("k") > 1)
    if not several.height:
        return ""
    differ = int((several["p_differ"] < 0.05).sum())
    i2 = _middle(several["i2"])
    agree = _middle(several["sign_agreement"])
    text = (
        f"Between groups: a group has the same sign as the average in {agree:.0%} of cases (median over "
        f"{_count(several.height, 'pair')}), {i2:.0%} of the variation (median I2) is more than sampling, and "
        f"{differ} of {several.height} pairs differ between groups by Cochran's test at 5%."
    )
    predicted = several.drop_nulls("predict_low")
    if predicted.height:
        same = int(((predicted["predict_low"] > 0) | (predicted["predict_high"] < 0)).sum())
        text += f" For a new group the sign could be foretold in {same} of {predicted.height} pairs."
    return text


def _through_the_run(windows: pl.DataFrame, by: list[str]) -> str:
    """Compare the first window with the last one."""
    last = windows["window"].max()
    keys = [*by, "a", "b"]
    ends = [windows.filter(pl.col("window") == edge).select([*keys, "ci_low", "ci_high"]) for edge in (1, last)]
    both = ends[0].join(ends[1], on=keys, suffix="_last", nulls_equal=True).drop_nulls(["ci_low", "ci_low_last"])
    if not both.height:
        return "Too little could be computed in the first and last window to compare them."
    apart = (both["ci_low"] > both["ci_high_last"]) | (both["ci_high"] < both["ci_low_last"])
    return (
        f"Through the run: in {int(apart.sum())} of {_count(both.height, 'pair')} the intervals of the first and "
        "the last window do not overlap."
    )


def _meaning(counts: Verdicts, result: CorrelationLike) -> str:
    decided = (counts.positive + counts.negative) / counts.known
    opening = "For someone who measured only one of these test sets:"
    if counts.positive / counts.known >= 0.9:
        return f"{opening} a gain there goes with a gain on almost every other one beyond what {_control(result)} says."
    if decided < 0.1:
        return (
            f"{opening} a gain there says next to nothing certain about the others beyond what {_control(result)} "
            "already says."
        )
    return (
        f"{opening} a gain there points to a gain on another in {counts.positive / counts.known:.0%} of cases, to a "
        f"loss in {counts.negative / counts.known:.0%}, and leaves it open in {counts.undecided / counts.known:.0%}; "
        "the ones that matter have to be measured themselves."
    )


def _control(result: CorrelationLike) -> str:
    return " and ".join(result.trajectories.controls) or "nothing"


def _reasons(pairs: pl.DataFrame, most: int = 3) -> str:
    """The commonest notes of pairs without a number, and how many others there are."""
    notes = pairs.filter(pl.col("ci_low").is_null())["note"].drop_nulls()
    counts = notes.value_counts().sort(["count", "note"], descending=[True, False])["note"].to_list()
    more = f"; {len(counts) - most} more reasons in column note" if len(counts) > most else ""
    return "; ".join(counts[:most]) + more


def _middle(values: pl.Series) -> float:
    middle = values.median()
    return float(middle) if isinstance(middle, float) else 0.0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
