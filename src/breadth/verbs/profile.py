"""``profile``: how accurate subjects are at every level of difficulty, and where two of them differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError, did_you_mean, listed
from breadth.records import Responses, read_responses
from breadth.stats import benjamini_hochberg
from breadth.stats.intervals import LEVEL
from breadth.verbs.calibration import Calibration
from breadth.verbs.items import numbers
from breadth.verbs.profiles import accuracy_by_level, evenly

if TYPE_CHECKING:
    import altair as alt

Floats = npt.NDArray[np.float64]

#: Above this many subjects, comparing every two of them is not a table anybody reads.
MOST_COMPARED = 12


@dataclass(frozen=True)
class Profile:
    """Accuracy by level, and differences between every two of the chosen subjects.

    ``levels``: ``subject, level, n, accuracy, ci_low, ci_high, expected``. ``differences``: ``subject_1, subject_2,
    level, n, difference, se, ci_low, ci_high, p, q, share``, where a null level is all items and ``share`` is how much
    of the whole difference comes from the level.
    """

    levels: pl.DataFrame
    differences: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def figure(self) -> alt.TopLevelMixin:
        """Accuracy by difficulty, a colour per subject."""
        from breadth.report.calibration import accuracy_by_level, styled

        return styled(accuracy_by_level(self.levels))


def profile(
    responses: Any,
    calibration: str | os.PathLike[str] | Calibration,
    subjects: str | Sequence[str] | None = None,
    levels: int = 10,
) -> Profile:
    """Accuracy of subjects by difficulty level, and how much of a difference comes from which levels.

    Intervals of accuracies are Wilson's. A difference between two subjects is paired: its standard error comes from the
    item-by-item differences over the items that both answered, with t quantiles. By default five subjects, spread over
    ability, are shown; up to twelve are compared with each other.
    """
    known = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
    data = read_responses(responses)
    matched = [j for j, name in enumerate(data.items) if name in set(known.items["item"])]
    abilities = known.score(data)
    kept = Responses(data.matrix[:, matched], data.subjects, tuple(data.items[j] for j in matched), data.name)
    order = known.levels(levels).rows_by_key("item", named=True, unique=True)
    level = np.array([_or_nan(order[name]["level"]) for name in kept.items])
    place = {name: index for index, name in enumerate(known.items["item"])}
    columns = [place[name] for name in kept.items]
    answered = abilities.filter(pl.col("n") > 0).sort("ability")["subject"]
    chosen = evenly(answered) if subjects is None else _split(subjects, data)
    ability = numbers(abilities, "ability")
    frame = accuracy_by_level(kept, level, ability, lambda theta: known.probability(theta)[:, columns], chosen)
    warnings = []
    if len(matched) < len(data.items):
        found = f"{len(matched):,} of {len(data.items):,} items"
        warnings.append(f"{found} are in the calibration; the others are left out")
    return Profile(frame, _differences(kept, level, chosen), tuple(warnings))


def _split(subjects: str | Sequence[str], data: Responses) -> list[str]:
    """Take names one by one or joined by commas; a subject that holds a comma itself is named as it is."""
    names: list[str] = []
    for entry in [subjects] if isinstance(subjects, str) else subjects:
        names += [entry] if entry in data.subjects else [part.strip() for part in entry.split(",") if part.strip()]
    unknown = [name for name in names if name not in data.subjects]
    if unknown:
        hint = did_you_mean(unknown, data.subjects)
        raise InputError(
            f"{data.name}: there is no subject {listed(unknown)}.{hint} Subjects: {listed(data.subjects, 5)}"
        )
    return list(dict.fromkeys(names))


def _or_nan(value: int | None) -> float:
    return float("nan") if value is None else float(value)


def _differences(data: Responses, level: Floats, subjects: Sequence[str]) -> pl.DataFrame:
    place = {name: index for index, name in enumerate(data.subjects)}
    rows: list[dict[str, Any]] = []
    for first, second in itertools.combinations(subjects[:MOST_COMPARED], 2):
        one, two = (data.matrix[place[name]].astype(np.float64) for name in (first, second))
        both = (one >= 0) & (two >= 0) & ~np.isnan(level)
        gap = one - two
        whole = float(gap[both].sum())
        for k in (None, *np.unique(level[both])):
            inside = gap[both] if k is None else gap[both & (level == k)]
            share = float(inside.sum()) / whole if whole else None
            where = None if k is None else int(k)
            rows.append({"subject_1": first, "subject_2": second, "level": where, **_paired(inside), "share": share})
    schema = {"subject_1": pl.String, "subject_2": pl.String, "level": pl.Int64, "n": pl.Int64}
    names = ("difference", "se", "ci_low", "ci_high", "p", "share")
    frame = pl.DataFrame(rows, schema={**schema, **dict.fromkeys(names, pl.Float64)})
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    return frame.insert_column(frame.columns.index("share"), pl.Series("q", q, nan_to_null=True))


def _paired(gap: Floats) -> dict[str, float | int | None]:
    """Mean difference with its t interval; no interval for fewer than two items or without any variation."""
    n = len(gap)
    mean = float(gap.mean()) if n else None
    se = float(gap.std(ddof=1) / np.sqrt(n)) if n > 1 else None
    if mean is None or not se:
        return {"n": n, "difference": mean, "se": se, "ci_low": None, "ci_high": None, "p": None}
    half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2)) * se
    p = float(2 * special.stdtr(n - 1, -abs(mean) / se))
    return {"n": n, "difference": mean, "se": se, "ci_low": mean - half, "ci_high": mean + half, "p": p}
