"""The report's tables from a table of scores: runs, profile, gains and trajectories, with runs as the sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.inference import LEVEL
from breadth.records import Trajectories
from breadth.reporting.about import PLAIN_SCORE
from breadth.reporting.accuracy import CHECKPOINT, GAINS, PROFILE, TESTED, with_findings

#: Columns by which a group is a model, in the words that tables use.
MODEL_COLUMNS = ("model", "model_name", "Model", "base_model")

#: Runs that an interval over runs needs.
LEAST_RUNS = 3


class LongScores(NamedTuple):
    """A row per run, checkpoint and test set; whether scores are shares; whether a column names the models."""

    frame: pl.DataFrame
    share: bool
    named: bool


def long_scores(scores: Trajectories) -> LongScores:
    """Scores as rows ``run, model, step, testset, score``.

    Percentages become shares. A group is a run; its model is the value of the column that names models. Without such a
    column all runs count as repetitions of one recipe.
    """
    frame, columns = scores.frame, [*scores.controls, *scores.testsets]
    names = [pl.col(name).cast(pl.String) for name in scores.by]
    everything = pl.lit("all rows" if scores.order is None else "all runs" if scores.by else "run")
    run = pl.concat_str(names, separator=" / ", ignore_nulls=True) if names else everything
    named = [pl.col(name).cast(pl.String) for name in MODEL_COLUMNS if name in scores.by]
    model = named[0] if named else everything
    step = pl.col(scores.order) if scores.order else pl.lit(None, dtype=pl.Int64)
    values = frame.select(columns).to_numpy().astype(np.float64)
    low, high = np.nanmin(values), np.nanmax(values)
    percent = bool(low >= 0 and 1.5 < high <= 100)
    long = (
        frame.select(run.alias("run"), model.alias("model"), step.alias("step"), *columns)
        .unpivot(columns, index=["run", "model", "step"], variable_name="testset", value_name=PLAIN_SCORE)
        .with_columns(pl.col(PLAIN_SCORE).cast(pl.Float64) / (100 if percent else 1))
        .drop_nulls(PLAIN_SCORE)
    )
    return LongScores(long, percent or bool(low >= 0 and high <= 1), bool(named))


def score_tables(scores: Trajectories) -> dict[str, pl.DataFrame]:
    """``runs``, ``profile``, ``gains`` and, where checkpoints are ordered, ``trajectories`` of a table of scores.

    Without an order every row is a subject that was evaluated once, so there are no gains. Intervals treat a model's
    runs as the sample (t distribution) and need three of them. Where models have one run each, the models are the
    sample of further gains, those of ``all models``.
    """
    long = long_scores(scores).frame
    shifts = dict.fromkeys(scores.controls, "in-domain")
    by_step = long.sort("step", nulls_last=True, maintain_order=True)
    ends = by_step.group_by("run", "model", "testset", maintain_order=True).agg(
        before=pl.col(PLAIN_SCORE).first(), after=pl.col(PLAIN_SCORE).last(), first_step=pl.col("step").first(),
        last_step=pl.col("step").last(), checkpoints=pl.len(),
    )  # fmt: skip
    trained = scores.order is not None and bool((ends["checkpoints"] > 1).any())
    profile, gains = [], []
    for (model, testset), group in ends.group_by("model", "testset", maintain_order=True):
        key = {"model": model, "testset": testset, "shift": shifts.get(str(testset))}
        moments = ("before", "after") if trained else ("after",)
        profile += [key | {"when": when} | _mean(group[when], PLAIN_SCORE) for when in moments]
        if trained:
            row = key | {"in_domain": testset in scores.controls} | _mean(group["after"] - group["before"], "gain")
            gains.append(row)
    if trained and ends["model"].n_unique() >= LEAST_RUNS and not any(row.get("p") for row in gains):
        # One run per model: the models are the sample.
        for (testset,), group in ends.group_by("testset", maintain_order=True):
            key = {"model": "all models", "testset": testset, "in_domain": testset in scores.controls}
            gains.append(key | _mean(group["after"] - group["before"], "gain"))
    steps = ["first_step", "last_step", "checkpoints"]
    runs = ends.group_by("run", "model", maintain_order=True).agg(
        pl.col("first_step").min(), pl.col("last_step").max(), pl.col("checkpoints").max()
    )
    tables = {
        "runs": runs.select("run", "model", *steps, planned=pl.lit(None, dtype=pl.Int64)),
        "profile": _frame(profile, {PLAIN_SCORE if key == "accuracy" else key: kind for key, kind in PROFILE.items()}),
        "gains": with_findings(_frame(gains, {**GAINS, **TESTED})),
    }
    if trained:
        missing = [name for name in CHECKPOINT if name not in long.columns]
        tables["trajectories"] = long.with_columns(
            *(pl.lit(None, dtype=pl.Int64).alias(name) for name in missing)
        ).select(*CHECKPOINT, "testset", PLAIN_SCORE)
    return tables


def _mean(values: pl.Series, name: str) -> dict[str, Any]:
    """Mean over runs with its t interval and p-value; null where runs are too few or all alike."""
    known = values.drop_nulls().to_numpy()
    row: dict[str, Any] = {"runs": len(known), name: float(known.mean()) if len(known) else None}
    if len(known) < LEAST_RUNS or known.std() == 0:
        return row
    se, df = float(known.std(ddof=1) / np.sqrt(len(known))), len(known) - 1
    half = float(special.stdtrit(df, (1 + LEVEL) / 2)) * se
    p = float(2 * special.stdtr(df, -abs(row[name]) / se))
    return row | {"se": se, "ci_low": row[name] - half, "ci_high": row[name] + half, "p": p}


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)
