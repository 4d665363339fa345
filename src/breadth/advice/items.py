"""``advise items`` and ``advise score``: a short form of a test, and full scores from answers to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

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
    Scorer,
    draw_items,
    make_strata,
    random_split,
    strong_split,
    try_short_form,
)
from breadth.errors import InputError, listed
from breadth.records import open_answers
from breadth.results import Answer, Result, Verdict, as_chart
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count

if TYPE_CHECKING:
    import altair as alt

#: Splits of the models on which a short form is tried, of either kind.
SPLITS = 8

#: Fewest items of a short form: with fewer, intervals are too wide to be of use.
FEWEST_ITEMS = 10

#: Largest RMSE, and smallest coverage, with which items can stand for all.
LARGEST_ERROR, LEAST_COVERAGE = 0.05, 0.9

#: Checks of the assisted estimate, and what it means that one fails.
CHECKS = {"predicts": "references differ", "in_range": "out of range", "agrees": "disagrees"}


@dataclass(frozen=True, eq=False)
class ShortForm(Result):
    """Items that stand for all, and how wrong scores from them are.

    ``items``: ``item, testset, p_correct, stratum, weight``, a row per chosen item. ``errors``: ``models`` (like these,
    or stronger), ``rmse``, ``plain_rmse``, ``coverage``, ``assisted``, ``n_models``: errors of full scores estimated
    from short forms of this size, on models that the short form was not made with.
    """

    items: pl.DataFrame
    errors: pl.DataFrame
    references: References
    strata: Indices
    chosen: Indices
    warnings: tuple[str, ...] = ()

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

        Yes: the error on models like these and on stronger ones is at most 5 points, and intervals cover in 90 % of
        cases. It depends: on one of the two. No: on neither.
        """
        size, k = len(self.strata), self.items.height
        rows = {row["models"]: row for row in self.errors.iter_rows(named=True)}
        good = [row["rmse"] <= LARGEST_ERROR and row["coverage"] >= LEAST_COVERAGE for row in rows.values()]
        answer = Answer.YES if all(good) else Answer.DEPENDS if any(good) else Answer.NO
        like, strong = rows["like these"], rows["stronger"]
        reason = (
            f"{k} of {size:,} items give the full score within {100 * like['rmse']:.1f} points on models like these, "
            f"and within {100 * strong['rmse']:.1f} on stronger ones (root mean square)."
        )
        covers = f"95% intervals hold the full score in {like['coverage']:.0%} and {strong['coverage']:.0%} of cases."
        needed = "" if answer is Answer.YES else "Choose more items (-k) for a smaller error."
        return Verdict(answer, reason, covers, needed)

    def details(self) -> str:
        """How the items were drawn, and how errors were measured."""
        models = len(self.references.models)
        like, strong = self.errors.iter_rows(named=True)
        return (
            "The items are a random sample, stratified by test set and by difficulty. Errors were measured on "
            f"held-out models, out of {count(models, 'model')}: a random quarter, and the strongest 30% predicted from "
            f"the weaker half. The mean of the strata alone would err by {100 * like['plain_rmse']:.1f} and "
            f"{100 * strong['plain_rmse']:.1f} points; reference models helped {like['assisted']:.0%} and "
            f"{strong['assisted']:.0%} of models."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Expected error on models like these and on stronger ones."""
        return as_chart(errors_figure(), tables={"errors": self.errors})


short_form_verdict = ShortForm.verdict


def errors_table(errors: pl.DataFrame, width: int = WIDTH) -> Table:
    """Expected errors in points."""
    table = make_table("Expected error in points", ["models"], ["RMSE", "plain", "coverage", "assisted"], width)
    for row in errors.iter_rows(named=True):
        numbers = (f"{100 * row['rmse']:.1f}", f"{100 * row['plain_rmse']:.1f}")
        table.add_row(Text(row["models"]), *numbers, f"{row['coverage']:.0%}", f"{row['assisted']:.0%}")
    return table


def advise_items(
    responses: Any, *, k: int = 100, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> ShortForm:
    """Choose k items that stand for all: a random sample, stratified by test set and difficulty.

    The expected error is measured on your own data. Again and again, a short form is made from some of the models and
    the full scores of others are estimated with it: of a random quarter (models like these), and of the strongest
    30 % from the weaker half (models stronger than all that are known).

    Do not use it to compare two models that are closer than the error, or to choose the best of many: evaluate those
    in full. Clever choices of items (most informative, adaptive) are more accurate only on models like the known ones,
    and badly wrong on stronger ones.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes, with at least 20 models that answered the same items, right or wrong.
    k
        Number of items.
    seed
        Seeds the sample.
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
    known = reference_models(open_answers(responses))
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
    rows = []
    for number, name in enumerate(("like these", "stronger")):
        trials = []
        for repeat in range(SPLITS):
            learn, test = strong_split(scores) if number else random_split(models, seed + repeat)
            trials.append(try_short_form(known.matrix, known.testset, k, learn, test, seed + repeat))
            if progress is not None:
                progress(number * SPLITS + repeat + 1, 2 * SPLITS)
        error, plain, covered, used = (np.concatenate(part) for part in zip(*trials, strict=True))
        root = (float(np.sqrt((values**2).mean())) for values in (error, plain))
        rows.append((name, *root, float(covered.mean()), float(used.mean()), len(error)))
    share = known.matrix.mean(axis=0, dtype=np.float64)
    strata = make_strata(share, known.testset, k)
    chosen = draw_items(strata, k, seed)
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


@dataclass(frozen=True)
class ShortScores(Result):
    """Full scores estimated from a short form.

    ``scores``: ``subject, score, ci_low, ci_high, estimate`` (assisted or plain), ``plain, plain_low, plain_high,
    assisted, assisted_low, assisted_high, predicts, in_range, agrees``; the last three are the checks that the assisted
    estimate must pass.
    """

    scores: pl.DataFrame
    n_items: int
    n_all: int
    r2: float
    warnings: tuple[str, ...] = ()

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
            "estimate's interval."
        )

    def figure(self) -> alt.TopLevelMixin:
        """Estimated scores with their intervals."""
        return as_chart(scores_figure(self.scores), tables={"scores": self.scores})


scores_verdict = ShortScores.verdict


def scores_table(result: ShortScores, width: int = WIDTH) -> Table:
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


def advise_score(short: str | os.PathLike[str] | ShortForm, responses: Any) -> ShortScores:
    """Estimate full scores from answers to a short form, with 95 % intervals.

    The plain estimate, the mean of the strata, holds whatever the models are. The assisted one learns from reference
    models and is used only where its checks pass: see :class:`breadth.advice.Scorer`.

    Do not use it with items that were not drawn for the short form, or for models that were trained on them.

    Parameters
    ----------
    short
        A short form, or the file that ``breadth advise items`` wrote.
    responses
        Answers of the models to score: anything :func:`breadth.open` takes. Other items are ignored.

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
    wanted = [known.items[j] for j in chosen]
    place = {name: j for j, name in enumerate(study.item_names)}
    if missing := [name for name in wanted if name not in place]:
        extra = [name for name in study.item_names if name not in set(wanted)]
        other = f"; it has {len(extra):,} others ({listed(extra, 3)})" if extra else ""
        raise InputError(
            f"{study.name}: lacks {len(missing)} of the {len(wanted)} items of the short form: {listed(missing, 5)}"
            f"{other}. A short form is scored with exactly its own items"
        )
    columns = [place[name] for name in wanted]
    if study.matrix.dtype != np.int8:
        raise InputError(f"{study.name}: answers are shares; a short form is scored with right and wrong answers")
    complete = np.asarray(study.answered[:, columns].all(axis=1))
    if not complete.any():
        raise InputError(f"{study.name}: no subject answered all {len(wanted)} items of the short form")
    warnings = list(study.warnings)
    if not complete.all():
        left = listed([name for name, full in zip(study.subject_names, complete, strict=True) if not full], 3)
        warnings.append(f"{int((~complete).sum())} subjects that did not answer all items are left out: {left}")
    scorer = Scorer.of(known.matrix, chosen, strata)
    estimate = scorer.score(study.matrix[complete][:, columns])
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
    return ShortScores(frame, len(chosen), len(strata), scorer.r2, tuple(warnings))
