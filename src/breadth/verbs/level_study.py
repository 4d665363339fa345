"""Train level x test level for a study: one call of ``cross`` per model and training set."""

from __future__ import annotations

import numpy as np
import polars as pl

from breadth.errors import InputError
from breadth.records import StudyMatrix
from breadth.records.studies import examples_before
from breadth.verbs.cross import cross
from breadth.verbs.standing import ends, in_domain_set

ABSENT = "no run was trained on one level of difficulty or by one strategy"


def level_study(
    study: StudyMatrix, level: pl.Series, kinds: dict[str, str | None]
) -> tuple[dict[str, pl.DataFrame], list[str], list[str]]:
    """Tables, paragraphs and reasons, for runs that name a ``train_level`` or a ``strategy``.

    The trained model is a run's last checkpoint (runs that have not reached it are left out); the untrained one is the
    first checkpoint (step 0) of the same runs, once per seed. Test items are those of the in-domain test set that have
    a level, or of all sets if it has none.
    """
    runs = ends(study)
    tables: dict[str, list[pl.DataFrame]] = {}
    words, absent = [], []
    for by, prefix in (("train_level", "cross"), ("strategy", "strategy")):
        trained = runs.filter(pl.col(by).is_not_null())
        for (model, train_set), group in trained.group_by(["model", "train_set"], maintain_order=True):
            name = f"{model} trained on {train_set}"
            try:
                found = cross(_answers(study, group, by, level, in_domain_set(train_set, kinds)))
            except InputError as error:
                absent.append(f"{name}: {error}")
                continue
            words.append(f"{name}: {found.summary()}{_began(study, group)}")
            put = [
                pl.lit(value, dtype=pl.String).alias(key) for key, value in (("model", model), ("train_set", train_set))
            ]
            for key in ("cells", "effects", "breaks", "best"):
                table = getattr(found, key)
                if table.height:
                    tables.setdefault(f"{prefix}_{key}", []).append(table.select(*put, pl.all()))
    if not tables and not absent:
        absent = [ABSENT]
    return {key: pl.concat(frames, how="diagonal_relaxed") for key, frames in tables.items()}, words, absent


def _answers(study: StudyMatrix, group: pl.DataFrame, by: str, level: pl.Series, control: str | None) -> pl.DataFrame:
    levels = level.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    inside = ~np.isnan(levels)
    own = inside & (study.items["testset"] == control).to_numpy() if control is not None else inside
    inside = own if own.any() else inside
    ended = [row["last_step"] >= _planned(study, row["run"]) for row in group.iter_rows(named=True)]
    trained = group.filter(pl.Series(ended, dtype=pl.Boolean) & (pl.col("first") != pl.col("last")))
    if not trained.height:
        raise InputError("no run trained by level or strategy has reached its last checkpoint")
    if trained["shots"].n_unique() > 1:
        raise InputError("runs with different numbers of shots cannot share one matrix")
    untrained = group.filter(pl.col("first_step") == 0).unique("seed", keep="first", maintain_order=True)
    items = pl.DataFrame({"item": study.item_names, "level": level})
    parts = []
    for rows, column, way in ((trained, "last", by), (untrained, "first", None)):
        for row in rows.iter_rows(named=True):
            answers = items.with_columns(
                pl.Series("correct", study.correct[row[column]].astype(np.float64), nan_to_null=True),
                pl.lit(None if way is None else str(row[by]), dtype=pl.String).alias(by),
                pl.lit(str(row["seed"])).alias("seed"),
            )
            parts.append(answers.filter(pl.Series(inside)).drop_nulls("correct"))
    return pl.concat(parts)


def _began(study: StudyMatrix, group: pl.DataFrame) -> str:
    """Where the runs began, if that was not the untrained model."""
    examples = max(examples_before(study.specs[run]) for run in group["run"])
    return f" Before that, the model learnt from {examples:,} examples, as all runs did." if examples else ""


def _planned(study: StudyMatrix, run: str) -> int:
    """Step of the last checkpoint that is planned for a run; 0 where that is not known."""
    steps = study.specs[run].get("checkpoints")
    return max(steps) if isinstance(steps, list) and steps else 0
