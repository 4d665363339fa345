"""``cross``: what training on one level of difficulty does to the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from breadth.difficulty import Contrast, Gains, breaking_point, cell_weights, contrast, distance_weights
from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table, read_answers
from breadth.stats import benjamini_hochberg
from breadth.verbs.calibration import Calibration

if TYPE_CHECKING:
    import altair as alt

#: What a table may call the model before training, besides leaving the column empty.
UNTRAINED = ("zero-shot", "baseline", "untrained", "none")

#: Fewest test items of a level for its gains to have an interval.
LEAST_ITEMS = 5


@dataclass(frozen=True)
class Cross:
    """Gains of every way of training on every test level.

    ``cells``: ``train_level`` (or ``strategy``), ``test_level, n_items, n_seeds, accuracy, baseline, gain, se,
    ci_low, ci_high, p, q``. ``effects``: fading with distance and asymmetry (training by level only). ``breaks``:
    where accuracy breaks off. ``best``: the best way of training per test level and overall, and whether that is
    decided.
    """

    cells: pl.DataFrame
    effects: pl.DataFrame
    breaks: pl.DataFrame
    best: pl.DataFrame
    warnings: tuple[str, ...] = ()

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

        return cross_findings(self.cells, self.effects, self.best, self.by)


def cross(
    answers: Any, calibration: str | os.PathLike[str] | Calibration | None = None, levels: int = 10, seed: int = 0
) -> Cross:
    """Compare models trained on different levels (or by different strategies) with the untrained one, level by level.

    Parameters
    ----------
    answers
        Long table, or a directory of them: ``item, correct``, ``train_level`` or ``strategy`` (empty for the untrained
        model), ``seed`` if there are several, and ``level`` of the item unless there is a calibration. Test items must
        not have been trained on.
    calibration
        Where the levels of the items come from.
    levels
        Number of levels to cut a calibration into.
    seed
        Seeds the resampling behind ``breaks``.
    """
    table = read_answers(answers)
    frame, by, warnings = _prepared(table, calibration, levels)
    gains, ways, kept = _gains(frame, by, table.name)
    warnings += kept
    cells = _cells(gains, ways, by)
    return Cross(
        cells, _effects(gains, ways, by), _breaks(gains, ways, by, seed), _best(gains, ways, by), tuple(warnings)
    )


def _prepared(
    table: Table, calibration: str | os.PathLike[str] | Calibration | None, levels: int
) -> tuple[pl.DataFrame, str, list[str]]:
    """Rows of ``way, seed, item, correct, level``; a null way is the untrained model."""
    frame = table.frame
    by = next((name for name in ("train_level", "strategy") if name in frame.columns), None)
    if by is None:
        raise unknown_column("train_level", frame.columns, table.name, "how a model was trained; or strategy")
    for name in ("item", "correct"):
        if name not in frame.columns:
            raise unknown_column(name, frame.columns, table.name, "answers")
    way = frame[by].cast(pl.String).str.strip_chars()
    columns = {
        "way": way.set(way.str.to_lowercase().is_in([*UNTRAINED, ""]).fill_null(False), None),
        "seed": frame["seed"].cast(pl.String).fill_null("")
        if "seed" in frame.columns
        else pl.Series([""] * frame.height),
        "item": frame["item"].cast(pl.String),
        "correct": table.numbers("correct"),
    }
    rows = pl.DataFrame(columns)
    if calibration is None:
        if "level" not in frame.columns:
            raise unknown_column("level", frame.columns, table.name, "level of the item; or name a calibration")
        rows = rows.with_columns(table.numbers("level").cast(pl.Int64).alias("level"))
    else:
        known = calibration if isinstance(calibration, Calibration) else Calibration.load(calibration)
        rows = rows.join(known.levels(levels).select("item", "level"), on="item", how="left", maintain_order="left")
    warnings = []
    without = rows.filter(pl.col("level").is_null())["item"].unique()
    if without.len():
        warnings.append(
            f"{without.len():,} items have no level and are left out, for instance: {listed(without.sort(), 3)}"
        )
    rows = rows.drop_nulls(["level", "correct"])
    doubled = rows.select("way", "seed", "item").is_duplicated()
    if doubled.any():
        way_, seed_, item_ = rows.row(int(doubled.arg_max() or 0))[:3]
        raise InputError(
            f"{table.name}: item {item_!r} is answered more than once by {by} {way_ or 'untrained'}, seed "
            f"{seed_ or '-'}; every (way of training, seed, item) may occur once"
        )
    return rows, by, warnings


def _gains(rows: pl.DataFrame, by: str, name: str) -> tuple[Gains, list[str], list[str]]:
    """Arrays over the test items that every model answered."""
    untrained = rows.filter(pl.col("way").is_null())
    trained = rows.filter(pl.col("way").is_not_null())
    if not untrained.height or not trained.height:
        missing = "untrained model (rows with an empty " + by + ")" if not untrained.height else "trained model"
        raise InputError(f"{name}: there is no {missing}; gains need both")
    models = rows.select("way", "seed").unique().height
    shared = rows.group_by("item").len().filter(pl.col("len") == models)["item"]
    dropped = rows["item"].n_unique() - shared.len()
    rows = rows.filter(pl.col("item").is_in(shared.implode()))
    sizes = rows.select("item", "level").unique().group_by("level").len().sort("level")
    thin = sizes.filter(pl.col("len") < LEAST_ITEMS)
    if not sizes.height or thin.height:
        where = f"level {thin['level'][0]} has only {thin['len'][0]} items" if sizes.height else "there are no items"
        raise InputError(f"{name}: {where} that all models answered; a level needs at least {LEAST_ITEMS}")
    names = sizes["level"].to_list()
    if names != list(range(len(names))):
        raise InputError(f"{name}: levels of test items must run from 0 without gaps, not {listed(map(str, names))}")
    order = rows.select("item", "level").unique().sort("level", "item")

    def matrix(part: pl.DataFrame) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        wide = part.pivot(on="seed", index="item", values="correct", maintain_order=True)
        return order.join(wide, on="item", maintain_order="left").drop("item", "level").to_numpy().T.astype(np.float64)

    ways = sorted(
        trained["way"].unique().to_list(), key=lambda way: (not way.isdigit(), int(way) if way.isdigit() else way)
    )
    arrays = tuple(matrix(rows.filter(pl.col("way") == way)) for way in ways)
    baseline = matrix(rows.filter(pl.col("way").is_null())).mean(axis=0)
    found = Gains(arrays, baseline, order["level"].to_numpy().astype(np.intp))
    warnings = [f"{dropped:,} items were not answered by every model and are left out"] if dropped else []
    if min(len(array) for array in arrays) < 2:
        warnings.append("some training was done with one seed only: its chance variation is not in the standard errors")
    return found, ways, warnings


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
    curves = [("untrained", gains.baseline), *zip(ways, (array.mean(axis=0) for array in gains.trained), strict=True)]
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
