"""What a report shows of ``correlate``: its verdict, tables, means per model, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from breadth.correlation.correlate import RUN_COLUMNS, correlate
from breadth.correlation.figure import by_strength, correlations_figure
from breadth.correlation.group_figures import agreement_figure, similarity_figure, windows_figure
from breadth.correlation.noise import deciding
from breadth.correlation.panel import Ints, orient
from breadth.correlation.result import (
    MOST_COMPARED,
    Correlation,
    means_frame,
    pairs_frame,
    select_groups,
    with_q,
)
from breadth.correlation.units import MODEL_COLUMNS, pool_units
from breadth.correlation.words import REPORT_ALL
from breadth.errors import InputError
from breadth.records import Score, Study, name_rows
from breadth.results import Answer, Figure, Question, Verdict
from breadth.results.words import FINDING, SCORE_WORDS, joined
from breadth.sources import NONE, ScoreTable

#: Checkpoints a run needs to be cut into two, or three, parts that can be analysed on their own.
TWO_WINDOWS, THREE_WINDOWS = 20, 30

#: Above this many test sets, a row for every pair and part of training cannot be read.
MOST_TESTSETS = 12

#: Above this many runs, a matrix of runs cannot be read.
MOST_RUNS = 40

#: Pairs of test sets that a sentence names.
MOST_PAIRS = 3

#: Most scores of checkpoints that a report carries, to show what is behind a correlation.
MOST_SCORES = 400_000

#: Columns of the table ``correlations``: means over all runs (``model`` and ``run`` are null), over a model's runs
#: (``run`` is null), and single runs, in the order of a figure's panels. ``q`` is over all rows of the same kind and
#: level.
COLUMNS = {
    "train_set": pl.String, "control": pl.String, "panel": pl.String, "model": pl.String, "run": pl.String,
    "kind": pl.String, "a": pl.String, "b": pl.String, "k": pl.Int64, "r": pl.Float64, "ci_low": pl.Float64,
    "ci_high": pl.Float64, "p": pl.Float64, "q": pl.Float64, "flag": pl.String, "note": pl.String,
}  # fmt: skip

#: Columns of a mean.
MEAN = ("a", "b", "k", "r", "ci_low", "ci_high", "p")


@dataclass(frozen=True)
class CarryOver:
    """Correlations of a study or a table of scores for a report.

    ``verdict`` is that of ``correlate``, and ``result`` what it returned, if anything could be computed. ``tables``
    holds ``pairs``, ``heterogeneity``, ``similarity`` and ``windows`` exactly as ``correlate`` gives them,
    ``correlations`` (raw, partial and corrected: means over all runs, means per model, single runs) and
    ``window_means``. ``reasons`` say what could not be computed, and why.
    """

    verdict: Verdict
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    reasons: tuple[str, ...] = ()
    result: Correlation | None = None

    @property
    def finding(self) -> str:
        """The verdict as text."""
        return str(self.verdict)


def carry_over(
    source: Study | ScoreTable, score: Score = "accuracy", chosen: Mapping[str, Any] = MappingProxyType({})
) -> CarryOver:
    """Correlate test sets over checkpoints (or over models, where there are none), and sum up per model.

    One call of ``correlate`` computes everything; means per model are over its groups. The control is the in-domain set
    of every run, that of a table of scores, or else the test sets marked in-domain; without any, correlations are raw
    and the verdict says so. Windows are computed where runs have 20 checkpoints or more. ``chosen`` are options of
    ``correlate`` that the user gave; they come before what is decided here.
    """
    try:
        result, reasons = _correlated(source, score, chosen)
    except InputError as error:
        return CarryOver(_nothing_to_compare(source), reasons=(str(error).removeprefix(f"{source.name}: "),))
    verdict = result.verdict()
    # What the source warns of is said once, by whoever read it.
    reasons = [*_without(result.warnings, source.warnings), *reasons]
    if not verdict.computed:
        return CarryOver(verdict, reasons=tuple(reasons))
    paragraphs = list(filter(None, result.details().split("\n\n")))
    parts = result.analyses
    groups = [_groups(part, source) for part in parts]
    runs = sum(map(len, groups))
    # Comparing every two of many runs takes minutes, and its figure could not be read.
    compared = runs <= MOST_RUNS
    tables = {"pairs": result.pairs, "heterogeneity": result.heterogeneity}
    if compared:
        tables["similarity"] = result.similarity
    tables["correlations"] = _correlations(parts, groups)
    tables |= _checkpoint_scores(parts, groups)
    models = pl.concat(groups)["model"].drop_nulls().unique(maintain_order=True).to_list()
    testsets, given = result.trajectories.testsets, result.given
    measure = "scores"
    if isinstance(source, Study):
        measure = SCORE_WORDS[score]
    figures = [correlations_figure(tables["correlations"], testsets, given=given, measure=measure)]
    if int(result.heterogeneity["k"].max() or 0) > 1:  # type: ignore[arg-type]
        noun = parts[0].units.noun
        figures.append(agreement_figure(tables["heterogeneity"], tables["correlations"], models, given=given, new=noun))
    by = parts[0].by
    names = pl.concat(groups).sort("model", "run", maintain_order=True)["run"].drop_nulls().to_list()
    if len(by) == 1 and compared and tables["similarity"]["similarity"].is_not_null().any():
        figures.append(similarity_figure(names, given=given, unit=by[0]))
    elif not compared:
        reasons.append(f"how alike every two of {runs} runs are; `breadth correlate` compares up to {MOST_COMPARED}")
    if result.windows.height:
        if result.changes.height:
            tables["window_changes"] = result.changes
        tables |= {"windows": result.windows, "window_means": _window_means(parts, groups)}
        if len(testsets) <= MOST_TESTSETS:
            figures.append(windows_figure(tables["window_means"], testsets, given=given))
        else:
            reasons.append(f"windows over training are drawn for at most {MOST_TESTSETS} test sets; see the table")
    contradictions = _contradictions(tables["correlations"])
    if contradictions:
        paragraphs.append(contradictions)
    return CarryOver(verdict, tables, tuple(paragraphs), tuple(figures), tuple(reasons), result)


def _nothing_to_compare(source: Study | ScoreTable) -> Verdict:
    """There is one test set alone, or nothing beside the in-domain one, or too little of each."""
    testsets = source.testsets
    reason = "This data lacks what a comparison of test sets takes; its section says what is missing."
    advice = REPORT_ALL
    if len(testsets) < 2:
        reason = "There is only one test set."
        advice = "Add scores of a second one to ask this."
    return Verdict(Answer.UNKNOWN, reason, computed=False, question=Question.SPEAKS_FOR, advice=advice)


def _without(lines: Sequence[str], known: Sequence[str]) -> list[str]:
    return [line for line in lines if line not in known]


def _correlated(source: Study | ScoreTable, score: Score, chosen: Mapping[str, Any]) -> tuple[Correlation, list[str]]:
    """What ``correlate`` gives for a study or a table of scores, and what it could not do."""
    options: dict[str, Any] = {}
    reasons = []
    if isinstance(source, ScoreTable):
        table: Study | ScoreTable = source
        if not source.turned:
            table = orient(source, source.lower_is_better)
        most = source.frame.height
        if source.by:
            most = int(source.frame.group_by(source.by).len()["len"].max() or 0)  # type: ignore[arg-type]
        ordered, controlled = source.order is not None, bool(source.controls)
    else:
        table, known = source, set(source.subjects.columns)
        ordered = known >= {"run", "step"}
        most = 0
        if ordered:
            most = max(source.ends["checkpoints"])
        options["score"] = score
        controlled = known >= RUN_COLUMNS and (most < 2 or source.subjects["train_set"].is_not_null().any())
        if not controlled:
            marked = [name for name, shift in source.shifts.items() if shift == "in-domain"]
            controlled, options["control"] = bool(marked), marked or None
            if ordered:
                options |= {"by": "run", "order": "step"}
    if chosen.get("control") not in (None, (), NONE) and isinstance(source, Study):
        controlled = True
    if not controlled:
        options["adjust"] = "none"
        reasons.append("the in-domain score is not known, so nothing is taken into account; name it with --control")
    if ordered and most >= TWO_WINDOWS:
        options["windows"] = 2
        if most >= THREE_WINDOWS:
            options["windows"] = 3
    elif ordered:
        reasons.append(f"windows over training need runs with at least {TWO_WINDOWS} checkpoints")
    return correlate(table, **{**options, **chosen}), reasons


def _groups(part: Correlation, source: Study | ScoreTable) -> pl.DataFrame:
    """Run, model and training set of every group; one row of nulls where there are no groups."""
    schema = {"run": pl.String, "model": pl.String, "train_set": pl.String}
    if not part.by:
        return pl.DataFrame([dict.fromkeys(schema)], schema=schema)
    labels = part._labels
    if isinstance(source, Study) and part.by == ("run",):
        known = [pl.col(name) if name in source.subjects.columns else pl.lit(None).alias(name) for name in schema]
        about = source.subjects.select(known).unique("run", maintain_order=True)
        groups = labels.select(pl.col("run").cast(pl.String)).join(about, on="run", how="left", maintain_order="left")
        return groups.select(pl.col(name).cast(kind) for name, kind in schema.items()).with_columns(
            pl.col("model").fill_null("?")
        )
    run = name_rows(labels, part.by)
    model = next((pl.col(name).cast(pl.String) for name in MODEL_COLUMNS if name in part.by), pl.lit("all runs"))
    return labels.select(run=run, model=model, train_set=pl.lit(None, dtype=pl.String))


def _correlations(parts: Sequence[Correlation], groups: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Means over all runs, means per model and single runs, with false discovery rates and in the order of panels."""
    frames = [_of_part(part, own) for part, own in zip(parts, groups, strict=True)]
    frame = pl.concat(frames, how="diagonal_relaxed")
    every = "all rows"
    if parts[0].by:
        every = "all runs"
    if pl.concat(groups)["model"].n_unique() > 1:
        every = "all models"
    panel = pl.coalesce("run", "model", pl.lit(every))
    if len(parts) > 1:
        panel = pl.format("{} · {}", panel, "train_set")
    # Models and runs by how strong their correlations are.
    main = frame.filter(pl.col("kind") == frame["kind"][0])
    level = pl.when(pl.col("run").is_not_null()).then(2).when(pl.col("model").is_not_null()).then(1).otherwise(0)
    rank = []
    for name, keep in (("model", pl.col("run").is_null() & pl.col("model").is_not_null()), ("run", level == 2)):
        strongest = by_strength(main.filter(keep), name)
        places = dict(zip(strongest, range(len(strongest)), strict=True))
        rank.append(pl.col(name).replace_strict(places, default=-1, return_dtype=pl.Int64))
    levels = frame.with_columns(panel=panel, level=level).partition_by("level", "kind", maintain_order=True)
    ready = pl.concat([with_q(each) for each in levels], how="diagonal_relaxed")
    ready = ready.sort("level", rank[1], rank[0], maintain_order=True)
    return ready.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())


def _of_part(part: Correlation, groups: pl.DataFrame) -> pl.DataFrame:
    """Correlations of one training set: means over all units and per model, and single groups.

    First those that decide: corrected for noise where it is known, else partial, else raw.
    """
    uncorrected = replace(part.settings, counts=None, scale=None)
    results = {}
    if part.corrected:
        results["corrected"] = part
    if part.settings.adjust != "none":
        results["partial"] = replace(part, _partial=part._partial._replace(correction=None), settings=uncorrected)
    raw = correlate(part.trajectories, adjust="none", item_counts="none", cluster=part.units.column or "none")
    results["raw"] = raw
    frames = [pl.DataFrame(schema=COLUMNS).drop("panel", "q")]
    for kind, result in results.items():
        frames.append(_mean_correlations(result, part.units.of_group).with_columns(kind=pl.lit(kind)))
        if not part.by:
            continue
        single = deciding(pairs_frame(result._partial, part._labels, part.trajectories, result.settings))
        each = np.repeat(np.arange(len(groups)), len(single) // len(groups))
        single = single.with_columns(
            kind=pl.lit(kind), k=pl.lit(1), run=groups["run"].gather(each), model=groups["model"].gather(each)
        )
        frames.append(single)
        for model in groups["model"].unique(maintain_order=True):
            own = np.flatnonzero((groups["model"] == model).to_numpy())
            mean = single.filter(pl.col("model") == model).drop("run")
            if len(own) > 1:
                alone = replace(result, _partial=select_groups(result._partial, own))
                mean = _mean_correlations(alone, np.arange(len(own), dtype=np.intp))
            frames.append(mean.select(MEAN).with_columns(kind=pl.lit(kind), model=pl.lit(model)))
    together = pl.concat(frames, how="diagonal_relaxed").drop("q", strict=False)
    return together.with_columns(
        train_set=pl.lit(groups["train_set"][0]), control=pl.lit(joined(part.trajectories.controls))
    )


def _mean_correlations(result: Correlation, of_group: Ints) -> pl.DataFrame:
    """Means over units of all pairs; the pairs themselves where there are no groups."""
    if not result.by:
        own = deciding(pairs_frame(result._partial, result._labels, result.trajectories, result.settings))
        return own.with_columns(k=pl.lit(1)).select(MEAN)
    pooled = pool_units(result._partial, of_group, predict=False)
    return means_frame(pooled, result.trajectories.testsets).rename({"r_mean": "r"}).select(MEAN)


def _window_means(parts: Sequence[Correlation], groups: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Means over a model's runs in every window, corrected for noise as a whole."""
    frames = []
    for part, own in zip(parts, groups, strict=True):
        assert part._parts is not None, "windows were asked for"
        labels, windows = part._parts.labels, deciding(part.windows)
        pairs = windows.height // labels.height
        models = labels.with_columns(model=pl.lit("all rows"), train_set=pl.lit(None, dtype=pl.String))
        if part.by:
            named = part._labels.hstack(own.select(pl.exclude("run", *part.by)))
            models = labels.join(named, on=list(part.by), nulls_equal=True, maintain_order="left")
        keys = models.select("train_set", "model").with_columns(labels["window"]).with_row_index("row")
        for (train_set, model, window), rows in keys.group_by("train_set", "model", "window", maintain_order=True):
            chosen = rows["row"].to_numpy().astype(np.intp)
            first = windows.slice(int(chosen[0]) * pairs, pairs)
            mean = first.with_columns(k=pl.lit(1)).select(MEAN)
            if len(chosen) > 1:
                alone = select_groups(part._parts.partial, chosen)
                pooled = pool_units(alone, np.arange(len(chosen), dtype=np.intp), predict=False)
                mean = means_frame(pooled, part.trajectories.testsets).rename({"r_mean": "r"}).select(MEAN)
            about = (
                pl.lit(train_set, dtype=pl.String).alias("train_set"),
                pl.lit(joined(part.trajectories.controls)).alias("control"),
                pl.lit(model, dtype=pl.String).alias("model"),
                pl.lit(window, dtype=pl.Int64).alias("window"),
            )
            ends = first.select("from", "to")
            frames.append(mean.select(*about, "a", "b").hstack(ends).hstack(mean.drop("a", "b")))
    return with_q(pl.concat(frames, how="vertical_relaxed"))


def _checkpoint_scores(parts: Sequence[Correlation], groups: Sequence[pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every checkpoint's scores with their residuals and the first control: what is behind a correlation."""
    frames = []
    for part, own in zip(parts, groups, strict=True):
        data = part.trajectories
        names = own.with_columns(run=pl.lit("all rows"))
        if part.by:
            names = own.select(pl.exclude(*part.by))
        frame = part.residuals
        row = pl.Series("row", np.repeat(np.arange(data.frame.height), len(data.testsets)))
        control = pl.Series([None] * frame.height)
        if data.controls:
            control = data.frame[data.controls[0]].gather(row)
        frame = frame.with_columns(row, control.cast(pl.Float64).alias("control"))
        if part.by:
            named = part._labels.hstack(names)
            frame = frame.join(named, on=list(part.by), nulls_equal=True, maintain_order="left")
        else:
            frame = frame.join(names, how="cross")
        step = pl.lit(None, dtype=pl.Int64)
        if data.order:
            step = pl.col(data.order)
        text = pl.col("train_set", "model", "run").cast(pl.String)
        frames.append(frame.select(text, "row", step.alias("step"), "testset", "score", "residual", "control"))
    table = pl.concat(frames, how="diagonal_relaxed")
    if table.height > MOST_SCORES:
        return {}
    return {"residuals": table}


def _contradictions(correlations: pl.DataFrame) -> str:
    """On which pairs test sets go together in one model and pull apart in another; empty where there are none."""
    means = correlations.filter(pl.col("run").is_null(), pl.col("model").is_not_null(), pl.col("q") < FINDING)
    means = means.filter(pl.col("kind") == correlations["kind"][0])
    both = ((pl.col("r") > 0).any() & (pl.col("r") < 0).any()).alias("both")
    split = means.group_by("train_set", "a", "b", maintain_order=True).agg(both).filter("both")
    names = [f"{a} and {b}" for a, b in split.select("a", "b").iter_rows()]
    if not names:
        return ""
    return f"Go together in one model and pull in opposite directions in another: {'; '.join(names[:MOST_PAIRS])}."
