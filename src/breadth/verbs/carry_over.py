"""Do results carry over? Correlations of every training set's runs, their means per model, windows and agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from breadth.errors import InputError
from breadth.records import StudyMatrix
from breadth.stats import benjamini_hochberg, summarise
from breadth.stats.intervals import LEVEL, to_z
from breadth.verbs.correlate import correlate
from breadth.verbs.correlation import Correlation
from breadth.verbs.standing import ends, in_domain_set

#: Checkpoints a run needs to be cut into two, or three, parts that can be analysed on their own.
TWO_WINDOWS, THREE_WINDOWS = 20, 30

MEANS = {
    "train_set": pl.String, "control": pl.String, "panel": pl.String, "model": pl.String, "run": pl.String,
    "kind": pl.String, "a": pl.String, "b": pl.String, "k": pl.Int64, "r": pl.Float64, "ci_low": pl.Float64,
    "ci_high": pl.Float64, "q": pl.Float64, "note": pl.String,
}  # fmt: skip


def carry_over(
    study: StudyMatrix, kinds: dict[str, str | None]
) -> tuple[dict[str, pl.DataFrame], list[str], list[str]]:
    """Tables, paragraphs, and reasons for what could not be done, over all training sets.

    Every training set is one call of ``correlate`` on its runs, with its in-domain test set as control, ``by="run"``
    and ``order="step"``; so the numbers are those of the command.
    """
    parts: dict[str, tuple[Correlation, dict[str, pl.DataFrame]]] = {}
    absent = []
    for (train_set,), group in ends(study).group_by(["train_set"], maintain_order=True):
        name = str(train_set) if train_set is not None else "no training set"
        try:
            parts[name] = _one_training_set(study, train_set, group, kinds)
        except InputError as error:
            absent.append(f"{name}: {error}")
    names = dict.fromkeys(key for _, found in parts.values() for key in found)
    tables = {
        key: pl.concat([found[key] for _, found in parts.values() if key in found], how="diagonal_relaxed")
        for key in names
    }
    return _with_common_q(tables), _words(parts, tables), absent


def _with_common_q(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """False-discovery rates over all training sets, not per training set."""
    for key in ("pairs", "windows"):
        if key in tables:
            q = benjamini_hochberg(tables[key]["p"].fill_null(float("nan")).to_numpy())
            tables[key] = tables[key].with_columns(pl.Series("q", q, nan_to_null=True))
    if "correlations" in tables:
        keys = ["train_set", "run", "a", "b"]
        joined = tables["correlations"].join(
            tables["pairs"].select(*keys, pl.col("q").alias("common")), on=keys, how="left", maintain_order="left"
        )
        chosen = pl.when(pl.col("kind") == "partial").then("common").otherwise("q").alias("q")
        tables["correlations"] = joined.with_columns(chosen).drop("common")
    return tables


def _words(parts: dict[str, tuple[Correlation, dict[str, pl.DataFrame]]], tables: dict[str, pl.DataFrame]) -> list[str]:
    """The paragraph of every training set, with the false-discovery rates of all of them."""
    words = []
    for name, (result, _) in parts.items():
        own = tables["pairs"].filter(pl.col("train_set").eq_missing(pl.lit(name)))
        told = replace(result, pairs=own.select(result.pairs.columns)).summary()
        words.append(f"Trained on {name}: {told}" if len(parts) > 1 else told)
    return words


def _one_training_set(
    study: StudyMatrix, train_set: str | None, group: pl.DataFrame, kinds: dict[str, str | None]
) -> tuple[Correlation, dict[str, pl.DataFrame]]:
    control = in_domain_set(train_set, kinds)
    if control is None:
        raise InputError("no test set is in-domain for it, so there is nothing to control for")
    most = int(group["checkpoints"].max())  # type: ignore[arg-type]
    if most < 6:
        raise InputError(f"a run has at most {most} checkpoints; a correlation over them needs six or more")
    group = group.filter(pl.col("checkpoints") > 1)
    runs = group["run"].to_list()
    there = ~np.isnan(study.scores[0][group["last"].to_numpy()]).all(axis=0)
    facets = [name for name in kinds if name != control and there[study.testsets.index(name)]]
    if len(facets) < 2:
        raise InputError("fewer than two test sets besides the in-domain one")
    windows = 3 if most >= THREE_WINDOWS else 2 if most >= TWO_WINDOWS else None
    options: dict[str, Any] = {"control": control, "by": "run", "order": "step"}
    result = correlate(study.trajectories(runs, control, facets), windows=windows, **options)
    told = {"train_set": train_set, "control": control}
    models = dict(group.select("run", "model").iter_rows())
    raw = correlate(study.trajectories(runs, control, facets), regressor="none", **options)
    panels = [_run_panels(result, raw, models)]
    for model in dict.fromkeys(models.values()):
        own = study.trajectories([run for run in runs if models[run] == model], control, facets)
        for kind, regressor in (("partial", "gam"), ("raw", "none")):
            subset = correlate(own, regressor=regressor, **options)  # type: ignore[arg-type]
            panels.append(_model_panel(_model_means(subset), model, kind))
            if kind == "partial" and "r_corrected" in subset.pairs.columns:
                pooled = pool(subset.pairs, ["a", "b"], "r_corrected", "ci_low_corrected", "ci_high_corrected")
                panels.append(_model_panel(pooled, model, "corrected"))
    tables = {
        "pairs": result.pairs,
        "heterogeneity": result.heterogeneity,
        "similarity": result.similarity,
        "correlations": pl.concat(panels, how="diagonal_relaxed"),
    }
    if result.windows.height:
        named = result.windows.with_columns(pl.col("run").replace_strict(models, return_dtype=pl.String).alias("model"))
        tables["windows"] = result.windows
        tables["window_means"] = pool(named, ["model", "window", "a", "b"], "r", "ci_low", "ci_high", ("from", "to"))
    put = [pl.lit(value, dtype=pl.String).alias(key) for key, value in told.items()]
    framed = {key: frame.select(*put, pl.all()) for key, frame in tables.items()}
    framed["correlations"] = framed["correlations"].select(
        (pl.col(key) if key in framed["correlations"].columns else pl.lit(None)).cast(dtype).alias(key)
        for key, dtype in MEANS.items()
    )
    return result, framed


def _run_panels(result: Correlation, raw: Correlation, models: dict[str, str]) -> pl.DataFrame:
    """Every run's own correlations, one row per kind."""
    plain = ("r", "ci_low", "ci_high", "q")
    kinds: list[tuple[str, pl.DataFrame, tuple[str | None, ...]]] = [
        ("partial", result.pairs, plain),
        ("raw", raw.pairs, plain),
    ]
    if "r_corrected" in result.pairs.columns:
        kinds.append(("corrected", result.pairs, ("r_corrected", "ci_low_corrected", "ci_high_corrected", None)))
    return pl.concat(
        pairs.select(
            pl.col("run").replace_strict(models, return_dtype=pl.String).alias("model"),
            *("run", "a", "b", "note"),
            pl.col("run").alias("panel"),
            pl.lit(kind).alias("kind"),
            pl.lit(1).alias("k"),
            *(
                (pl.lit(None, dtype=pl.Float64) if column is None else pl.col(column)).alias(name)
                for name, column in zip(plain, columns, strict=True)
            ),
        )
        for kind, pairs, columns in kinds
    )


def _model_means(subset: Correlation) -> pl.DataFrame:
    """A model's correlations: the mean over its runs, or those of its only run with their own intervals."""
    if subset.pairs["run"].n_unique() == 1:
        return subset.pairs.with_columns(pl.lit(1).alias("k"))
    return subset.heterogeneity.rename({"r_mean": "r"})


def _model_panel(frame: pl.DataFrame, model: str, kind: str) -> pl.DataFrame:
    kept = frame.select("a", "b", "k", "r", "ci_low", "ci_high")
    return kept.with_columns(panel=pl.lit(model), model=pl.lit(model), kind=pl.lit(kind))


def pool(frame: pl.DataFrame, by: Sequence[str], r: str, low: str, high: str, keep: Sequence[str] = ()) -> pl.DataFrame:
    """Random-effects mean of correlations over runs, per ``by``, with variances read off their intervals.

    An interval is taken to be z plus or minus 1.96 standard errors. It is wider than that (t quantiles), so the mean's
    interval is, if anything, too wide.
    """
    lists = frame.group_by(by, maintain_order=True).agg(r, low, high, *(pl.col(name).first() for name in keep))
    width = max(lists[r].list.len())
    padded = {
        name: np.array([values + [None] * (width - len(values)) for values in lists[name].to_list()], dtype=np.float64)
        for name in (r, low, high)
    }
    z, half = to_z(padded[r]), (to_z(padded[high]) - to_z(padded[low])) / 2
    z = np.where(np.isnan(half), np.nan, z)
    found = summarise(z, (half / special.ndtri((1 + LEVEL) / 2)) ** 2)
    numbers = {"r": found.r_mean, "ci_low": found.low, "ci_high": found.high}
    columns = [
        pl.Series(name, np.where(np.isfinite(value), value, np.nan), nan_to_null=True)
        for name, value in numbers.items()
    ]
    return lists.select(*by, *keep).with_columns(pl.Series("k", found.k.astype(np.int64)), *columns)
