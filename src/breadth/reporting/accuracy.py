"""Accuracy, sensitivity and bias of every checkpoint, and before and after training by test set and by level.

Intervals of a checkpoint count items as a sample, those before and after training items and runs.

All functions take a study whose subjects have a run, a model and a step (``ReportData.described``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.errors import InputError
from breadth.inference import with_wilson
from breadth.level_transfer import Gains, contrast
from breadth.records import SCORES, Measure, Score, Study, answers_of, item_values, open_study, score_intervals
from breadth.reporting.data import ReportData
from breadth.results import Result
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text
from breadth.results.words import count, interval, joined, points, verdict

_INTERVAL = dict.fromkeys(("se", "ci_low", "ci_high"), pl.Float64)
_SIZES = dict.fromkeys(("runs", "n_items"), pl.Int64)
_KEYS = dict.fromkeys(("model", "train_set", "testset", "shift"), pl.String)

#: Columns of the tables ``profile``, ``gains`` and ``by_level`` of a report.
PROFILE = {**_KEYS, "when": pl.String, **_SIZES, "accuracy": pl.Float64, **_INTERVAL, "chance": pl.Float64}
_CHANGES = {f"{name}{end}": pl.Float64 for name in ("accuracy", "auc", "share") for end in ("", "_low", "_high")}
GAINS = {**_KEYS, "in_domain": pl.Boolean, **_SIZES, "gain": pl.Float64, **_INTERVAL, "p": pl.Float64, **_CHANGES}
GAINS |= {"answer": pl.String, "says_more": pl.String, "flag": pl.String}
BY_LEVEL = {"model": pl.String, "when": pl.String, "level": pl.Int64, **_SIZES, "accuracy": pl.Float64, **_INTERVAL}


#: What the table ``scores`` holds.
MEASURES: tuple[Measure, ...] = (*SCORES, "criterion", "share")

_ANSWERS = {"label": pl.String, "answer": pl.String}

#: The range of an answer's share over checkpoints that is worth a sentence.
SWING = 0.4

#: Scores that lie within 0 and 1.
BOUNDED = ("accuracy", "auc", "balanced")

#: Columns of a checkpoint, before its scores.
CHECKPOINT = ("run", "model", "train_set", "examples", "seed", "train_level", "step")


class GainFlag(StrEnum):
    """What a gain, or a loss, of accuracy is."""

    BIAS = "bias"


def checkpoint_scores(study: Study, measures: Sequence[Measure]) -> pl.DataFrame:
    """Scores of every checkpoint on every test set, each with the ends of its interval; null where not defined.

    ``accuracy`` has ``ci_low`` and ``ci_high``, other measures such as ``auc`` have ``auc_low`` and ``auc_high``.
    ``share`` is that of ``answer``, the first of a test set's two answers.
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
    return pl.concat(parts).filter(pl.col("n") > 0).sort("run", "testset", "step")


def crossed_mean(answers: npt.NDArray[Any], name: str, group: npt.NDArray[np.intp] | None = None) -> dict[str, Any]:
    """Mean of answers [runs, items] as ``name``, with ``runs, n_items, se, ci_low, ci_high, p``; None where unknown.

    Both the items and the runs are samples: see :func:`breadth.level_transfer.contrast` for the standard error. Runs
    without any answer are left out, and so are items that one of the other runs did not answer. With a ``group`` of
    every item, the sum over groups of their means. The interval of a score that lies within 0 and 1 stays there.
    """
    answered = ~np.isnan(answers)
    runs = answered.any(axis=1)
    items = answered[runs].all(axis=0) & runs.any()
    complete = answers[np.ix_(runs, items)].astype(np.float64)
    n, own = complete.shape[1], np.zeros(items.sum(), dtype=np.intp) if group is None else group[items]
    row = {"runs": len(complete), "n_items": n, name: None, **dict.fromkeys(("se", "ci_low", "ci_high", "p"))}
    if n == 0 or np.bincount(own, minlength=1 if group is None else int(group.max()) + 1).min() < 2:
        return row | {name: float(complete.mean()) if n and group is None else None}
    mean = contrast(Gains((complete,), np.zeros(n), np.zeros(n, dtype=np.intp), own), np.ones((1, 1)))
    low, high = np.clip((mean.low, mean.high), 0, 1) if name in BOUNDED else (mean.low, mean.high)
    numbers = {name: mean.estimate, "se": mean.se, "ci_low": low, "ci_high": high, "p": mean.p}
    return row | {key: float(value) for key, value in numbers.items() if not np.isnan(value)}


def score_profile(study: Study, score: Score = "accuracy") -> tuple[pl.DataFrame, pl.DataFrame]:
    """A score per model and test set before and after training, and the gain between the two, paired by run and item.

    Gains come with the changes of ``accuracy``, ``auc`` (paired: DeLong's variance) and the ``share`` of ``answer``.
    A change of accuracy is flagged as ``bias`` where its interval excludes 0 and so does that of the share, while that
    of auc covers 0 and excludes a change as large as that of accuracy. ``says_more`` is the answer that is clearly
    given more often after training.
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
        index = np.concatenate(list(ends.values()))
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
            changes = {name: crossed_mean(each[1] - each[0], "gain", own) for name, (each, own) in measured.items()}
            signs = {name: verdict(one["ci_low"], one["ci_high"]) for name, one in changes.items()}
            answers, more = list(answers_of(study, testset).values()), signs.get("share", 0)
            area, same = changes.get("auc"), False
            if area is not None and area["ci_low"] is not None:
                low, high = area["ci_low"], area["ci_high"]
                same = low <= 0 <= high and not low <= changes["accuracy"]["gain"] <= high
            gain = key | {"in_domain": testset == study.in_domain(train_set)} | changes[score]
            for name in ("accuracy", "auc", "share"):
                ends_of = [changes[name][end] if name in changes else None for end in ("gain", "ci_low", "ci_high")]
                gain |= dict(zip((name, f"{name}_low", f"{name}_high"), ends_of, strict=True))
            gain["answer"] = answers[0] if "share" in changes else None
            gain["says_more"] = (answers[0] if more > 0 else answers[1]) if more else None
            gain["flag"] = GainFlag.BIAS.value if signs["accuracy"] and more and same else None
            gains.append(gain)
    schema = {score if name == "accuracy" else name: dtype for name, dtype in PROFILE.items()}
    return pl.DataFrame(rows, schema=schema), pl.DataFrame(gains, schema=GAINS)


def bias_words(gains: pl.DataFrame, checkpoints: pl.DataFrame) -> list[str]:
    """Where a change of accuracy is a change of bias, and where bias swings during training, in sentences."""
    lines = []
    for row in gains.filter(pl.col("flag") == GainFlag.BIAS).iter_rows(named=True):
        changed = f"{'rose' if row['accuracy'] > 0 else 'fell'} by {count(abs(round(100 * row['accuracy'])), 'point')}"
        within = interval({"ci_low": row["auc_low"], "ci_high": row["auc_high"]})
        lines.append(
            f"Accuracy of {row['model']} on {row['testset']} {changed}, but what it can tell apart did not clearly "
            f"change (area under the ROC curve {points(row['auc'])}, {within}); it says {row['says_more']} more often."
        )
    shares = checkpoints.drop_nulls("share").group_by("run", "model", "answer", "step").agg(pl.col("share").mean())
    ranges = shares.group_by("model", "answer").agg(low=pl.col("share").min(), high=pl.col("share").max())
    swings = ranges.filter(pl.col("high") - pl.col("low") > SWING).sort("model", "answer")
    for answer in swings["answer"].unique(maintain_order=True):
        own = swings.filter(pl.col("answer") == answer).select("model", "low", "high").iter_rows()
        models = joined([f"{low:.0%} to {high:.0%} in {model}" for model, low, high in own])
        lines.append(
            f"The share of {answer} among the answers, averaged over test sets, swings during training: from {models}. "
            "Such swings move the accuracies of all test sets together; --score auc compares what the model can tell "
            "apart."
        )
    return lines


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


@dataclass(frozen=True)
class Scores(Result):
    """Accuracy, sensitivity and bias of every checkpoint on every test set; made by :func:`breadth.scores`.

    ``scores``: a row per checkpoint and test set with ``n`` items, and for each measure its value and the ends of its
    95 % interval (``accuracy, ci_low, ci_high``, ``auc, auc_low, auc_high`` and so on); null where it is not defined.
    ``changes``: from the first to the last checkpoint, over the runs of a model. ``answers``: the share of each answer.
    """

    scores: pl.DataFrame
    changes: pl.DataFrame
    answers: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The frames by name: scores, changes, answers."""
        return {"scores": self.scores, "changes": self.changes, "answers": self.answers}

    def summary(self) -> str:
        """Where a change of accuracy is a change of bias, and what is not defined."""
        lines = bias_words(self.changes, self.scores)
        if not lines and self.changes["auc"].is_not_null().any():
            lines = ["No change of accuracy between the first and the last checkpoint is only a change of bias."]
        missing = self.scores.group_by("testset", maintain_order=True).agg(pl.col("auc", "dprime").is_null().all())
        for measure, need in (("auc", "margins and two answers"), ("dprime", "labels, and two answers")):
            names = missing.filter(measure)["testset"].to_list()
            lines += [f"{measure} is not defined for {joined(names)}: it needs {need}."] if names else []
        return " ".join(lines)


def scores_table(checkpoints: pl.DataFrame, width: int = WIDTH) -> Table:
    """Scores of the last checkpoints per model and test set, as means over runs."""
    last = checkpoints.filter(pl.col("step") == pl.col("step").max().over("run"))
    means = last.group_by("model", "testset", "answer", maintain_order=True).agg(pl.col(*MEASURES).mean())
    more = f": the first {MOST_ROWS} of {means.height:,}" if means.height > MOST_ROWS else ""
    shown = {"accuracy": "accuracy", "auc": "auc", "dprime": "d'", "criterion": "criterion", "share": "share"}
    table = make_table(
        f"Last checkpoints, mean over runs{more}", ["model", "test set", "share of"], list(shown.values()), width
    )
    for row in means.head(MOST_ROWS).iter_rows(named=True):
        names = (Text(row[name] or "-") for name in ("model", "testset", "answer"))
        table.add_row(*names, *(number_text(row[measure], 2) for measure in shown))
    return table


def answer_shares(study: Study) -> pl.DataFrame:
    """The share of each answer among a checkpoint's answers to a test set, with Wilson's interval.

    From labels and what was right where there are two answers, else from the stored answers, where there are any.
    """
    keys, parts = study.subjects.select("subject", *CHECKPOINT), []
    stored = "answer" in study.responses.collect_schema().names()
    for testset in study.shifts:
        answers = answers_of(study, testset)
        names = pl.DataFrame({"label": list(answers), "answer": list(answers.values())}, schema=_ANSWERS)
        counts = pl.DataFrame(schema={"subject": pl.String, "label": pl.String, "said": pl.Float64})
        with suppress(InputError):
            first = item_values(study, "share", testset).values
            said = {0: np.nansum(first, axis=1), 1: np.nansum(1 - first, axis=1)}
            frames = [keys.select("subject", label=pl.lit(names["label"][k]), said=said[k]) for k in said]
            counts = pl.concat(frames)
        if len(answers) > 2 and stored:
            own = study.responses.filter(pl.col("testset") == testset).group_by("subject", label="answer")
            counts = own.agg(said=pl.len().cast(pl.Float64)).collect()
        total = counts.group_by("subject").agg(n=pl.col("said").sum()).filter(pl.col("n") > 0)
        every = keys.join(total, on="subject", maintain_order="left").join(names, how="cross")
        every = every.join(counts, on=["subject", "label"], how="left", maintain_order="left")
        share = (pl.col("said").fill_null(0) / pl.col("n")).alias("accuracy")
        columns = (*CHECKPOINT, pl.lit(testset).alias("testset"), "answer", pl.col("n").cast(pl.Int64), share)
        parts.append(with_wilson(every.select(columns)).rename({"accuracy": "share"}))
    return pl.concat(parts).sort("run", "testset", "step", "answer")


def scores(answers: Any) -> Scores:
    """Tell what a model can tell apart from which answer it leans to, for every checkpoint and test set.

    Question: accuracy changed; did the model learn to tell right from wrong, or does it merely say one answer more
    often? Sensitivity (``auc``, ``dprime``) does not depend on the lean, bias (``criterion``, ``share``) is the lean.

    With two answers, of which the first in alphabetical order is "the first": H is the share of the first answer among
    items of that label and F among the others, both with half an answer added to either side (Hautus 1995).

    - ``auc``: area under the ROC curve of the log-odds of the first answer: the chance that they are higher for an item
      of the first label than for one of the other, ties counting half. 0.5 is chance. Needs margins.
    - ``dprime``: z(H) - z(F), where z is the normal quantile. 0 is chance. ``criterion``: -(z(H) + z(F)) / 2; above 0
      where the first answer is given too seldom. ``share``: of the first answer (``answer`` names it).
    - ``balanced``: accuracy averaged over labels; with any number of answers. In a choice task, over the positions of
      the right option.
    - ``logscore``: mean log-probability of the right answer among the answers. Needs margins. It does depend on bias.

    With more than two answers, ``auc``, ``dprime`` and ``criterion`` are not defined: a margin says how likely the
    right answer is, not how the rest is shared out. Where a model writes its answers, there are no margins, and only
    accuracy is defined unless labels are few.

    Intervals count the items as a sample: DeLong's (1988) for ``auc``, on the scale of its log-odds; Wilson's for
    ``accuracy`` and shares; the delta method for ``dprime``, ``criterion`` (Gourevitch and Galanter 1967) and
    ``balanced``; t for ``logscore``. Those of ``changes`` are paired by item and count runs as a sample too.

    Parameters
    ----------
    answers
        Anything :func:`breadth.open` takes, with a ``label`` of every item and, for ``auc`` and ``logscore``,
        margins: the directory of a study, or a long table with ``testset, item, correct, label, margin``.

    Returns
    -------
    Scores
        Frames ``scores``, ``changes`` and ``answers``, and a summary.

    Examples
    --------
    >>> import breadth, numpy as np, polars as pl
    >>> generator = np.random.default_rng(0)
    >>> label = np.tile(["no", "yes"], 50)
    >>> odds_of_no = np.where(label == "no", 1, -1) + 2 + generator.normal(size=100)  # leans to no
    >>> margin = np.where(label == "no", 1, -1) * odds_of_no
    >>> table = pl.DataFrame({"subject": "m", "item": range(100), "label": label, "correct": margin > 0})
    >>> result = breadth.scores(table.with_columns(margin=margin))
    >>> result.scores.select(pl.col("accuracy", "auc", "share").round(2)).row(0)
    (0.57, 0.91, 0.93)
    """
    study = open_study(answers)
    described = ReportData(study).described
    changes = score_profile(described)[1]
    return Scores(checkpoint_scores(described, MEASURES), changes, answer_shares(described), study.warnings)
