"""Accuracy before and after training, at every checkpoint, and by level; intervals count items and runs as samples.

All functions take a study whose subjects have a run, a model and a step (``ReportData.described``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.inference import with_wilson
from breadth.level_transfer import Gains, contrast
from breadth.records import Study

_INTERVAL = dict.fromkeys(("se", "ci_low", "ci_high"), pl.Float64)
_SIZES = dict.fromkeys(("runs", "n_items"), pl.Int64)
_KEYS = dict.fromkeys(("model", "train_set", "testset", "shift"), pl.String)

#: Columns of the tables ``profile``, ``gains`` and ``by_level`` of a report.
PROFILE = {**_KEYS, "when": pl.String, **_SIZES, "accuracy": pl.Float64, **_INTERVAL, "chance": pl.Float64}
GAINS = {**_KEYS, "in_domain": pl.Boolean, **_SIZES, "gain": pl.Float64, **_INTERVAL, "p": pl.Float64}
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, **_SIZES, "accuracy": pl.Float64, **_INTERVAL}


class Mean(NamedTuple):
    """A mean over runs and items with its 95% interval; None where it cannot be estimated."""

    runs: int
    n_items: int
    estimate: float | None = None
    se: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    def accuracy(self) -> dict[str, Any]:
        """The columns of an accuracy; its interval stays within 0 and 1."""
        low, high = (None if end is None else min(max(end, 0.0), 1.0) for end in (self.low, self.high))
        return {
            "runs": self.runs, "n_items": self.n_items, "accuracy": self.estimate, "se": self.se, "ci_low": low,
            "ci_high": high,
        }  # fmt: skip


def crossed_mean(answers: npt.NDArray[Any]) -> Mean:
    """Mean of answers [runs, items], with both the items and the runs as samples.

    See :func:`breadth.level_transfer.contrast` for the standard error. Runs without any answer are left out, and so are
    items that one of the other runs did not answer.
    """
    answered = ~np.isnan(answers)
    runs = answered.any(axis=1)
    complete = answers[np.ix_(runs, answered[runs].all(axis=0) & runs.any())].astype(np.float64)
    n = complete.shape[1]
    if n < 2:
        return Mean(len(complete), n, float(complete.mean()) if n else None)
    mean = contrast(Gains((complete,), np.zeros(n), np.zeros(n, dtype=np.intp)), np.ones((1, 1)))
    numbers = (mean.estimate, mean.se, mean.low, mean.high, mean.p)
    return Mean(len(complete), n, *(None if np.isnan(value) else value for value in numbers))


def accuracy_profile(study: Study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Accuracy per model and test set before and after training, and the gain between the two, paired by run."""
    rows, gains = [], []
    chance = _chance(study)
    for (model, train_set), group in study.ends.group_by(["model", "train_set"], maintain_order=True):
        ends = _checkpoints(group)
        for testset, shift in study.shifts.items():
            inside = study.set_index == study.testsets.index(testset)
            answers = {when: study.correct[index][:, inside] for when, index in ends.items()}
            if np.isnan(answers["after"]).all():
                continue
            key = {"model": model, "train_set": train_set, "testset": testset, "shift": shift}
            for when, correct in answers.items():
                rows.append(key | {"when": when, "chance": chance.get(testset)} | crossed_mean(correct).accuracy())
            if "before" in answers:
                gain = crossed_mean(answers["after"] - answers["before"])
                sizes = {"in_domain": testset == study.in_domain(train_set), "runs": gain.runs, "n_items": gain.n_items}
                numbers = {"gain": gain.estimate, "se": gain.se, "ci_low": gain.low, "ci_high": gain.high, "p": gain.p}
                gains.append(key | sizes | numbers)
    return pl.DataFrame(rows, schema=PROFILE), pl.DataFrame(gains, schema=GAINS)


def accuracy_trajectories(study: Study) -> pl.DataFrame:
    """Accuracy of every run at every checkpoint on every test set, with Wilson's interval."""
    keys = study.subjects.select("run", "model", "train_set", "examples", "seed", "train_level", "step")
    accuracy, count = study.scores
    parts = [
        keys.with_columns(
            testset=pl.lit(testset),
            n=pl.Series(count[:, study.testsets.index(testset)]),
            accuracy=pl.Series(accuracy[:, study.testsets.index(testset)], nan_to_null=True),
        )
        for testset in study.shifts
    ]
    return with_wilson(pl.concat(parts).drop_nulls("accuracy")).sort("run", "testset", "step")


def model_accuracy_by_level(study: Study, levels: pl.Series, models: Sequence[str]) -> pl.DataFrame:
    """Accuracy of ``models`` on the items of every level (one entry per item), before and after training."""
    level = levels.fill_null(-1).to_numpy()
    rows = []
    for model in models:
        group = study.ends.filter(pl.col("model") == model)
        for when, index in _checkpoints(group).items():
            answers = study.correct[index]
            for one in np.unique(level[level >= 0]):
                mean = crossed_mean(answers[:, level == one])
                if mean.estimate is not None:
                    rows.append({"model": model, "when": when, "level": int(one)} | mean.accuracy())
    return pl.DataFrame(rows, schema=BY_LEVEL)


def _checkpoints(ends: pl.DataFrame) -> dict[str, npt.NDArray[np.uint32]]:
    """Rows of the matrix ``before`` and ``after`` training, of the runs that were trained; if none was, ``after``."""
    trained = ends.filter(pl.col("first") != pl.col("last"))
    if not trained.height:
        return {"after": ends["last"].to_numpy()}
    return {"before": trained["first"].to_numpy(), "after": trained["last"].to_numpy()}


def _chance(study: Study) -> dict[str, float]:
    """Share of the commonest label, where labels are few: the accuracy of always giving that answer."""
    if "label" not in study.items.columns:
        return {}
    counts = study.items.drop_nulls("label").group_by("testset", "label").len()
    shares = counts.group_by("testset").agg(pl.col("len").max() / pl.col("len").sum(), pl.len().alias("labels"))
    return {row[0]: row[1] for row in shares.filter(pl.col("labels") <= 10).iter_rows()}
