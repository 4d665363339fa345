"""What a calibration leads one to expect beside what was observed: item curves, and accuracy by difficulty."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError, listed
from breadth.records import Responses
from breadth.stats.intervals import LEVEL

Floats = npt.NDArray[np.float64]
Probability = Callable[[Floats], Floats]

#: Stands for the ability of subjects that nothing was calibrated for.
NO_ABILITY: Floats = np.empty(0)


def evenly(names: pl.Series, count: int = 5) -> list[str]:
    """Pick a few names evenly from a sorted list, away from its ends."""
    if names.len() <= count:
        return names.to_list()
    place = np.linspace(0.05, 0.95, count) * (names.len() - 1)
    return [str(names[int(index)]) for index in place.round()]


def accuracy_by_level(
    responses: Responses, level: Floats, ability: Floats, probability: Probability | None, subjects: Sequence[str]
) -> pl.DataFrame:
    """Accuracy of ``subjects`` on the items of every level: ``subject, level, n, accuracy, ci_low, ci_high, expected``.

    ``level`` [items] may hold NaN; ``ability`` [all subjects]; ``probability`` gives [subjects, items] for abilities;
    without it nothing is expected.
    """
    place = {name: index for index, name in enumerate(responses.subjects)}
    missing = [name for name in subjects if name not in place]
    if missing:
        raise InputError(f"{responses.name}: there is no subject {listed(missing)}")
    rows = [place[name] for name in subjects]
    values = responses.matrix[rows].astype(np.float64)
    seen = values >= 0
    chance = np.full(values.shape, np.nan) if probability is None else probability(ability[rows])
    parts = []
    for k in np.unique(level[~np.isnan(level)]):
        inside = seen & (level == k)[None, :]
        n = inside.sum(axis=1)
        right, expected = (np.where(inside, table, 0.0).sum(axis=1) for table in (values, chance))
        share = {"accuracy": right, "expected": expected}
        divided = {name: np.where(n > 0, total / np.maximum(n, 1), np.nan) for name, total in share.items()}
        parts.append(pl.DataFrame({"subject": list(subjects), "level": [int(k)] * len(rows), "n": n, **divided}))
    return _with_intervals(pl.concat(parts).fill_nan(None))


def _with_intervals(frame: pl.DataFrame) -> pl.DataFrame:
    """Wilson's interval, which keeps a width where all or no answers are right."""
    z = float(special.ndtri((1 + LEVEL) / 2))
    n, p = pl.col("n"), pl.col("accuracy")
    centre, reach = p + z**2 / (2 * n), z * (p * (1 - p) / n + z**2 / (4 * n * n)).sqrt()
    return frame.with_columns(
        ((centre - reach) / (1 + z**2 / n)).clip(0, 1).alias("ci_low"),
        ((centre + reach) / (1 + z**2 / n)).clip(0, 1).alias("ci_high"),
    ).select("subject", "level", "n", "accuracy", "ci_low", "ci_high", "expected")


def item_curves(
    names: Sequence[str], items: Sequence[str], probability: Probability, responses: Responses | None, ability: Floats
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Curves of chosen items of ``names``: ``item, ability, probability``; and, with ``n``, shares right.

    Shares are those of ten equal-size groups of subjects by ability, at the mean ability of the group; there are none
    without responses.
    """
    place = {name: index for index, name in enumerate(names)}
    missing = [name for name in items if name not in place]
    if missing:
        raise InputError(f"the calibration has no item {listed(missing)}")
    index = [place[name] for name in items]
    theta = np.linspace(-4, 4, 81)
    chance = probability(theta)[:, index]
    columns = {
        "item": np.repeat(items, len(theta)),
        "ability": np.tile(theta, len(items)),
        "probability": chance.T.ravel(),
    }
    lines = pl.DataFrame(columns, schema_overrides={"item": pl.String})
    if responses is None:
        return lines, lines.clear()
    known = np.flatnonzero(~np.isnan(ability))
    ranked = known[np.argsort(ability[known], kind="stable")]
    dots = []
    for name, j in zip(items, index, strict=True):
        for group in np.array_split(ranked, 10):
            answered = group[responses.matrix[group, j] >= 0]
            if len(answered):
                share = float(responses.matrix[answered, j].mean())
                dots.append((name, float(ability[answered].mean()), share, len(answered)))
    schema = {"item": pl.String, "ability": pl.Float64, "probability": pl.Float64, "n": pl.Int64}
    return lines, pl.DataFrame(dots, schema=schema, orient="row")
