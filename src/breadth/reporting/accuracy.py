"""Scores of every checkpoint, and before and after training by test set and by level.

From answers: accuracy, sensitivity and bias. Intervals of a checkpoint count items as a sample, those before and after
training items and runs. Functions take a study whose subjects have a run, a model and a step
(``ReportData.described``). From a table of scores (:func:`score_tables`): the same tables, with runs as the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError
from breadth.inference import LEVEL, benjamini_hochberg, wilson_interval
from breadth.level_transfer import Gains, contrast
from breadth.records import Measure, Score, Study, Trajectories, answers_of, item_values, score_intervals
from breadth.reporting.sources import PLAIN_SCORE
from breadth.results.words import FINDING, verdict

_INTERVAL = dict.fromkeys(("se", "ci_low", "ci_high"), pl.Float64)
_SIZES = dict.fromkeys(("runs", "n_items"), pl.Int64)
_KEYS = dict.fromkeys(("model", "train_set", "testset", "shift"), pl.String)

#: Columns of the tables ``profile``, ``gains`` and ``by_level`` of a report.
PROFILE = {**_KEYS, "when": pl.String, **_SIZES, "accuracy": pl.Float64, **_INTERVAL, "chance": pl.Float64}
_CHANGES = {f"{name}{end}": pl.Float64 for name in ("accuracy", "auc", "share") for end in ("", "_low", "_high")}
GAINS = {**_KEYS, "in_domain": pl.Boolean, **_SIZES, "gain": pl.Float64, **_INTERVAL, "p": pl.Float64, "q": pl.Float64}
GAINS |= _CHANGES | dict.fromkeys(("behind", "p_behind", "q_behind"), pl.Float64)
GAINS |= dict.fromkeys(("answer", "says_more", "flag", "follows", "auc_follows"), pl.String)
#: Columns from which :func:`with_findings` tells what is a finding, beside those of the table.
TESTED = dict.fromkeys(("p_accuracy", "p_auc", "auc_behind", "auc_p_behind"), pl.Float64)
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, **_SIZES, "accuracy": pl.Float64, **_INTERVAL}

#: Scores that lie within 0 and 1.
BOUNDED = ("accuracy", "auc", "balanced")

#: Columns of a checkpoint, before its scores.
CHECKPOINT = ("run", "model", "train_set", "examples", "seed", "train_level", "step")

#: Columns by which a group is a model, in the words that tables use.
MODEL_COLUMNS = ("model", "model_name", "Model", "base_model")

#: Runs that an interval over runs needs.
LEAST_RUNS = 3

#: Changes of a value of items [runs, items], and the group of every item (:class:`breadth.records.ItemValues`).
Changes = tuple[npt.NDArray[Any], npt.NDArray[np.intp]]


class GainFlag(StrEnum):
    """What a gain, or a loss, of accuracy is."""

    BIAS = "bias"


class Follows(StrEnum):
    """Whether a shifted test set gains with the in-domain set; null where that is undecided."""

    YES = "yes"
    PART = "in part"
    NO = "no"


def checkpoint_scores(study: Study, measures: Sequence[Measure]) -> pl.DataFrame:
    """Scores of every checkpoint on every test set, each with the ends of its interval; null where not defined.

    ``accuracy`` has ``ci_low`` and ``ci_high``, other measures such as ``auc`` have ``auc_low`` and ``auc_high``.
    ``share`` is that of ``answer``, the first of a test set's two answers. Runs that were evaluated on their own
    training examples have rows for these as well; they are no test, and are for looking at only.
    """
    parts = []
    for testset in study.shifts:
        known = study.answered[:, study.set_index == study.testsets.index(testset)]
        columns: dict[str, pl.Expr | pl.Series] = {
            "testset": pl.lit(testset),
            "n": pl.Series(known.sum(axis=1), dtype=pl.Int64),
        }
        for measure in measures:
            names = (
                measure,
                *(("ci_low", "ci_high") if measure == "accuracy" else (f"{measure}_low", f"{measure}_high")),
            )
            try:
                numbers: Sequence[Any] = score_intervals(study, measure, testset)
            except InputError:
                numbers = [[None] * len(known)] * 3
            columns |= {
                name: pl.Series(values, dtype=pl.Float64, nan_to_null=True)
                for name, values in zip(names, numbers, strict=True)
            }
        answers = list(answers_of(study, testset).values())
        columns["answer"] = pl.lit(answers[0] if len(answers) == 2 else None, dtype=pl.String)
        parts.append(study.subjects.select(CHECKPOINT).with_columns(**columns))
    if study.training is not None:
        parts.append(checkpoint_scores(study.training, measures))
    return pl.concat(parts).filter(pl.col("n") > 0).sort("run", "testset", "step")


def crossed_mean(answers: npt.NDArray[Any], name: str, group: npt.NDArray[np.intp] | None = None) -> dict[str, Any]:
    """Mean of answers [runs, items] as ``name``, with ``runs, n_items, se, ci_low, ci_high, p``; None where unknown.

    Both the items and the runs are samples: see :func:`breadth.level_transfer.contrast` for the standard error. Runs
    without any answer are left out, and so are items that one of the other runs did not answer. With a ``group`` of
    every item, the sum over groups of their means. The interval of a score within 0 and 1 stays there; that of
    one run's accuracy is Wilson's.
    """
    answered = ~np.isnan(answers)
    runs = answered.any(axis=1)
    items = answered[runs].all(axis=0) & runs.any()
    complete = answers[np.ix_(runs, items)].astype(np.float64)
    n, own = complete.shape[1], np.zeros(items.sum(), dtype=np.intp) if group is None else group[items]
    row = {"runs": len(complete), "n_items": n, name: None, **dict.fromkeys(("se", "ci_low", "ci_high", "p"))}
    counts = np.bincount(own, minlength=1 if group is None else int(group.max()) + 1)
    if counts.min() < 2:
        means = np.bincount(own, complete.mean(axis=0), len(counts)) / np.maximum(counts, 1) if n else counts
        return row | {name: float(means.sum()) if counts.min() else None}
    mean = contrast(Gains((complete,), np.zeros(n), np.zeros(n, dtype=np.intp), own), np.ones((1, 1)))
    low, high = np.clip((mean.low, mean.high), 0, 1) if name in BOUNDED else (mean.low, mean.high)
    if name == "accuracy" and len(complete) == 1:
        low, high = wilson_interval(complete.mean(axis=1), np.array([float(n)]))
    numbers = {name: mean.estimate, "se": mean.se, "ci_low": low, "ci_high": high, "p": mean.p}
    return row | {key: float(np.squeeze(value)) for key, value in numbers.items() if not np.isnan(value)}


def score_profile(study: Study, score: Score = "accuracy") -> tuple[pl.DataFrame, pl.DataFrame]:
    """A score per model and test set before and after training, and the gain between the two, paired by run and item.

    Gains come with the changes of ``accuracy``, ``auc`` (paired: DeLong's variance) and the ``share`` of ``answer``.
    A change of accuracy that is a finding is flagged as ``bias`` where the interval of the share excludes 0, while that
    of auc covers 0 and excludes a change as large as that of accuracy. ``says_more`` is the answer that is clearly
    given more often after training. ``follows`` and ``auc_follows``: see :func:`with_findings`.
    """
    rows, gains, chance = [], [], {}
    if "label" in study.items.columns:
        # Share of the commonest label, where labels are few: the accuracy of always giving that answer.
        counts = study.items.drop_nulls("label").group_by("testset", "label").len()
        shares = counts.group_by("testset").agg(pl.col("len").max() / pl.col("len").sum(), pl.len().alias("labels"))
        chance = {row[0]: row[1] for row in shares.filter(pl.col("labels") <= 10).iter_rows()}
    for (model, train_set), group in study.ends.group_by(["model", "train_set"], maintain_order=True):
        ends = _checkpoints(group)
        measures: dict[Measure, None] = dict.fromkeys(
            (score, "accuracy", "auc", "share") if "before" in ends else (score,)
        )
        index, home = np.concatenate(list(ends.values())), study.in_domain(train_set)
        own_gains, changed = [], {}
        for testset, shift in study.shifts.items():
            if np.isnan(study.correct[np.ix_(ends["after"], study.set_index == study.testsets.index(testset))]).all():
                continue
            measured = {}
            for measure in measures:
                with suppress(InputError):  # it is not defined for this test set
                    values, groups = item_values(study, measure, testset, index)
                    measured[measure] = np.split(values, len(ends)), groups
            if score not in measured:
                continue
            key = {"model": model, "train_set": train_set, "testset": testset, "shift": shift}
            for when, values in zip(ends, measured[score][0], strict=True):
                mean = crossed_mean(values, score, measured[score][1])
                rows.append(key | {"when": when, "chance": chance.get(testset)} | mean)
            if "before" not in ends:
                continue
            changed[testset] = {name: (each[1] - each[0], own) for name, (each, own) in measured.items()}
            changes = {name: crossed_mean(each, "gain", own) for name, (each, own) in changed[testset].items()}
            signs = {name: verdict(one["ci_low"], one["ci_high"]) for name, one in changes.items()}
            answers, more = list(answers_of(study, testset).values()), signs.get("share", 0)
            area, same = changes.get("auc"), False
            if area is not None and area["ci_low"] is not None:
                low, high = area["ci_low"], area["ci_high"]
                same = low <= 0 <= high and not low <= changes["accuracy"]["gain"] <= high
            gain = key | {"in_domain": testset in home} | changes[score]
            for name in ("accuracy", "auc", "share"):
                ends_of = [changes[name][end] if name in changes else None for end in ("gain", "ci_low", "ci_high")]
                gain |= dict(zip((name, f"{name}_low", f"{name}_high"), ends_of, strict=True))
            gain["answer"] = answers[0] if "share" in changes else None
            gain["says_more"] = (answers[0] if more > 0 else answers[1]) if more else None
            gain["flag"] = GainFlag.BIAS.value if more and same else None
            gain |= {f"p_{name}": changes[name]["p"] for name in ("accuracy", "auc") if name in changes}
            own_gains.append(gain)
        for gain, (start, measure) in product(own_gains, (("", score), ("auc_", "auc"))):
            each = changed[gain["testset"]]
            at_home = _joined([changed[name][measure] for name in home if measure in changed.get(name, {})])
            if measure in each and at_home is not None and not gain["in_domain"]:
                lag = behind(each[measure], at_home)
                gain |= {f"{start}behind": lag["gain"], f"{start}p_behind": lag["p"]}
        gains += own_gains
    schema = {score if name == "accuracy" else name: dtype for name, dtype in PROFILE.items()}
    return pl.DataFrame(rows, schema=schema), with_findings(pl.DataFrame(gains, schema={**GAINS, **TESTED}))


def _joined(sets: Sequence[Changes]) -> Changes | None:
    """The values of the items of several in-domain sets as if they were one; None without any.

    Only plain means can be joined: values that come in groups by label (auc) belong to one set.
    """
    if len(sets) < 2:
        return sets[0] if sets else None
    if any(groups.any() for _, groups in sets):
        return None
    return np.concatenate([values for values, _ in sets], axis=1), np.concatenate([groups for _, groups in sets])


def with_findings(gains: pl.DataFrame) -> pl.DataFrame:
    """Gains with what is a finding among them (q < 0.05), and without the columns that only served to find that out.

    ``q`` is the smallest false discovery rate, over all shifted test sets, at which a gain is a finding, ``q_behind``
    that of being less than half the in-domain gain. A set ``follows`` if its gain is a finding, it does not if being
    behind is one, and it does in part if both are; null if neither is, or the in-domain set does not clearly gain.
    ``auc_follows`` says the same of the area under the ROC curve. A ``flag`` stays where accuracy clearly changed.
    """
    shifted = ~pl.col("in_domain")
    tests = {"q": ("p", shifted), "q_behind": ("p_behind", shifted), "auc_q": ("p_auc", shifted)}
    tests |= {"auc_q_behind": ("auc_p_behind", shifted), "q_accuracy": ("p_accuracy", pl.lit(True))}
    for name, (p, among) in tests.items():
        values = gains.select(pl.when(among).then(p).cast(pl.Float64)).to_series()
        q = pl.Series(name, benjamini_hochberg(values.fill_null(float("nan")).to_numpy()), nan_to_null=True)
        gains = gains.with_columns(q)
    for column, gain, start in (("follows", "gain", ""), ("auc_follows", "auc", "auc_")):
        rises = (pl.col(gain) > 0) & (pl.col(f"{start}q") < FINDING)
        lags = (pl.col(f"{start}behind") < 0) & (pl.col(f"{start}q_behind") < FINDING)
        word = pl.when(rises & lags).then(pl.lit(Follows.PART.value)).when(rises).then(pl.lit(Follows.YES.value))
        word = word.when(lags).then(pl.lit(Follows.NO.value))
        gains = gains.with_columns(pl.when(pl.col(f"{start}behind").is_not_null()).then(word).alias(column))
    flag = pl.when(pl.col("q_accuracy") < FINDING).then("flag").alias("flag")
    return gains.with_columns(flag).select(*GAINS)


def behind(away: Changes, home: Changes) -> dict[str, Any]:
    """Gain on a shifted test set less half the in-domain gain (:func:`crossed_mean`); None without a gain there."""
    if verdict(*(crossed_mean(home[0], "gain", home[1])[end] for end in ("ci_low", "ci_high"))) <= 0:
        return dict.fromkeys(("gain", "ci_low", "ci_high", "p"))
    groups = np.concatenate([away[1], home[1] + away[1].max() + 1])
    return crossed_mean(np.concatenate([away[0], -home[0] / 2], axis=1), "gain", groups)


def model_accuracy_by_level(study: Study, levels: pl.Series, models: Sequence[str]) -> pl.DataFrame:
    """Accuracy of ``models`` on the items of every level (one entry per item), before and after training."""
    level = levels.fill_null(-1).to_numpy()
    rows = []
    for model in models:
        group = study.ends.filter(pl.col("model") == model)
        for when, index in _checkpoints(group).items():
            answers = study.correct[index]
            for one in np.unique(level[level >= 0]):
                mean = crossed_mean(answers[:, level == one], "accuracy")
                if mean["accuracy"] is not None:
                    rows.append({"model": model, "when": when, "level": int(one)} | mean)
    return pl.DataFrame(rows, schema=BY_LEVEL)


def _checkpoints(ends: pl.DataFrame) -> dict[str, npt.NDArray[np.uint32]]:
    """Rows of the matrix ``before`` and ``after`` training, of the runs that were trained; if none was, ``after``."""
    trained = ends.filter(pl.col("first") != pl.col("last"))
    if not trained.height:
        return {"after": ends["last"].to_numpy()}
    return {"before": trained["first"].to_numpy(), "after": trained["last"].to_numpy()}


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
