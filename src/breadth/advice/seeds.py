"""``advise power`` on scores: how many seeds a difference takes, and what averaging checkpoints saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text
from scipy import special

from breadth.advice.figures import seeds_figure
from breadth.errors import InputError, listed
from breadth.inference import LEVEL, Floats
from breadth.records import Study
from breadth.results import Answer, Result, Verdict, as_chart
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table
from breadth.sources import ScoreTable, open_answers, open_source, read_table

if TYPE_CHECKING:
    import altair as alt

#: Power that is planned for.
PLANNED = 0.8

#: Numbers of checkpoints to average that the plan lists.
CHECKPOINTS = (1, 3, 5)

#: Checkpoints of a run from which their noise is estimated.
FEWEST_CHECKPOINTS = 6

#: Seeds beyond which the plan says that no number is enough.
MOST_SEEDS = 1000

#: Columns that tell repeats of one model apart, and columns that tell models and ways of training apart.
REPEATS = ("run", "run_id", "run_name", "seed", "random_seed", "data_seed", "replicate", "repeat", "fold", "trial")
MODELS = ("model", "model_name", "train_set", "examples", "method", "strategy", "train_level", "size", "params")

#: The row of the plan that is about the mean of all test sets.
MEAN = "mean of test sets"

WRONG_SIGN = "With a true difference of that size, the measured one has the wrong sign in {:.1%} of cases."


def checkpoint_variance(courses: Sequence[Floats]) -> float:
    """Variance of a checkpoint's score around the course of its run: second differences over the later half.

    NaN if no run has enough checkpoints.
    """
    squares = [
        square
        for course in courses
        if len(course) >= FEWEST_CHECKPOINTS
        for square in np.diff(course[len(course) // 2 :], 2) ** 2
    ]
    return float(np.mean(squares) / 6) if squares else float("nan")


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
    return float(1 - special.nctdtr(df, away, critical)) if away < 30 else 1.0


def seeds_needed(sd: float, difference: float) -> int | None:
    """Runs of each of two models that show the difference with 80 % power; None if a thousand are not enough."""
    low, high = 1, MOST_SEEDS
    if seed_power(high, sd, difference) < PLANNED:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seed_power(middle, sd, difference) >= PLANNED else (middle, high)
    return high


def said_points(share: float) -> str:
    """A difference in points, as a sentence names it."""
    return "1 point" if share == 0.01 else f"{100 * share:g} points"


@dataclass(frozen=True)
class SeedAdvice(Result):
    """What a difference takes, judged by scores alone.

    ``plan``: ``testset, checkpoints, sd, seeds``: how far runs of a model lie apart when that many of the last
    checkpoints are averaged, and the seeds per model that show the difference with 80 % power; null where no model has
    several runs, or where a thousand are not enough. ``noise``: ``testset, run_sd, checkpoint_sd``. Both in points. The
    first row of each is about the mean of all test sets. ``power`` and ``wrong_sign`` are for the runs there are.
    """

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
        """Are there enough runs to see the difference? Yes: with a probability of at least 80 %, on the mean of all."""
        said = said_points(self.difference)
        whole = {row["checkpoints"]: row for row in self.plan.filter(testset=MEAN).iter_rows(named=True)}
        if self.power is None or self.wrong_sign is None:
            sd = self.noise.row(0, named=True)["checkpoint_sd"]
            reason = "every model has one run, so how many seeds it takes is not known."
            line = f"Neighbouring checkpoints of a run differ by {sd:.2f} points (sd), mean of test sets."
            return Verdict(Answer.UNKNOWN, reason, line, "Add runs of one model, told apart by a column `seed`.")
        chance = (
            f"{self.n_runs} runs per model show a difference of {said} in the mean of all test sets with a probability"
        )
        wrong = WRONG_SIGN.format(self.wrong_sign)
        if self.power >= PLANNED:
            return Verdict(Answer.YES, f"{chance} of {self.power:.0%}.", wrong)
        needed = "No number of seeds up to 1,000 is enough."
        if whole[1]["seeds"] is not None:
            needed = f"It takes {whole[1]['seeds']} seeds per model"
            last = max(whole)
            saved = whole[last]["seeds"] is not None and whole[last]["seeds"] < whole[1]["seeds"]
            needed += f", or {whole[last]['seeds']} if the last {last} checkpoints are averaged." if saved else "."
        return Verdict(Answer.NO, f"{chance} of {self.power:.0%}.", wrong, needed)

    def details(self) -> str:
        """Where the numbers come from, and what scores cannot tell."""
        noise = self.noise.row(0, named=True)
        parts = []
        if noise["run_sd"] is not None:
            parts.append(f"In the mean of all test sets, runs of a model differ by {noise['run_sd']:.2f} points (sd).")
        if noise["checkpoint_sd"] is not None:
            parts.append(f"Neighbouring checkpoints differ by {noise['checkpoint_sd']:.2f} points (sd).")
        if self.n_models == 1:
            parts.append("All runs are taken as repeats of one model, since no column tells models apart.")
        parts.append(
            "Power is 80% at 5% two-sided, for new runs on the same items. Scores do not show how many items are "
            "needed; that takes answers to single items."
        )
        return " ".join(parts)

    def figure(self) -> alt.TopLevelMixin:
        """Spread of runs and noise of checkpoints by test set."""
        return as_chart(seeds_figure(self.noise), tables={"noise": self.noise})


seeds_verdict = SeedAdvice.verdict


def seeds_table(result: SeedAdvice, width: int = WIDTH) -> Table:
    """Seeds per model by test set and checkpoints averaged; a dash where no number is enough.

    Where no model has several runs, how far neighbouring checkpoints differ.
    """
    if result.power is None:
        table = make_table("Neighbouring checkpoints of a run differ by", ["test set"], ["sd in points"], width)
        for name, _, sd in result.noise.head(MOST_ROWS).iter_rows():
            table.add_row(Text(name), "-" if sd is None else f"{sd:.2f}")
        return table
    numbers = ["checkpoints averaged", "sd in points", "seeds"]
    table = make_table(f"Seeds per model to see {said_points(result.difference)}", ["test set"], numbers, width)
    for row in result.plan.head(MOST_ROWS).iter_rows(named=True):
        table.add_row(Text(row["testset"]), str(row["checkpoints"]), f"{row['sd']:.2f}", str(row["seeds"] or "-"))
    return table


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
    last = [np.stack([course[-1] for course in group]) for group in runs.courses]
    several = [group for group in last if len(group) > 1]
    checkpoint = np.array(
        [
            checkpoint_variance([course[:, j] for group in runs.courses for course in group])
            for j in range(len(runs.testsets))
        ]
    )
    if not several and (seeds or np.isnan(checkpoint).all()):
        raise InputError(
            f"{runs.name}: has scores of {len(last)} models with one run each, so nothing is known about seeds; add "
            "runs of one model, told apart by a column `seed`"
            + (", or leave out --seeds" if seeds else ". Items take answers, item by item")
        )
    df = sum(len(group) - 1 for group in several)
    squares = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in several)
    spread = squares / df if df else np.full(len(runs.testsets), np.nan)
    rows: list[tuple[Any, ...]] = []
    for j, name in enumerate(runs.testsets):
        for averaged in CHECKPOINTS if not np.isnan(checkpoint[j]) else (1,):
            removed = checkpoint[j] * (1 - 1 / averaged) if averaged > 1 else 0.0
            sd = float(np.sqrt(max(spread[j] - removed, 0.0))) if df else None
            rows.append((name, averaged, sd, None if sd is None else seeds_needed(sd, 100 * difference)))
    schema: dict[str, Any] = {"testset": pl.String, "checkpoints": pl.Int64, "sd": pl.Float64, "seeds": pl.Int64}
    noise = {"testset": runs.testsets, "run_sd": np.sqrt(spread), "checkpoint_sd": np.sqrt(checkpoint)}
    number = int(np.median([len(group) for group in several])) if df else 1
    sd = float(np.sqrt(spread[0])) if df else float("nan")
    error = sd * np.sqrt(2 / number)
    wrong = (float(special.ndtr(-100 * difference / error)) if sd > 0 else 0.0) if df else None
    return SeedAdvice(
        pl.DataFrame(rows, schema=schema, orient="row"), pl.DataFrame(noise).fill_nan(None), difference, len(last),
        number, seed_power(number, sd, 100 * difference) if df else None, wrong, runs.warnings,
    )  # fmt: skip


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
    scores = 100 * scores if scores.max() <= 1.5 else scores
    scores = np.column_stack([scores.mean(axis=1), scores])
    places = frame.select(by).with_row_index("__row")
    courses: list[list[Floats]] = []
    for part in places.partition_by(models, maintain_order=True) if models else [places]:
        # Without checkpoints every row is a run; with them, the other columns say which run it is.
        own = part.partition_by(by, maintain_order=True) if opened.order else part.partition_by("__row")
        courses.append([scores[run["__row"].to_numpy()] for run in own])
    return _RunScores(courses, [MEAN, *names], opened.name, tuple(warnings))


def open_runs(source: Any) -> tuple[Study | ScoreTable, tuple[str, ...]]:
    """Answers; else scores, with the columns that name models and runs if the rows are not checkpoints."""
    opened: Study | ScoreTable | None = None
    with suppress(InputError):
        opened = open_source(source)
    if isinstance(opened, Study) or (opened is not None and opened.order is not None):
        return opened, ()
    scores = {} if opened is None else {"testsets": [*opened.controls, *opened.testsets]}
    with suppress(InputError):
        columns = read_table(source).frame.columns
        keys = tuple(name for name in columns if name.lower() in (*MODELS, *REPEATS))
        by_run = open_source(source, by=keys or "none", order="none", control="none", **scores)
        if isinstance(by_run, ScoreTable):
            return by_run, keys
    return open_answers(source) if opened is None else opened, ()
