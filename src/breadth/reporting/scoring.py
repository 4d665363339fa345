"""``scores``: what a model can tell apart, told from which answer it leans to, for every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl
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
    LEAST_OF_RECIPE,
    Follows,
    GainFlag,
    checkpoint_scores,
    other_starts,
    score_profile,
)
from breadth.reporting.sources import described
from breadth.results import (
    ALMOST_ALL,
    ALMOST_NONE,
    WORTH_SEEING,
    Answer,
    Column,
    Columns,
    Question,
    Result,
    Shown,
    State,
    Verdict,
    about,
    times_more,
)
from breadth.results.words import (
    FINDING,
    SCORE_WORDS,
    amount_text,
    bracketed,
    change_text,
    count,
    interval_words,
    joined,
    points_text,
    score_interval_text,
)
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

#: What guessing gets right of two answers.
GUESSING = 0.5

#: Models beside the best that are named with their score.
MOST_OTHERS = 6

#: Models that are named one by one, and changes of single runs.
MOST_MODELS, MOST_SINGLE = 3, 8

#: What it takes to see a leaning, where that is not known: labels, margins, or test sets of two answers.
ADD_LABELS = (
    "To check whether a model just favours one answer, add the correct answer of every question (a column `label`) "
    "and, if you have them, the log-probabilities of both options."
)
ADD_MARGINS = "To check whether a model just favours one answer, add the log-probabilities of both options."
ADD_QUESTIONS = "To check whether a model just favours one answer takes more questions of the rarer answer."
TWO_ANSWERS = "Whether a model just favours one answer is only checked where questions have the same two answers."

_ANSWERS = {"label": pl.String, "answer": pl.String}


def _score_columns(name: str, header: str, form: str, priority: int, meaning: str) -> tuple[Column, Column]:
    """The columns of a score and of its interval."""
    low, high = (f"{name}_low", f"{name}_high") if name != "accuracy" else ("ci_low", "ci_high")
    return (
        Column(name, header=header, format=form, priority=priority, meaning=meaning),
        Column(low, high, format=form, priority=max(priority, 3), meaning=f"95% interval of the {header}"),
    )


_WHAT = (
    Column("model", priority=1, meaning="the model"),
    Column("train_set", header="trained on", priority=3, meaning="training set of the run"),
    Column("testset", header="test set", priority=1, meaning="the test set"),
)
_ACCURACY = "share of its answers that are right, in per cent"
_AUC = (
    "how often a question with the first answer gets more probability of it than one with the other answer, in per "
    "cent; whatever the leaning, 50 is guessing"
)
SCORE_COLUMNS = Columns(
    Column("run", priority=3, meaning="the training run"),
    *_WHAT,
    Column("step", format=",d", priority=2, meaning="training step of the checkpoint"),
    Column("n", header="questions", format=",d", priority=3, meaning="questions of the test set"),
    *_score_columns("accuracy", "% right", "percent", 1, _ACCURACY),
    *_score_columns("auc", "auc", "percent", 1, _AUC),
    *_score_columns(
        "dprime", "d'", ".2f", 3, "how well it tells the two answers apart, whatever the leaning; 0 is not"
    ),
    *_score_columns("balanced", "% right by label", "percent", 3, "accuracy, every label counted alike"),
    *_score_columns("logscore", "log-probability", ".2f", 4, "mean log-probability of the right answer"),
    *_score_columns("criterion", "criterion", "+.2f", 4, "the leaning; above 0 the first answer is given too seldom"),
    Column("answer", header="answer", priority=2, meaning="the first of the two answers"),
    *_score_columns("share", "% of this answer", "percent", 2, "share of its answers that are this one"),
    Column("flag", priority=4, meaning="code of why an interval is missing"),
)
CHANGE_COLUMNS = Columns(
    *_WHAT,
    Column("accuracy", header="points", format="points", priority=1, meaning="points of accuracy gained in training"),
    Column("accuracy_low", "accuracy_high", format="points", priority=2, meaning="95% interval of that change"),
    Column("auc", header="auc points", format="points", priority=1, meaning="points of auc gained in training"),
    Column("auc_low", "auc_high", format="points", priority=2, meaning="95% interval of that change"),
    Column("share", header="share of answer", format="points", priority=4, meaning="change of the share of one answer"),
    Column("share_low", "share_high", format="points", priority=4, meaning="95% interval of that change"),
    Column("answer", priority=4, meaning="the answer whose share that is"),
    Column("says_more", header="says more", priority=3, meaning="the answer that it clearly gives more often"),
    Column("follows_words", header="follows", priority=2, meaning="whether it gains with the in-domain test set"),
    Column("gain", format="points", priority=4, meaning="points gained, as in the report"),
    Column("runs", format="d", priority=4, meaning="training runs"),
    Column("n_items", header="questions", format=",d", priority=4, meaning="questions of the test set"),
    Column("p", format="p", priority=4, meaning="p-value of the change of accuracy"),
    Column("q", format="p", priority=4, meaning="p-value that allows for all shifted test sets"),
    Column("flag", priority=4, meaning="bias where accuracy changed with the leaning alone"),
)
ANSWER_COLUMNS = Columns(
    Column("run", priority=3, meaning="the training run"),
    *_WHAT,
    Column("step", format=",d", priority=2, meaning="training step of the checkpoint"),
    Column("answer", priority=1, meaning="the answer"),
    Column("n", header="questions", format=",d", priority=3, meaning="questions of the test set"),
    Column("share", header="% of answers", format="percent", priority=1, meaning="share of this answer"),
    Column("ci_low", "ci_high", format="percent", priority=2, meaning="95% interval of the share"),
)

#: Cases of leaning beside the worst that a verdict names.
MOST_CASES = 3


@dataclass(frozen=True, repr=False)
class Scores(Result):
    """Accuracy, sensitivity and bias of every checkpoint on every test set; made by :func:`breadth.scores`.

    ``scores``: a row per checkpoint and test set with ``n`` items, and for each measure its value and the ends of its
    95 % interval (``accuracy, ci_low, ci_high``, ``auc, auc_low, auc_high`` and so on); null where it is not defined.
    ``changes``: from the first to the last checkpoint, over the runs of a model. ``answers``: the share of each answer.
    ``training`` names those among the test sets of ``scores`` that are the runs' own training examples.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {
        "scores": SCORE_COLUMNS,
        "changes": CHANGE_COLUMNS,
        "answers": ANSWER_COLUMNS,
    }

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
        """Is accuracy partly a leaning towards one answer?

        Of runs: how many of the changes of accuracy from the first to the last checkpoint that are findings (q < 0.05
        over models and test sets) are only changes of bias (column ``flag``)? Of models that were evaluated once: in
        how many cases does leaning to one answer cost at least 5 points? With sensitivity d' and criterion c, accuracy
        is (Phi(d'/2 - c) + Phi(d'/2 + c)) / 2 instead of Phi(d'/2); c must differ from 0 (q < 0.05). No: at most 10 %,
        and the share of an answer swings by at most 40 points during training. Yes: at least 90 %. Mixed: else.

        Where models may answer with any token, none of this holds if they often give neither answer, or once did.
        Where what a model can tell apart is not known, how good the models are is said instead.
        """
        silent = _silence(self.answers.filter(~pl.col("testset").is_in(self.training)))
        if silent is not None:
            return silent
        if not self.changes.height:
            known = self.tested.drop_nulls(["dprime", "criterion", "criterion_low"])
            return _bias_of_last(known) if known.height else how_good(self.tested)
        known = self.found_changes.drop_nulls(["auc", "auc_low"])
        if not known.height:
            return how_good(self.tested)
        return self._bias_of_changes(known)

    def _bias_of_changes(self, known: pl.DataFrame) -> Verdict:
        """The verdict on changes through training."""
        question, found, wide = Question.ANSWER_BIAS, known.filter("found"), swings(self.tested)
        if not found.height:
            reason = (
                "Training did not clearly change accuracy, so there is nothing to explain by a leaning towards one "
                "answer."
            )
            advice = "Compare models by auc: it does not depend on a leaning."
            few: dict[str, float | str] = {}
            needed = _needed_words(known, few)
            return Verdict(Answer.UNKNOWN, reason, needed=needed, question=question, advice=advice, facts=few)
        is_bias = pl.col("flag").eq_missing(GainFlag.BIAS.value)
        biased = found.filter(is_bias).sort(pl.col("accuracy").abs(), descending=True, maintain_order=True)
        others = found.filter(~is_bias).sort(pl.col("auc").abs(), descending=True, maintain_order=True)
        is_clear = (pl.col("auc_low") > 0) | (pl.col("auc_high") < 0)
        able, unclear = others.filter(is_clear), others.filter(~is_clear)
        facts: dict[str, float | str] = {"guessing": "50%"}
        answer = Answer.MIXED
        if biased.height >= ALMOST_ALL * found.height:
            answer = Answer.YES
        elif biased.height <= ALMOST_NONE * found.height and not wide.height:
            answer = Answer.NO
        sentences = []
        if not able.height and not biased.height:
            answer = Answer.UNKNOWN
            reason = (
                "Accuracy changed, but whether by a leaning or because the models tell right from wrong is not clear."
            )
        elif not able.height or answer is Answer.YES or (biased.height and answer is Answer.MIXED):
            reason = self._leaning_sentence(biased.row(0, named=True), facts, level=True)
            sentences.append(_other_cases(biased, facts))
            if able.height:
                sentences.append(f"Elsewhere {_ability_sentence(able, level=False)}.")
        else:
            text = _ability_sentence(able, level=True)
            reason = f"{text[:1].upper()}{text[1:]}."
            if biased.height:
                sentences.append(self._leaning_sentence(biased.row(0, named=True), facts, level=False))
        if unclear.height and able.height + biased.height:
            names = [f"{row['model']} on {row['testset']}" for row in unclear.iter_rows(named=True)]
            facts["unclear changes"] = len(names) - MOST_CASES
            sentences.append(f"Undecided: {joined(names, MOST_CASES)}.")
        sentences += [_swing_sentence(wide, facts), _auc_words(found)]
        advice = "Compare auc instead of accuracy."
        if answer is Answer.NO:
            advice = "Accuracy can be compared as it is."
        findings = " ".join(filter(None, sentences))
        return Verdict(answer, reason, findings, question=question, advice=advice, facts=facts)

    def _leaning_sentence(self, row: Mapping[str, Any], facts: dict[str, float | str], level: bool) -> str:
        """A change of accuracy that is only one of leaning, with the share of the answer at the end."""
        sign, moved = (1, "rose") if row["accuracy"] > 0 else (-1, "fell")
        within = interval_words(row["accuracy_low"], row["accuracy_high"], level, sign)
        text = (
            f"On {row['testset']}, the accuracy of {row['model']} {moved} by {amount_text(row['accuracy'])}"
            f"{bracketed(within)} only because it says {row['says_more']} more often"
        )
        own = self.answers.filter(model=row["model"], testset=row["testset"], answer=row["says_more"])
        last = own.filter(pl.col("step") == pl.col("step").max().over("run"))
        if last.height:
            share = f"{float(last['share'].mean() or 0):.0%}"  # type: ignore[arg-type]
            facts[f"share of {row['says_more']} at the end"] = share
            text += f", to {share} of the questions at the end"
        return f"{text}."

    @property
    def found_changes(self) -> pl.DataFrame:
        """``changes`` with ``found``: whether the change of accuracy is a finding."""
        q = benjamini_hochberg(self.changes["p"].fill_null(float("nan")).to_numpy())
        return self.changes.with_columns(found=pl.Series(q < FINDING))

    def shown(self) -> Sequence[Shown]:
        """Last checkpoints, and how they changed from the first."""
        last = last_scores(self.scores)
        columns = SCORE_COLUMNS.without("run", "step", "train_set", "n", "balanced", "logscore")
        # Without an answer that has a share, there is nothing to lean to.
        tables = [Shown("Last checkpoints, mean over runs", last, columns.filled(last))]
        if self.changes.height:
            changes = _with_follows(self.changes)
            shown = CHANGE_COLUMNS.without("train_set", "answer", "gain", "runs", "n_items", "p", "q", "share")
            tables.append(Shown("From the first to the last checkpoint", changes, shown.filled(changes)))
        return tables

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
        f"Accuracy is in part how often models answer at all: {worst['share']:.0%} of what {worst['model']} gives on "
        f"{worst['testset']} at step {worst['step']:,} is neither answer."
    )
    advice = "With evaluate.predict: answers in the study file, only the answers are compared."
    facts = {"share of neither answer": f"{worst['share']:.0%}"}
    return Verdict(Answer.MIXED, reason, question=Question.ANSWER_BIAS, advice=advice, facts=facts)


def _ability_sentence(able: pl.DataFrame, level: bool) -> str:
    """Changes of accuracy that come with what models can tell apart, as a part of a sentence; the largest of auc."""
    signs = {gain > 0 for gain in able["auc"]}
    moved, how = "changed", "better or worse"
    if signs == {True}:
        moved, how = "rose", "better"
    elif signs == {False}:
        moved, how = "fell", "worse"
    row = able.row(0, named=True)
    sign, side = (1, "rose") if row["auc"] > 0 else (-1, "fell")
    models = able["model"].unique(maintain_order=True).to_list()
    who = f"{models[0]} tells" if len(models) == 1 else "the models tell"
    within = interval_words(row["auc_low"], row["auc_high"], level, sign)
    return (
        f"accuracy {moved} because {who} right from wrong {how}, not because of a leaning: on {row['testset']}, the "
        f"auc of {row['model']} {side} by {amount_text(row['auc'])}{bracketed(within)}"
    )


def _other_cases(biased: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """Where else a change of accuracy is only one of leaning."""
    names = [f"{row['model']} on {row['testset']}" for row in biased.slice(1).iter_rows(named=True)]
    facts["other changes of leaning"] = len(names) - MOST_CASES
    return f"The same holds of {joined(names, MOST_CASES)}." if names else ""


def _swing_sentence(wide: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """The widest swing of an answer's share during training, and in how many other models there is one."""
    if not wide.height:
        return ""
    widest = wide.sort(pl.col("high") - pl.col("low"), descending=True, maintain_order=True).row(0, named=True)
    low, high = f"{widest['low']:.0%}", f"{widest['high']:.0%}"
    facts |= {"swings from": low, "swings to": high}
    others = [name for name in wide["model"].unique(maintain_order=True) if name != widest["model"]]
    also = f" (it also swings in {joined(others, MOST_CASES)})" if others else ""
    facts["other models that swing"] = len(others) - MOST_CASES
    return (
        f"During training of {widest['model']} the share of {widest['answer']} among the answers swings between {low} "
        f"and {high}{also}, which moves the accuracies of all test sets together."
    )


def _auc_words(found: pl.DataFrame) -> str:
    """What auc is, with an answer of these test sets as an example."""
    answers = found["answer"].drop_nulls()
    answer = answers[0] if answers.len() else "yes"
    return (
        f"auc is how often a question whose answer is {answer} gets more probability of {answer} than one whose answer "
        "is not, whatever the leaning; 50% is guessing."
    )


def _bias_of_last(known: pl.DataFrame) -> Verdict:
    """The verdict on models that were evaluated once."""
    half, lean = known["dprime"].to_numpy() / 2, known["criterion"].to_numpy()
    error = (known["criterion_high"] - known["criterion_low"]).to_numpy() / (2 * NORMAL)
    q = benjamini_hochberg(2 * special.ndtr(-np.abs(lean) / np.maximum(error, 1e-12)))
    cost = special.ndtr(half) - (special.ndtr(half - lean) + special.ndtr(half + lean)) / 2
    costly = (q < FINDING) & (cost >= WORTH_SEEING)
    found = known.with_columns(pl.Series("cost", cost)).filter(costly)
    found = found.sort("cost", descending=True, maintain_order=True)
    question = Question.ANSWER_BIAS
    facts: dict[str, float | str] = {"worth seeing": 5}
    if not found.height:
        models = known["model"].unique(maintain_order=True).to_list()
        facts["models"] = len(models)
        who = f"None of {count(len(models), 'model')} leans"
        if len(models) == 1:
            who = f"{models[0]} does not lean"
        reason = f"{who} so much to one answer that it would cost 5 points of accuracy."
        advice = "Accuracy can be compared as it is."
        return Verdict(Answer.NO, reason, question=question, advice=advice, facts=facts)
    answer = Answer.MIXED
    if found.height <= ALMOST_NONE * known.height:
        answer = Answer.NO
    elif found.height >= ALMOST_ALL * known.height:
        answer = Answer.YES
    row = found.row(0, named=True)
    said, lost = _share_of_answer(row), amount_text(row["cost"])
    facts |= {"share of the answer": said[1], "points lost": lost}
    reason = f"On {row['testset']}, {row['model']} says {said[0]} to {said[1]} of the questions, which costs it {lost}."
    if answer is Answer.NO:
        reason = f"Hardly anywhere, at most {reason[:1].lower()}{reason[1:]}"
    others = []
    for other in found.slice(1).iter_rows(named=True):
        others.append(f"{other['model']} on {other['testset']} ({amount_text(other['cost'])})")
    for number, text in enumerate(others[:MOST_CASES], start=2):
        facts[f"points lost, case {number}"] = text
    facts["other cases"] = len(others) - MOST_CASES
    findings = f"Leaning also costs accuracy in {joined(others, MOST_CASES)}." if others else ""
    advice = "Compare auc or d' instead of accuracy."
    if answer is Answer.NO:
        advice = "Accuracy can be compared elsewhere; compare auc or d' there."
    return Verdict(answer, reason, findings, question=question, advice=advice, facts=facts)


def _share_of_answer(row: Mapping[str, Any]) -> tuple[str, str]:
    """The answer that a model favours and its share; of two answers only the first is named in the table."""
    if row["criterion"] > 0:
        return row["answer"], f"only {row['share']:.0%}"
    return row["answer"], f"{row['share']:.0%}"


def _needed_words(changes: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """How much more data would show a change of accuracy through training."""
    runs = int(changes["runs"].max() or 1)  # type: ignore[arg-type]
    if runs == LEAST_OF_RECIPE:
        return "From two runs of a model it is hardly known how far runs differ: a third run of each would help most."
    times = times_more(float(changes["se"].median() or 0))  # type: ignore[arg-type]
    if times <= 1:
        return "Changes of 5 points would have been seen; smaller ones take more questions or runs."
    facts["worth seeing"] = 5
    if runs > LEAST_OF_RECIPE:
        facts |= {"runs": runs, "runs needed": about(times * runs)}
        return f"About {facts['runs needed']} runs of each model (now {runs}) would show a change of 5 points."
    questions = int(changes["n_items"].median() or 0)  # type: ignore[arg-type]
    facts |= {"questions": questions, "questions needed": about(times * questions)}
    return (
        f"About {facts['questions needed']} questions of each test set (now {questions:,}) would show a change of 5 "
        "points."
    )


def how_good(scores: pl.DataFrame) -> Verdict:
    """How good the models are at their last checkpoint, where no more can be said."""
    question, needed = Question.HOW_GOOD, _to_see_a_leaning(scores)
    last = last_scores(scores).drop_nulls("accuracy").sort("accuracy", descending=True, maintain_order=True)
    if not last.height:
        reason = "No test set has answers that can be scored."
        return Verdict(Answer.UNKNOWN, reason, needed=needed, computed=False, question=question)
    best, worst = last.row(0, named=True), last.row(-1, named=True)
    high, low = f"{best['accuracy']:.0%}", f"{worst['accuracy']:.0%}"
    facts: dict[str, float | str] = {"highest": high, "lowest": low}
    models, testsets = last["model"].n_unique(), last["testset"].n_unique()
    answer = high if high == low else f"{low} to {high}"
    within = ""
    if best["ci_low"] is not None:
        facts |= {"from": f"{best['ci_low']:.0%}", "to": f"{best['ci_high']:.0%}"}
        within = f"95% interval {100 * best['ci_low']:.0f} to {100 * best['ci_high']:.0f}"
    right = f"{high} of {count(best['n'], 'question')} right{bracketed(within)}"
    if models > 1:
        facts["models"] = models
    sentences = []
    if last.height == 1:
        reason = f"{best['model']} gets {right}."
    elif models == 1:
        reason = f"{best['model']} does best on {best['testset']}: {right}. It does worst on {worst['testset']}: {low}."
    elif testsets == 1:
        reason = f"{best['model']} has the highest score of {models:,} models: {right}."
        others = [f"{row['model']} ({row['accuracy']:.0%})" for row in last.slice(1).iter_rows(named=True)]
        if len(others) > MOST_OTHERS:
            facts["other models"] = len(others) - MOST_OTHERS
        sentences.append(f"The others from the best down: {joined(others, MOST_OTHERS)}.")
    else:
        reason = (
            f"{best['model']} has the highest score of {models:,} models, on {best['testset']}: {right}. The lowest is "
            f"that of {worst['model']} on {worst['testset']}: {low}."
        )
    sentences.append(_guessing_words(last, facts))
    findings = " ".join(filter(None, sentences))
    return Verdict(answer, reason, findings, needed, question=question, state=State.YES, facts=facts)


def _to_see_a_leaning(scores: pl.DataFrame) -> str:
    """What is missing to check whether models favour one answer."""
    if not scores["balanced"].is_not_null().any():
        return ADD_LABELS
    if not scores["answer"].is_not_null().any():
        return TWO_ANSWERS
    return ADD_QUESTIONS if scores["auc"].is_not_null().any() else ADD_MARGINS


def _guessing_words(last: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """Which models are not clearly above what guessing between two answers gives.

    How many answers there are is known where one of two has a share; without labels it is not.
    """
    two, unknown = pl.col("answer").is_not_null(), pl.col("balanced").is_null()
    may_guess = (pl.col("ci_low") <= GUESSING) & (pl.col("ci_high") >= GUESSING)
    rows = last.filter(may_guess & (two | unknown))
    if not rows.height:
        return ""
    facts["guessing"] = f"{GUESSING:.0%}"
    start = f"Guessing between two answers gives {GUESSING:.0%}"
    if rows["answer"].null_count():
        start = f"If the questions have two possible answers, guessing gives {GUESSING:.0%}"
    names = rows["model"].unique(maintain_order=True).to_list()
    facts["models like guessing"] = max(0, len(names) - MOST_CASES)
    where = ""
    if last["testset"].n_unique() > 1:
        sets = rows["testset"].unique(maintain_order=True).to_list()
        facts["test sets like guessing"] = max(0, len(sets) - MOST_CASES)
        where = f" on {joined(sets, MOST_CASES)}"
    return f"{start}: {joined(names, MOST_CASES)} may be no better than that{where}."


def last_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Scores of the last checkpoints per model and test set, as means over runs."""
    last = scores.filter(pl.col("step").eq_missing(pl.col("step").max().over("run")))
    names = [name for name in MEASURES if name in scores.columns]
    ends = [f"{name}_{end}" for name in names for end in ("low", "high")]
    ends = [name for name in ("ci_low", "ci_high", *ends) if name in scores.columns]
    means = last.group_by("model", "testset", "answer", maintain_order=True)
    frame = means.agg(pl.col("n").max(), pl.col(*names, *ends).mean(), runs=pl.col("run").n_unique())
    # Ends of intervals of several runs are no interval of their mean.
    alone = pl.col("runs") == 1
    return frame.with_columns(pl.when(alone).then(name).alias(name) for name in ends).drop("runs")


def _with_follows(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes with a word on whether a test set follows the in-domain one."""
    column = "auc_follows" if changes["auc"].is_not_null().any() else "follows"
    words = []
    for row in changes.iter_rows(named=True):
        if row["in_domain"]:
            words.append("in-domain")
        else:
            words.append(FOLLOWS_CELLS.get(row[column], row[column]))
    return changes.with_columns(follows_words=pl.Series(words, dtype=pl.String))


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
            f"Accuracy of {row['model']} on {row['testset']} {changed}, but it does not clearly tell right from "
            f"wrong better or worse (auc {points_text(row['auc'])}, {within}); it says {row['says_more']} more often."
        )
    wide = swings(checkpoints)
    for answer in wide["answer"].unique(maintain_order=True):
        own = wide.filter(pl.col("answer") == answer).select("model", "low", "high").iter_rows()
        models = joined([f"{low:.0%} to {high:.0%} in {model}" for model, low, high in own])
        lines.append(
            f"The share of {answer} among the answers, averaged over test sets, swings during training: from {models}. "
            "Such swings move the accuracies of all test sets together; auc does not move with them."
        )
    return lines


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
