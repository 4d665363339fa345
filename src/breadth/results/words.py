"""Numbers in words, the same way everywhere: points, shares, counts, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: What is called a finding remains with the false discovery rate at this level.
FINDING = 0.05

#: Scores as a sentence names them.
SCORE_WORDS = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "dprime": "d'",
    "balanced": "balanced accuracy",
    "logscore": "mean log-probability of the right answer",
}


def points_text(value: float | None) -> str:
    """A difference of accuracies in whole points, with its sign."""
    return "an unknown number of points" if value is None else f"{100 * value:+.0f} points".replace("-", "−")


def change_text(value: float | None, share: bool = True) -> str:
    """A difference of scores, with its sign: in points if they are shares."""
    return points_text(value) if share or value is None else f"{value:+.3g}".replace("-", "−")


def score_interval_text(row: Mapping[str, Any], share: bool = True) -> str:
    """The ends of an interval of scores, in points if they are shares; empty where there is none."""
    if row.get("ci_low") is None:
        return ""
    ends = (row["ci_low"], row["ci_high"])
    return " to ".join(f"{100 * end:+.0f}" if share else f"{end:+.3g}" for end in ends).replace("-", "−")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def joined(names: Sequence[str], most: int = 6) -> str:
    """Names as a sentence lists them."""
    shown = list(names)[:most]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def verdict(low: float | None, high: float | None) -> int:
    """1 if an interval lies above 0, -1 below, 0 if it covers 0 or is not known."""
    if low is None or high is None:
        return 0
    return 1 if low > 0 else -1 if high < 0 else 0
