"""``correlate`` on a study's directory: every run against its own train set."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records import StudyTables, Table, Trajectories, read_study
from breadth.stats import Regressor, benjamini_hochberg, rows_needed
from breadth.verbs.correlation import Correlation

if TYPE_CHECKING:
    import altair as alt

Names = str | Sequence[str] | None


class Analyse(Protocol):
    """Correlate one table; everything but these options is settled."""

    def __call__(self, source: Any, control: Names, facets: Names, by: Names, order: str | None) -> Correlation:
        """Correlate ``source``."""


@dataclass(frozen=True)
class CorrelationByTrainSet(Correlation):
    """A study with several train sets: every frame holds the results of all of them, with a column ``train_set``.

    ``parts`` has the analysis of every train set; ``q`` is over all of them.
    """

    parts: dict[str, Correlation]

    @cached_property
    def heterogeneity(self) -> pl.DataFrame:
        """Per train set and pair over its runs: the mean correlation and how much runs differ."""
        return _stacked({name: part.heterogeneity for name, part in self.parts.items()})

    @cached_property
    def similarity(self) -> pl.DataFrame:
        """For every two runs of one train set: how alike their correlation matrices are."""
        return _stacked({name: part.similarity for name, part in self.parts.items()})

    @cached_property
    def residuals(self) -> pl.DataFrame:
        """What a run's own train set leaves of every score."""
        return _stacked({name: part.residuals for name, part in self.parts.items()})

    def figure(self) -> alt.TopLevelMixin:
        """A lower-triangle heatmap per run; above 60 runs, one per train set."""
        from breadth.report.heatmap import heatmap

        return heatmap(self.pairs, self.heterogeneity, self.trajectories.facets, self.by)

    def summary(self) -> str:
        """A paragraph of plain language per train set."""
        return "\n\n".join(f"Trained on {name}: {part.summary()}" for name, part in self.parts.items())


def correlate_study(
    folder: str | os.PathLike[str],
    analyse: Analyse,
    control: Names,
    facets: Names,
    by: Names,
    order: str | None,
    regressor: Regressor,
) -> Correlation:
    """Correlate the runs of a study that were trained, each with its own train set as the control unless one is named.

    Runs without training and runs of a single checkpoint have no course to correlate and are left out.
    """
    tables = read_study(folder)
    groups, order = _split(by) or ["run"], order or "step"
    for name in (*groups, order):
        if name not in tables.subjects.columns:
            raise unknown_column(name, tables.subjects.columns, str(folder), "by or order")
    subjects, left_out = _with_a_course(tables, str(folder))
    told = [*tables.warnings, *left_out, *unfinished(tables, subjects), *_too_few(subjects, regressor, control)]
    keys = list(dict.fromkeys([*groups, order, "run", "step"]))
    about = subjects.select(list(dict.fromkeys(["subject", "train_set", *keys])))
    answers = tables.responses.select("subject", "testset", "item", "correct").join(about, on="subject")
    if control or regressor == "none":
        table = Table(answers.select(*keys, "testset", "item", "correct"), str(folder))
        found = analyse(table, control, facets, groups, order)
        return replace(found, warnings=(*told, *found.warnings))
    parts: dict[str, Correlation] = {}
    trained_on = _evaluated(answers, str(folder))
    for train_set in trained_on:
        own = answers.filter(pl.col("train_set") == train_set)
        chosen = facets if len(trained_on) == 1 else _without(facets, train_set, own, str(folder))
        table = Table(own.select(*keys, "testset", "item", "correct"), str(folder))
        parts[train_set] = analyse(table, train_set, chosen, groups, order)
    if len(parts) == 1:
        (found,) = parts.values()
        return replace(found, warnings=(*told, *found.warnings))
    return _combined(parts, told)


def unfinished(tables: StudyTables, subjects: pl.DataFrame) -> list[str]:
    """A line about runs that have not reached their last checkpoint."""
    reached = subjects.group_by("run", maintain_order=True).agg(pl.col("step").max())
    short = [(run, step) for run, step in reached.iter_rows() if step < tables.planned.get(run, 0)]
    if not short:
        return []
    shown = listed([f"{run} at step {step} of {tables.planned[run]}" for run, step in short], 3)
    return [f"{_runs(len(short))} not finished: {shown}; `breadth run` goes on with {_them(len(short))}"]


def _with_a_course(tables: StudyTables, name: str) -> tuple[pl.DataFrame, list[str]]:
    """Checkpoints of runs that were trained and have two or more of them, and a line about the others."""
    course = tables.subjects.filter(pl.col("train_set").is_not_null() & (pl.len().over("run") > 1))
    others = tables.subjects.join(course, on="run", how="anti")["run"].unique(maintain_order=True)
    if not course.height:
        raise InputError(
            f"{name}: no run was trained and evaluated at two checkpoints or more, so nothing can be correlated over "
            f"checkpoints (runs: {listed(others, 4)})"
        )
    if not others.len():
        return course, []
    what = "without training or with a single checkpoint"
    return course, [f"{_runs(others.len(), '')} {what} left out: {listed(others, 4)}"]


def _too_few(subjects: pl.DataFrame, regressor: Regressor, control: Names) -> list[str]:
    """How many checkpoints there are and how many are needed, where that is too few."""
    controls = max(1, len(_split(control)))
    needed = rows_needed(regressor, controls)
    counts = subjects.group_by("run", maintain_order=True).len()
    short = counts.filter(pl.col("len") < needed)
    if not short.height:
        return []
    most = max(short["len"].to_list())
    which = "every run has" if short.height == counts.height else f"{short.height} of {counts.height} runs have"
    fewer = rows_needed("linear", controls)
    other = f" (--regressor linear needs {fewer})" if regressor == "gam" and most >= fewer else ""
    return [
        f"{which} too few checkpoints: at most {most}, and the regressor {regressor} needs {needed}{other}; "
        "evaluate more often or train for longer"
    ]


def _evaluated(answers: pl.DataFrame, name: str) -> list[str]:
    """Train sets in order; each must be among the test sets of its own runs."""
    trained_on = answers["train_set"].unique().sort().to_list()
    there = answers.filter(pl.col("train_set") == pl.col("testset"))["train_set"].unique().to_list()
    absent = [train_set for train_set in trained_on if train_set not in there]
    if absent:
        raise InputError(
            f"{name}: {listed(absent)} was trained on but not evaluated, so in-domain performance is unknown; name a "
            f"test set with --control ({listed(answers['testset'].unique().sort())}), or add {absent[0]} to the "
            "study's evaluate: on"
        )
    return trained_on


def _without(facets: Names, train_set: str, answers: pl.DataFrame, name: str) -> list[str] | None:
    """The facets that were asked for, as far as they are not this part's control."""
    if facets is None:
        return None
    testsets = answers["testset"].unique(maintain_order=True).to_list()
    chosen: list[str] = []
    for pattern in _split(facets):
        matches = fnmatch.filter(testsets, pattern)
        if not matches:
            raise unknown_column(pattern, testsets, name, "facet")
        chosen += matches
    return [testset for testset in dict.fromkeys(chosen) if testset != train_set]


def _combined(parts: dict[str, Correlation], told: list[str]) -> CorrelationByTrainSet:
    parts = _with_common_q(parts)
    first = next(iter(parts.values()))
    courses = [part.trajectories for part in parts.values()]
    by = first.by if "train_set" in first.by else ("train_set", *first.by)
    whole = Trajectories(
        _stacked({name: part.trajectories.frame for name, part in parts.items()}),
        first.trajectories.name,
        by,
        first.trajectories.order,
        tuple(parts),
        tuple(dict.fromkeys(facet for course in courses for facet in course.facets)),
    )
    warnings = tuple(dict.fromkeys([*told, *(line for part in parts.values() for line in part.warnings)]))
    pairs, windows = (
        _stacked({name: getattr(part, which) for name, part in parts.items()}) for which in ("pairs", "windows")
    )
    return CorrelationByTrainSet(pairs, windows, whole, first.settings, warnings, first._partial, first._labels, parts)


def _with_common_q(parts: dict[str, Correlation]) -> dict[str, Correlation]:
    """False-discovery rates over all pairs of the call, not per train set."""
    for which in ("pairs", "windows"):
        frames = [getattr(part, which) for part in parts.values()]
        p = pl.concat([frame["p"] for frame in frames]).fill_null(float("nan"))
        q = pl.Series("q", benjamini_hochberg(p.to_numpy()), nan_to_null=True)
        start = 0
        for (name, part), frame in zip(list(parts.items()), frames, strict=True):
            own = q.slice(start, frame.height)
            parts = {**parts, name: replace(part, **{which: frame.with_columns(own)})}
            start += frame.height
    return parts


def _stacked(frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    named = [
        frame
        if "train_set" in frame.columns
        else frame.insert_column(0, pl.Series("train_set", [name]).new_from_index(0, frame.height))
        for name, frame in ((name, frame.clone()) for name, frame in frames.items())
    ]
    return pl.concat(named, how="diagonal_relaxed")


def _split(names: Names) -> list[str]:
    entries = [names] if isinstance(names, str) else names or []
    return [part.strip() for entry in entries for part in entry.split(",") if part.strip()]


def _runs(count: int, verb: str | None = None) -> str:
    verb = ("is " if count == 1 else "are ") if verb is None else verb
    return f"{count} run{'' if count == 1 else 's'} {verb}".strip()


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
