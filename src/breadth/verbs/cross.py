"""``cross``: what training on one level of difficulty does to the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from breadth.difficulty import Contrast, Gains, breaking_point, cell_weights, contrast, distance_weights, pairing_ratio
from breadth.errors import InputError
from breadth.records import Table, is_study, read_answers
from breadth.stats import benjamini_hochberg
from breadth.verbs.calibration import Calibration
from breadth.verbs.cross_answers import pair_by_item, prepare, ways_of_training
from breadth.verbs.study_cross import study_table

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Cross:
    """Gains of every way of training on every test level.

    ``cells``: ``train_level`` (or ``strategy``), ``test_level, n_items, n_seeds, accuracy, baseline, gain, se,
    ci_low, ci_high, p, q``. ``effects``: fading with distance and asymmetry (training by level only). ``breaks``:
    where accuracy breaks off. ``best``: the best way of training per test level and overall, and whether that is
    decided. ``pairing``: standard error of a gain relative to one that is not paired by item, median over cells.
    ``strategies``: the same for strategies, where there are levels and strategies and ``by`` was left open.
    """

    cells: pl.DataFrame
    effects: pl.DataFrame
    breaks: pl.DataFrame
    best: pl.DataFrame
    warnings: tuple[str, ...] = ()
    pairing: float | None = None
    strategies: Cross | None = None

    @property
    def by(self) -> str:
        """Name of the column that says how a model was trained."""
        return self.cells.columns[0]

    def figure(self) -> alt.TopLevelMixin:
        """Heatmap of gains and, for training by level, gain against distance."""
        from breadth.report.cross import cross_figure

        return cross_figure(self.cells, self.by)

    def summary(self) -> str:
        """What the study shows, in plain language; "undecided" where the intervals say so."""
        from breadth.report.cross import cross_findings

        return cross_findings(self.cells, self.effects, self.best, self.by, self.pairing)


def cross(
    answers: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    levels: int = 10,
    seed: int = 0,
    by: Literal["train_level", "strategy"] | None = None,
    model: str | None = None,
    train_set: str | None = None,
    shots: int | None = None,
) -> Cross:
    """Compare models trained on different levels (or by different strategies) with the untrained one, level by level.

    Parameters
    ----------
    answers
        Long table, or a directory of them: ``item, correct``, ``train_level`` or ``strategy`` (empty for the untrained
        model), ``seed`` if there are several, and ``level`` of the item unless there is a calibration. Test items must
        not have been trained on. Or the directory of a study that trained by level or strategy: the last checkpoint of
        every run is compared with the model at step 0, on the held-out items of the set it was trained on.
    calibration
        Where the levels of the items come from.
    levels
        Number of levels to cut a calibration into.
    seed
        Seeds the resampling behind ``breaks``.
    by
        ``train_level`` or ``strategy``; by default levels, and strategies too where there are both.
    model, train_set, shots
        Which part of a study, where it has several.
    """
    if is_study(answers):
        table = study_table(answers, model, train_set, shots, leveled=calibration is not None)
    elif (model, train_set, shots) != (None, None, None):
        raise InputError("--model, --train-set and --shots choose from a study's directory; filter a table before")
    else:
        table = read_answers(answers)
    found = _crossed(table, by, calibration, levels, seed)
    if by is None and ways_of_training(table.frame) == ["train_level", "strategy"]:
        return replace(found, strategies=_crossed(table, "strategy", calibration, levels, seed))
    return found


def _crossed(
    table: Table, by: str | None, calibration: str | os.PathLike[str] | Calibration | None, levels: int, seed: int
) -> Cross:
    rows, by, warnings = prepare(table, by, calibration, levels)
    gains, ways, kept = pair_by_item(rows, by, table.name)
    ratio = pairing_ratio(gains)
    return Cross(
        _cells(gains, ways, by),
        _effects(gains, ways, by),
        _breaks(gains, ways, by, seed),
        _best(gains, ways, by),
        (*table.warnings, *warnings, *kept),
        None if np.isnan(ratio) else ratio,
    )


def _cells(gains: Gains, ways: Sequence[str], by: str) -> pl.DataFrame:
    rows = []
    for k, (way, answers) in enumerate(zip(ways, gains.trained, strict=True)):
        for j in range(gains.levels):
            inside = gains.level == j
            found = contrast(gains, cell_weights(len(ways), gains.levels, k, j))
            accuracy, baseline = float(answers[:, inside].mean()), float(gains.baseline[inside].mean())
            numbers = (int(inside.sum()), len(answers), accuracy, baseline, found.estimate, found.se, *_interval(found))
            rows.append((way, j, *numbers))
    columns = ["test_level", "n_items", "n_seeds", "accuracy", "baseline", "gain", "se", "ci_low", "ci_high", "p"]
    frame = pl.DataFrame(rows, schema=[by, *columns], orient="row").fill_nan(None)
    if by == "train_level" and all(way.isdigit() for way in ways):
        frame = frame.with_columns(pl.col(by).cast(pl.Int64))
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    return frame.with_columns(pl.Series("q", q, nan_to_null=True))


def _effects(gains: Gains, ways: Sequence[str], by: str) -> pl.DataFrame:
    """Fading and asymmetry, where there is a model for every test level."""
    schema = {"effect": pl.String, **dict.fromkeys(("estimate", "se", "ci_low", "ci_high", "p"), pl.Float64)}
    if by != "train_level" or list(ways) != [str(j) for j in range(gains.levels)] or gains.levels < 3:
        return pl.DataFrame(schema=schema)
    found = [contrast(gains, weights) for weights in distance_weights(gains.levels)]
    names = ("gain per level of distance", "easy-to-hard minus hard-to-easy")
    rows = [(name, one.estimate, one.se, *_interval(one)) for name, one in zip(names, found, strict=True)]
    return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)


def _breaks(gains: Gains, ways: Sequence[str], by: str, seed: int) -> pl.DataFrame:
    curves = [("before", gains.baseline), *zip(ways, (array.mean(axis=0) for array in gains.trained), strict=True)]
    rows = [(way, *breaking_point(correct, gains.level, seed)) for way, correct in curves] if gains.levels > 1 else []
    schema = {by: pl.String, "breaks_at": pl.Int64, "drop": pl.Float64, "low": pl.Int64, "high": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _best(gains: Gains, ways: Sequence[str], by: str) -> pl.DataFrame:
    """Best way of training per test level and overall, against the second best."""
    share = np.bincount(gains.level) / len(gains.level)
    rows = []
    for j in (None, *range(gains.levels)):
        target = share if j is None else np.eye(gains.levels)[j]
        each = [contrast(gains, np.outer(np.eye(len(ways))[k], target)).estimate for k in range(len(ways))]
        order = np.argsort(each)[::-1]
        first, second = int(order[0]), int(order[1]) if len(ways) > 1 else None
        lead, low, high = None, None, None
        if second is not None:
            found = contrast(gains, np.outer(np.eye(len(ways))[first] - np.eye(len(ways))[second], target))
            lead, (low, high, _) = found.estimate, _interval(found)
        verdict = "decided" if low is not None and low > 0 else "undecided"
        rows.append((j, ways[first], each[first], None if second is None else ways[second], lead, low, high, verdict))
    numbers = {"lead": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64, "verdict": pl.String}
    schema = {"test_level": pl.Int64, "best": pl.String, "gain": pl.Float64, "second": pl.String, **numbers}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _interval(found: Contrast) -> tuple[float | None, float | None, float | None]:
    return tuple(None if np.isnan(value) else value for value in (found.low, found.high, found.p))  # type: ignore[return-value]
