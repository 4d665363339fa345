"""``advise testsets``: which test sets can be dropped, because the others predict them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from breadth.advice.families import Families, describe_target, find_families, limit_to_families
from breadth.advice.figures import steps_figure
from breadth.advice.prediction import Bools, Predictor, affordable_trials, choose_sets
from breadth.advice.references import FEWEST_MODELS, differ_beyond_chance
from breadth.advice.short_form import Indices
from breadth.comparison import final_groups
from breadth.errors import InputError, did_you_mean, listed, unknown_column
from breadth.inference import NORMAL, Floats
from breadth.records import Study
from breadth.results import Column, Columns, Question, Result, Shown, State, Verdict, as_chart
from breadth.results.words import agree, count, joined, number_word
from breadth.sources import ScoreTable, open_source, read_table
from breadth.threads import one_blas_thread

if TYPE_CHECKING:
    import altair as alt

#: Columns that say when a model appeared, and that name it.
DATES = ("date", "release_date", "released", "submitted", "submission_date", "uploaded", "created")
NAMES = ("model", "model_name", "subject", "run", "name", "fullname")

#: A perfect score, in points.
PERCENT = 100.0

#: Models that are named to get back into range.
MOST_NAMED = 10

#: Test sets, and models, that a verdict names.
MOST_SETS, MOST_MODELS = 6, 3

STEPS = Columns(
    Column("n", format="d", header="test sets", priority=1, meaning="How many test sets are known."),
    Column("testset", header="add", priority=1, bold="kept", meaning="The test set that is best added next."),
    Column("rmse", format=".1f", header="typical error", priority=1, meaning="Of predicting all others, in points."),
    Column("worst_testset", header="worst", meaning="The test set that is predicted worst."),
    Column("worst", format=".1f", header="its error", meaning="The typical error of that one, in points."),
)
PREDICTIONS = Columns(
    Column("model", priority=1, meaning="The model."),
    Column("testset", header="test set", priority=1, meaning="A test set that the model was not evaluated on."),
    Column("score", format=".1f", priority=1, meaning="Its predicted score; a dash where it cannot be predicted."),
    Column("ci_low", "ci_high", format=".1f", priority=1, meaning="Where that score lies in 95 of 100 cases."),
    Column(
        "in_range", format="flag", header="in range", priority=3,
        meaning="Whether the model scores like the others; the score of one that does not is not predicted.",
    ),
)  # fmt: skip


#: The share of the spread of models up to which an error of predictions is called small.
SMALL_ERROR = 0.5


class ModelScores(NamedTuple):
    """Scores [models, test sets] in points, NaN where a model was not evaluated; oldest models first if ``dated``.

    ``families`` are those of the models; None where they count as independent.
    """

    scores: Floats
    models: list[str]
    testsets: list[str]
    dated: bool
    name: str
    warnings: tuple[str, ...]
    families: Families | None = None
    family_warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictionAdvice(Result):
    """Which test sets to keep.

    ``steps``: ``n, testset, rmse, worst, worst_testset``: test sets in the order in which they are best added, and the
    error in points of predicting all others once they are known. ``chosen`` are those that are enough for the error
    asked for. ``predictions``: ``model, testset, score, ci_low, ci_high, in_range`` of sets that a model was not
    evaluated on; the score is null where it lies outside the range of the reference models. ``evaluate``: models to
    evaluate in full to get back into range. ``family`` is the column that names families, None where models count as
    independent; ``holds_for`` says which kind of model errors and intervals are about.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"steps": STEPS, "predictions": PREDICTIONS}

    steps: pl.DataFrame
    predictions: pl.DataFrame
    chosen: tuple[str, ...]
    error: float
    reached: bool
    n_models: int
    dated: bool
    evaluate: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    family: str | None = None
    n_families: int | None = None
    #: How far models lie apart on every test set (standard deviation, in points).
    spreads: Mapping[str, float] = field(default_factory=dict)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The test sets that need not be evaluated, if those chosen are enough; in the order of their names."""
        if not self.reached:
            return ()
        return tuple(sorted(self._testsets - set(self.chosen)))

    @property
    def _testsets(self) -> set[str]:
        """All test sets; the one that is never added is predicted from all others."""
        return {*self.steps["testset"], self.steps["worst_testset"][-1]}

    @property
    def holds_for(self) -> str:
        """Which kind of model errors and intervals are about: one like these, or one of another family."""
        return describe_target(self.family)

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The steps, and the predictions."""
        return {"steps": self.steps, "predictions": self.predictions}

    def verdict(self) -> Verdict:
        """Which test sets can be dropped? Those that the others predict within the error; none if there is none."""
        allowed = f"{self.error:g}"
        facts: dict[str, float | str] = {"test sets": len(self._testsets), "error that is allowed, in points": allowed}
        if not self.reached:
            return self._none_dropped(facts)
        last = self.steps.row(len(self.chosen) - 1, named=True)
        dropped = self.dropped
        it, verb = agree(len(dropped), "it", "them"), agree(len(self.chosen), "predicts", "predict")
        if len(dropped) > MOST_SETS:
            facts["test sets that can be dropped, besides those named"] = len(dropped) - MOST_SETS
        kept = self._kept(self.chosen, facts)
        reason = (
            f"You can drop {joined(dropped, MOST_SETS)}: {kept} {verb} {it} with a typical error of {last['rmse']:.1f} "
            "points."
        )
        worst = last["worst_testset"]
        findings = []
        if len(dropped) > 1:
            findings.append(f"Hardest to predict is {worst}: {last['worst']:.1f} points.")
        if worst in self.spreads:
            spread = self.spreads[worst]
            facts[f"standard deviation of {worst}, in points"] = f"{spread:.1f}"
            small = "That is small"
            if last["worst"] > SMALL_ERROR * spread:
                small = "That is not small"
            findings.append(
                f"{small} beside how far these models differ on {worst}: by {spread:.1f} points (standard deviation)."
            )
        if self.family is not None:
            findings.append(f"This holds for models of another {self.family}, too.")
        # Each of two predictions errs, and in 95 of 100 cases by no more than so many standard errors together.
        close = math.ceil(NORMAL * math.sqrt(2) * last["worst"])
        facts["difference of two predictions that may be chance, in points"] = close
        advice = (
            f"If the predicted scores of two models on {worst} differ by less than about {close} points, either may be "
            "better: evaluate both."
        )
        answer = joined(dropped, MOST_MODELS)
        return Verdict(
            answer, reason, " ".join(findings), self._still_missing(facts), question=Question.DROP, advice=advice,
            facts=facts,
        )  # fmt: skip

    def _none_dropped(self, facts: dict[str, float | str]) -> Verdict:
        """That the others do not predict any test set well enough, and how well they do at best."""
        best = self.steps.sort("rmse").row(0, named=True)
        known = self.steps["testset"].head(best["n"]).to_list()
        left = sorted(self._testsets - set(known))
        allowed = facts["error that is allowed, in points"]
        verb = agree(len(known), "predicts", "predict")
        reason = (
            f"None can be dropped: at best, {self._kept(known, facts)} {verb} {joined(left, MOST_SETS)} with a typical "
            f"error of {best['rmse']:.1f} points, more than the {allowed} allowed."
        )
        enough = f"{math.ceil(10 * best['rmse']) / 10:g}"
        facts["error with which some can be dropped, in points"] = enough
        advice = f"Evaluate on all of them, or allow an error of {enough} points."
        return Verdict(
            "None", reason, "", self._still_missing(facts), question=Question.DROP, advice=advice, state=State.NO,
            facts=facts,
        )  # fmt: skip

    def _kept(self, names: Sequence[str], facts: dict[str, float | str]) -> str:
        """The test sets from which others are predicted: by name, or "the other five" where they are many."""
        if len(names) <= MOST_MODELS:
            return joined(names)
        facts["test sets that predict the others"] = len(names)
        return f"the other {number_word(len(names))}"

    def _still_missing(self, facts: dict[str, float | str]) -> str:
        """Which missing scores are not predicted, and what would change that."""
        refused = self.predictions.filter(~pl.col("in_range")).height
        if not refused or not self.evaluate:
            return ""
        facts["missing scores that cannot be predicted"] = refused
        facts["missing scores"] = self.predictions.height
        facts["models to evaluate, besides those named"] = max(len(self.evaluate) - MOST_MODELS, 0)
        return (
            f"{refused:,} of {count(self.predictions.height, 'missing score')} cannot be predicted, because their "
            f"models score unlike the others: evaluate {joined(self.evaluate, MOST_MODELS)} on all test sets."
        )

    def shown(self) -> Sequence[Shown]:
        """Test sets in the order in which they are added, and the scores that are predicted."""
        kept, note = pl.lit(False), ""
        if self.reached:
            kept, note = pl.col("n") <= len(self.chosen), "Bold: enough to predict the others."
        steps = self.steps.with_columns(kept.alias("kept"))
        tables = [Shown("How well the test sets so far predict the others, in points", steps, STEPS, note=note)]
        if self.predictions.height:
            title = f"Predicted scores, with intervals for {self.holds_for}"
            tables.append(Shown(title, self.predictions, PREDICTIONS))
        return tables

    def details(self) -> str:
        """How errors were measured, and what a prediction is refused for."""
        parts = [
            f"Errors are root mean squares over {self._held_out()}, out of {count(self.n_models, 'model')} with all "
            "test sets."
        ]
        if self.predictions.height:
            parts.append(
                f"Intervals are for {self.holds_for}. Scores of models outside the range of the others are not "
                "predicted."
            )
        return " ".join(parts)

    def _held_out(self) -> str:
        later = "later models predicted from earlier ones"
        if self.family is None and self.dated:
            return later
        if self.family is None:
            return "models that were held out, at random"
        whole = f"models of another {self.family} ({self.n_families} were left out in turn; each counts once)"
        if self.dated:
            return f"{whole} or of {later}, whichever are larger"
        return whole

    def figure(self) -> alt.TopLevelMixin:
        """Error of predicting the others by the number of test sets."""
        return as_chart(steps_figure(self.steps, self.error), tables={"steps": self.steps})


prediction_verdict = PredictionAdvice.verdict


@one_blas_thread
def advise_testsets(
    source: Any,
    *,
    error: float = 3.0,
    date: str | None = None,
    testsets: str | Sequence[str] | None = None,
    cluster: str | None = None,
) -> PredictionAdvice:
    """Find the smallest set of test sets from which the others are predicted within an error.

    Test sets are added greedily. Errors are those of models that were held out: later models predicted from earlier
    ones where a column says when a model appeared; models of families that were left out as a whole where a column
    names families; else random parts of the models. Models that lack some test sets get predictions, with 95 %
    intervals, where they lie in the range of the models that have all. With families, errors and intervals are about a
    model of another family, and every family counts once, however many models it has.

    Do not use it to drop a test set because of what it measures: predicted scores say nothing about how a model that is
    unlike the others does on it. Models that are stronger than all known ones are refused.

    Parameters
    ----------
    source
        A table of scores with a row per model, or anything :func:`breadth.open` takes; at least 20 models with all
        test sets.
    error
        Root mean squared error in points that is good enough.
    date
        Column that says when a model appeared; by default one called date, released, submitted or the like.
    testsets
        Columns of scores, where they are not recognised.
    cluster
        Column that says which models belong together (family, base model, architecture), or ``none`` to take models as
        independent; by default a column of a usual name with at least four families is recognised. Models whose family
        is not known are not learnt from.

    Examples
    --------
    >>> import breadth, numpy as np, polars as pl
    >>> ability, noise = np.random.default_rng(0).normal(60, 10, (200, 1)), np.random.default_rng(1)
    >>> scores = np.column_stack([ability + noise.normal(0, 1, (200, 3)), noise.normal(50, 10, (200, 1))])
    >>> frame = pl.DataFrame(scores, schema=["a", "b", "c", "d"]).with_row_index("model")
    >>> sorted(breadth.advise_testsets(frame).chosen)
    ['b', 'd']
    """
    if not error > 0:
        raise InputError(f"--error is {error:g}; choose a number of points above 0")
    table = read_scores(source, date, testsets, cluster)
    complete = np.asarray(~np.isnan(table.scores).any(axis=1))
    if complete.sum() < FEWEST_MODELS:
        remedy = "Add models"
        if len(table.models) >= FEWEST_MODELS:
            remedy = "Leave out test sets that few models have, with --testsets"
        raise InputError(
            f"{table.name}: {int(complete.sum())} models have scores on all {len(table.testsets)} test sets; "
            f"predicting takes at least {FEWEST_MODELS}. {remedy}"
        )
    reference, family, warnings = limit_to_families(table.families, complete, FEWEST_MODELS, cluster, table.name)
    # Where families turn out not to be usable, what was said of them no longer holds.
    warnings = [*table.warnings, *(warnings or table.family_warnings)]
    scores = table.scores[reference]
    names = np.array(table.testsets)
    still = names[scores.std(axis=0) < 1e-9].tolist()
    if still:
        raise InputError(f"{table.name}: all models have one score on {listed(still)}; leave it out with --testsets")
    shares = np.array(_predictable_shares(scores))
    unrelated = names[: len(shares)][shares <= 0].tolist()
    if unrelated:
        warnings.append(
            f"{listed(unrelated)}: the other test sets say nothing about it; it measures something else, or models are "
            "at chance there"
        )
    steps = choose_sets(scores, table.dated, family=family)
    rows = []
    enough = 0
    for number, step in enumerate(steps, start=1):
        worst = int(np.nanargmax(step.each))
        rows.append((number, table.testsets[step.added], step.error, float(step.each[worst]), table.testsets[worst]))
        if not enough and step.error <= error:
            enough = number
    frame = pl.DataFrame(rows, schema=["n", "testset", "rmse", "worst", "worst_testset"], orient="row")
    chosen = tuple(frame["testset"].head(enough or len(steps)))
    predictions, outside = _predictions(table, complete, reference, family)
    # Models outside the range, spread evenly over their scores: evaluated in full, they bring the others inside.
    order = sorted(outside, key=lambda k: float(np.nanmean(table.scores[k])))
    at = np.unique(np.linspace(0, len(order) - 1, min(MOST_NAMED, len(order))).round().astype(int))
    evaluate = tuple(table.models[order[k]] for k in at)
    column = families = None
    if family is not None and table.families is not None:
        column, families = table.families.column, int(family.max()) + 1
    return PredictionAdvice(
        frame, predictions, chosen, error, enough > 0, len(scores), table.dated, evaluate, tuple(warnings), column,
        families, dict(zip(table.testsets, scores.std(axis=0, ddof=1).tolist(), strict=True)),
    )  # fmt: skip


def read_scores(
    source: Any, date: str | None, testsets: str | Sequence[str] | None, cluster: str | None = None
) -> ModelScores:
    """Scores of models on test sets, in points, from a table of scores or from answers."""
    opened = open_source(source, testsets=testsets) if testsets else open_source(source)
    if isinstance(opened, Study):
        return _from_study(opened, date, testsets, cluster)
    names = list(opened.testsets) + list(opened.controls)
    frame = _whole_frame(opened)
    if isinstance(source, str | os.PathLike | pl.DataFrame):
        columns = read_table(source).frame.columns
        if date is not None and date not in columns:
            raise unknown_column(date, columns, opened.name, "date of a model")
        when = date or next((name for name in DATES if name in columns), None)
        who = next((name for name in NAMES if name in columns), None)
        keys = [name for name in (who, when) if name is not None]
        if keys and opened.order is None:
            columns_of_sets = [opened.original_names.get(name, name) for name in names]
            opened = open_source(source, by=keys, order="none", control="none", testsets=columns_of_sets)
            assert isinstance(opened, ScoreTable)
            frame = _whole_frame(opened).rename(dict(zip(columns_of_sets, names, strict=True)))
            if when is not None:
                frame = frame.sort(when, maintain_order=True, nulls_last=False)
            models = _numbered(frame)
            if who:
                models = frame[who].cast(pl.String).to_list()
            return _model_scores(frame, models, names, when is not None, opened, cluster)
    if opened.by and opened.order:
        frame = frame.group_by(opened.by, maintain_order=True).last()
    models = _numbered(frame)
    if opened.by:
        models = [" / ".join(map(str, row)) for row in frame.select(opened.by).iter_rows()]
    return _model_scores(frame, models, names, False, opened, cluster)


def _numbered(frame: pl.DataFrame) -> list[str]:
    """Names of models that have none."""
    return [str(number) for number in range(1, frame.height + 1)]


def _whole_frame(opened: ScoreTable) -> pl.DataFrame:
    """The scores with the other columns of the table beside them."""
    if opened.about is None:
        return opened.frame
    return opened.frame.hstack(opened.about)


def _model_scores(
    frame: pl.DataFrame, models: list[str], names: list[str], dated: bool, opened: ScoreTable, cluster: str | None
) -> ModelScores:
    scores = frame.select(pl.col(names).cast(pl.Float64)).fill_null(float("nan")).to_numpy().copy()
    if np.nanmax(scores) <= 1.5:  # shares
        scores = 100 * scores
    if len(names) < 2:
        raise InputError(
            f"{opened.name}: has one test set ({listed(names)}); predicting one from others takes at least two"
        )
    families, warnings = find_families(frame.drop(names), models, cluster, opened.name)
    return ModelScores(
        scores, models, names, dated, opened.name, opened.warnings, families,
        tuple(warnings),
    )  # fmt: skip


def _from_study(
    study: Study, date: str | None, testsets: str | Sequence[str] | None, cluster: str | None
) -> ModelScores:
    entries = testsets or study.testsets
    if isinstance(entries, str):
        entries = [entries]
    chosen: list[str] = []
    for entry in entries:
        # A comma separates names, unless it is part of one.
        parts = entry.split(",")
        if entry in study.testsets:
            parts = [entry]
        chosen += map(str.strip, parts)
    unknown = [name for name in chosen if name not in study.testsets]
    if unknown:
        raise InputError(
            f"{study.name}: there is no test set {listed(unknown)}.{did_you_mean(unknown, study.testsets)} Test sets: "
            f"{listed(study.testsets)}"
        )
    if len(chosen) < 2:
        raise InputError(f"{study.name}: has one test set; predicting one from others takes at least two")
    groups = final_groups(study)
    places = list(map(study.testsets.index, chosen))
    rows = [group.rows[0] for group in groups]
    guessed: list[str] = []
    others: list[str] = []
    for name, place in zip(chosen, places, strict=True):
        if _at_chance(study, rows, place):
            guessed.append(name)
        else:
            others.append(name)
    if guessed:
        remedy = "evaluate on test sets that tell models apart"
        if len(others) > 1:
            remedy = f"leave {listed(guessed)} out with --testsets {','.join(others)}"
        raise InputError(
            f"{study.name}: on {listed(guessed)} models differ no more than by chance, so there is nothing to predict; "
            f"{remedy}"
        )
    accuracy = study.scores[0][:, places]
    scores = np.stack([accuracy[list(group.rows)].mean(axis=0) for group in groups])
    names = [group.name for group in groups]
    when = date or next((name for name in DATES if name in study.subjects.columns), None)
    if date is not None and date not in study.subjects.columns:
        raise unknown_column(date, study.subjects.columns, study.name, "date of a model")
    about = study.subjects[rows]
    if when is not None:
        order = about[when].arg_sort().to_list()
        scores, names, about = scores[order], [names[k] for k in order], about[order]
    families, warnings = find_families(about, names, cluster, study.name)
    return ModelScores(
        100 * scores, names, chosen, when is not None, study.name, study.warnings, families, tuple(warnings)
    )


def _at_chance(study: Study, rows: list[int], testset: int) -> bool:
    """Whether models differ on a test set no more than they would if all had the same chance at every item."""
    cells = study.correct[rows][:, study.set_index == testset]
    cells = cells[~np.isnan(cells).any(axis=1)]
    return len(cells) >= FEWEST_MODELS and not differ_beyond_chance(cells)


def _predictions(
    table: ModelScores, complete: Bools, reference: Bools, family: Indices | None
) -> tuple[pl.DataFrame, list[int]]:
    """Predictions for models that lack test sets, from all sets they have; and the models with any out of range."""
    rows: list[tuple[Any, ...]] = []
    outside: list[int] = []
    known = ~np.isnan(table.scores)
    learnt = table.scores[reference]
    lowest, highest = _limits(table.scores)
    patterns = known[~complete]
    if len(patterns):
        patterns = np.unique(patterns, axis=0)
    for pattern in patterns:
        if not pattern.any():
            continue
        predictor = Predictor.of(learnt[:, pattern], learnt[:, ~pattern], table.dated, family)
        members = np.flatnonzero((known == pattern).all(axis=1))
        predicted = predictor.predict(table.scores[np.ix_(members, np.flatnonzero(pattern))])
        for row, k in enumerate(members):
            if not predicted.inside[row].all():
                outside.append(int(k))
            for column, j in enumerate(np.flatnonzero(~pattern)):
                numbers: list[float | None] = [None, None, None]
                inside = bool(predicted.inside[row, column])
                if inside:
                    cells = np.stack([predicted.score, predicted.low, predicted.high])[:, row, column]
                    numbers = np.clip(cells, lowest[j], highest[j]).tolist()
                rows.append((table.models[k], table.testsets[j], *numbers, inside))
    schema: dict[str, Any] = {"model": pl.String, "testset": pl.String}
    schema |= dict.fromkeys(("score", "ci_low", "ci_high"), pl.Float64) | {"in_range": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row"), outside


def _limits(scores: Floats) -> tuple[Floats, Floats]:
    """The lowest and highest score [test sets] there can be: 0 and 100 where all known ones are percentages."""
    lowest, highest = np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)
    percent = (lowest >= 0) & (highest <= PERCENT)
    return np.where(percent, 0.0, -np.inf), np.where(percent, PERCENT, np.inf)


def _predictable_shares(scores: Floats) -> list[float]:
    """For every test set, the share of its variance over models that all others predict, cross-validated.

    Nothing where there are too many to look at each: among hundreds, one that stands alone is found by no user.
    """
    shares: list[float] = []
    _, tried = affordable_trials(*scores.shape)
    if tried < scores.shape[1]:
        return shares
    for j in range(scores.shape[1]):
        error = Predictor.of(np.delete(scores, j, axis=1), scores[:, [j]]).error[0]
        shares.append(1 - float(error**2 / scores[:, j].var()))
    return shares
