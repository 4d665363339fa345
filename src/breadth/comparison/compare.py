"""``compare``: is one model really better than another, where, and does it carry over to a new test set?"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.comparison.comparison import By, Comparison, ComparisonFlag, Within
from breadth.comparison.groups import (
    LEVELS,
    Group,
    are_trained,
    final_groups,
    group_answers,
    guessed_testsets,
    levels_for_comparison,
    named_groups,
    shared_items,
)
from breadth.comparison.paired import Indices, paired_difference, run_spread
from breadth.correlation import summarise_units
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, Floats, benjamini_hochberg
from breadth.irt import Calibration
from breadth.records import Study
from breadth.sources import UNNAMED, item_clusters, open_answers

#: Subjects that are compared with each other: with more, ranks say more than pairs.
MOST_COMPARED = 12

#: Columns of the means over test sets, and of the differences by cell before q and ``within`` are known.
TESTSETS = {
    **{"first": pl.String, "second": pl.String, "n_testsets": pl.Int64},
    **dict.fromkeys(("difference", "ci_low", "ci_high", "p", "tau", "predict_low", "predict_high"), pl.Float64),
    "ahead": pl.Int64,
}
CELLS = {
    **dict.fromkeys(("first", "second", "by", "value"), pl.String),
    **dict.fromkeys(("n_items", "runs_first", "runs_second"), pl.Int64),
    **dict.fromkeys(("accuracy_first", "accuracy_second", "difference", "se", "ci_low", "ci_high", "p"), pl.Float64),
    "exact": pl.Boolean,
    **dict.fromkeys(("only_first", "only_second", "runs_se"), pl.Float64),
    "flag": pl.String,
}


def compare(
    responses: Any,
    *subjects: str,
    cluster: str | None = None,
    margin: float | None = None,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    levels: int = LEVELS,
) -> Comparison:
    """Compare models on the items that all of their runs answered, paired by item.

    Differences are given for all items, per test set, kind of shift and level of difficulty. Intervals treat items as a
    sample, in clusters where a column says so, and runs too where a model has several (see
    :func:`breadth.comparison.paired_difference`). The false discovery rate is controlled over the differences on all
    items, one per pair of models, and over those on parts of the items. Test sets are treated as a sample in the mean
    over test sets, and in the interval for a test set that is not among them.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes.
    *subjects
        Two to twelve names, the one to compare with first: subjects; models or runs, at their last checkpoint;
        patterns with wildcards. All runs that a name matches are repeats of one model. May be left out where there
        are only two.
    cluster
        Column of the items that says which of them belong together: a shared passage, template or document.
    margin
        A difference that does not matter, 0.01 for one point: cells then say whether a model is no worse.
    calibration
        Where levels come from. By default they are those stored with the items; else items are sorted by the share of
        the other subjects that got them right, if there are 20 others.
    levels
        Number of levels, unless they are stored.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((2, 500)) < np.array([[0.6], [0.8]])
    >>> result = breadth.compare(answers)
    >>> result.cells.select("first", "second", "only_first", "only_second").row(0)
    ('0', '1', 61.0, 183.0)
    """
    if margin is not None and not 0 < margin < 1:
        raise InputError(f"--margin is {margin:g}; choose a share between 0 and 1, 0.01 for one point")
    study = open_answers(responses).comparable()
    groups, warnings = _choose_groups(study, subjects)
    if guessed := guessed_testsets(study, groups):
        warnings.append(
            f"on {listed(guessed)} no model does better than always giving the commonest label: at chance, differences "
            "say nothing about what models can do"
        )
    clusters = item_clusters(study, cluster)
    level = levels_for_comparison(study, None if calibration is None else Calibration.of(calibration), groups, levels)
    cells, overall, items = [], [], []
    for first, second in itertools.combinations(groups, 2):
        columns = shared_items(study, first, second)
        pair = _Pair(first, second, group_answers(study, first, columns), group_answers(study, second, columns))
        own = None if clusters is None else clusters[columns]
        lost = max(int(study.answered[list(group.rows)].any(axis=0).sum()) for group in (first, second)) - len(columns)
        if lost:
            warnings.append(f"{first.name} and {second.name}: {lost:,} items that not both answered are left out")
        cells += _cell_rows(study, pair, level, columns, own)
        overall.append(_over_testsets(pair, study.set_index[columns], own))
        if first is groups[0]:
            items.append(_differing(study, pair, level, columns))
    testsets = pl.DataFrame(overall, schema=TESTSETS, orient="row").fill_nan(None)
    warned = (*study.warnings, *warnings)
    trained = are_trained(study)
    return Comparison(_cells_frame(cells, margin), testsets, pl.concat(items), margin, cluster, warned, trained)


class _Pair(NamedTuple):
    """Two groups and their answers [runs, items] to the same items."""

    first: Group
    second: Group
    one: Floats
    two: Floats


def _choose_groups(study: Study, names: Sequence[str]) -> tuple[list[Group], list[str]]:
    groups, warnings = named_groups(study, names) if names else (final_groups(study), [])
    if len(groups) < 2:
        known = listed([group.name for group in final_groups(study)], 5)
        raise InputError(f"{study.name}: name at least two models to compare; it has {known}")
    if len(groups) > MOST_COMPARED or (not names and len(groups) > 2):
        known = listed([group.name for group in groups], 5)
        raise InputError(
            f"{study.name}: has {len(groups)} models ({known}); name two to {MOST_COMPARED} of them, or rank all with "
            "--all"
        )
    return groups, warnings


def _cell_rows(
    study: Study, pair: _Pair, level: Floats, columns: Indices, cluster: Indices | None
) -> list[tuple[Any, ...]]:
    """A row per cell of a pair, whose items are those in ``columns``; kinds with one value repeat the whole."""
    parts: list[tuple[By, str | None, npt.NDArray[np.bool_]]] = [(By.ALL, None, np.ones(len(columns), dtype=np.bool_))]
    place, own = study.set_index[columns], level[columns]
    present = np.unique(place)
    if study.testsets != [UNNAMED]:
        parts += [(By.TESTSET, study.testsets[k], place == k) for k in present]
    kinds = np.array([study.shifts[name] or "" for name in study.testsets])
    shifts = [kind for kind in dict.fromkeys(study.shifts.values()) if kind and (kinds[present] == kind).any()]
    if len(shifts) > 1:
        parts += [(By.SHIFT, kind, (kinds == kind)[place]) for kind in shifts]
    values = np.unique(own[~np.isnan(own)])
    if len(values) > 1:
        parts += [(By.LEVEL, f"{value:g}", own == value) for value in values]
    rows = []
    for by, name, inside in parts:
        one, two, clusters = pair.one[:, inside], pair.two[:, inside], None if cluster is None else cluster[inside]
        gap = paired_difference(one, two, clusters)
        one_cluster = clusters is not None and len(np.unique(clusters)) < 2
        flag = (
            None
            if not np.isnan(gap.low)
            else ComparisonFlag.ONE_CLUSTER
            if one_cluster
            else ComparisonFlag.NO_VARIATION
        )
        sizes = (one.shape[1], len(one), len(two))
        numbers = (float(one.mean()), float(two.mean()), gap.estimate, gap.se, gap.low, gap.high, gap.p)
        counts = (gap.exact, gap.only_first, gap.only_second, gap.runs_se)
        rows.append((pair.first.name, pair.second.name, by.value, name, *sizes, *numbers, *counts, flag))
    return rows


def _cells_frame(rows: Sequence[tuple[Any, ...]], margin: float | None) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=CELLS, orient="row").fill_nan(None)
    p = frame["p"].fill_null(float("nan")).to_numpy()
    # Whether a model is better is one question. Looking at many cells of it must not make its answer less certain, or
    # an interval that excludes 0 stands beside "not enough data".
    whole = (frame["by"] == By.ALL).to_numpy()
    q = np.full(len(p), np.nan)
    for family in (whole, ~whole):
        q[family] = benjamini_hochberg(p[family])
    frame.insert_column(frame.columns.index("p") + 1, pl.Series("q", q, nan_to_null=True))
    if margin is None:
        return frame
    low, high = pl.col("ci_low"), pl.col("ci_high")
    within = (
        pl.when(low > 0).then(pl.lit(Within.BETTER.value))
        .when(high < -margin).then(pl.lit(Within.WORSE.value))
        .when((low > -margin) & (high < margin)).then(pl.lit(Within.EQUIVALENT.value))
        .when(low > -margin).then(pl.lit(Within.NO_WORSE.value))
        .otherwise(pl.lit(Within.OPEN.value))
    )  # fmt: skip
    return frame.with_columns(within.alias("within"))


def _over_testsets(pair: _Pair, place: npt.NDArray[np.intp], cluster: Indices | None) -> tuple[Any, ...]:
    """The mean over test sets as a sample of test sets, and where the difference on a new one is expected.

    Random effects on the differences of the test sets (:func:`breadth.correlation.summarise_units`), with the errors
    that items cause. Runs move all test sets together, so what they add to the mean is added at the end.
    """
    present = np.unique(place)
    gaps = [
        paired_difference(pair.one[:, place == k].mean(axis=0)[None], pair.two[:, place == k].mean(axis=0)[None],
                          None if cluster is None else cluster[place == k])
        for k in present
    ]  # fmt: skip
    size = np.array([(place == k).sum() for k in present])
    # A test set on which both answer alike says something too, but not with certainty.
    variance = np.array(
        [max(gap.se**2 if gap.se > 0 else 0.0, 0.5 / (n + 2) ** 2) for gap, n in zip(gaps, size, strict=True)]
    )
    estimates = np.array([gap.estimate for gap in gaps])
    one = summarise_units(estimates[None], variance[None], fisher=False)
    reach = np.sqrt(_runs_reach(pair, place, present))
    mean = float(one.r_mean[0])
    ends = [float(end[0]) for end in (one.ci_low, one.ci_high, one.predict_low, one.predict_high)]
    widened = [mean + np.sign(end - mean) * np.hypot(end - mean, reach) for end in ends]
    # Shares cannot differ by more than 1; NaN stays NaN.
    low, high, predict_low, predict_high = np.clip(widened, -1, 1)
    tau = float(np.sqrt(one.tau2[0]))
    known = (low, high, float(one.p[0]), tau, predict_low, predict_high) if len(present) > 1 else [np.nan] * 6
    return (pair.first.name, pair.second.name, len(present), mean, *known, int((estimates > 0).sum()))


def _runs_reach(pair: _Pair, place: npt.NDArray[np.intp], present: npt.NDArray[np.intp]) -> float:
    """What runs add to the mean over test sets: the squared half-width of its interval; 0 for single runs."""
    spread = df_runs = 0.0
    for runs in (pair.one, pair.two):
        if len(runs) > 1:
            means = np.stack([runs[:, place == k].mean(axis=1) for k in present], axis=1)
            noise = sum(run_spread(runs[:, place == k])[1] for k in present) / len(present) ** 2
            df = len(runs) - 1
            spread += df * max(float(means.mean(axis=1).var(ddof=1)) - noise, 0.0)
            df_runs += df
    if not df_runs:
        return 0.0
    scale = 1 / len(pair.one) + 1 / len(pair.two)
    return float(special.stdtrit(df_runs, (1 + LEVEL) / 2)) ** 2 * spread / df_runs * scale


def _differing(study: Study, pair: _Pair, level: Floats, columns: npt.NDArray[np.intp]) -> pl.DataFrame:
    """The items on which the two differ, those with the largest difference first in every test set."""
    one, two = pair.one.mean(axis=0), pair.two.mean(axis=0)
    apart = np.flatnonzero(one != two)
    at = columns[apart]
    frame = pl.DataFrame(
        {
            "first": [pair.first.name] * len(at),
            "second": [pair.second.name] * len(at),
            "testset": study.items["testset"].gather(at),
            "level": pl.Series(level[at], dtype=pl.Float64, nan_to_null=True).cast(pl.Int64),
            "item": study.items["item"].gather(at),
            "right_first": one[apart],
            "right_second": two[apart],
        }
    )
    size = (pl.col("right_second") - pl.col("right_first")).abs()
    return frame.sort("testset", size, descending=[False, True], maintain_order=True)
