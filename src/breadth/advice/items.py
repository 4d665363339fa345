"""``advise items`` and ``advise score``: a subset of the questions, and scores on all of them from answers to it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from breadth.advice.families import describe_target, mean_of_families
from breadth.advice.figures import errors_figure, scores_figure
from breadth.advice.references import (
    References,
    differ_beyond_chance,
    load_short_form,
    reference_models,
    save_short_form,
)
from breadth.advice.short_form import (
    Indices,
    ShortFormScorer,
    Trial,
    draw_from_strata,
    family_split,
    make_strata,
    random_split,
    strong_split,
    try_short_form,
)
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, Floats
from breadth.records import ROUND_SHARES
from breadth.results import Answer, Column, Columns, Question, Result, Shown, State, Verdict, as_chart
from breadth.results.words import agree, count, distance_text, joined, rounded_up
from breadth.sources import open_answers
from breadth.threads import one_blas_thread

if TYPE_CHECKING:
    import altair as alt

#: Splits of the models on which a short form is tried, of either kind.
SPLITS = 8

#: Fewest items of a short form: with fewer, intervals are too wide to be of use.
FEWEST_ITEMS = 10

#: Largest RMSE, and smallest coverage, with which items can stand for all.
LARGEST_ERROR, LEAST_COVERAGE = 0.05, 0.9

#: Kinds of new models whose errors are averaged over models; of other kinds, every family counts once.
ALL_ALIKE = ("like these", "stronger")

#: Of so many models, the share of 95 % is said: "19 of 20" is not taken for a number of questions.
MODELS_OF = 20

#: Mean score of the strongest models from which it lies near the top, where scores vary less.
NEAR_THE_TOP = 0.8

#: Checks of the assisted estimate, and what it means that one fails.
CHECKS = {
    "predicts": "others differ",
    "in_range": "out of range",
    "agrees": "others disagree",
}

ITEMS = Columns(
    Column("item", header="question", priority=1, meaning="A question of the subset."),
    Column("testset", header="test set", meaning="Its test set."),
    Column("p_correct", format="share", header="right", meaning="Share of the models that get it right."),
    Column("stratum", format="d", priority=4, meaning="The group of questions of like difficulty it was drawn from."),
    Column("weight", format=".4f", priority=3, meaning="What it counts in a score on all questions."),
)
ERRORS = Columns(
    Column("models", header="new models", priority=1, meaning="The kind of models whose scores were estimated."),
    Column(
        "within", format="percent", header="95 of 100 within", priority=1,
        meaning="Points by which the estimate is off for 95 of 100 of these models at most.",
    ),
    Column("rmse", format="percent", header="typical error", priority=1, meaning="Root mean squared error, in points."),
    Column(
        "plain_rmse", format="percent", header="without help", priority=3,
        meaning="The same where nothing is learnt from other models.",
    ),
    Column(
        "coverage", format="share", header="inside interval",
        meaning="Share of these models whose score on all questions lies in the 95% interval.",
    ),
    Column("assisted", format="share", header="helped", priority=3, meaning="Share that other models help with."),
    Column("n_models", format=",d", header="tried", priority=4, meaning="Models that were tried."),
)  # fmt: skip
SCORES = Columns(
    Column("subject", header="model", priority=1, meaning="The model."),
    Column("score", format="percent", header="% right", priority=1, meaning="Estimated score on all questions."),
    Column("ci_low", "ci_high", format="percent", priority=1, meaning="Where that score lies in 95 of 100 cases."),
    Column("estimate", meaning="assisted if other models helped, else plain: its own answers alone."),
    Column("plain", format="percent", header="on its own", priority=3, meaning="The score without other models' help."),
    Column("plain_low", "plain_high", format="percent", priority=4, meaning="The interval of that."),
    Column("assisted", format="percent", header="with help", priority=4, meaning="The score with their help."),
    Column("assisted_low", "assisted_high", format="percent", priority=4, meaning="The interval of that."),
    Column("predicts", format="flag", priority=4, meaning="Whether the other models predict each other."),
    Column("in_range", format="flag", header="in range", priority=4, meaning="Whether it scores like one of them."),
    Column("agrees", format="flag", priority=4, meaning="Whether both estimates agree."),
)

#: Why other models did not help, in a table of scores.
WHY_PLAIN = Column(
    "why", header="why plain", priority=3, words=True,
    meaning=(
        "Why other models did not help: others differ (they do not predict each other), out of range (the model scores "
        "unlike any of them), others disagree (with the interval of its own answers)."
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ShortForm(Result):
    """Items that stand for all, and how wrong scores from them are.

    ``items``: ``item, testset, p_correct, stratum, weight``, a row per chosen item. ``errors``: ``models`` (like these,
    stronger, or of another family where families are known), ``rmse``, ``plain_rmse``, ``coverage``, ``assisted``,
    ``n_models``, ``within`` (what 95 % of the absolute errors stay below): errors of full scores estimated from short
    forms of this size, on models that the short form was not made with. ``holds_for`` says which kind of model the
    intervals of scores are about.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"items": ITEMS, "errors": ERRORS}

    items: pl.DataFrame
    errors: pl.DataFrame
    references: References
    strata: Indices
    chosen: Indices
    warnings: tuple[str, ...] = ()

    @property
    def holds_for(self) -> str:
        """Which kind of model intervals are about: one like these, or one of another family."""
        return describe_target(self.references.column)

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The items, and the expected errors."""
        return {"items": self.items, "errors": self.errors}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file to score with (NPZ): the short form and the answers of the reference models."""
        inside = np.zeros(len(self.strata), dtype=np.bool_)
        inside[self.chosen] = True
        return save_short_form(path, self.references, self.strata, inside)

    def verdict(self) -> Verdict:
        """Can these items stand for all?

        The answer is how far off scores are. Its state is yes if the error on models like these, on stronger ones and,
        where families are known, on those of another family is at most 5 points, and intervals cover in 90 % of cases;
        mixed if it is on some of them; no if on none.
        """
        size, k = len(self.strata), self.items.height
        rows = self.errors.to_dicts()
        good = []
        for row in rows:
            good.append(row["rmse"] <= LARGEST_ERROR and row["coverage"] >= LEAST_COVERAGE)
        answer = Answer.NO
        if all(good):
            answer = Answer.YES
        elif any(good):
            answer = Answer.MIXED
        models, most = len(self.references.models), round(LEVEL * MODELS_OF)
        facts: dict[str, float | str] = {"questions of the subset": k, "all questions": size}
        facts |= {"models it was learnt from": models, "models within the error": f"{most} of {MODELS_OF}"}
        state = {Answer.YES: State.YES, Answer.MIXED: State.MIXED, Answer.NO: State.NO}[answer]
        like, *others = rows
        only = ""
        if answer is Answer.NO:
            only = "only "
        reason = (
            f"{k} questions chosen from these {size:,} give a model's score on all of them {only}within "
            f"{distance_text(like['within'])} (for {most} of {MODELS_OF} new models like the {models:,} here)."
        )
        findings = []
        for row in others:
            findings.append(f"For {_kind(row['models'])} it is {distance_text(row['within'])}{self._why(row, like)}.")
        covered = float(self.errors["coverage"].to_numpy().min())
        facts["models inside the interval"] = round(100 * covered)
        if covered < LEAST_COVERAGE:
            findings.append(
                f"The 95% intervals are too narrow: they hold the score of {round(100 * covered)}% of models."
            )
        return Verdict(
            f"Within {distance_text(like['within'])}", reason, " ".join(findings),
            self._more_questions(answer, facts), question=Question.SUBSET, advice=self._use(answer, facts),
            state=state, facts=facts,
        )  # fmt: skip

    def _why(self, row: Mapping[str, Any], like: Mapping[str, Any]) -> str:
        """Why the error of stronger models is another one, where that is known."""
        if row["models"] != ALL_ALIKE[1]:
            return ""
        scores = np.sort(self.references.matrix.mean(axis=1, dtype=np.float64))
        strong = float(scores[-max(1, len(scores) * 3 // 10) :].mean())
        if row["within"] > like["within"]:
            return ", because weaker models teach less about them"
        if row["within"] < like["within"] and strong >= NEAR_THE_TOP:
            return ", because near the top scores vary less"
        return ""

    def _use(self, answer: Answer, facts: dict[str, float | str]) -> str:
        """Which differences between models the subset shows, and where to find its questions."""
        # Each of two scores errs, and both errors together are so many times as large.
        seen = math.ceil(100 * math.sqrt(2) * float(self.errors["within"].to_numpy().max()))
        facts["difference that the subset shows, in points"] = seen
        use = "Good enough"
        if answer is Answer.NO:
            use = "Of use only"
        return (
            f"{use} to spot differences between models above about {seen} points; for smaller ones ask all questions. "
            "The table `items` lists the chosen ones."
        )

    def _more_questions(self, answer: Answer, facts: dict[str, float | str]) -> str:
        """How many questions would be enough; errors shrink with the square root of their number."""
        if answer is Answer.YES:
            return ""
        worst = float(self.errors["rmse"].to_numpy().max())
        if worst <= LARGEST_ERROR:
            return ""
        needed = self.items.height * (worst / LARGEST_ERROR) ** 2
        if needed > len(self.strata) / 2:
            return "No small part of the questions would be enough: use all of them."
        facts["questions that would be enough"] = rounded_up(needed)
        facts["largest typical error, in points"] = f"{100 * LARGEST_ERROR:g}"
        return f"About {rounded_up(needed)} questions would bring the typical error to {100 * LARGEST_ERROR:g} points."

    def shown(self) -> Sequence[Shown]:
        """The expected errors, a row per kind of new models."""
        title = f"How far off scores from {self.items.height} questions are, in points"
        return [Shown(title, self.errors, ERRORS)]

    def details(self) -> str:
        """How the questions were drawn, and how errors were measured."""
        models = len(self.references.models)
        held_out = ["a random quarter", "the strongest 30% predicted from the weaker half"]
        if self.references.column is not None:
            held_out.append(f"whole families left out ({self.references.column}, each counts once)")
        return (
            "The questions are a random sample, stratified by test set and by difficulty. Errors were measured on "
            f"held-out models, out of {count(models, 'model')}: {joined(held_out)}. Intervals that other models narrow "
            f"are about {self.holds_for}."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Expected error on models like these, on stronger ones and on those of another family."""
        return as_chart(errors_figure(), tables={"errors": self.errors})


short_form_verdict = ShortForm.verdict


def _kind(name: str) -> str:
    """A kind of new models, as a sentence names it."""
    if name == ALL_ALIKE[1]:
        return "models stronger than all of these"
    return f"models {name}"


@one_blas_thread
def advise_items(
    responses: Any,
    *,
    k: int = 100,
    cluster: str | None = None,
    seed: int = 0,
    round_shares: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ShortForm:
    """Choose k items that stand for all: a random sample, stratified by test set and difficulty.

    The expected error is measured on your own data. Again and again, a short form is made from some of the models and
    the full scores of others are estimated with it: of a random quarter (models like these), of the strongest 30 % from
    the weaker half (models stronger than all that are known) and, where a column names families, of families that were
    left out as a whole. Intervals are then about a model of another family.

    Do not use it to compare two models that are closer than the error, or to choose the best of many: evaluate those
    in full. Clever choices of items (most informative, adaptive) are more accurate only on models like the known ones,
    and badly wrong on stronger ones.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes, with at least 20 models that answered the same items, right or wrong.
    k
        Number of items.
    cluster
        Column of the models that says which of them belong together (family, base model, architecture), or ``none`` to
        take them as independent; by default a column of a usual name with at least four families is recognised.
    seed
        Seeds the sample.
    round_shares
        Whether to count shares from 0.5 on (ties, means of several tries) as right and others as wrong.
    progress
        Called with the number of trials done and their total.

    Examples
    --------
    >>> import breadth
    >>> from breadth.datasets import simulate_answers
    >>> form = breadth.advise_items(simulate_answers(60, 300).matrix, k=50)
    >>> form.items.height
    50
    """
    study = open_answers(responses).comparable().by_name()
    if round_shares:
        study = study.rounded()
    known = reference_models(study, cluster)
    models, size = known.matrix.shape
    if size < 2 * FEWEST_ITEMS:
        raise InputError(
            f"a subset takes at least {2 * FEWEST_ITEMS} questions that all models answered; there are {size}"
        )
    if not FEWEST_ITEMS <= k <= size // 2:
        raise InputError(f"-k is {k}; choose from {FEWEST_ITEMS} to {size // 2}, half of the {size:,} questions")
    scores = known.matrix.mean(axis=1, dtype=np.float64)
    if not differ_beyond_chance(known.matrix):
        raise InputError(
            f"the {models} reference models differ no more than by chance (scores {scores.min():.1%} to "
            f"{scores.max():.1%}), so nothing can be learnt from them; add models that do better than chance"
        )
    splits = _held_out_models(known, scores, seed)
    rows = []
    for kind, (name, parts) in enumerate(splits.items()):
        trials, groups = [], []
        for repeat, (learn, test) in enumerate(parts):
            trials.append(try_short_form(known.matrix, known.testset, k, learn, test, seed + repeat, known.family))
            # In the row about families every family that was left out counts once, in the others every model.
            group = np.arange(len(test), dtype=np.intp)
            if known.family is not None and name not in ALL_ALIKE:
                group = known.family[test]
            groups.append(group)
            if progress is not None:
                progress(kind * SPLITS + repeat + 1, SPLITS * len(splits))
        rows.append((name, *_mean_errors(trials, groups)))
    share = known.matrix.mean(axis=0, dtype=np.float64)
    strata = make_strata(share, known.testset, k)
    chosen = draw_from_strata(strata, k, seed)
    weight = np.bincount(strata) / np.bincount(strata[chosen]) / size
    items = pl.DataFrame(
        {
            "item": [known.items[j] for j in chosen],
            "testset": [known.testsets[j] for j in chosen],
            "p_correct": share[chosen],
            "stratum": strata[chosen],
            "weight": weight[strata[chosen]],
        }
    )
    names = ["models", "rmse", "plain_rmse", "coverage", "assisted", "n_models", "within"]
    errors = pl.DataFrame(rows, schema=names, orient="row")
    return ShortForm(items, errors, known, strata, chosen, known.warnings)


def _held_out_models(known: References, scores: Floats, seed: int) -> dict[str, list[tuple[Indices, Indices]]]:
    """For every kind of new model: which models to learn from and which to test on, in ``SPLITS`` repeats."""
    repeats = range(SPLITS)
    like, stronger = ALL_ALIKE
    splits = {
        like: [random_split(len(scores), seed + repeat) for repeat in repeats],
        stronger: [strong_split(scores) for _ in repeats],
    }
    if known.family is not None:
        splits[f"of another {known.column}"] = [family_split(known.family, seed + repeat) for repeat in repeats]
    return splits


def _mean_errors(trials: Sequence[Trial], groups: Sequence[Indices]) -> tuple[float, float, float, float, int, float]:
    """RMSE of the rule and of the plain estimate, coverage, share of assisted models, number; and what errors stay
    below for 95 % of models. Groups count once.
    """
    # A family that is left out in several trials is another group in each.
    numbers = [10**9 * trial + group for trial, group in enumerate(groups)]
    group = np.unique(np.concatenate(numbers), return_inverse=True)[1].astype(np.intp)
    every = Trial(*map(np.concatenate, zip(*trials, strict=True)))
    rmse = float(np.sqrt(mean_of_families(every.error**2, group).mean()))
    plain = float(np.sqrt(mean_of_families(every.plain_error**2, group).mean()))
    covered = float(mean_of_families(every.covered.astype(np.float64), group).mean())
    used = float(mean_of_families(every.used.astype(np.float64), group).mean())
    return rmse, plain, covered, used, len(every.error), _quantile_of_groups(np.abs(every.error), group)


def _quantile_of_groups(values: Floats, group: Indices) -> float:
    """What 95 % of the values stay below, if every group counts once."""
    order = np.argsort(values)
    weight = 1 / np.bincount(group)[group[order]]
    share = np.cumsum(weight) / weight.sum()
    place = min(int(np.searchsorted(share, LEVEL)), len(values) - 1)
    return float(values[order[place]])


@dataclass(frozen=True)
class ShortScores(Result):
    """Full scores estimated from a short form.

    ``scores``: ``subject, score, ci_low, ci_high, estimate`` (assisted or plain), ``plain, plain_low, plain_high,
    assisted, assisted_low, assisted_high, predicts, in_range, agrees``; the last three are the checks that the assisted
    estimate must pass. ``family`` is the column that names families of the reference models, None where they count as
    independent; ``holds_for`` says which kind of model assisted intervals are about. Plain ones hold for any model.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"scores": SCORES}

    scores: pl.DataFrame
    n_items: int
    n_all: int
    r2: float
    warnings: tuple[str, ...] = ()
    family: str | None = None

    @property
    def holds_for(self) -> str:
        """Which kind of model assisted intervals are about: one like the reference models, or of another family."""
        return describe_target(self.family)

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The scores."""
        return {"scores": self.scores}

    def verdict(self) -> Verdict:
        """What would the score on all items be? That of the best model, and how well scores are known.

        By the median half-width of their intervals: known up to 5 points, in part up to 10.
        """
        frame = self.scores
        half = frame.select(((pl.col("ci_high") - pl.col("ci_low")) / 2).median()).item() or 0.0
        facts: dict[str, float | str] = {"all questions": self.n_all, "questions of the subset": self.n_items}
        best = frame.sort("score", descending=True, maintain_order=True).row(0, named=True)
        score = f"{100 * best['score']:.1f}%"
        interval = f"95% interval {100 * best['ci_low']:.1f} to {100 * best['ci_high']:.1f}"
        state = State.NO
        if half <= LARGEST_ERROR:
            state = State.YES
        elif half <= 2 * LARGEST_ERROR:
            state = State.MIXED
        who, answer, findings = best["subject"], f"About {score}", ""
        lowest, highest = frame["score"].to_numpy().min(), frame["score"].to_numpy().max()
        if frame.height > 1:
            facts["models"] = frame.height
            facts["points to either side"] = f"{100 * half:.1f}"
            facts["cases inside the interval"] = f"{round(100 * LEVEL)} of 100"
            answer = f"{lowest:.0%} to {highest:.0%}"
            who = f"The best of {count(frame.height, 'model')}, {best['subject']},"
            findings = (
                f"The usual interval reaches {distance_text(half)} to either side; in {round(100 * LEVEL)} of 100 "
                "cases the score on all questions lies inside."
            )
        reason = (
            f"{who} would get about {score} of all {self.n_all:,} questions right ({interval}), judged by "
            f"{self.n_items} of them."
        )
        advice = "Answer all questions where models differ by less than these intervals reach."
        needed = "Answers to more of the questions would narrow the intervals."
        if state is State.YES:
            needed = ""
        return Verdict(
            answer, reason, findings, needed, question=Question.SUBSET_SCORE, advice=advice, state=state, facts=facts
        )

    def shown(self) -> Sequence[Shown]:
        """A row per model, and why other models did not help where they did not."""
        reasons: list[str | None] = []
        for row in self.scores.iter_rows(named=True):
            failed = None
            if row["estimate"] == "plain":
                failed = next((words for check, words in CHECKS.items() if not row[check]), None)
            reasons.append(failed)
        frame = self.scores.with_columns(pl.Series("why", reasons, dtype=pl.String))
        columns = (SCORES + Columns(WHY_PLAIN)).filled(frame)
        return [Shown(f"Scores on all {self.n_all:,} questions, in per cent", frame, columns)]

    def details(self) -> str:
        """Which estimate was used, and which checks passed."""
        frame = self.scores
        said = "do not"
        if frame["predicts"].all():
            said = "do"
        inside, agrees = int(frame["in_range"].sum()), int(frame["agrees"].sum())
        return (
            f"Other models help (assisted) where three checks pass: they {said} predict each other (R squared "
            f"{self.r2:.2f}); the model lies in their range ({inside} of {frame.height}); and the estimate agrees with "
            f"the interval of the model's own answers ({agrees}). Else it is the stratified mean of its own answers. "
            f"Assisted intervals are about {self.holds_for}, plain ones about any model."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Estimated scores with their intervals."""
        return as_chart(scores_figure(self.scores), tables={"scores": self.scores})


scores_verdict = ShortScores.verdict


def advise_score(
    short: str | os.PathLike[str] | ShortForm, responses: Any, *, round_shares: bool = False
) -> ShortScores:
    """Estimate full scores from answers to a short form, with 95 % intervals.

    The plain estimate, the mean of the strata, holds whatever the models are. The assisted one learns from reference
    models and is used only where its checks pass: see :class:`breadth.advice.ShortFormScorer`.

    Do not use it with items that were not drawn for the short form, or for models that were trained on them.

    Parameters
    ----------
    short
        A short form, or the file that ``breadth advise items`` wrote.
    responses
        Answers of the models to score: anything :func:`breadth.open` takes. Other items are ignored.
    round_shares
        Whether to count shares from 0.5 on (ties, means of several tries) as right and others as wrong.

    Examples
    --------
    >>> import breadth
    >>> from breadth.datasets import simulate_answers
    >>> answers = simulate_answers(80, 300).matrix
    >>> form = breadth.advise_items(answers[:60], k=50)
    >>> breadth.advise_score(form, answers[60:]).scores.height
    20
    """
    if isinstance(short, ShortForm):
        known, strata, chosen = short.references, short.strata, short.chosen
    else:
        known, strata, chosen = load_short_form(short)
    study = open_answers(responses)
    if round_shares:
        study = study.rounded()
    wanted = [known.items[j] for j in chosen]
    place = dict(zip(study.item_names, range(study.items.height), strict=True))
    missing = [name for name in wanted if name not in place]
    if missing:
        own = set(wanted)
        extra, other = [name for name in study.item_names if name not in own], ""
        if extra:
            other = f"; it has {len(extra):,} others ({listed(extra, 3)})"
        raise InputError(
            f"{study.name}: lacks {len(missing)} of the {len(wanted)} questions of the subset: {listed(missing, 5)}"
            f"{other}. A subset is scored with exactly its own questions"
        )
    columns = [place[name] for name in wanted]
    if study.matrix.dtype != np.int8:
        raise InputError(
            f"{study.name}: answers are shares; a subset is scored with right and wrong answers. {ROUND_SHARES}"
        )
    study = study.with_items(np.array(columns))  # in the order of the short form
    complete = np.asarray(study.answered.all(axis=1))
    if not complete.any():
        raise InputError(f"{study.name}: no model answered all {len(wanted)} questions of the subset")
    warnings, names = list(study.warnings), np.array(study.subject_names)
    if not complete.all():
        left = listed(names[~complete].tolist(), 3)
        number = int((~complete).sum())
        verb = agree(number, "is", "are")
        warnings.append(f"{count(number, 'model')} that did not answer all questions {verb} left out: {left}")
    scorer = ShortFormScorer.of(known.matrix, chosen, strata, known.family)
    estimate = scorer.score(study.matrix[complete])
    frame = pl.DataFrame(
        {
            "subject": names[complete].tolist(),
            "score": estimate.score,
            "ci_low": estimate.low,
            "ci_high": estimate.high,
            "estimate": np.where(estimate.used, "assisted", "plain"),
            "plain": estimate.plain.mean,
            "plain_low": estimate.plain.low,
            "plain_high": estimate.plain.high,
            "assisted": estimate.assisted,
            "assisted_low": estimate.assisted_low,
            "assisted_high": estimate.assisted_high,
            "predicts": estimate.predicts,
            "in_range": estimate.in_range,
            "agrees": estimate.agrees,
        }
    )
    return ShortScores(frame, len(chosen), len(strata), scorer.r2, tuple(warnings), known.column)
