"""``transfer``: what training on one level of difficulty does to the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.inference import benjamini_hochberg
from breadth.irt import DEFAULT_LEVELS, Calibration
from breadth.level_transfer.answers import CONDITIONS, By, Compared, compared_models, levels_for_transfer, pair_by_item
from breadth.level_transfer.breaks import LEAST_LEVELS, breaking_point
from breadth.level_transfer.gains import (
    Gains,
    Moments,
    cell_weights,
    distance_weights,
    estimate_contrast,
    pairing_ratio,
)
from breadth.level_transfer.result import BreakFlag, Effect, Transfer, TransferFlag
from breadth.records import SCORES, Score
from breadth.results.words import FINDING
from breadth.sources import item_clusters, obvious_cluster, open_answers


def transfer(
    answers: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    *,
    levels: int = DEFAULT_LEVELS,
    score: Score = "accuracy",
    seed: int = 0,
    by: By | None = None,
    model: str | None = None,
    train_set: str | None = None,
    examples: int | None = None,
    cluster: str | None = None,
) -> Transfer:
    """Compare models trained on one level (or by one strategy) with the model before training, level by level.

    Which answers are compared:

    - *Trained*: subjects with a ``train_level`` or ``strategy``. Of a run with several checkpoints, the last one that
      is planned; runs that have not reached it are left out.
    - *Untrained*: step 0 of these runs, once per seed, however many runs share it. If step 0 was not evaluated:
      subjects whose ``train_level`` and ``strategy`` are empty; in a study's directory only zero-shot runs of the same
      model, and not if runs start from a trained model. Answers of several untrained subjects are averaged.
    - *Test items*: in a study's directory (or with ``train_set``), the test set that is in-domain for the training
      set: the one of its name, else the one marked in-domain. In a table, all items. Test items must not have been
      trained on. Items without a level, or that some model did not answer, are left out.
    - *Levels* of items: from the calibration, if there is one; else as stored with the items.

    See :func:`breadth.level_transfer.estimate_contrast` for the standard errors.

    Parameters
    ----------
    answers
        Anything :func:`breadth.open` takes: the directory of a study that trained by level or strategy; or a long
        table (or a directory of them) with ``item, correct``, ``train_level`` or ``strategy`` (empty for the untrained
        model), ``seed`` if there are several, and ``level`` of the item unless there is a calibration.
    calibration
        Where the levels of the items come from.
    levels
        Number of levels to cut a calibration into.
    score
        What is compared: ``accuracy``, or ``auc``, ``dprime``, ``balanced`` or ``logscore`` of the items of a level
        (:func:`breadth.scores` says what they are and what they need).
    seed
        Seeds the resampling behind ``breaks``.
    by
        ``train_level`` or ``strategy``; by default levels, and strategies too where there are both.
    model, train_set, examples
        Which part of a study, where it has several.
    cluster
        Column of the items that says which of them belong together (a shared passage, template or document): they
        count as dependent in all intervals and tests.

    Examples
    --------
    >>> import breadth, numpy as np, polars as pl
    >>> chance = np.random.default_rng(0).random((3, 40))
    >>> parts = [
    ...     pl.DataFrame({"train_level": k, "item": range(40), "level": [0, 1] * 20, "correct": chance[i] < 0.4 + gain})
    ...     for i, (k, gain) in enumerate([(None, 0.0), (0, 0.3), (1, 0.4)])
    ... ]
    >>> result = breadth.transfer(pl.concat(parts, how="vertical_relaxed"))
    >>> result.cells.select("train_level", "test_level", "n_items").rows()
    [(0, 0, 20), (0, 1, 20), (1, 0, 20), (1, 1, 20)]
    """
    if by is not None and by not in CONDITIONS:
        raise InputError(f"--by is {by!r}; choose {' or '.join(CONDITIONS)}")
    if score not in SCORES:
        raise InputError(f"--score is {score!r}; choose {', '.join(SCORES)}")
    study = open_answers(answers, keys=(*CONDITIONS, "seed"))
    compared = compared_models(study, model, train_set, examples)
    if by is not None and by not in compared.conditions:
        raise InputError(f"{study.name}: no model was trained by {by}, only by {listed(compared.conditions)}")
    level = levels_for_transfer(study, calibration, levels)
    clusters = item_clusters(study, cluster)
    if cluster is None:
        compared = _warn_of_clusters(compared)
    results = []
    for one in [by] if by else compared.conditions:
        gains, conditions, warnings = pair_by_item(compared, one, level, score, clusters)
        result = _transfer(gains, conditions, one, seed, score)
        results.append(replace(result, warnings=(*compared.warnings, *warnings), cluster=cluster))
    return results[0] if len(results) == 1 else replace(results[0], strategies=results[1])


def _warn_of_clusters(compared: Compared) -> Compared:
    """A warning where a column looks as if items belonged together; nothing is decided by it."""
    items = compared.study.items
    column = obvious_cluster(items, compared.inside)
    if column is None:
        return compared
    values = items[column].gather(compared.inside).n_unique()
    line = (
        f"items have a column {column} ({values:,} values for {len(compared.inside):,} items); if items of one "
        f"{column} are alike, intervals are too narrow: count them as dependent with --cluster {column}"
    )
    return compared._replace(warnings=(*compared.warnings, line))


def _transfer(gains: Gains, conditions: Sequence[str], by: By, seed: int, score: Score) -> Transfer:
    ratio = pairing_ratio(gains)
    return Transfer(
        _gain_cells(gains, conditions, by, score),
        _distance_effects(gains, conditions, by),
        _breaks(gains, conditions, by, seed),
        _best(gains, conditions),
        pairing=None if np.isnan(ratio) else ratio,
        score=score,
    )


def _breaks(gains: Gains, conditions: Sequence[str], by: By, seed: int) -> pl.DataFrame:
    """The level at which accuracy breaks off before training and after, where a step clearly fits best (q < 0.05)."""
    schema = {by: pl.String, "breaks_at": pl.Int64, "drop": pl.Float64, "low": pl.Int64, "high": pl.Int64}
    schema |= {"p": pl.Float64, "q": pl.Float64, "flag": pl.String}
    if gains.levels < 2:
        return pl.DataFrame(schema=schema)
    plain = gains._replace(baseline=np.zeros(len(gains.level)))
    before = breaking_point(plain._replace(trained=(gains.baseline[None],)), 0, seed, trained=False)
    found = [before, *(breaking_point(plain, k, seed) for k in range(len(conditions)))]
    frame = pl.DataFrame({by: ["before", *conditions]}).hstack(
        pl.DataFrame(found, schema=["breaks_at", "drop", "low", "high", "p"], orient="row").fill_nan(None)
    )
    frame = frame.with_columns(_q(frame))
    flag = (
        pl.when(gains.levels < LEAST_LEVELS)
        .then(pl.lit(BreakFlag.FEW_LEVELS.value))
        .when(~(pl.col("q") < FINDING))
        .then(pl.lit(BreakFlag.STEADY.value))
        .when(pl.col("drop") < 0)
        .then(pl.lit(BreakFlag.RISE.value))
    )
    frame = frame.with_columns(flag=flag)
    named = [pl.when(pl.col("flag").is_null()).then(name).alias(name) for name in ("breaks_at", "drop", "low", "high")]
    return frame.with_columns(named).select([pl.col(name).cast(dtype) for name, dtype in schema.items()])


def _gain_cells(gains: Gains, conditions: Sequence[str], by: By, score: Score) -> pl.DataFrame:
    rows = []
    nothing = np.zeros(len(gains.level))
    paired, alone = Moments(gains), Moments(gains._replace(baseline=nothing))
    before = Moments(gains._replace(trained=(gains.baseline[None],), baseline=nothing))
    single = _single_clusters(gains)
    for k, (condition, answers) in enumerate(zip(conditions, gains.trained, strict=True)):
        for j in range(gains.levels):
            inside = gains.level == j
            weights = cell_weights(len(conditions), gains.levels, k, j)
            gain, accuracy = estimate_contrast(paired, weights), estimate_contrast(alone, weights).estimate
            baseline = estimate_contrast(before, weights[k : k + 1]).estimate
            numbers = (int(inside.sum()), len(answers), accuracy, baseline, gain.estimate, gain.se)
            rows.append((condition, j, *numbers, gain.low, gain.high, gain.p))
    numeric = (score, "baseline", "gain", "se", "ci_low", "ci_high", "p")
    schema = {by: pl.String, **dict.fromkeys(("test_level", "n_items", "n_seeds"), pl.Int64)}
    frame = pl.DataFrame(rows, schema=schema | dict.fromkeys(numeric, pl.Float64), orient="row").fill_nan(None)
    if by == "train_level" and all(condition.isdigit() for condition in conditions):
        frame = frame.with_columns(pl.col(by).cast(pl.Int64))
    flag = (
        pl.when(pl.col("test_level").is_in(single))
        .then(pl.lit(TransferFlag.ONE_CLUSTER.value))
        .when(pl.col("ci_low").is_null())
        .then(pl.lit(TransferFlag.NO_VARIATION.value))
        .when(pl.col("n_seeds") == 1)
        .then(pl.lit(TransferFlag.ONE_SEED.value))
    )
    return frame.with_columns(_q(frame), flag.alias("flag"))


def _single_clusters(gains: Gains) -> list[int]:
    """Test levels whose items (or those of a label, where the score needs both) all belong to one cluster."""
    if gains.cluster is None:
        return []
    cells = pl.DataFrame({"level": gains.level, "group": gains.group, "cluster": gains.cluster})
    counts = cells.group_by("level", "group").agg(pl.col("cluster").n_unique())
    return counts.filter(pl.col("cluster") < 2)["level"].unique().sort().to_list()


def _distance_effects(gains: Gains, conditions: Sequence[str], by: By) -> pl.DataFrame:
    """Fading and asymmetry, where there is a model for every test level."""
    schema = {"effect": pl.String, **dict.fromkeys(("estimate", "se", "ci_low", "ci_high", "p"), pl.Float64)}
    if by != "train_level" or list(conditions) != [str(j) for j in range(gains.levels)] or gains.levels < 3:
        return pl.DataFrame(schema=schema | {"q": pl.Float64})
    moments = Moments(gains)
    effects = [estimate_contrast(moments, weights) for weights in distance_weights(gains.levels)]
    rows = [
        (name.value, one.estimate, one.se, one.low, one.high, one.p) for name, one in zip(Effect, effects, strict=True)
    ]
    frame = pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)
    return frame.with_columns(_q(frame))


def _q(frame: pl.DataFrame) -> pl.Series:
    """False discovery rates over the rows of a frame."""
    q = benjamini_hochberg(frame["p"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return pl.Series("q", q, dtype=pl.Float64, nan_to_null=True)


def _best(gains: Gains, conditions: Sequence[str]) -> pl.DataFrame:
    """Best condition per test level and overall, against the second best."""
    share = np.bincount(gains.level) / len(gains.level)
    unit = np.eye(len(conditions))
    moments = Moments(gains)
    rows = []
    for j in (None, *range(gains.levels)):
        target = share if j is None else np.eye(gains.levels)[j]
        each = [estimate_contrast(moments, np.outer(row, target)).estimate for row in unit]
        order = np.argsort(each)[::-1]
        first, second = int(order[0]), int(order[1]) if len(conditions) > 1 else None
        lead = low = high = p = None
        if second is not None:
            ahead = estimate_contrast(moments, np.outer(unit[first] - unit[second], target))
            lead, low, high, p = ahead.estimate, ahead.low, ahead.high, ahead.p
        other = None if second is None else conditions[second]
        rows.append((j, conditions[first], each[first], other, lead, low, high, p))
    numbers = dict.fromkeys(("lead", "ci_low", "ci_high", "p"), pl.Float64)
    schema = {"test_level": pl.Int64, "best": pl.String, "gain": pl.Float64, "second": pl.String, **numbers}
    frame = pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)
    decided = pl.when(pl.col("q") < FINDING).then(pl.lit("decided")).otherwise(pl.lit("undecided"))
    return frame.with_columns(_q(frame)).with_columns(verdict=decided)
