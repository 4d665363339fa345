"""``advise items`` and ``advise score``: a short form of a test, and full scores from answers to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

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
from breadth.inference import Floats
from breadth.records import ROUND_SHARES
from breadth.results import Answer, Result, Verdict, as_chart
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count, joined
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

#: Checks of the assisted estimate, and what it means that one fails.
CHECKS = {"predicts": "references differ", "in_range": "out of range", "agrees": "disagrees"}


@dataclass(frozen=True, eq=False)
class ShortForm(Result):
    """Items that stand for all, and how wrong scores from them are.

    ``items``: ``item, testset, p_correct, stratum, weight``, a row per chosen item. ``errors``: ``models`` (like these,
    stronger, or of another family where families are known), ``rmse``, ``plain_rmse``, ``coverage``, ``assisted``,
    ``n_models``: errors of full scores estimated from short forms of this size, on models that the short form was not
    made with. ``holds_for`` says which kind of model the intervals of scores are about.
    """

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

        Yes: the error on models like these, on stronger ones and, where families are known, on those of another family
        is at most 5 points, and intervals cover in 90 % of cases. It depends: on some of them. No: on none.
        """
        size, k = len(self.strata), self.items.height
        rows = self.errors.to_dicts()
        good = [row["rmse"] <= LARGEST_ERROR and row["coverage"] >= LEAST_COVERAGE for row in rows]
        answer = Answer.NO
        if all(good):
            answer = Answer.YES
        elif any(good):
            answer = Answer.DEPENDS
        like, strong = rows[0], rows[1]
        within = [
            f"{100 * like['rmse']:.1f} points on models like these",
            f"{100 * strong['rmse']:.1f} on stronger ones",
        ]
        within += [f"{100 * row['rmse']:.1f} on those {row['models']}" for row in rows[2:]]
        reason = f"{k} of {size:,} items give the full score within {joined(within)} (root mean square)."
        covered = joined([f"{row['coverage']:.0%}" for row in rows])
        covers = f"95% intervals hold the full score in {covered} of cases."
        needed = "" if answer is Answer.YES else "Choose more items (-k) for a smaller error."
        return Verdict(answer, reason, covers, needed)

    def details(self) -> str:
        """How the items were drawn, and how errors were measured."""
        models = len(self.references.models)
        held_out = ["a random quarter", "the strongest 30% predicted from the weaker half"]
        if self.references.column is not None:
            held_out.append(f"whole families left out ({self.references.column}, each counts once)")
        plain = joined([f"{100 * error:.1f}" for error in self.errors["plain_rmse"]])
        helped = joined([f"{share:.0%}" for share in self.errors["assisted"]])
        return (
            "The items are a random sample, stratified by test set and by difficulty. Errors were measured on "
            f"held-out models, out of {count(models, 'model')}: {joined(held_out)}. The mean of the strata alone would "
            f"err by {plain} points; reference models helped {helped} of models. Intervals that reference models "
            f"narrow are about {self.holds_for}."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Expected error on models like these, on stronger ones and on those of another family."""
        return as_chart(errors_figure(), tables={"errors": self.errors})


short_form_verdict = ShortForm.verdict


def errors_table(errors: pl.DataFrame, width: int = WIDTH) -> Table:
    """Expected errors in points."""
    table = make_table("Expected error in points", ["models"], ["RMSE", "plain", "coverage", "assisted"], width)
    for row in errors.iter_rows(named=True):
        numbers = (f"{100 * row['rmse']:.1f}", f"{100 * row['plain_rmse']:.1f}")
        table.add_row(Text(row["models"]), *numbers, f"{row['coverage']:.0%}", f"{row['assisted']:.0%}")
    return table


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
            f"a short form takes at least {2 * FEWEST_ITEMS} items that all models answered; it has {size}"
        )
    if not FEWEST_ITEMS <= k <= size // 2:
        raise InputError(f"-k is {k}; choose from {FEWEST_ITEMS} to {size // 2}, half of the {size:,} items")
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
    names = ["models", "rmse", "plain_rmse", "coverage", "assisted", "n_models"]
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


def _mean_errors(trials: Sequence[Trial], groups: Sequence[Indices]) -> tuple[float, float, float, float, int]:
    """RMSE of the rule and of the plain estimate, coverage, share of assisted models, number; groups count once."""
    # A family that is left out in several trials is another group in each.
    numbers = [10**9 * trial + group for trial, group in enumerate(groups)]
    group = np.unique(np.concatenate(numbers), return_inverse=True)[1].astype(np.intp)
    squares = np.concatenate([trial.error**2 for trial in trials])
    plain = np.concatenate([trial.plain_error**2 for trial in trials])
    covered = np.concatenate([trial.covered for trial in trials]).astype(np.float64)
    used = np.concatenate([trial.used for trial in trials]).astype(np.float64)
    means = [float(mean_of_families(values, group).mean()) for values in (squares, plain, covered, used)]
    return float(np.sqrt(means[0])), float(np.sqrt(means[1])), means[2], means[3], len(squares)


@dataclass(frozen=True)
class ShortScores(Result):
    """Full scores estimated from a short form.

    ``scores``: ``subject, score, ci_low, ci_high, estimate`` (assisted or plain), ``plain, plain_low, plain_high,
    assisted, assisted_low, assisted_high, predicts, in_range, agrees``; the last three are the checks that the assisted
    estimate must pass. ``family`` is the column that names families of the reference models, None where they count as
    independent; ``holds_for`` says which kind of model assisted intervals are about. Plain ones hold for any model.
    """

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
        """Are the full scores known? By the median half-width of their intervals: yes up to 5 points, no beyond 10."""
        frame = self.scores
        half = frame.select(((pl.col("ci_high") - pl.col("ci_low")) / 2).median()).item() or 0.0
        helped = frame.filter(pl.col("estimate") == "assisted").height
        reason = (
            f"the full score of {count(frame.height, 'model')} on {self.n_all:,} items is known within "
            f"{100 * half:.1f} points from {self.n_items} items (median half-width of 95% intervals)."
        )
        line = f"Reference models helped for {helped} of {frame.height}; the others have the plain mean of the strata."
        needed = "" if half <= LARGEST_ERROR else "A short form of more items narrows the intervals."
        answer = Answer.YES if half <= LARGEST_ERROR else Answer.DEPENDS if half <= 2 * LARGEST_ERROR else Answer.NO
        return Verdict(answer, reason, line, needed)

    def details(self) -> str:
        """Which estimate was used, and which checks passed."""
        frame = self.scores
        said = "do" if frame["predicts"].all() else "do not"
        inside, agrees = int(frame["in_range"].sum()), int(frame["agrees"].sum())
        return (
            f"The assisted estimate is used where three checks pass: the reference models {said} predict each other (R "
            f"squared {self.r2:.2f}); {inside} of {frame.height} lie in their range; {agrees} agree with the plain "
            f"estimate's interval. Assisted intervals are about {self.holds_for}, plain ones about any model."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Estimated scores with their intervals."""
        return as_chart(scores_figure(self.scores), tables={"scores": self.scores})


scores_verdict = ShortScores.verdict


def short_scores_table(result: ShortScores, width: int = WIDTH) -> Table:
    """A row per model: estimate, interval, which estimate, and the check that failed if one did."""
    frame = result.scores
    title = "Full scores in per cent" + (
        f": the first {MOST_ROWS} of {frame.height}" if frame.height > MOST_ROWS else ""
    )
    table = make_table(title, ["model", "estimate", "failed check"], ["score", "interval", "plain"], width)
    for row in frame.head(MOST_ROWS).iter_rows(named=True):
        failed = next((words for key, words in CHECKS.items() if not row[key]), "-")
        span = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"
        numbers = (f"{100 * row['score']:.1f}", span, f"{100 * row['plain']:.1f}")
        table.add_row(Text(row["subject"]), row["estimate"], failed, *numbers)
    return table


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
    place = {name: j for j, name in enumerate(study.item_names)}
    if missing := [name for name in wanted if name not in place]:
        own = set(wanted)
        extra = [name for name in study.item_names if name not in own]
        other = f"; it has {len(extra):,} others ({listed(extra, 3)})" if extra else ""
        raise InputError(
            f"{study.name}: lacks {len(missing)} of the {len(wanted)} items of the short form: {listed(missing, 5)}"
            f"{other}. A short form is scored with exactly its own items"
        )
    columns = [place[name] for name in wanted]
    if study.matrix.dtype != np.int8:
        raise InputError(
            f"{study.name}: answers are shares; a short form is scored with right and wrong answers. {ROUND_SHARES}"
        )
    study = study.with_items(np.array(columns))  # in the order of the short form
    complete = np.asarray(study.answered.all(axis=1))
    if not complete.any():
        raise InputError(f"{study.name}: no subject answered all {len(wanted)} items of the short form")
    warnings = list(study.warnings)
    if not complete.all():
        left = listed([name for name, full in zip(study.subject_names, complete, strict=True) if not full], 3)
        warnings.append(f"{int((~complete).sum())} subjects that did not answer all items are left out: {left}")
    scorer = ShortFormScorer.of(known.matrix, chosen, strata, known.family)
    estimate = scorer.score(study.matrix[complete])
    frame = pl.DataFrame(
        {
            "subject": [name for name, full in zip(study.subject_names, complete, strict=True) if full],
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
