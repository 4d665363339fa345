"""Accuracy before and after training, by test set and by level; intervals count items and runs as samples.

All functions take a study whose subjects have a run, a model and a step (``ReportData.described``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.level_transfer import Gains, contrast
from breadth.records import Study

_INTERVAL = dict.fromkeys(("se", "ci_low", "ci_high"), pl.Float64)
_SIZES = dict.fromkeys(("runs", "n_items"), pl.Int64)
_KEYS = dict.fromkeys(("model", "train_set", "testset", "shift"), pl.String)

#: Columns of the tables ``profile``, ``gains`` and ``by_level`` of a report.
PROFILE = {**_KEYS, "when": pl.String, **_SIZES, "accuracy": pl.Float64, **_INTERVAL, "chance": pl.Float64}
GAINS = {**_KEYS, "in_domain": pl.Boolean, **_SIZES, "gain": pl.Float64, **_INTERVAL, "p": pl.Float64}
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, **_SIZES, "accuracy": pl.Float64, **_INTERVAL}


def crossed_mean(answers: npt.NDArray[Any], name: Literal["accuracy", "gain"]) -> dict[str, Any]:
    """Mean of answers [runs, items] as ``name``, with ``runs, n_items, se, ci_low, ci_high, p``; None where unknown.

    Both the items and the runs are samples: see :func:`breadth.level_transfer.contrast` for the standard error. Runs
    without any answer are left out, and so are items that one of the other runs did not answer. The interval of an
    accuracy stays within 0 and 1.
    """
    answered = ~np.isnan(answers)
    runs = answered.any(axis=1)
    complete = answers[np.ix_(runs, answered[runs].all(axis=0) & runs.any())].astype(np.float64)
    n = complete.shape[1]
    row = {"runs": len(complete), "n_items": n, name: None, **dict.fromkeys(("se", "ci_low", "ci_high", "p"))}
    if n < 2:
        return row | {name: float(complete.mean()) if n else None}
    mean = contrast(Gains((complete,), np.zeros(n), np.zeros(n, dtype=np.intp)), np.ones((1, 1)))
    low, high = np.clip((mean.low, mean.high), 0, 1) if name == "accuracy" else (mean.low, mean.high)
    numbers = {name: mean.estimate, "se": mean.se, "ci_low": low, "ci_high": high, "p": mean.p}
    return row | {key: float(value) for key, value in numbers.items() if not np.isnan(value)}


def accuracy_profile(study: Study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Accuracy per model and test set before and after training, and the gain between the two, paired by run."""
    rows, gains, chance = [], [], {}
    if "label" in study.items.columns:
        # Share of the commonest label, where labels are few: the accuracy of always giving that answer.
        counts = study.items.drop_nulls("label").group_by("testset", "label").len()
        shares = counts.group_by("testset").agg(pl.col("len").max() / pl.col("len").sum(), pl.len().alias("labels"))
        chance = {row[0]: row[1] for row in shares.filter(pl.col("labels") <= 10).iter_rows()}
    for (model, train_set), group in study.ends.group_by(["model", "train_set"], maintain_order=True):
        ends = _checkpoints(group)
        for testset, shift in study.shifts.items():
            inside = study.set_index == study.testsets.index(testset)
            answers = {when: study.correct[index][:, inside] for when, index in ends.items()}
            if np.isnan(answers["after"]).all():
                continue
            key = {"model": model, "train_set": train_set, "testset": testset, "shift": shift}
            for when, correct in answers.items():
                rows.append(key | {"when": when, "chance": chance.get(testset)} | crossed_mean(correct, "accuracy"))
            if "before" in answers:
                gain = crossed_mean(answers["after"] - answers["before"], "gain")
                gains.append(key | {"in_domain": testset == study.in_domain(train_set)} | gain)
    return pl.DataFrame(rows, schema=PROFILE), pl.DataFrame(gains, schema=GAINS)


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
