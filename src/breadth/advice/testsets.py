"""``advise testsets``: which test sets can be dropped, because the others predict them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.advice.families import Families, describe_target, find_families, limit_to_families
from breadth.advice.figures import steps_figure
from breadth.advice.prediction import Bools, Predictor, affordable_trials, choose_sets
from breadth.advice.references import FEWEST_MODELS, differ_beyond_chance
from breadth.advice.short_form import Indices
from breadth.comparison import final_groups
from breadth.errors import InputError, did_you_mean, listed, unknown_column
from breadth.inference import Floats
from breadth.records import Study
from breadth.results import Answer, Result, Verdict, as_chart
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.results.words import count, joined
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

    @property
    def dropped(self) -> tuple[str, ...]:
        """The test sets that need not be evaluated, if those chosen are enough; in the order of their names."""
        last = self.steps.row(-1, named=True)
        names = {*self.steps["testset"], last["worst_testset"]}
        return tuple(sorted(names - set(self.chosen))) if self.reached else ()

    @property
    def holds_for(self) -> str:
        """Which kind of model errors and intervals are about: one like these, or one of another family."""
        return describe_target(self.family)

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The steps, and the predictions."""
        return {"steps": self.steps, "predictions": self.predictions}

    def verdict(self) -> Verdict:
        """Which test sets can be dropped? Those that the others predict within the error; No if there is none."""
        last = self.steps.row(len(self.chosen) - 1, named=True)
        if self.reached:
            verb = "predicts" if len(self.chosen) == 1 else "predict"
            it = "it" if len(self.dropped) == 1 else "them"
            reason = f"{joined(self.dropped, 6)} can be dropped: {joined(self.chosen, 6)} {verb} {it} within"
            worst = f"Worst: {last['worst_testset']}, {last['worst']:.1f} points."
            if self.family is not None:
                worst += f" Errors are those for {self.holds_for}."
            return Verdict(Answer.YES, f"{reason} {last['rmse']:.1f} points (root mean square).", worst)
        best = self.steps.sort("rmse").row(0, named=True)
        reason = (
            f"no choice predicts the others within {self.error:g} points; the best, {count(best['n'], 'test set')}, "
            f"errs by {best['rmse']:.1f}."
        )
        return Verdict(Answer.NO, reason, "", "Evaluate on all test sets, or accept a larger --error.")

    def details(self) -> str:
        """How errors were measured, and which models lie outside the range."""
        parts = [f"Errors are those of {self._held_out()}, out of {count(self.n_models, 'model')} with all test sets."]
        missing, out = self.predictions, self.predictions.filter(~pl.col("in_range"))
        if missing.height:
            inside = missing.height - out.height
            parts.append(
                f"Of {count(missing.height, 'missing score')}, {inside:,} {'is' if inside == 1 else 'are'} predicted."
            )
            if inside:
                parts.append(f"Intervals (95%) are for {self.holds_for}.")
            if out.height:
                parts.append(
                    f"Those of {count(out['model'].n_unique(), 'model')} lie outside the range of the others and are "
                    f"refused; evaluate {joined(self.evaluate, 10)} in full to get back inside."
                )
        return " ".join(parts)

    def _held_out(self) -> str:
        later = "later models predicted from earlier ones"
        if self.family is None:
            return later if self.dated else "models that were held out, at random"
        whole = f"models of another {self.family} ({self.n_families} were left out in turn; each counts once)"
        return f"{whole} or of {later}, whichever are larger" if self.dated else whole

    def figure(self) -> alt.TopLevelMixin:
        """Error of predicting the others by the number of test sets."""
        return as_chart(steps_figure(self.steps, self.error), tables={"steps": self.steps})


prediction_verdict = PredictionAdvice.verdict


def steps_table(result: PredictionAdvice, width: int = WIDTH) -> Table:
    """Test sets in the order in which they are added; those that are enough are marked."""
    table = make_table(
        "Error in points of predicting the others", ["add", "worst"], ["sets", "RMSE", "its RMSE"], width
    )
    for row in result.steps.iter_rows(named=True):
        enough = result.reached and row["n"] <= len(result.chosen)
        name = Text(row["testset"], style="bold" if enough else "")
        table.add_row(name, Text(row["worst_testset"]), str(row["n"]), f"{row['rmse']:.1f}", f"{row['worst']:.1f}")
    return table


def predictions_table(predictions: pl.DataFrame, width: int = WIDTH, holds_for: str = "") -> Table:
    """Predicted scores with their intervals; a dash where a model lies outside the range."""
    title = "Predicted scores with 95% intervals"
    title += f" for {holds_for}" if holds_for else ""
    title += f": the first {MOST_ROWS} of {predictions.height}" if predictions.height > MOST_ROWS else ""
    table = make_table(title, ["model", "test set"], ["score", "interval"], width)
    shown = predictions.head(MOST_ROWS)
    for row in shown.iter_rows(named=True):
        score = "-" if row["score"] is None else f"{row['score']:.1f}"
        span = "out of range" if row["score"] is None else f"{row['ci_low']:.1f} to {row['ci_high']:.1f}"
        table.add_row(Text(row["model"]), Text(row["testset"]), score, span)
    return table


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
        several = len(table.models) >= FEWEST_MODELS
        remedy = "Leave out test sets that few models have, with --testsets" if several else "Add models"
        raise InputError(
            f"{table.name}: {int(complete.sum())} models have scores on all {len(table.testsets)} test sets; "
            f"predicting takes at least {FEWEST_MODELS}. {remedy}"
        )
    reference, family, warnings = limit_to_families(table.families, complete, FEWEST_MODELS, cluster, table.name)
    # Where families turn out not to be usable, what was said of them no longer holds.
    warnings = [*table.warnings, *(warnings or table.family_warnings)]
    scores = table.scores[reference]
    if still := [name for name, spread in zip(table.testsets, scores.std(axis=0), strict=True) if spread < 1e-9]:
        raise InputError(f"{table.name}: all models have one score on {listed(still)}; leave it out with --testsets")
    shares = _predictable_shares(scores)
    unrelated = [name for name, share in zip(table.testsets, shares, strict=False) if share <= 0]
    if unrelated:
        warnings.append(
            f"{listed(unrelated)}: the other test sets say nothing about it; it measures something else, or models are "
            "at chance there"
        )
    steps = choose_sets(scores, table.dated, family=family)
    enough = next((k for k, step in enumerate(steps, start=1) if step.error <= error), None)
    number = enough or len(steps)
    chosen = tuple(table.testsets[step.added] for step in steps[:number])
    predictions, outside = _predictions(table, complete, reference, family)
    # Models outside the range, spread evenly over their scores: evaluated in full, they bring the others inside.
    order = sorted(outside, key=lambda k: float(np.nanmean(table.scores[k])))
    at = np.unique(np.linspace(0, len(order) - 1, min(MOST_NAMED, len(order))).round().astype(int))
    frame = pl.DataFrame(
        {
            "n": range(1, len(steps) + 1),
            "testset": [table.testsets[step.added] for step in steps],
            "rmse": [step.error for step in steps],
            "worst": [float(np.nanmax(step.each)) for step in steps],
            "worst_testset": [table.testsets[np.nanargmax(step.each)] for step in steps],
        }
    )
    return PredictionAdvice(
        frame, predictions, chosen, error, enough is not None, len(scores), table.dated,
        tuple(table.models[order[k]] for k in at), tuple(warnings),
        None if family is None or table.families is None else table.families.column,
        None if family is None else int(family.max()) + 1,
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
            models = frame[who].cast(pl.String).to_list() if who else [str(k + 1) for k in range(frame.height)]
            return _model_scores(frame, models, names, when is not None, opened, cluster)
    frame = frame.group_by(opened.by, maintain_order=True).last() if opened.by and opened.order else frame
    models = [" / ".join(map(str, row)) for row in frame.select(opened.by).iter_rows()] if opened.by else []
    models = models or [str(k + 1) for k in range(frame.height)]
    return _model_scores(frame, models, names, False, opened, cluster)


def _whole_frame(opened: ScoreTable) -> pl.DataFrame:
    """The scores with the other columns of the table beside them."""
    return opened.frame if opened.about is None else opened.frame.hstack(opened.about)


def _model_scores(
    frame: pl.DataFrame, models: list[str], names: list[str], dated: bool, opened: ScoreTable, cluster: str | None
) -> ModelScores:
    scores = frame.select(pl.col(names).cast(pl.Float64)).fill_null(float("nan")).to_numpy().copy()
    shares = np.nanmax(scores) <= 1.5
    if len(names) < 2:
        raise InputError(
            f"{opened.name}: has one test set ({listed(names)}); predicting one from others takes at least two"
        )
    families, warnings = find_families(frame.drop(names), models, cluster, opened.name)
    return ModelScores(
        100 * scores if shares else scores, models, names, dated, opened.name, opened.warnings, families,
        tuple(warnings),
    )  # fmt: skip


def _from_study(
    study: Study, date: str | None, testsets: str | Sequence[str] | None, cluster: str | None
) -> ModelScores:
    entries = [testsets] if isinstance(testsets, str) else testsets or study.testsets
    chosen = [name.strip() for entry in entries for name in ([entry] if entry in study.testsets else entry.split(","))]
    if unknown := [name for name in chosen if name not in study.testsets]:
        raise InputError(
            f"{study.name}: there is no test set {listed(unknown)}.{did_you_mean(unknown, study.testsets)} Test sets: "
            f"{listed(study.testsets)}"
        )
    if len(chosen) < 2:
        raise InputError(f"{study.name}: has one test set; predicting one from others takes at least two")
    groups = final_groups(study)
    places = [study.testsets.index(name) for name in chosen]
    rows = [group.rows[0] for group in groups]
    if guessed := [name for name, k in zip(chosen, places, strict=True) if _at_chance(study, rows, k)]:
        others = [name for name in chosen if name not in guessed]
        remedy = f"leave {listed(guessed)} out with --testsets {','.join(others)}" if len(others) > 1 else ""
        raise InputError(
            f"{study.name}: on {listed(guessed)} models differ no more than by chance, so there is nothing to predict; "
            f"{remedy or 'evaluate on test sets that tell models apart'}"
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
    for pattern in np.unique(known[~complete], axis=0) if (~complete).any() else ():
        if not pattern.any():
            continue
        predictor = Predictor.of(learnt[:, pattern], learnt[:, ~pattern], table.dated, family)
        members = np.flatnonzero((known == pattern).all(axis=1))
        predicted = predictor.predict(table.scores[np.ix_(members, np.flatnonzero(pattern))])
        for row, k in enumerate(members):
            outside += [] if predicted.inside[row].all() else [int(k)]
            for column, j in enumerate(np.flatnonzero(~pattern)):
                numbers: list[float | None] = [None, None, None]
                inside = bool(predicted.inside[row, column])
                if inside:
                    cells = [part[row, column] for part in (predicted.score, predicted.low, predicted.high)]
                    numbers = [float(np.clip(cell, lowest[j], highest[j])) for cell in cells]
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
