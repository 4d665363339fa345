"""Where models stand: accuracy per test set before and after training, through training, and by level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.difficulty import Gains, contrast
from breadth.records import SHIFTS, StudyMatrix
from breadth.stats.intervals import LEVEL

Floats = npt.NDArray[np.float64]

_NUMBERS = dict.fromkeys(("accuracy", "se", "ci_low", "ci_high"), pl.Float64)
PROFILE = {
    "model": pl.String, "train_set": pl.String, "testset": pl.String, "shift": pl.String, "when": pl.String,
    "runs": pl.Int64, "n_items": pl.Int64, **_NUMBERS, "chance": pl.Float64,
}  # fmt: skip
GAINS = {
    "model": pl.String, "train_set": pl.String, "testset": pl.String, "shift": pl.String, "in_domain": pl.Boolean,
    "runs": pl.Int64, "n_items": pl.Int64, "gain": pl.Float64, "se": pl.Float64, "ci_low": pl.Float64,
    "ci_high": pl.Float64, "p": pl.Float64,
}  # fmt: skip
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, "runs": pl.Int64, "n_items": pl.Int64, **_NUMBERS}


def ordered_sets(study: StudyMatrix) -> dict[str, str | None]:
    """Test sets with their kind of shift: in-domain first, then in the order of ``SHIFTS``, unknown kinds last."""
    items = study.items
    shifts = (
        items.select("testset", "shift") if "shift" in items.columns else items.select("testset", shift=pl.lit(None))
    )
    kinds = dict(shifts.unique(subset="testset", maintain_order=True).iter_rows())
    rank = {kind: place for place, kind in enumerate(SHIFTS)}
    return dict(sorted(kinds.items(), key=lambda entry: (rank.get(entry[1], len(SHIFTS)), entry[0])))


def in_domain_set(train_set: str | None, kinds: dict[str, str | None]) -> str | None:
    """The test set that is in-domain for a training set: the one of its name, else the one marked in-domain."""
    if train_set is None or train_set in kinds:
        return train_set
    return next((name for name, kind in kinds.items() if kind == "in-domain"), None)


def ends(study: StudyMatrix) -> pl.DataFrame:
    """First and last checkpoint of every run: ``run, model, train_set, ..., first, last`` (rows of the matrix)."""
    rows = study.subjects.with_row_index("row").sort("run", "step")
    keys = [name for name in rows.columns if name not in ("row", "subject", "step", "run")]
    return rows.group_by("run", maintain_order=True).agg(
        *(pl.col(name).first() for name in keys),
        pl.col("row").first().alias("first"),
        pl.col("row").last().alias("last"),
        pl.col("step").first().alias("first_step"),
        pl.col("step").last().alias("last_step"),
        pl.len().alias("checkpoints"),
    )


def crossed_mean(answers: npt.NDArray[Any]) -> dict[str, Any]:
    """Mean of answers [runs, items] with an error that knows that other items and other runs could have been drawn.

    See :func:`breadth.difficulty.contrast`. Runs without any answer are left out, and so are items that one of the
    other runs did not answer.
    """
    there = answers[~np.isnan(answers).all(axis=1)]
    complete = there[:, ~np.isnan(there).any(axis=0)].astype(np.float64) if len(there) else np.empty((0, 0))
    runs, n = complete.shape
    size = {"runs": runs, "n_items": n}
    if n < 2:
        mean = float(complete.mean()) if n else None
        return {**size, "estimate": mean, "se": None, "low": None, "high": None, "p": None}
    gains = Gains((complete,), np.zeros(n), np.zeros(n, dtype=np.intp))
    found = contrast(gains, np.ones((1, 1)))
    values = {"estimate": found.estimate, "se": found.se, "low": found.low, "high": found.high, "p": found.p}
    return size | {key: None if np.isnan(value) else value for key, value in values.items()}


def _under_way(group: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Runs that got beyond their first checkpoint, and True; or all of them, and False, if none did."""
    trained = group.filter(pl.col("first") != pl.col("last"))
    return (trained, True) if trained.height else (group, False)


def profiles(study: StudyMatrix, kinds: dict[str, str | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Accuracy per model and test set before and after training, and the gain between the two, paired by run."""
    rows, gains = [], []
    chance = _chance(study)
    for (model, train_set), whole in ends(study).group_by(["model", "train_set"], maintain_order=True):
        control = in_domain_set(train_set, kinds)
        group, trained = _under_way(whole)
        for name, shift in kinds.items():
            inside = study.set_index == study.testsets.index(name)
            key = {"model": model, "train_set": train_set, "testset": name, "shift": shift}
            after = study.correct[group["last"].to_numpy()][:, inside]
            if np.isnan(after).all():
                continue
            rows.append(key | {"when": "after", "chance": chance.get(name)} | _accuracy(crossed_mean(after)))
            if not trained:
                continue
            before = study.correct[group["first"].to_numpy()][:, inside]
            rows.append(key | {"when": "before", "chance": chance.get(name)} | _accuracy(crossed_mean(before)))
            found = crossed_mean(after - before)
            numbers = {"gain": found["estimate"], "ci_low": found["low"], "ci_high": found["high"]}
            size = {name: found[name] for name in ("runs", "n_items", "se", "p")}
            gains.append(key | {"in_domain": name == control} | numbers | size)
    return pl.DataFrame(rows, schema=PROFILE), pl.DataFrame(gains, schema=GAINS)


def trajectories(study: StudyMatrix, kinds: dict[str, str | None]) -> pl.DataFrame:
    """Accuracy of every run at every checkpoint on every test set, with Wilson's interval."""
    keys = study.subjects.select("run", "model", "train_set", "shots", "seed", "train_level", "step")
    accuracy, count = study.scores
    parts = [
        keys.with_columns(
            testset=pl.lit(name),
            n=pl.Series(count[:, k]),
            accuracy=pl.Series(accuracy[:, k], nan_to_null=True),
        )
        for name, k in ((name, study.testsets.index(name)) for name in kinds)
    ]
    return wilson(pl.concat(parts).drop_nulls("accuracy")).sort("run", "testset", "step")


def wilson(frame: pl.DataFrame) -> pl.DataFrame:
    """Add Wilson's 95 % interval to ``accuracy`` of ``n`` items."""
    z = float(special.ndtri((1 + LEVEL) / 2))
    n, p = pl.col("n"), pl.col("accuracy")
    centre, reach = p + z**2 / (2 * n), z * (p * (1 - p) / n + z**2 / (4 * n * n)).sqrt()
    low, high = (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)
    return frame.with_columns(low.clip(0, 1).alias("ci_low"), high.clip(0, 1).alias("ci_high"))


def by_level(study: StudyMatrix, level: Iterable[int | None]) -> pl.DataFrame:
    """Accuracy per model on the items of every level, before and after training."""
    levels = np.array([-1 if one is None else one for one in level])
    rows = []
    for (model,), whole in ends(study).group_by(["model"], maintain_order=True):
        group, trained = _under_way(whole)
        for when, column in (("before", "first"), ("after", "last")) if trained else (("after", "last"),):
            answers = study.correct[group[column].to_numpy()]
            for one in np.unique(levels[levels >= 0]):
                found = _accuracy(crossed_mean(answers[:, levels == one]))
                if found["accuracy"] is not None:
                    rows.append({"model": model, "when": when, "level": int(one)} | found)
    return pl.DataFrame(rows, schema=BY_LEVEL)


def _accuracy(found: dict[str, Any]) -> dict[str, Any]:
    clip = [None if found[end] is None else float(np.clip(found[end], 0, 1)) for end in ("low", "high")]
    return {
        "runs": found["runs"], "n_items": found["n_items"], "accuracy": found["estimate"], "se": found["se"],
        "ci_low": clip[0], "ci_high": clip[1],
    }  # fmt: skip


def _chance(study: StudyMatrix) -> dict[str, float]:
    """Share of the commonest label, where labels are few: what always giving one answer would reach."""
    if "label" not in study.items.columns:
        return {}
    counts = study.items.drop_nulls("label").group_by("testset", "label").len()
    shares = counts.group_by("testset").agg(pl.col("len").max() / pl.col("len").sum(), pl.len().alias("labels"))
    return {row[0]: row[1] for row in shares.filter(pl.col("labels") <= 10).iter_rows()}
