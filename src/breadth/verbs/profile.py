"""``profile``: how accurate subjects are at every level of difficulty, and where two of them differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError, did_you_mean, listed
from breadth.records import Responses, StudyTables, Table, is_study, read_answers, read_responses, read_study
from breadth.stats import benjamini_hochberg
from breadth.stats.intervals import LEVEL
from breadth.verbs.calibration import Calibration
from breadth.verbs.items import numbers
from breadth.verbs.profiles import NO_ABILITY, accuracy_by_level, evenly
from breadth.verbs.study_subjects import choose_checkpoints

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
    calibration: str | os.PathLike[str] | Calibration | None = None,
    subjects: str | Sequence[str] | None = None,
    levels: int = 10,
) -> Profile:
    """Accuracy of subjects by difficulty level, and how much of a difference comes from which levels.

    Intervals of accuracies are Wilson's. A difference between two subjects is paired: its standard error comes from the
    item-by-item differences over the items that both answered, with t quantiles. By default five subjects, spread over
    ability, are shown; up to twelve are compared with each other.

    Of a study's directory, by default, the first and last checkpoint of every run are shown, and ``subjects`` may name
    runs, models or RUN/STEP with wildcards; differences are later minus earlier. Without a calibration, levels are
    those of the study's items (or of a column ``level`` in a long table), and nothing is expected of a subject.
    """
    study = read_study(responses) if is_study(responses) else None
    table = _long_table(responses, study)
    data = read_responses(responses if table is None else table)
    if calibration is None:
        level, warnings = _levels_of_items(table, data)
        ability, probability = NO_ABILITY, None
        ranked = pl.Series(data.subjects)
    else:
        known = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
        abilities = known.score(data)
        order = dict(known.levels(levels).select("item", "level").iter_rows())
        place = {name: index for index, name in enumerate(known.items["item"])}
        matched = [name in place for name in data.items]
        warnings = _counted(matched, "in the calibration")
        data = _only(data, matched)
        level = np.array([_or_nan(order[name]) for name in data.items])
        columns = [place[name] for name in data.items]
        ability = numbers(abilities, "ability")
        ranked = abilities.filter(pl.col("n") > 0).sort("ability")["subject"]

        def probability(theta: Floats) -> Floats:
            chance: Floats = known.probability(theta)[:, columns]
            return chance

    if study is not None:
        chosen = choose_checkpoints(study.subjects, subjects, data.name)
    else:
        chosen = evenly(ranked) if subjects is None else _split(subjects, data)
    frame = accuracy_by_level(data, level, ability, probability, chosen)
    compared = chosen if study is None else chosen[::-1]
    return Profile(frame, _differences(data, level, compared), (*data.warnings, *warnings))


def _long_table(responses: Any, study: StudyTables | None) -> Table | None:
    """A long table of answers where there is one: it may have levels."""
    if study is not None:
        return Table(study.answers(), str(responses), warnings=study.warnings)
    path = isinstance(responses, str | os.PathLike)
    if isinstance(responses, np.ndarray | Responses) or (path and Path(responses).suffix.lower() == ".npz"):
        return None
    return read_answers(responses)


def _levels_of_items(table: Table | None, data: Responses) -> tuple[Floats, list[str]]:
    """Level of every item from the table itself."""
    if table is None or not {"item", "level"} <= set(table.frame.columns):
        raise InputError(
            f"{data.name}: its items have no level; name a calibration with --calibration (`breadth calibrate` makes "
            "one)"
        )
    names, values = [pl.col("item").cast(pl.String)], table.numbers("level").alias("level")
    if "testset" in table.frame.columns:
        # Where ids repeat between test sets, subjects answer "testset / item".
        names.append(pl.concat_str([pl.col("testset").cast(pl.String), names[0]], separator=" / ").alias("item"))
    rows = pl.concat([table.frame.select(name, values).drop_nulls().unique() for name in names])
    known = dict(rows.iter_rows())
    level = np.array([known.get(name, np.nan) for name in data.items], dtype=np.float64)
    if np.isnan(level).all():
        raise InputError(f"{data.name}: no item has a level; name a calibration with --calibration")
    return level, _counted(~np.isnan(level), "in a level")


def _counted(known: Sequence[bool] | npt.NDArray[np.bool_], where: str) -> list[str]:
    count = sum(map(bool, known))
    if count == len(known):
        return []
    return [f"{count:,} of {len(known):,} items are {where}; the others are left out"]


def _only(data: Responses, kept: Sequence[bool]) -> Responses:
    index = [j for j, keep in enumerate(kept) if keep]
    return replace(data, matrix=data.matrix[:, index], items=tuple(data.items[j] for j in index))


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
