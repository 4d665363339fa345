"""``scores``: what a model can tell apart, told from which answer it leans to, for every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text
from scipy import special

from breadth.datasets import NEITHER
from breadth.errors import InputError
from breadth.inference import NORMAL, benjamini_hochberg, with_wilson
from breadth.records import (
    LEAST_CHANGED_LABELS,
    LEAST_LABELS,
    SCORES,
    Measure,
    Score,
    Study,
    answer_counts,
    answers_of,
    may_be_neither,
)
from breadth.reporting.accuracy import (
    CHECKPOINT,
    LATE_PART,
    LEAST_LATE,
    Follows,
    GainFlag,
    checkpoint_scores,
    other_starts,
    score_profile,
)
from breadth.reporting.sources import described
from breadth.results import ALMOST_ALL, ALMOST_NONE, WORTH_SEEING, Answer, Result, Verdict
from breadth.results.terminal import MOST_ROWS, WIDTH, interval_text, make_table, number_text
from breadth.results.words import FINDING, SCORE_WORDS, change_text, count, joined, points_text, score_interval_text
from breadth.sources import open_answers

#: What the table ``scores`` holds.
MEASURES: tuple[Measure, ...] = (*SCORES, "criterion", "share")

#: The range of an answer's share over checkpoints that is worth a sentence.
SWING = 0.4

#: Verdicts in a sentence, for one test set and for several.
FOLLOWS_WORDS = {
    Follows.YES: ("follows", "follow"),
    Follows.PART: ("follows in part", "follow in part"),
    Follows.NO: ("does not follow", "do not follow"),
    None: ("is undecided", "are undecided"),
}

#: How the table of changes writes what is no yes or no.
FOLLOWS_CELLS = {Follows.ONE_RUN.value: "one run", None: "undecided"}

#: Largest share of answers that are neither with which accuracy is still about the answers.
SILENT = 0.1

#: Models that are named one by one, and changes of single runs.
MOST_MODELS, MOST_SINGLE = 3, 8

#: What accuracy shows, by the verdict.
ANSWERS = {
    Answer.YES: "accuracy shows what models can tell apart",
    Answer.NO: "accuracy shows which answer models lean to",
    Answer.DEPENDS: "accuracy is in part answer bias",
}

UNDEFINED = (
    "what a model can tell apart is not known: it takes labels and, for auc, margins of two answers, with enough items "
    "of both."
)

_ANSWERS = {"label": pl.String, "answer": pl.String}


@dataclass(frozen=True)
class Scores(Result):
    """Accuracy, sensitivity and bias of every checkpoint on every test set; made by :func:`breadth.scores`.

    ``scores``: a row per checkpoint and test set with ``n`` items, and for each measure its value and the ends of its
    95 % interval (``accuracy, ci_low, ci_high``, ``auc, auc_low, auc_high`` and so on); null where it is not defined.
    ``changes``: from the first to the last checkpoint, over the runs of a model. ``answers``: the share of each answer.
    ``training`` names those among the test sets of ``scores`` that are the runs' own training examples.
    """

    scores: pl.DataFrame
    changes: pl.DataFrame
    answers: pl.DataFrame
    warnings: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    #: Runs that begin at other steps than most, and so are no part of ``changes``.
    apart: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def tested(self) -> pl.DataFrame:
        """``scores`` without those on training examples, which are no test."""
        return self.scores.filter(~pl.col("testset").is_in(self.training))

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The frames by name: scores, changes, answers."""
        return {"scores": self.scores, "changes": self.changes, "answers": self.answers}

    def verdict(self) -> Verdict:
        """Does accuracy show what the model can tell apart, or which answer it leans to?

        Of runs: how many of the changes of accuracy from the first to the last checkpoint that are findings (q < 0.05
        over models and test sets) are only changes of bias (column ``flag``)? Of subjects that were evaluated once: in
        how many cases does leaning to one answer cost at least 5 points? With sensitivity d' and criterion c, accuracy
        is (Phi(d'/2 - c) + Phi(d'/2 + c)) / 2 instead of Phi(d'/2); c must differ from 0 (q < 0.05). Yes: at most 10 %,
        and the share of an answer swings by at most 40 points during training. No: at least 90 %. It depends: else.

        Where models may answer with any token, none of this holds if they often give neither answer, or once did.
        """
        silent = _silence(self.answers.filter(~pl.col("testset").is_in(self.training)))
        if silent is not None:
            return silent
        if not self.changes.height:
            return _bias_of_last(self.tested)
        return _bias_of_changes(self.found_changes, swings(self.tested)["model"].unique(maintain_order=True).to_list())

    @property
    def found_changes(self) -> pl.DataFrame:
        """``changes`` with ``found``: whether the change of accuracy is a finding."""
        q = benjamini_hochberg(self.changes["p"].fill_null(float("nan")).to_numpy())
        return self.changes.with_columns(found=pl.Series(q < FINDING))

    def details(self) -> str:
        """Which test sets follow the in-domain one, where a change of accuracy is one of bias, what is not defined."""
        known = self.changes["auc"].is_not_null().any()
        score: Score = "auc" if known else "accuracy"
        lines = bias_words(self.found_changes, self.tested)
        if not lines and known:
            lines = ["No change of accuracy between the first and the last checkpoint is only a change of bias."]
        lines = [
            line for line in (follow_words(self.changes, score, "auc_follows" if known else "follows"), *lines) if line
        ]
        if self.apart.height:
            lines.append(start_words(self.apart))
        missing = self.tested.group_by("testset", maintain_order=True).agg(pl.col("auc", "dprime").is_null().all())
        for measure, need in (("auc", "margins and two answers"), ("dprime", "labels, and two answers")):
            names = missing.filter(measure)["testset"].to_list()
            lines += [f"{measure} is not defined for {joined(names)}: it needs {need}."] if names else []
        few = self.tested.filter(pl.col("flag") == GainFlag.FEW_LABELS)["testset"].unique(maintain_order=True).to_list()
        if few:
            need = f"an interval takes at least {LEAST_LABELS} items of the rarer answer"
            lines.append(f"auc and dprime have no interval on {joined(few)}: {need}.")
        changed = self.changes.filter(pl.col("flag") == GainFlag.FEW_LABELS)
        short = [name for name in changed["testset"].unique(maintain_order=True) if name not in few]
        if short:
            need = f"that takes at least {LEAST_CHANGED_LABELS} items of the rarer answer"
            lines.append(f"Changes of auc have no interval on {joined(short)}: {need}.")
        return " ".join(lines)


def _silence(answers: pl.DataFrame) -> Verdict | None:
    """The verdict where accuracy depends on how often a model gives one of the answers at all; None elsewhere."""
    neither = answers.filter((pl.col("answer") == NEITHER) & (pl.col("share") > SILENT))
    if not neither.height:
        return None
    worst = neither.sort("share", descending=True, maintain_order=True).row(0, named=True)
    reason = (
        f"accuracy is in part how often models answer at all: {worst['share']:.0%} of what {worst['model']} gives on "
        f"{worst['testset']} at step {worst['step']:,} is neither answer."
    )
    return Verdict(Answer.DEPENDS, reason, needed="With evaluate.predict: answers, only the answers are compared.")


def _bias_of_changes(changes: pl.DataFrame, swinging: Sequence[str]) -> Verdict:
    """The verdict on changes through training; in ``swinging`` models the lean swings on the way."""
    known, unit = changes.drop_nulls(["auc", "auc_low"]), "(model x test set)"
    if not known.height:
        return Verdict(Answer.UNKNOWN, UNDEFINED)
    found = known.filter("found")
    if not found.height:
        reason = f"none of {count(known.height, 'change')} of accuracy {unit} is a finding (q < {FINDING})."
        return Verdict(Answer.UNKNOWN, reason, needed="More items or runs would narrow the intervals.")
    biased = found.filter(pl.col("flag") == GainFlag.BIAS).height
    answer = _share_of_bias(biased, found.height)
    answer = Answer.DEPENDS if answer is Answer.YES and swinging else answer
    verb = "is only a change" if biased == 1 else "are only changes"
    reason = f"{ANSWERS[answer]}: {biased} of {count(found.height, 'change')} of accuracy {unit} {verb} of bias"
    reason += f", but the lean to an answer swings during training in {joined(swinging, 4)}." if swinging else "."
    row = found.sort(pl.col("auc").abs(), descending=True, maintain_order=True).row(0, named=True)
    within = score_interval_text({"ci_low": row["auc_low"], "ci_high": row["auc_high"]})
    largest = f"Largest change of what a model can tell apart (auc): {row['model']} on {row['testset']}"
    return Verdict(answer, reason, f"{largest}, {points_text(row['auc'])} ({within}).")


def _bias_of_last(scores: pl.DataFrame) -> Verdict:
    """The verdict on subjects that were evaluated once."""
    known, unit = scores.drop_nulls(["dprime", "criterion", "criterion_low"]), "(subject x test set)"
    if not known.height:
        return Verdict(Answer.UNKNOWN, UNDEFINED, computed=scores.height > 0)
    half, lean = known["dprime"].to_numpy() / 2, known["criterion"].to_numpy()
    error = (known["criterion_high"] - known["criterion_low"]).to_numpy() / (2 * NORMAL)
    q = benjamini_hochberg(2 * special.ndtr(-np.abs(lean) / np.maximum(error, 1e-12)))
    cost = special.ndtr(half) - (special.ndtr(half - lean) + special.ndtr(half + lean)) / 2
    found = known.with_columns(pl.Series("cost", cost)).filter((q < FINDING) & (cost >= WORTH_SEEING))
    answer, cases = (
        _share_of_bias(found.height, known.height),
        f"{found.height} of {count(known.height, 'case')} {unit}",
    )
    reason = f"{ANSWERS[answer]}: leaning to one answer costs at least 5 points of accuracy in {cases}."
    if not found.height:
        return Verdict(answer, reason)
    row = found.sort("cost", descending=True, maintain_order=True).row(0, named=True)
    who = f"{row['model']} on {row['testset']} says {row['answer']} in {row['share']:.0%} of its answers"
    line = f"Largest: {who}, which costs {100 * row['cost']:.0f} points."
    return Verdict(answer, reason, line)


def _share_of_bias(biased: int, total: int) -> Answer:
    if biased <= ALMOST_NONE * total:
        return Answer.YES
    return Answer.NO if biased >= ALMOST_ALL * total else Answer.DEPENDS


def follow_words(gains: pl.DataFrame, score: Score, column: str = "follows") -> str:
    """Which shifted test sets follow the in-domain one, model by model if there are few; empty if nothing is known.

    Of a model with one run, only what this run did.
    """
    shifted = gains.filter(~pl.col("in_domain"))
    if not shifted[column].is_not_null().any():
        return ""
    single = shifted.filter(pl.col(column) == Follows.ONE_RUN)
    several = shifted.filter(pl.col(column).ne_missing(Follows.ONE_RUN.value))
    number = int(gains["late_checkpoints"].max() or 1)  # type: ignore[arg-type]
    until = "the last checkpoint"
    if number > 1:
        until = f"the mean over the last {1 - LATE_PART:.0%} of training"
    lines = []
    if several[column].is_not_null().any():
        said = ". ".join(_follow_sentences(several, column))
        lines.append(
            f"Which test sets follow the in-domain set ({SCORE_WORDS[score]}, first checkpoint to {until})? {said}. A "
            "set follows if it clearly gains, and does not if it clearly gains less than half as much as the in-domain "
            f"set (q < {FINDING} over the test sets; items and runs as samples)."
        )
    if single.height:
        lines.append(_single_runs(single, score, "auc_late" if column == "auc_follows" else "late", until))
    return " ".join(lines)


def _follow_sentences(shifted: pl.DataFrame, column: str) -> list[str]:
    """What follows in every model, or how many sets do where there are many models."""
    groups = shifted.group_by(["model", "train_set"], maintain_order=True)
    parts = {f"In {model} trained on {train_set}": group for (model, train_set), group in groups}
    counted = len(parts) > MOST_MODELS
    if counted:
        parts = {f"Of {shifted.height} (model x test set)": shifted}
    lines = []
    for start, group in parts.items():
        said = []
        for value, (one, many) in FOLLOWS_WORDS.items():
            names = group.filter(pl.col(column).eq_missing(value))["testset"].to_list()
            if names:
                who = str(len(names)) if counted else joined(names, 12)
                said.append(f"{who} {one if len(names) == 1 else many}")
        lines.append(f"{start}, {'; '.join(said)}")
    return lines


def _single_runs(shifted: pl.DataFrame, score: Score, column: str, until: str) -> str:
    """What models of one run gained: about these trained models, and not about their recipe."""
    models = shifted["model"].unique(maintain_order=True).to_list()
    share = score not in ("dprime", "logscore")
    said = []
    for row in shifted.drop_nulls(column).sort(column, descending=True).iter_rows(named=True):
        within = score_interval_text({"ci_low": row[f"{column}_low"], "ci_high": row[f"{column}_high"]}, share)
        where = f"{row['testset']} in {row['model']}" if len(models) > 1 else row["testset"]
        said.append(f"{where} {change_text(row[column], share)}{f' ({within})' if within else ''}")
    who = f"{models[0]} has one run" if len(models) == 1 else f"{joined(models, MOST_MODELS)} have one run each"
    which = "this one trained model" if len(models) == 1 else "these trained models"
    sample = "the items as a sample"
    if int(shifted["late_checkpoints"].max() or 1) >= LEAST_LATE:  # type: ignore[arg-type]
        sample += ", and the checkpoints' fluctuation"
    return (
        f"{who}, so what follows is about {which} only: another run of the same recipe may differ. From the first "
        f"checkpoint to {until}, {SCORE_WORDS[score]} changed on {joined(said, MOST_SINGLE)} (95% intervals with "
        f"{sample}). Whether test sets follow the in-domain set with this recipe takes two runs at the very least, "
        "better three to five."
    )


def start_words(apart: pl.DataFrame) -> str:
    """Which runs begin elsewhere than most of their model, so that they are left out before and after training."""
    runs = [f"{run} (step {step:,})" for run, step in apart.select("run", "first_step").iter_rows()]
    verb = "begins" if len(runs) == 1 else "begin"
    return (
        f"{count(len(runs), 'run')} {verb} at another step than the other runs of the model, and what is said about "
        f"before and after training is without {'it' if len(runs) == 1 else 'them'}: {joined(runs, 4)}."
    )


def swings(checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Models in which the share of an answer, averaged over test sets, swings widely over checkpoints: its range.

    That is, over the checkpoints of one run: runs that differ from each other do not swing. Of several, the widest.
    """
    shares = checkpoints.drop_nulls("share").group_by("run", "model", "answer", "step").agg(pl.col("share").mean())
    ranges = shares.group_by("run", "model", "answer").agg(low=pl.col("share").min(), high=pl.col("share").max())
    wide = ranges.filter(pl.col("high") - pl.col("low") > SWING)
    widest = wide.sort(pl.col("low") - pl.col("high"), "run").unique(["model", "answer"], keep="first")
    return widest.select("model", "answer", "low", "high").sort("model", "answer")


def bias_words(gains: pl.DataFrame, checkpoints: pl.DataFrame) -> list[str]:
    """Where a change of accuracy is a change of bias, and where bias swings during training, in sentences."""
    lines = []
    for row in gains.filter(pl.col("flag") == GainFlag.BIAS).iter_rows(named=True):
        changed = f"{'rose' if row['accuracy'] > 0 else 'fell'} by {count(abs(round(100 * row['accuracy'])), 'point')}"
        within = score_interval_text({"ci_low": row["auc_low"], "ci_high": row["auc_high"]})
        lines.append(
            f"Accuracy of {row['model']} on {row['testset']} {changed}, but what it can tell apart did not clearly "
            f"change (area under the ROC curve {points_text(row['auc'])}, {within}); it says {row['says_more']} more "
            "often."
        )
    wide = swings(checkpoints)
    for answer in wide["answer"].unique(maintain_order=True):
        own = wide.filter(pl.col("answer") == answer).select("model", "low", "high").iter_rows()
        models = joined([f"{low:.0%} to {high:.0%} in {model}" for model, low, high in own])
        lines.append(
            f"The share of {answer} among the answers, averaged over test sets, swings during training: from {models}. "
            "Such swings move the accuracies of all test sets together; --score auc compares what the model can tell "
            "apart."
        )
    return lines


def checkpoint_scores_table(checkpoints: pl.DataFrame, width: int = WIDTH) -> Table:
    """Scores of the last checkpoints per model and test set, as means over runs."""
    last = checkpoints.filter(pl.col("step") == pl.col("step").max().over("run"))
    means = last.group_by("model", "testset", "answer", maintain_order=True).agg(pl.col(*MEASURES).mean())
    more = f": the first {MOST_ROWS} of {means.height:,}" if means.height > MOST_ROWS else ""
    shown = {"accuracy": "accuracy", "auc": "auc", "dprime": "d'", "criterion": "criterion", "share": "share"}
    title, columns = f"Last checkpoints, mean over runs{more}", ["model", "test set", "share of"]
    least = ["d'", "criterion", "share", "share of"]
    table = make_table(title, columns, list(shown.values()), width, least=least)
    for row in means.head(MOST_ROWS).iter_rows(named=True):
        names = (Text(row[name] or "-") for name in ("model", "testset", "answer"))
        table.add_row(*names, *(number_text(row[measure], 2) for measure in shown))
    return table


def changes_table(changes: pl.DataFrame, width: int = WIDTH) -> Table:
    """Changes from the first to the last checkpoint per model and test set, and which follow the in-domain one."""
    more = f": the first {MOST_ROWS} of {changes.height:,}" if changes.height > MOST_ROWS else ""
    numbers = ["accuracy", "95% interval", "auc", "95% interval", "follows"]
    title = f"From the first to the last checkpoint{more}"
    table = make_table(title, ["model", "test set"], numbers, width, least=["95% interval", "auc"])
    column = "auc_follows" if changes["auc"].is_not_null().any() else "follows"
    for row in changes.head(MOST_ROWS).iter_rows(named=True):
        cells: list[str | Text] = [Text(row["model"]), Text(row["testset"])]
        for name in ("accuracy", "auc"):
            cells.append("-" if row[name] is None else f"{row[name]:+.2f}")
            cells.append(interval_text(row[f"{name}_low"], row[f"{name}_high"]))
        follows = "in-domain" if row["in_domain"] else FOLLOWS_CELLS.get(row[column], row[column])
        table.add_row(*cells, follows)
    return table


def answer_shares(study: Study) -> pl.DataFrame:
    """The share of each answer among a checkpoint's answers to a test set, with Wilson's interval.

    From labels and what was right where there are two answers, else from the stored answers, where there are any.
    Where a model may answer with any token, ``neither`` is one more answer.
    """
    keys, parts = study.subjects.select("subject", *CHECKPOINT), []
    stored = "answer" in study.responses.collect_schema().names()
    for testset in study.shifts:
        answers = answers_of(study, testset)
        names = pl.DataFrame({"label": list(answers), "answer": list(answers.values())}, schema=_ANSWERS)
        counts = pl.DataFrame(schema={"subject": pl.String, "label": pl.String, "said": pl.Float64})
        with suppress(InputError):
            said = answer_counts(study, testset)
            frames = [keys.select("subject", label=pl.lit(names["label"][k]), said=said[k]) for k in (0, 1)]
            counts = pl.concat(frames)
        if may_be_neither(study, testset) and stored:
            names = names.extend(pl.DataFrame([(NEITHER, NEITHER)], schema=_ANSWERS, orient="row"))
        if names.height > 2 and stored:
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
    """Separate sensitivity (what a model can tell apart) from bias (which answer it favours), per checkpoint and set.

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
    study = open_answers(answers)
    runs = described(study)
    training = () if runs.training is None else tuple(runs.training.testsets)
    every = checkpoint_scores(runs, MEASURES)
    apart = other_starts(runs.ends)
    return Scores(every, score_profile(runs)[1], answer_shares(runs), study.warnings, training, apart)
