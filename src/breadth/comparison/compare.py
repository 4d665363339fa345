"""``compare``: is one model really better than another, where, and does it carry over to a new test set?"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.comparison.groups import (
    LEVELS,
    Group,
    final_groups,
    group_answers,
    guessed_testsets,
    item_clusters,
    item_levels,
    named_groups,
    shared_items,
)
from breadth.comparison.paired import Difference, Indices, paired_difference, run_spread
from breadth.correlation import summarise
from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import LEVEL, Floats, benjamini_hochberg
from breadth.irt import Calibration
from breadth.records import UNNAMED, Study, open_answers
from breadth.results import Result, Verdict, as_chart
from breadth.results.words import FINDING

if TYPE_CHECKING:
    import altair as alt

#: Subjects that are compared with each other: with more, ranks say more than pairs.
MOST_COMPARED = 12


class By(StrEnum):
    """What the items of a cell have in common: values of the column ``by``."""

    ALL = "all"
    TESTSET = "testset"
    SHIFT = "shift"
    LEVEL = "level"


class CellFlag(StrEnum):
    """Why a cell has no interval."""

    NO_VARIATION = "no_variation"
    ONE_CLUSTER = "one_cluster"


class Within(StrEnum):
    """What an interval says about a margin: values of the column ``within``."""

    BETTER = "better"
    EQUIVALENT = "equivalent"
    NO_WORSE = "no worse"
    WORSE = "worse"
    OPEN = "open"


@dataclass(frozen=True)
class Comparison(Result):
    """Differences between every two of the chosen models; differences are second minus first.

    ``cells``: ``first, second, by, value, n_items, runs_first, runs_second, accuracy_first, accuracy_second,
    difference, se, ci_low, ci_high, p, q, exact, only_first, only_second, flag`` and, with a margin, ``within``; ``by``
    is all, testset, shift or level, and ``value`` which one. ``q`` is over the whole frame. ``only_first`` is the
    number of items that only the first got right (for several runs: the sum of the shares by which it is ahead).
    ``testsets``: per pair the mean over test sets as a sample of test sets, with its interval, and the interval of a
    new test set's difference (``predict_low, predict_high``; from three test sets on). ``items``: the items on which
    the first model and another differ, with the share of runs that got them right.
    """

    cells: pl.DataFrame
    testsets: pl.DataFrame
    items: pl.DataFrame
    margin: float | None = None
    cluster: str | None = None
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Differences by cell, means over test sets, and items on which models differ."""
        return {"cells": self.cells, "testsets": self.testsets, "items": self.items}

    def verdict(self) -> Verdict:
        """Is the second model better than the first? See :func:`breadth.comparison.comparison_verdict`."""
        from breadth.comparison.words import comparison_verdict

        return comparison_verdict(self)

    def details(self) -> str:
        """The overall difference, test sets as a sample, where models differ, and what runs add."""
        from breadth.comparison.words import comparison_details

        return comparison_details(self)

    def figure(self) -> alt.TopLevelMixin:
        """Differences with their intervals, a panel per pair of models."""
        from breadth.comparison.figure import differences_figure

        return as_chart(differences_figure(self.cells), tables={"cells": self.cells})

    def worse(self, threshold: float, on: str | Sequence[str] | None = None) -> str | None:
        """A sentence if a model is worse than the first by more than ``threshold``; None if none is.

        Checked are the test sets ``on``, or all items. A model is worse on a test set if it is behind by more than the
        threshold, and the difference is a finding (q < 0.05 over the differences that are checked).
        """
        if not 0 <= threshold < 1:
            raise InputError(f"--fail-if-worse is {threshold:g}; choose a share from 0 to 1, 0.02 for 2 points")
        base = self.cells["first"][0]
        cells = self.cells.filter(pl.col("first") == base, pl.col("by") == (By.TESTSET if on else By.ALL))
        if on:
            names = [part.strip() for entry in ([on] if isinstance(on, str) else on) for part in entry.split(",")]
            known = cells["value"].unique(maintain_order=True).to_list()
            if not known:
                raise InputError("--on: the data name no test sets; leave it out to check all items")
            if unknown := [name for name in names if name not in known]:
                raise InputError(
                    f"--on: there is no test set {listed(unknown)}.{did_you_mean(unknown, known)} Test sets: "
                    f"{listed(known)}"
                )
            cells = cells.filter(pl.col("value").is_in(names))
        q = benjamini_hochberg(cells["p"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        failed = cells.with_columns(pl.Series("q", q)).filter(pl.col("q") < FINDING, pl.col("difference") < -threshold)
        if not failed.height:
            return None
        from breadth.comparison.words import worse_words

        return worse_words(failed, threshold)


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
    :func:`breadth.comparison.paired_difference`). The false discovery rate is controlled over all differences. Test
    sets are treated as a sample in the mean over test sets, and in the interval for a test set that is not among them.

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
    study = open_answers(responses)
    groups, warnings = _chosen(study, subjects)
    if guessed := guessed_testsets(study, groups):
        warnings.append(
            f"on {listed(guessed)} no model does better than always giving the commonest label: at chance, differences "
            "say nothing about what models can do"
        )
    clusters = item_clusters(study, cluster)
    level = item_levels(study, None if calibration is None else Calibration.of(calibration), groups, levels)
    cells, overall, items = [], [], []
    for first, second in itertools.combinations(groups, 2):
        columns = shared_items(study, first, second)
        pair = _Pair(first, second, group_answers(study, first, columns), group_answers(study, second, columns))
        own = None if clusters is None else clusters[columns]
        lost = max(int(study.answered[list(group.rows)].any(axis=0).sum()) for group in (first, second)) - len(columns)
        if lost:
            warnings.append(f"{first.name} and {second.name}: {lost:,} items that not both answered are left out")
        for by, value, inside in _cells(study, level, columns):
            part = _Pair(first, second, pair.one[:, inside], pair.two[:, inside])
            cells.append(_cell_row(part, by, value, None if own is None else own[inside]))
        overall.append(_over_testsets(pair, study.set_index[columns], own))
        if first is groups[0]:
            items.append(_differing(study, pair, level, columns))
    frame = _cells_frame(cells, margin)
    return Comparison(frame, _testsets_frame(overall), pl.concat(items), margin, cluster, (*study.warnings, *warnings))


class _Pair(NamedTuple):
    """Two groups and their answers [runs, items] to the same items."""

    first: Group
    second: Group
    one: Floats
    two: Floats


def _chosen(study: Study, names: Sequence[str]) -> tuple[list[Group], list[str]]:
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


def _cells(
    study: Study, level: Floats, columns: npt.NDArray[np.intp]
) -> Iterator[tuple[By, str | None, npt.NDArray[np.bool_]]]:
    """The cells of a pair, and which of the items in ``columns`` each has; kinds with one value repeat the whole."""
    yield By.ALL, None, np.ones(len(columns), dtype=np.bool_)
    place, own = study.set_index[columns], level[columns]
    present = np.unique(place)
    for k in present if study.testsets != [UNNAMED] else ():
        yield By.TESTSET, study.testsets[k], place == k
    kinds = np.array([study.shifts[name] or "" for name in study.testsets])
    shifts = [kind for kind in dict.fromkeys(study.shifts.values()) if kind and (kinds[present] == kind).any()]
    for kind in shifts if len(shifts) > 1 else ():
        yield By.SHIFT, kind, (kinds == kind)[place]
    values = np.unique(own[~np.isnan(own)])
    for value in values if len(values) > 1 else ():
        yield By.LEVEL, f"{value:g}", own == value


def _cell_row(pair: _Pair, by: By, value: str | None, cluster: Indices | None) -> tuple[Any, ...]:
    gap: Difference = paired_difference(pair.one, pair.two, cluster)
    one_cluster = cluster is not None and len(np.unique(cluster)) < 2
    flag = None if not np.isnan(gap.low) else CellFlag.ONE_CLUSTER if one_cluster else CellFlag.NO_VARIATION
    sizes = (pair.one.shape[1], len(pair.one), len(pair.two))
    numbers = (float(pair.one.mean()), float(pair.two.mean()), gap.estimate, gap.se, gap.low, gap.high, gap.p)
    names = (pair.first.name, pair.second.name, by.value, value)
    return (*names, *sizes, *numbers, gap.exact, gap.only_first, gap.only_second, gap.runs_se, flag)


def _cells_frame(rows: Sequence[tuple[Any, ...]], margin: float | None) -> pl.DataFrame:
    schema: dict[str, Any] = dict.fromkeys(("first", "second", "by", "value"), pl.String)
    schema |= dict.fromkeys(("n_items", "runs_first", "runs_second"), pl.Int64)
    numeric = ("accuracy_first", "accuracy_second", "difference", "se", "ci_low", "ci_high", "p")
    schema |= dict.fromkeys(numeric, pl.Float64) | {"exact": pl.Boolean}
    schema |= dict.fromkeys(("only_first", "only_second", "runs_se"), pl.Float64) | {"flag": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    at = frame.columns.index("p") + 1
    frame.insert_column(at, pl.Series("q", q, nan_to_null=True))
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

    Random effects on the differences of the test sets (:func:`breadth.correlation.summarise`), with the errors that
    items cause. Runs move all test sets together, so what they add to the mean is added at the end.
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
    one = summarise(estimates[None], variance[None], fisher=False)
    reach = np.sqrt(_runs_reach(pair, place, present))
    mean = float(one.r_mean[0])
    ends = [float(end[0]) for end in (one.ci_low, one.ci_high, one.predict_low, one.predict_high)]
    low, high, predict_low, predict_high = (mean + np.sign(end - mean) * np.hypot(end - mean, reach) for end in ends)
    tau = float(np.sqrt(one.tau2[0]))
    names = (pair.first.name, pair.second.name)
    if len(present) < 2:
        return (*names, len(present), mean, *[np.nan] * 6, int((estimates > 0).sum()))
    return (
        *names,
        len(present),
        mean,
        low,
        high,
        float(one.p[0]),
        tau,
        predict_low,
        predict_high,
        int((estimates > 0).sum()),
    )


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


def _testsets_frame(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    schema: dict[str, Any] = {"first": pl.String, "second": pl.String, "n_testsets": pl.Int64}
    numeric = ("difference", "ci_low", "ci_high", "p", "tau", "predict_low", "predict_high")
    schema |= dict.fromkeys(numeric, pl.Float64) | {"ahead": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)


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
