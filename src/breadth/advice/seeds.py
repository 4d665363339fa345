"""``advise power`` on scores: how many seeds a difference takes, and what averaging checkpoints saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.advice.figures import seeds_figure
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, Floats
from breadth.records import Study
from breadth.results import Answer, Column, Columns, Question, Result, Shown, State, Verdict, as_chart
from breadth.results.words import agree_chance, chances_text, count, sentences, size_text
from breadth.sources import ScoreTable, open_answers, open_source, read_table

if TYPE_CHECKING:
    import altair as alt

#: Power that is planned for.
PLANNED = 0.8

#: Standard errors beyond which a difference is always seen; the noncentral t distribution is not computed so far out.
CERTAIN = 30.0

#: Numbers of checkpoints to average that the plan lists.
CHECKPOINTS = (1, 3, 5)

#: Checkpoints of a run from which their noise is estimated.
FEWEST_CHECKPOINTS = 6

#: A chance of seeing a difference below which it would probably not be seen.
UNLIKELY = 0.4

#: Runs of a model that can usually be afforded, and a difference in points from which it is no use to aim for it.
FEASIBLE, LARGEST_AIM = 20, 50

#: Seeds beyond which the plan says that no number is enough.
MOST_SEEDS = 1000

#: Columns that tell repeats of one model apart, and columns that tell models and ways of training apart.
REPEATS = ("run", "run_id", "run_name", "seed", "random_seed", "data_seed", "replicate", "repeat", "fold", "trial")
MODELS = ("model", "model_name", "train_set", "examples", "method", "strategy", "train_level", "size", "params")

#: The row of the plan that is about the mean of all test sets.
MEAN = "mean of test sets"

#: A chance that the wrong model comes out ahead from which it is said.
WORTH_SAYING = 0.02

#: How many times as many seeds as the mean of all test sets a single one must take for that to be said.
MANY_MORE = 2


def checkpoint_variance(courses: Sequence[Floats]) -> float:
    """Variance of a checkpoint's score around the course of its run: second differences over the later half.

    NaN if no run has enough checkpoints.
    """
    squares: list[Floats] = []
    for course in courses:
        if len(course) >= FEWEST_CHECKPOINTS:
            squares.append(np.diff(course[len(course) // 2 :], 2) ** 2)
    if not squares:
        return float("nan")
    return float(np.concatenate(squares).mean() / 6)


def seed_power(runs: int, sd: float, difference: float) -> float:
    """Power of a t test between two models with ``runs`` runs each, at 5 % two-sided.

    >>> round(seed_power(17, 1.0, 1.0), 3)
    0.807
    """
    if runs < 2:
        return float("nan")
    if not sd > 0:
        return 1.0
    df = 2 * runs - 2
    away, critical = difference / sd * np.sqrt(runs / 2), special.stdtrit(df, (1 + LEVEL) / 2)
    if away >= CERTAIN:
        return 1.0
    return float(1 - special.nctdtr(df, away, critical))


def seeds_needed(sd: float, difference: float) -> int | None:
    """Runs of each of two models that show the difference with 80 % power; None if a thousand are not enough."""
    low, high = 1, MOST_SEEDS
    if seed_power(high, sd, difference) < PLANNED:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if seed_power(middle, sd, difference) >= PLANNED:
            high = middle
        else:
            low = middle
    return high


def describe_wrong_sign(chance: float | None, facts: dict[str, float | str]) -> str:
    """How easily the wrong model comes out ahead, where that may happen; its number is added to ``facts``."""
    if chance is None or chance < WORTH_SAYING:
        return ""
    times = chances_text(chance, "time")
    facts["how often the wrong model comes out ahead"] = times
    return f"The wrong model would come out ahead about {times}."


PLAN = Columns(
    Column("testset", header="test set", priority=1, meaning="The test set, or the mean of all."),
    Column(
        "checkpoints", format="d", header="checkpoints averaged", priority=1,
        meaning="How many of the last checkpoints of a run are averaged.",
    ),
    Column("sd", format=".2f", header="runs differ by", priority=2, meaning="Standard deviation of runs, in points."),
    Column(
        "seeds", format="d", header="runs needed", priority=1,
        meaning="Runs of each model that show the difference; a dash where a thousand are not enough.",
    ),
)  # fmt: skip
NOISE = Columns(
    Column("testset", header="test set", priority=1, meaning="The test set, or the mean of all."),
    Column("run_sd", format=".2f", header="runs", priority=1, meaning="How far runs of a model differ, in points."),
    Column(
        "checkpoint_sd", format=".2f", header="checkpoints", priority=1,
        meaning="How far neighbouring checkpoints of a run differ, in points.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class SeedAdvice(Result):
    """What a difference takes, judged by scores alone.

    ``plan``: ``testset, checkpoints, sd, seeds``: how far runs of a model lie apart when that many of the last
    checkpoints are averaged, and the seeds per model that show the difference with 80 % power; null where no model has
    several runs, or where a thousand are not enough. ``noise``: ``testset, run_sd, checkpoint_sd``. Both in points. The
    first row of each is about the mean of all test sets. ``power`` and ``wrong_sign`` are for the runs there are.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"plan": PLAN, "noise": NOISE}

    plan: pl.DataFrame
    noise: pl.DataFrame
    difference: float
    n_models: int
    n_runs: int
    power: float | None
    wrong_sign: float | None
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The plan, and the noise it rests on."""
        return {"plan": self.plan, "noise": self.noise}

    def verdict(self) -> Verdict:
        """How many runs does it take to see the difference in the mean of all test sets? A number of them.

        Yes: the runs there are show it with a probability of at least 80 %. Not enough data: every model has one run.
        """
        said = size_text(self.difference)
        facts: dict[str, float | str] = {"difference to see, in points": said.split()[0]}
        if self.power is None:
            return self._one_run_each()
        facts["runs of each model"] = self.n_runs
        whole = dict(self.plan.filter(testset=MEAN).select("checkpoints", "seeds").iter_rows())
        enough, have = whole[1], f"{count(self.n_runs, 'run')} of each model"
        answer = f"About {enough} runs of each model"
        if enough is None:
            answer = f"{MOST_SEEDS:,} runs are not enough"
        hardest = self._hardest_testset(enough, facts)
        if self.power >= PLANNED:
            reason = f"{have} are enough to see a difference of {said} in the mean of all test sets"
            advice = "Compare models by the mean of all test sets."
            if enough is not None and enough < self.n_runs:
                reason += f"; about {enough} would do"
                advice = f"Train about {enough} runs of each model and compare the mean of all test sets."
            return self._answer(answer, f"{reason}.", State.YES, facts, hardest, advice)
        chance = chances_text(self.power)
        facts["chance to see it"] = chance
        where = f"a difference of {said} in the mean of all test sets"
        reason = f"With {have} there {agree_chance(chance)} of seeing {where}."
        if self.power < UNLIKELY:
            reason = f"{where[0].upper()}{where[1:]} would probably go unnoticed with {have} ({chance} of seeing it)."
        if enough is None:
            facts["runs that are too few"] = MOST_SEEDS
            reason += f" Even {MOST_SEEDS:,} would not be enough."
            return self._answer(answer, reason, State.NO, facts, hardest, f"{self._larger(facts)}.")
        planned, last = chances_text(PLANNED), max(whole)
        facts["chance that is planned for"] = planned
        fewest, saving = whole[last], ""
        if fewest is not None and fewest < enough:
            saving = f", or {fewest} if the last {last} checkpoints of each are averaged"
        reason += f" For {planned} you need about {enough}{saving}."
        advice = "Train more runs, or aim for a larger difference."
        if enough > FEASIBLE:
            advice = f"{self._larger(facts)}."
        return self._answer(answer, reason, State.NO, facts, hardest, advice)

    def _larger(self, facts: dict[str, float | str]) -> str:
        """The difference in whole points that a feasible number of runs would show."""
        sd = self.plan.filter(testset=MEAN, checkpoints=1)["sd"][0]
        for points in range(1, LARGEST_AIM):
            if seed_power(FEASIBLE, sd, points) >= PLANNED:
                facts["runs that would show a larger difference"] = FEASIBLE
                facts["larger difference, in points"] = points
                return f"Aim for a larger difference: {FEASIBLE} runs of each would show {count(points, 'point')}"
        return "Find out why runs of a model differ so much before you compare models"

    def _answer(
        self, answer: str, reason: str, state: State, facts: dict[str, float | str], hardest: str, advice: str
    ) -> Verdict:
        findings = sentences(describe_wrong_sign(self.wrong_sign, facts), hardest)
        return Verdict(answer, reason, findings, question=Question.SEEDS, advice=advice, state=state, facts=facts)

    def _hardest_testset(self, enough: int | None, facts: dict[str, float | str]) -> str:
        """The test set that takes most runs, where it takes many more than the mean of all does."""
        single = self.plan.filter(pl.col("testset") != MEAN, checkpoints=1)
        if enough is None or not single.height:
            return ""
        row = single.sort("sd", descending=True, nulls_last=True).row(0, named=True)
        if row["seeds"] is None:
            facts["runs that are too few for a single test set"] = MOST_SEEDS
            return (
                f"On {row['testset']} alone even {MOST_SEEDS:,} would not be enough: its runs differ by "
                f"{row['sd']:.1f} points (standard deviation)."
            )
        if row["seeds"] <= MANY_MORE * enough:
            return ""
        return (
            f"On {row['testset']} alone it takes {row['seeds']}: its runs differ by {row['sd']:.1f} points (standard "
            "deviation)."
        )

    def _one_run_each(self) -> Verdict:
        reason = "Every model has one run, so how many runs it takes is not known."
        sd = self.noise.row(0, named=True)["checkpoint_sd"]
        findings = ""
        if sd is not None:
            findings = (
                f"Neighbouring checkpoints of a run differ by about {sd:.2f} points (mean of all test sets), but that "
                "is no substitute for runs with other seeds."
            )
        advice = "Train three or more runs of one model with different seeds, and mark the runs in a column `seed`."
        return Verdict(Answer.UNKNOWN, reason, findings, question=Question.SEEDS, advice=advice)

    def shown(self) -> Sequence[Shown]:
        """Runs by test set; how far neighbouring checkpoints differ, where no model has several runs."""
        if self.power is None:
            return [Shown("How far neighbouring checkpoints differ, in points", self.noise, NOISE.filled(self.noise))]
        columns = PLAN
        if self.plan["checkpoints"].n_unique() == 1:
            columns = columns.without("checkpoints")
        note = ""
        if self.plan["seeds"].null_count():
            note = f"-: {MOST_SEEDS:,} runs are not enough."
        return [Shown(f"Runs of each model to see {size_text(self.difference)}", self.plan, columns, note=note)]

    def details(self) -> str:
        """What the numbers are about, and what scores cannot tell."""
        parts = []
        if self.n_models == 1:
            parts.append("All runs are taken as repeats of one model, since no column says which model they are of.")
        parts.append(
            "Planned for a power of 80% in a two-sided t test at 5%, for new runs on the same questions. Scores do not "
            "show how many questions are needed; that takes answers to single questions."
        )
        return " ".join(parts)

    def figure(self) -> alt.TopLevelMixin:
        """Spread of runs and noise of checkpoints by test set."""
        return as_chart(seeds_figure(self.noise), tables={"noise": self.noise})


seeds_verdict = SeedAdvice.verdict


class _RunScores(NamedTuple):
    """Scores of runs in points: courses [checkpoints, columns] by model; the first column is the mean of all."""

    courses: list[list[Floats]]
    testsets: list[str]
    name: str
    warnings: tuple[str, ...]


def advise_seeds(
    scores: ScoreTable, keys: Sequence[str] = (), *, difference: float = 0.02, seeds: bool = False
) -> SeedAdvice:
    """How many seeds and checkpoints does it take to see a difference, judged by a table of scores?

    ``keys`` are columns that name models and runs (:func:`open_runs`). Runs are repeats of one model if they differ in
    nothing but a run or a seed. Their spread is that of scores on the
    same items, so it says how far a difference holds for new runs on these test sets, not on new items.
    """
    runs = _read_runs(scores, keys)
    last, courses = [], []
    for group in runs.courses:
        last.append(np.stack([course[-1] for course in group]))
        courses += group
    several = [group for group in last if len(group) > 1]
    checkpoint = np.empty(len(runs.testsets))
    for j in range(len(runs.testsets)):
        checkpoint[j] = checkpoint_variance([course[:, j] for course in courses])
    if not several and (seeds or np.isnan(checkpoint).all()):
        remedy = ". Planning questions takes answers to single questions"
        if seeds:
            remedy = ", or leave out --seeds"
        raise InputError(
            f"{runs.name}: has scores of {len(last)} models with one run each, so nothing is known about seeds; add "
            f"runs of one model, told apart by a column `seed`{remedy}"
        )
    spread, df = _spread_of_runs(several, len(runs.testsets))
    rows: list[tuple[Any, ...]] = []
    for j, name in enumerate(runs.testsets):
        averages: tuple[int, ...] = CHECKPOINTS
        if np.isnan(checkpoint[j]):
            averages = CHECKPOINTS[:1]
        for averaged in averages:
            if not df:
                rows.append((name, averaged, None, None))
                continue
            removed = 0.0
            if averaged > 1:
                removed = checkpoint[j] * (1 - 1 / averaged)
            sd = float(np.sqrt(max(spread[j] - removed, 0.0)))
            rows.append((name, averaged, sd, seeds_needed(sd, 100 * difference)))
    schema: dict[str, Any] = {"testset": pl.String, "checkpoints": pl.Int64, "sd": pl.Float64, "seeds": pl.Int64}
    plan = pl.DataFrame(rows, schema=schema, orient="row")
    noise = {"testset": runs.testsets, "run_sd": np.sqrt(spread), "checkpoint_sd": np.sqrt(checkpoint)}
    noise_frame = pl.DataFrame(noise).fill_nan(None)
    if not df:
        return SeedAdvice(plan, noise_frame, difference, len(last), 1, None, None, runs.warnings)
    number, sd = int(np.median(list(map(len, several)))), float(np.sqrt(spread[0]))
    wrong = 0.0
    if sd > 0:
        wrong = float(special.ndtr(-100 * difference / (sd * np.sqrt(2 / number))))
    power = seed_power(number, sd, 100 * difference)
    return SeedAdvice(plan, noise_frame, difference, len(last), number, power, wrong, runs.warnings)


def _spread_of_runs(several: Sequence[Floats], columns: int) -> tuple[Floats, int]:
    """Variance of the scores [columns] of runs of a model, pooled over models, and its degrees of freedom."""
    squares, df = np.zeros(columns), 0
    for group in several:
        squares += ((group - group.mean(axis=0)) ** 2).sum(axis=0)
        df += len(group) - 1
    if not df:
        return np.full(columns, np.nan), 0
    return squares / df, df


def _read_runs(opened: ScoreTable, keys: Sequence[str]) -> _RunScores:
    """Runs of every model, and the course of their scores; ``keys`` name models and runs where there is no order."""
    names = [*opened.controls, *opened.testsets]
    frame = opened.frame.drop_nulls(names)
    if not frame.height:
        raise InputError(f"{opened.name}: no row has scores on all of {listed(names)}")
    warnings = list(opened.warnings)
    if frame.height < opened.frame.height:
        warnings.append(f"{opened.frame.height - frame.height:,} rows without scores on all test sets are left out")
    by = list(opened.by) or list(keys)
    if not by:
        raise InputError(
            f"{opened.name}: no column says which rows are runs of one model, so nothing is known about seeds; call "
            "the columns `model`, and `run` or `seed`"
        )
    models = [name for name in by if name.lower() not in REPEATS]
    scores = frame.select(pl.col(names).cast(pl.Float64)).to_numpy()
    if scores.max() <= 1.5:  # shares
        scores = 100 * scores
    scores = np.column_stack([scores.mean(axis=1), scores])
    places = frame.select(by).with_row_index("__row")
    courses: list[list[Floats]] = []
    parts = [places]
    if models:
        parts = places.partition_by(models, maintain_order=True)
    for part in parts:
        # Without checkpoints every row is a run; with them, the other columns say which run it is.
        own = part.partition_by("__row")
        if opened.order:
            own = part.partition_by(by, maintain_order=True)
        courses.append([scores[run["__row"].to_numpy()] for run in own])
    return _RunScores(courses, [MEAN, *names], opened.name, tuple(warnings))


def open_runs(source: Any) -> tuple[Study | ScoreTable, tuple[str, ...]]:
    """Answers; else scores, with the columns that name models and runs if the rows are not checkpoints."""
    opened: Study | ScoreTable | None = None
    with suppress(InputError):
        opened = open_source(source)
    if isinstance(opened, Study) or (opened is not None and opened.order is not None):
        return opened, ()
    scores = {}
    if opened is not None:
        scores = {"testsets": [*opened.controls, *opened.testsets]}
    with suppress(InputError):
        columns = read_table(source).frame.columns
        keys = tuple(name for name in columns if name.lower() in (*MODELS, *REPEATS))
        by_run = open_source(source, by=keys or "none", order="none", control="none", **scores)
        if isinstance(by_run, ScoreTable):
            return by_run, keys
    if opened is None:
        return open_answers(source), ()
    return opened, ()
