"""Scores of every checkpoint, and before and after training by test set and by level.

From answers: accuracy, sensitivity and bias. Intervals of a checkpoint count items as a sample, those before and after
training items and runs. Functions take a study whose subjects have a run, a model and a step
(``ReportData.described``). From a table of scores (:func:`score_tables`): the same tables, with runs as the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.comparison import MeanVariance, add_runs
from breadth.errors import InputError
from breadth.inference import LEVEL, Floats, benjamini_hochberg, wilson_interval
from breadth.records import (
    BY_LABEL,
    LEAST_CHANGED_LABELS,
    LEAST_LABELS,
    Measure,
    Score,
    Study,
    answers_of,
    area_interval,
    item_values,
    score_intervals,
)
from breadth.reporting.sources import PLAIN_SCORE, ScoreKind, kinds_of_scores
from breadth.results.words import FINDING, verdict
from breadth.sources import ScoreTable

_INTERVAL = dict.fromkeys(("se", "ci_low", "ci_high"), pl.Float64)
_SIZES = dict.fromkeys(("runs", "n_items"), pl.Int64)
_KEYS = dict.fromkeys(("model", "train_set", "testset", "shift"), pl.String)

#: Columns of the tables ``profile``, ``gains`` and ``by_level`` of a report.
PROFILE = {**_KEYS, "when": pl.String, **_SIZES, "accuracy": pl.Float64, **_INTERVAL, "chance": pl.Float64}
_CHANGES = {f"{name}{end}": pl.Float64 for name in ("accuracy", "auc", "share") for end in ("", "_low", "_high")}
_LATE = {f"{name}{end}": pl.Float64 for name in ("late", "auc_late") for end in ("", "_low", "_high")}
GAINS = {**_KEYS, "in_domain": pl.Boolean, **_SIZES, "gain": pl.Float64, **_INTERVAL, "p": pl.Float64, "q": pl.Float64}
GAINS |= _CHANGES | {"late_checkpoints": pl.Int64} | _LATE | {"q_late": pl.Float64}
GAINS |= dict.fromkeys(("behind", "p_behind", "q_behind"), pl.Float64)
GAINS |= dict.fromkeys(("answer", "says_more", "flag", "follows", "auc_follows"), pl.String)
#: Columns from which :func:`with_findings` tells what is a finding, beside those of the table.
TESTED = dict.fromkeys(("p_accuracy", "p_auc", "p_late", "auc_p_late", "auc_behind", "auc_p_behind"), pl.Float64)
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, **_SIZES, "accuracy": pl.Float64, **_INTERVAL}

#: Scores that lie within 0 and 1.
BOUNDED = ("accuracy", "auc", "balanced")

#: Columns of a checkpoint, before its scores.
CHECKPOINT = ("run", "model", "train_set", "examples", "seed", "train_level", "step")

#: Columns by which a group is a model, in the words that tables use.
MODEL_COLUMNS = ("model", "model_name", "Model", "base_model")

#: What a gain is called whose sample are the models, where each has one run.
ALL_MODELS = "all models"

#: Runs that an interval over runs needs, where single answers are not known.
LEAST_RUNS = 3

#: Runs of one recipe from which anything can be said about the recipe.
LEAST_OF_RECIPE = 2

#: From which part of a run's steps on its checkpoints are averaged to tell whether a test set follows. A single last
#: checkpoint moves by several points from one evaluation to the next.
LATE_PART = 0.8

#: Late checkpoints of a single run from which their fluctuation can be estimated.
LEAST_LATE = 4

#: Changes of a value of items [runs, items], and the group of every item (:class:`breadth.records.ItemValues`).
Changes = tuple[npt.NDArray[Any], npt.NDArray[np.intp]]


class GainFlag(StrEnum):
    """What a gain, or a loss, of accuracy is, and why the change of sensitivity beside it has no interval."""

    BIAS = "bias"
    FEW_LABELS = "few_labels"


class Follows(StrEnum):
    """Whether a shifted test set gains with the in-domain set; null where that is undecided.

    ``ONE_RUN``: a single run says nothing about the recipe, because another run may well differ.
    """

    YES = "yes"
    PART = "in part"
    NO = "no"
    ONE_RUN = "one_run"


def checkpoint_scores(study: Study, measures: Sequence[Measure]) -> pl.DataFrame:
    """Scores of every checkpoint on every test set, each with the ends of its interval; null where not defined.

    ``accuracy`` has ``ci_low`` and ``ci_high``, other measures such as ``auc`` have ``auc_low`` and ``auc_high``.
    ``share`` is that of ``answer``, the first of a test set's two answers. ``flag`` is ``few_labels`` where a score has
    no interval because fewer than five items have the rarer label. Runs that were evaluated on their own
    training examples have rows for these as well; they are no test, and are for looking at only.
    """
    parts = []
    for testset in study.shifts:
        answered = study.scores[1][:, study.testsets.index(testset)]
        columns: dict[str, pl.Expr | pl.Series] = {
            "testset": pl.lit(testset),
            "n": pl.Series(answered, dtype=pl.Int64),
        }
        for measure in measures:
            names = (
                measure,
                *(("ci_low", "ci_high") if measure == "accuracy" else (f"{measure}_low", f"{measure}_high")),
            )
            try:
                numbers: Sequence[Any] = score_intervals(study, measure, testset)
            except InputError:
                numbers = [[None] * len(answered)] * 3
            columns |= {
                name: pl.Series(values, dtype=pl.Float64, nan_to_null=True)
                for name, values in zip(names, numbers, strict=True)
            }
        answers = list(answers_of(study, testset).values())
        columns["answer"] = pl.lit(answers[0] if len(answers) == 2 else None, dtype=pl.String)
        few = pl.lit(False)
        for measure in measures:
            if measure in BY_LABEL:
                few |= pl.col(measure).is_not_null() & pl.col(f"{measure}_low").is_null()
        flag = pl.when(few).then(pl.lit(GainFlag.FEW_LABELS.value)).alias("flag")
        parts.append(study.subjects.select(CHECKPOINT).with_columns(**columns).with_columns(flag))
    if study.training is not None:
        parts.append(checkpoint_scores(study.training, measures))
    return pl.concat(parts).filter(pl.col("n") > 0).sort("run", "testset", "step")


def crossed_mean(
    answers: npt.NDArray[Any],
    name: str,
    group: npt.NDArray[np.intp] | None = None,
    least: int = 2,
    most: float = np.inf,
) -> dict[str, Any]:
    """Mean of answers [runs, items] as ``name``, with ``runs, n_items, se, ci_low, ci_high, p``; None where unknown.

    Both the items and the runs are samples (:func:`crossed_variance`); with one run, only the items. Runs without any
    answer are left out, and so are items that one of the other runs did not answer. With a ``group`` of every item, the
    sum over groups of their means; a group of fewer than ``least`` items has no interval. The interval of a score
    within 0 and 1 stays there, and that of a change within -``most`` and ``most``; that of one run's accuracy is
    Wilson's, of one run's area that of ``area_interval``.
    """
    answered = ~np.isnan(answers)
    runs = answered.any(axis=1)
    items = answered[runs].all(axis=0) & runs.any()
    complete = answers[np.ix_(runs, items)].astype(np.float64)
    own = np.zeros(items.sum(), dtype=np.intp) if group is None else group[items]
    counts = np.bincount(own, minlength=1 if group is None else int(group.max()) + 1)
    row = {"runs": len(complete), "n_items": len(own), name: None, **dict.fromkeys(("se", "ci_low", "ci_high", "p"))}
    if not counts.min():
        return row
    means = np.bincount(own, complete.mean(axis=0), len(counts)) / counts
    estimate = row[name] = float(means.sum())
    if counts.min() < max(least, 2):
        return row
    total = crossed_variance(complete, own, counts)
    if len(complete) == 1 and name == "accuracy":
        low, high = (float(end[0]) for end in wilson_interval(np.array([estimate]), np.array([float(len(own))])))
    elif len(complete) == 1 and name == "auc":
        variances = _variances_of_groups(complete[0], own, counts)
        ends = area_interval(np.array([estimate]), variances[None], counts[None].astype(np.float64))
        low, high = (float(end[0]) for end in ends)
    elif not total.variance > 0:
        return row | {"se": 0.0}
    else:
        low, high = _t_interval(estimate, total)
    low, high = max(low, 0.0 if name in BOUNDED else -most), min(high, 1.0 if name in BOUNDED else most)
    se = float(np.sqrt(total.variance))
    p = float(2 * special.stdtr(total.df, -abs(estimate) / se)) if se > 0 else None
    return row | {"se": se, "ci_low": low, "ci_high": high, "p": p}


def crossed_variance(
    values: Floats, group: npt.NDArray[np.intp], counts: npt.NDArray[np.intp], worth: float | None = None
) -> MeanVariance:
    """Squared standard error of a score from values [rows, items], where rows and items are samples; and its df.

    The score of a row is the sum over groups of items of their means. Rows answer the same items, so the variance of
    row scores holds a part that is the noise of single answers, and so does the variance over items: it is counted once
    (:func:`breadth.comparison.add_runs`, which also has the degrees of freedom: with two rows the interval is wide).
    Rows are runs, or the checkpoints of one run, which depend on each other: they are ``worth`` fewer independent ones.
    """
    rows = len(values)
    average = values.mean(axis=0)
    by_group = _variances_of_groups(average, group, counts)
    variance = float(by_group.sum())
    wobble = float((by_group**2 / (counts - 1)).sum())
    items = MeanVariance(variance, variance**2 / wobble if wobble > 0 else float(len(group) - len(counts)))
    if rows < 2:
        return items
    means = np.stack([np.bincount(group, row, len(counts)) / counts for row in values])
    scores = means.sum(axis=1)
    left = values - average - (means - means.mean(axis=0))[:, group]
    squares = np.bincount(group, (left**2).sum(axis=0), len(counts))
    noise = float((squares / ((rows - 1) * (counts - 1) * counts)).sum()) / rows
    if worth is None:
        return add_runs(items, MeanVariance(float(scores.var(ddof=1)) / rows, rows - 1.0), noise)
    # The usual variance is too small where rows are alike because they follow each other.
    spread = float(scores.var(ddof=1)) * (rows - 1) / (rows * (worth - 1))
    return add_runs(items, MeanVariance(spread, worth - 1), noise)


def _variances_of_groups(values: Floats, group: npt.NDArray[np.intp], counts: npt.NDArray[np.intp]) -> Floats:
    """Variance of the mean of the values of each group of items."""
    means = np.bincount(group, values, len(counts)) / counts
    squares = np.bincount(group, (values - means[group]) ** 2, len(counts))
    variances: Floats = squares / ((counts - 1) * counts)
    return variances


def _t_interval(estimate: float, total: MeanVariance) -> tuple[float, float]:
    half = float(special.stdtrit(total.df, (1 + LEVEL) / 2) * np.sqrt(total.variance))
    return estimate - half, estimate + half


def settled_mean(
    checkpoints: npt.NDArray[Any], name: str, group: npt.NDArray[np.intp], least: int, most: float = np.inf
) -> dict[str, Any]:
    """The same as :func:`crossed_mean` for one run's late checkpoints [checkpoints, items]; about this run alone.

    The interval counts the items and, from ``LEAST_LATE`` checkpoints on, their fluctuation around the level of the
    run. Checkpoints follow each other: K of them with lag-1 autocorrelation r, corrected for its bias in short series,
    are worth K (1 - r) / (1 + r). There is no p-value, because one run does not test a recipe.
    """
    row = crossed_mean(checkpoints.mean(axis=0, keepdims=True), name, group, least, most) | {"p": None}
    items = ~np.isnan(checkpoints).any(axis=0)
    count = len(checkpoints)
    if count < LEAST_LATE or row["ci_low"] is None:
        return row
    own, values = group[items], checkpoints[:, items].astype(np.float64)
    counts = np.bincount(own, minlength=int(group.max()) + 1)
    scores = np.stack([np.bincount(own, each, len(counts)) / counts for each in values]).sum(axis=1)
    apart = scores - scores.mean()
    if not (apart**2).sum() > 0:
        return row
    lag = float((apart[1:] * apart[:-1]).sum() / (apart**2).sum())
    lag = float(np.clip((lag + 1 / count) / (1 - 4 / (count + 1)), 0.0, 0.8))
    worth = max(count * (1 - lag) / (1 + lag), 2.0)
    total = crossed_variance(values, own, counts, worth)
    low, high = _t_interval(row[name], total)
    return row | {"se": float(np.sqrt(total.variance)), "ci_low": max(low, -most), "ci_high": min(high, most)}


def common_start(first_steps: pl.Series) -> Any:
    """The first step at which runs can be compared: 0 if one begins there, else the commonest, of several the first."""
    if (first_steps == 0).any():
        return 0
    counts = first_steps.drop_nulls().value_counts().sort(["count", first_steps.name], descending=[True, False])
    return counts[first_steps.name][0] if counts.height else None


def with_same_start(runs: pl.DataFrame) -> pl.DataFrame:
    """Those of a model's ``runs`` (with ``first_step``) that begin where most of them do; runs without steps stay.

    The change of a run whose first checkpoint is from late in training is no change through training.
    """
    start = common_start(runs["first_step"])
    return runs if start is None else runs.filter(pl.col("first_step") == start)


def other_starts(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with several checkpoints that begin elsewhere than most runs of their model and training set."""
    keys = [name for name in ("model", "train_set") if name in runs.columns]
    parts = [runs.clear()]
    for _, group in runs.filter(pl.col("checkpoints") > 1).group_by(keys, maintain_order=True):
        kept = with_same_start(group)
        parts.append(group.join(kept.select("run"), on="run", how="anti", maintain_order="left"))
    return pl.concat(parts)


def at_shared_steps(trajectories: pl.DataFrame) -> pl.DataFrame:
    """Rows of the steps at which all runs of a model have a score of a test set, so that means are of the same runs.

    Runs with one checkpoint have no curve, and are no part of it.
    """
    curve = ["model", "testset"]
    several = trajectories.filter(pl.col("step").n_unique().over("run", "testset") > 1)
    runs = pl.col("run").n_unique()
    return several.filter(runs.over(*curve, "step") == runs.over(*curve))


def score_profile(study: Study, score: Score = "accuracy") -> tuple[pl.DataFrame, pl.DataFrame]:
    """A score per model and test set before and after training, and the gain between the two, paired by run and item.

    Gains come with the changes of ``accuracy``, ``auc`` (paired: DeLong's variance) and the ``share`` of ``answer``.
    A change of accuracy that is a finding is flagged as ``bias`` where the interval of the share excludes 0, while that
    of auc covers 0 and excludes a change as large as that of accuracy. ``says_more`` is the answer that is clearly
    given more often after training. ``late`` and ``auc_late`` are the changes from the first checkpoint to the mean of
    the last ones (``late_checkpoints``: those of the last fifth of a run's steps), which tell what follows:
    ``follows`` and ``auc_follows``, see :func:`with_findings`. Of runs that begin at different steps only those that
    begin together count (:func:`with_same_start`).
    """
    rows: list[dict[str, Any]] = []
    gains: list[dict[str, Any]] = []
    chance = _commonest_label_shares(study)
    if score == "accuracy" and _are_evaluated_once(study.ends):
        profile = _profile_of_single_evaluations(study, chance)
        return profile, with_findings(pl.DataFrame(schema={**GAINS, **TESTED}))
    least = LEAST_LABELS if score in BY_LABEL else 2
    for (model, train_set), group in study.ends.group_by(["model", "train_set"], maintain_order=True):
        ends, home = _end_rows(group), study.in_domain(train_set)
        trained = "before" in ends
        measures: dict[Measure, None] = dict.fromkeys((score, "accuracy", "auc", "share") if trained else (score,))
        late_rows = _late_checkpoints(study, ends["before"]) if trained else []
        own_gains, late_changes = [], {}
        for testset, shift in study.shifts.items():
            answers_after = study.scores[1][ends["after"], study.testsets.index(testset)]
            if not answers_after.any():
                continue
            measured = _values_at_ends(study, testset, list(measures), ends)
            if score not in measured:
                continue
            key = {"model": model, "train_set": train_set, "testset": testset, "shift": shift}
            for when, values in zip(ends, measured[score][0], strict=True):
                mean = crossed_mean(values, score, measured[score][1], least)
                rows.append(key | {"when": when, "chance": chance.get(testset)} | mean)
            if not trained:
                continue
            changes = {}
            for name, (each, own) in measured.items():
                changes[name] = crossed_mean(each[1] - each[0], "gain", own, _least_changed(name), _most_changed(name))
            gain = key | {"in_domain": testset in home} | changes[score]
            gain |= _change_columns(changes, list(answers_of(study, testset).values()))
            gain["late_checkpoints"] = max(map(len, late_rows))
            own_gains.append(gain)
            late: dict[Measure, LateChanges] = {}
            for name in measured:
                if name in (score, "auc"):
                    late[name] = _late_values(study, name, testset, late_rows, measured[name][0][0])
            late_changes[testset] = late
        for gain in own_gains:
            for start, measure in (("", score), ("auc_", "auc")):
                gain.update(_late_columns(late_changes, gain["testset"], home, measure, start))
        gains += own_gains
    schema = {score if name == "accuracy" else name: dtype for name, dtype in PROFILE.items()}
    return pl.DataFrame(rows, schema=schema), with_findings(pl.DataFrame(gains, schema={**GAINS, **TESTED}))


def _commonest_label_shares(study: Study) -> dict[str, float]:
    """Share of the commonest label of every test set, where labels are few: the accuracy of always giving it."""
    if "label" not in study.items.columns:
        return {}
    counts = study.items.drop_nulls("label").group_by("testset", "label").len()
    shares = counts.group_by("testset").agg(pl.col("len").max() / pl.col("len").sum(), pl.len().alias("labels"))
    return dict(shares.filter(pl.col("labels") <= 10).select("testset", "len").iter_rows())


def _values_at_ends(
    study: Study, testset: str, measures: Sequence[Measure], ends: Mapping[str, npt.NDArray[np.uint32]]
) -> dict[Measure, tuple[list[npt.NDArray[Any]], npt.NDArray[np.intp]]]:
    """Values of items [runs, items] at every end of the runs, and their groups, of the measures that are defined."""
    index, measured = np.concatenate(list(ends.values())).astype(np.intp), {}
    for measure in measures:
        with suppress(InputError):  # it is not defined for this test set
            values, groups = item_values(study, measure, testset, index)
            measured[measure] = np.split(values, len(ends)), groups
    return measured


def _least_changed(measure: Measure) -> int:
    """Items of each label that the interval of a change of a measure needs."""
    return LEAST_CHANGED_LABELS if measure in BY_LABEL else 2


def _most_changed(measure: Measure) -> float:
    """How far a measure can change at most."""
    return 1.0 if measure in (*BOUNDED, "share") else np.inf


def _change_columns(changes: Mapping[Measure, Mapping[str, Any]], answers: Sequence[str]) -> dict[str, Any]:
    """Columns of a gain on the changes of accuracy, auc and share, and what kind of change it is."""
    columns: dict[str, Any] = {}
    for name in ("accuracy", "auc", "share"):
        known = changes.get(name, {})
        for column, end in ((name, "gain"), (f"{name}_low", "ci_low"), (f"{name}_high", "ci_high")):
            columns[column] = known.get(end)
        if name != "share":
            columns[f"p_{name}"] = known.get("p")
    columns["answer"] = answers[0] if "share" in changes else None
    columns["says_more"] = columns["flag"] = None
    more = verdict(columns["share_low"], columns["share_high"])
    if more:
        columns["says_more"] = answers[0] if more > 0 else answers[1]
    low, high = columns["auc_low"], columns["auc_high"]
    if columns["auc"] is not None and low is None:
        columns["flag"] = GainFlag.FEW_LABELS.value
    elif more and low is not None and low <= 0 <= high and not low <= columns["accuracy"] <= high:
        columns["flag"] = GainFlag.BIAS.value
    return columns


def _late_checkpoints(study: Study, firsts: npt.NDArray[np.uint32]) -> list[npt.NDArray[np.uint32]]:
    """Rows of the matrix of the late checkpoints of every run, given the row of its first one."""
    subjects = study.subjects.with_row_index("row").sort("run", "step")
    rows = []
    for run in subjects.sort("row")["run"].gather(firsts):
        own = subjects.filter(pl.col("run") == run)
        first, last = own["step"][0], own["step"][-1]
        rows.append(own.filter(pl.col("step") >= first + LATE_PART * (last - first))["row"].to_numpy())
    return rows


class LateChanges(NamedTuple):
    """Changes from the first checkpoint to late ones: per run their mean [runs, items], per checkpoint of a lone run.

    ``group`` numbers the items' groups (:class:`breadth.records.ItemValues`).
    """

    means: npt.NDArray[Any]
    checkpoints: npt.NDArray[Any]
    group: npt.NDArray[np.intp]


def _late_values(
    study: Study,
    measure: Measure,
    testset: str,
    late_rows: Sequence[npt.NDArray[np.uint32]],
    before: npt.NDArray[Any],
) -> LateChanges:
    """Changes of the values of items up to the late checkpoints of every run; NaN where a run has none there."""
    values, group = item_values(study, measure, testset, np.concatenate(late_rows).astype(np.intp))
    means = np.full(before.shape, np.nan)
    apart = np.split(values, np.cumsum([len(rows) for rows in late_rows])[:-1])
    for run, own in enumerate(apart):
        # A checkpoint may not have been evaluated on every test set.
        known = own[~np.isnan(own).all(axis=1)]
        apart[run] = known - before[run]
        if len(known):
            means[run] = apart[run].mean(axis=0)
    return LateChanges(means, apart[0], group)


def _late_columns(
    changes: Mapping[str, Mapping[Measure, LateChanges]],
    testset: str,
    home: Sequence[str],
    measure: Measure,
    start: str,
) -> dict[str, Any]:
    """Columns of a gain on late checkpoints, and on how far it lies behind the in-domain gain there."""
    own = changes[testset].get(measure)
    if own is None:
        return {}
    least = _least_changed(measure)
    most = _most_changed(measure)
    late = crossed_mean(own.means, "gain", own.group, least, most)
    single = late["runs"] < LEAST_OF_RECIPE
    if single and len(own.means) == 1:
        late = settled_mean(own.checkpoints, "gain", own.group, least, most)
    columns = {f"{start}late": late["gain"], f"{start}late_low": late["ci_low"], f"{start}late_high": late["ci_high"]}
    columns[f"{start}p_late"] = None if single else late["p"]
    inside = [changes[name][measure] for name in home if measure in changes.get(name, {})]
    at_home = _join_sets([(each.means, each.group) for each in inside])
    if at_home is None or testset in home:
        return columns
    if single:
        return columns | {f"{start}follows": Follows.ONE_RUN.value}
    lag = behind((own.means, own.group), at_home, least)
    return columns | {f"{start}behind": lag["gain"], f"{start}p_behind": lag["p"]}


def _join_sets(sets: Sequence[Changes]) -> Changes | None:
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

    ``q`` is the smallest false discovery rate, over all shifted test sets, at which a gain is a finding; ``q_late`` the
    same for the mean of late checkpoints, over models with several runs; ``q_behind`` that of being less than half the
    in-domain gain there. A set ``follows`` if its late gain is a finding, it does not if being behind is one, and it
    does in part if both are; null if neither is, or the in-domain set does not clearly gain; ``one_run`` where there is
    one run. So among the sets that are said to follow, at most 5 % falsely are, on average; where no set gains, the
    chance of any is at most 5 %. ``auc_follows`` says the same of the area under the ROC curve. A ``flag`` for bias
    stays where accuracy clearly changed.
    """
    shifted = ~pl.col("in_domain")
    tests = {"q": ("p", shifted), "q_late": ("p_late", shifted), "auc_q_late": ("auc_p_late", shifted)}
    tests |= {"q_behind": ("p_behind", shifted), "auc_q_behind": ("auc_p_behind", shifted)}
    tests |= {"q_accuracy": ("p_accuracy", pl.lit(True))}
    for name, (p, among) in tests.items():
        values = gains.select(pl.when(among).then(p).cast(pl.Float64)).to_series()
        q = pl.Series(name, benjamini_hochberg(values.fill_null(float("nan")).to_numpy()), nan_to_null=True)
        gains = gains.with_columns(q)
    for start in ("", "auc_"):
        rises = (pl.col(f"{start}late") > 0) & (pl.col(f"{start}q_late") < FINDING)
        lags = (pl.col(f"{start}behind") < 0) & (pl.col(f"{start}q_behind") < FINDING)
        word = pl.when(rises & lags).then(pl.lit(Follows.PART.value)).when(rises).then(pl.lit(Follows.YES.value))
        word = word.when(lags).then(pl.lit(Follows.NO.value))
        column = f"{start}follows"
        gains = gains.with_columns(
            pl.when(pl.col(column).is_null() & pl.col(f"{start}behind").is_not_null())
            .then(word)
            .otherwise(column)
            .alias(column)
        )
    unclear = (pl.col("flag") == GainFlag.BIAS) & ~(pl.col("q_accuracy") < FINDING).fill_null(False)
    flag = pl.when(~unclear).then("flag").alias("flag")
    return gains.with_columns(flag).select(*GAINS)


def behind(away: Changes, home: Changes, least: int = 2) -> dict[str, Any]:
    """Gain on a shifted test set less half the in-domain gain (:func:`crossed_mean`); None without a gain there."""
    at_home = crossed_mean(home[0], "gain", home[1], least)
    if verdict(at_home["ci_low"], at_home["ci_high"]) <= 0:
        return dict.fromkeys(("gain", "ci_low", "ci_high", "p"))
    groups = np.concatenate([away[1], home[1] + away[1].max() + 1])
    return crossed_mean(np.concatenate([away[0], -home[0] / 2], axis=1), "gain", groups, least)


def model_accuracy_by_level(study: Study, levels: pl.Series, models: Sequence[str]) -> pl.DataFrame:
    """Accuracy of ``models`` on the items of every level (one entry per item), before and after training."""
    level = levels.fill_null(-1).to_numpy()
    rows = []
    for model in models:
        group = study.ends.filter(pl.col("model") == model)
        for when, index in _end_rows(group).items():
            answers = study.correct[index]
            for one in np.unique(level[level >= 0]):
                mean = crossed_mean(answers[:, level == one], "accuracy")
                if mean["accuracy"] is not None:
                    rows.append({"model": model, "when": when, "level": int(one)} | mean)
    return pl.DataFrame(rows, schema=BY_LEVEL)


def _are_evaluated_once(ends: pl.DataFrame) -> bool:
    """Whether every run is the only one of its model, with a single checkpoint: models of a leaderboard, say."""
    models = ends.select("model", "train_set").n_unique()
    return models == ends.height and bool((ends["first"] == ends["last"]).all())


def _profile_of_single_evaluations(study: Study, chance: Mapping[str, float]) -> pl.DataFrame:
    """The accuracies of models that were evaluated once, as :func:`crossed_mean` of one run gives them.

    All at once: there may be hundreds of thousands of models, each of which answered a few items.
    """
    testsets = list(study.shifts)
    places = np.array([study.testsets.index(name) for name in testsets], dtype=np.intp)
    cells = np.ix_(study.ends["last"].to_numpy(), places)
    counts = study.scores[1][cells]
    model, place = counts.nonzero()
    counts = counts[model, place]
    mean = study.scores[0][cells][model, place]
    variance = study.spreads()[cells][model, place]
    low, high = wilson_interval(mean, counts.astype(np.float64))
    interval = {"se": np.sqrt(variance / counts), "ci_low": low, "ci_high": high}
    named = pl.Series(testsets, dtype=pl.String).gather(place)
    about = study.ends.select("model", "train_set")[model]
    frame: pl.DataFrame = about.with_columns(
        testset=named,
        shift=named.replace_strict(study.shifts, return_dtype=pl.String),
        when=pl.lit("after"),
        runs=pl.lit(1),
        n_items=pl.Series(counts),
        accuracy=pl.Series(mean),
        chance=named.replace_strict(chance, default=None, return_dtype=pl.Float64),
        # A single item has no interval.
        **{name: pl.Series(np.where(counts > 1, ends, np.nan), nan_to_null=True) for name, ends in interval.items()},
    )
    return frame.select(pl.col(name).cast(dtype) for name, dtype in PROFILE.items())


def _end_rows(ends: pl.DataFrame) -> dict[str, npt.NDArray[np.uint32]]:
    """Rows of the matrix ``before`` and ``after`` training, of the runs that were trained; if none was, ``after``."""
    trained = ends.filter(pl.col("first") != pl.col("last"))
    if not trained.height:
        return {"after": ends["last"].to_numpy()}
    together = with_same_start(trained)
    return {"before": together["first"].to_numpy(), "after": together["last"].to_numpy()}


class LongScores(NamedTuple):
    """A row per run, checkpoint and test set; what each column holds; whether a column names the models."""

    frame: pl.DataFrame
    kinds: dict[str, ScoreKind]
    named: bool


def long_scores(scores: ScoreTable) -> LongScores:
    """Scores as rows ``run, model, step, testset, score``.

    Percentages become shares; what a column holds is told for each by itself (:func:`kinds_of_scores`). A group is a
    run; its model is the value of the column that names models. Without such a column all runs count as repetitions of
    one recipe.
    """
    frame, columns = scores.frame, [*scores.controls, *scores.testsets]
    names = [pl.col(name).cast(pl.String) for name in scores.by]
    everything = pl.lit("all rows" if scores.order is None else "all runs" if scores.by else "run")
    run = pl.concat_str(names, separator=" / ", ignore_nulls=True) if names else everything
    named = [pl.col(name).cast(pl.String) for name in MODEL_COLUMNS if name in scores.by]
    model = named[0] if named else everything
    step = pl.col(scores.order) if scores.order else pl.lit(None, dtype=pl.Int64)
    kinds = kinds_of_scores(scores)
    values = []
    # Test sets are numbered at first: one may be called like another column here, such as "score".
    numbered = {str(number): name for number, name in enumerate(columns)}
    for number, name in numbered.items():
        value = pl.col(name).cast(pl.Float64)
        if kinds[name] is ScoreKind.PERCENT:
            value = value / 100
        values.append(value.alias(number))
    long = (
        frame.select(run.alias("run"), model.alias("model"), step.alias("step"), *values)
        .unpivot(list(numbered), index=["run", "model", "step"], variable_name="testset", value_name=PLAIN_SCORE)
        .with_columns(pl.col("testset").replace_strict(numbered, return_dtype=pl.String))
        .drop_nulls(PLAIN_SCORE)
    )
    return LongScores(long, kinds, bool(named))


def score_tables(scores: ScoreTable) -> dict[str, pl.DataFrame]:
    """``runs``, ``profile``, ``gains`` and, where checkpoints are ordered, ``trajectories`` of a table of scores.

    Without an order every row is a subject that was evaluated once, so there are no gains. Intervals treat a model's
    runs as the sample (t distribution) and need three of them. Where models have one run each, the models are the
    sample of further gains, those of ``all models``. Of runs that begin at different steps only those that begin
    together count before and after training.
    """
    long, kinds, _ = long_scores(scores)
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
        bounded = kinds[str(testset)] is not ScoreKind.OTHER
        together = with_same_start(group) if trained else group
        moments = ("before", "after") if trained else ("after",)
        profile += [key | {"when": when} | _mean_over_runs(together[when], PLAIN_SCORE, bounded) for when in moments]
        if trained:
            change = _mean_over_runs(together["after"] - together["before"], "gain", bounded)
            gains.append(key | {"in_domain": testset in scores.controls} | change)
    if trained and ends["model"].n_unique() >= LEAST_RUNS and not any(row.get("p") for row in gains):
        # One run per model: the models are the sample.
        for (testset,), group in ends.group_by("testset", maintain_order=True):
            key = {"model": ALL_MODELS, "testset": testset, "in_domain": testset in scores.controls}
            together = with_same_start(group)
            bounded = kinds[str(testset)] is not ScoreKind.OTHER
            gains.append(key | _mean_over_runs(together["after"] - together["before"], "gain", bounded))
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


def _mean_over_runs(values: pl.Series, name: str, bounded: bool = False) -> dict[str, Any]:
    """Mean over runs with its t interval and p-value; null where runs are too few.

    The interval of a share, if ``bounded``, is cut to 0 and 1, that of a gain to -1 and 1.
    """
    known = values.drop_nulls().to_numpy()
    row: dict[str, Any] = {"runs": len(known), name: float(known.mean()) if len(known) else None}
    if len(known) < LEAST_RUNS or known.std() == 0:
        return row
    se, df = float(known.std(ddof=1) / np.sqrt(len(known))), len(known) - 1
    low, high = _t_interval(row[name], MeanVariance(se**2, df))
    if bounded:
        low, high = max(low, -1.0 if name == "gain" else 0.0), min(high, 1.0)
    p = float(2 * special.stdtr(df, -abs(row[name]) / se))
    return row | {"se": se, "ci_low": low, "ci_high": high, "p": p}


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)
