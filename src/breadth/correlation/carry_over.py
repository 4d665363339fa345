"""Do results carry over? What a report shows of ``correlate`` on a study: its tables, means per model, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.correlate import RUN_COLUMNS, correlate
from breadth.correlation.figure import agreement_figure, correlations_figure, similarity_figure, windows_figure
from breadth.correlation.groups import summarise
from breadth.correlation.intervals import to_z
from breadth.correlation.partial import Partial
from breadth.correlation.result import CORRECTED_COLUMNS, Correlation, CorrelationByTrainSet
from breadth.correlation.words import verdicts
from breadth.errors import InputError
from breadth.inference import LEVEL
from breadth.records import Score, Study
from breadth.results import Figure
from breadth.results.words import SCORE_WORDS, count, joined

#: Checkpoints a run needs to be cut into two, or three, parts that can be analysed on their own.
TWO_WINDOWS, THREE_WINDOWS = 20, 30

#: Above this many runs, a matrix of runs cannot be read.
MOST_RUNS = 40

#: Columns of the table ``correlations``: those of every run, and the mean over a model's runs (``run`` is null).
COLUMNS = {
    "train_set": pl.String, "control": pl.String, "panel": pl.String, "model": pl.String, "run": pl.String,
    "kind": pl.String, "a": pl.String, "b": pl.String, "k": pl.Int64, "r": pl.Float64, "ci_low": pl.Float64,
    "ci_high": pl.Float64, "q": pl.Float64, "flag": pl.String, "note": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class CarryOver:
    """Correlations of a study for a report.

    ``tables`` holds ``pairs``, ``heterogeneity``, ``similarity`` and ``windows`` exactly as ``correlate`` gives them,
    ``correlations`` (raw, partial and corrected, per run and as means per model) and ``window_means``. ``reasons``
    say what could not be computed, and why.
    """

    finding: str
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    reasons: tuple[str, ...] = ()


def carry_over(study: Study, score: Score = "accuracy") -> CarryOver:
    """Correlate a study's test sets over the checkpoints of its runs, and sum up per model.

    One call of ``correlate`` computes everything; means per model are over its groups. Windows are computed where runs
    have 20 checkpoints or more.
    """
    most = max(study.ends["checkpoints"]) if set(study.subjects.columns) >= RUN_COLUMNS else 0
    windows = 3 if most >= THREE_WINDOWS else 2 if most >= TWO_WINDOWS else None
    undecided = "Undecided: no correlation over checkpoints could be computed."
    try:
        result = correlate(study, windows=windows, score=score)
    except InputError as error:
        return CarryOver(undecided, reasons=(str(error).removeprefix(f"{study.name}: "),))
    reasons = [line for line in result.warnings if line not in study.warnings]
    if not verdicts(result.pairs).known:
        return CarryOver(undecided, reasons=(*reasons, *result.summary().split("\n\n")))
    parts = result.parts if isinstance(result, CorrelationByTrainSet) else {"": result}
    known = study.subjects.columns
    about = study.subjects.select("run", "train_set", "model" if "model" in known else pl.lit("?").alias("model"))
    about = about.with_columns(pl.col("model").fill_null("?")).unique("run", maintain_order=True)
    tables = {name: getattr(result, name) for name in ("pairs", "heterogeneity", "similarity")}
    tables["correlations"] = pl.concat(_correlations(part, about, len(parts) > 1) for part in parts.values())
    models, testsets = about["model"].unique(maintain_order=True).to_list(), result.trajectories.testsets
    figures = [
        correlations_figure(tables["correlations"], testsets, models),
        agreement_figure(tables["heterogeneity"], models),
    ]
    runs = about.filter(pl.col("run").is_in(tables["pairs"]["run"].unique().to_list())).sort("model", "run")["run"]
    if tables["similarity"]["similarity"].is_not_null().any() and runs.len() <= MOST_RUNS:
        figures.append(similarity_figure(runs.to_list()))
    if windows:
        pooled = []
        for part in parts.values():
            named = part.windows.join(about, on="run", maintain_order="left")
            mean = pool(named, ["train_set", "model", "window", "a", "b"], ("from", "to"))
            mean.insert_column(1, pl.lit(joined(part.trajectories.controls)).alias("control"))
            pooled.append(mean)
        tables |= {"windows": result.windows, "window_means": pl.concat(pooled)}
        figures.append(windows_figure(tables["window_means"], testsets))
    else:
        reasons.append(f"windows over training need runs with at least {TWO_WINDOWS} checkpoints")
    means = tables["correlations"].filter(pl.col("run").is_null() & (pl.col("kind") == "partial"))
    counts = verdicts(means)
    finding = (
        f"After controlling for in-domain {SCORE_WORDS[score]}, {counts.positive} of "
        f"{count(counts.known, 'correlation')} between test sets (mean over a model's runs) "
        f"{'is' if counts.positive == 1 else 'are'} positive, {counts.negative} negative and {counts.undecided} "
        "undecided."
    )
    if means["model"].n_unique() > 1:
        up, down = (pl.col("ci_low") > 0).any(), (pl.col("ci_high") < 0).any()
        split = means.group_by("train_set", "a", "b", maintain_order=True).agg(both=up & down).filter("both")
        names = [f"{a} and {b}" for a, b in split.select("a", "b").iter_rows()]
        finding += (
            f" Models contradict each other on {count(split.height, 'pair')} ({joined(names, 3)}): what carries over "
            "depends on the model."
            if names
            else " No two models contradict each other on a pair."
        )
    paragraphs = tuple(result.summary().split("\n\n"))
    return CarryOver(finding, tables, paragraphs, tuple(figures), tuple(reasons))


def _correlations(part: Correlation, about: pl.DataFrame, several: bool) -> pl.DataFrame:
    """Correlations of the runs of one training set, and their means per model."""
    raw = correlate(part.trajectories, adjust="none")
    runs = part._labels.join(about, on="run", how="left", maintain_order="left")
    kinds = {"partial": part.pairs, "raw": raw.pairs}
    if CORRECTED_COLUMNS[0] in part.pairs.columns:
        plain = dict(zip(CORRECTED_COLUMNS, ("r", "ci_low", "ci_high"), strict=False))
        kinds["corrected"] = part.pairs.drop("q", *plain.values()).rename(plain)
    names = runs.select("run", "model", panel="run")
    frames = [
        pairs.join(names, on="run", maintain_order="left").with_columns(kind=pl.lit(kind), k=pl.lit(1))
        for kind, pairs in kinds.items()
    ]
    for model in runs["model"].unique(maintain_order=True):
        own = (runs["model"] == model).to_numpy()
        for kind in (name for name in ("partial", "corrected", "raw") if name in kinds):
            mine = kinds[kind].filter(np.repeat(own, kinds[kind].height // len(own))).with_columns(k=pl.lit(1))
            if kind == "corrected":
                mine = pool(mine, ["a", "b"])
            elif own.sum() > 1:
                whole = part if kind == "partial" else raw
                runs_only = Partial(*(values[own] for values in whole._partial[:-2]))
                mine = replace(whole, _partial=runs_only).heterogeneity.rename({"r_mean": "r"})
            means = mine.select("a", "b", "k", "r", "ci_low", "ci_high")
            frames.append(means.with_columns(kind=pl.lit(kind), model=pl.lit(model), panel=pl.lit(model)))
    train_set, panel = pl.lit(runs["train_set"][0]), pl.col("panel")
    return (
        pl.concat(frames, how="diagonal_relaxed")
        .with_columns(
            train_set=train_set,
            control=pl.lit(joined(part.trajectories.controls)),
            panel=pl.format("{} · {}", panel, train_set) if several else panel,
        )
        .select(pl.col(name).cast(dtype) for name, dtype in COLUMNS.items())
    )


def pool(frame: pl.DataFrame, by: Sequence[str], keep: Sequence[str] = ()) -> pl.DataFrame:
    """Random-effects mean of correlations (``r``, ``ci_low``, ``ci_high``) per ``by``, with variances from intervals.

    Takes an interval to be z plus or minus 1.96 standard errors. It is wider than that (t quantiles), so the mean's
    interval is, if anything, too wide. ``keep`` are columns of which every mean keeps the first value.
    """
    columns = ("r", "ci_low", "ci_high")
    lists = frame.group_by(by, maintain_order=True).agg(*columns, *(pl.col(name).first() for name in keep))
    width = max(lists["r"].list.len())
    r, low, high = (
        np.array([values + [None] * (width - len(values)) for values in lists[name].to_list()], dtype=np.float64)
        for name in columns
    )
    half = (to_z(high) - to_z(low)) / 2
    means = summarise(np.where(np.isnan(half), np.nan, to_z(r)), (half / special.ndtri((1 + LEVEL) / 2)) ** 2)
    numbers = zip(columns, (means.r_mean, means.ci_low, means.ci_high), strict=True)
    return lists.select(*by, *keep).with_columns(
        pl.Series("k", means.k),
        *(pl.Series(name, np.where(np.isfinite(values), values, np.nan), nan_to_null=True) for name, values in numbers),
    )
