"""``advise power``: how many items, seeds and checkpoints a difference takes, judged by the data that there are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.advice.figures import power_figure
from breadth.advice.seeds import (
    CHECKPOINTS,
    LARGEST_AIM,
    PLANNED,
    UNLIKELY,
    SeedAdvice,
    advise_seeds,
    checkpoint_variance,
    describe_wrong_sign,
    open_runs,
)
from breadth.comparison import (
    EXACT,
    Group,
    final_groups,
    group_answers,
    item_clusters,
    mean_spread,
    named_groups,
    run_spread,
)
from breadth.errors import InputError, listed
from breadth.inference import NORMAL, Floats
from breadth.records import Study
from breadth.results import (
    POWER,
    SEEN,
    Column,
    Columns,
    Question,
    Result,
    Shown,
    State,
    Verdict,
    as_chart,
)
from breadth.results.words import agree_chance, chances_text, count, rounded_up, size_text
from breadth.sources import ScoreTable

if TYPE_CHECKING:
    import altair as alt

#: Pairs of models whose disagreement is looked at, and how close they must be in accuracy if there are enough such.
MOST_PAIRS, CLOSE, FEWEST_CLOSE = 500, 0.05, 5

#: A factor below which one number of items is about another: nobody adds 5 questions to 100.
NEARLY = 1.1

#: Numbers of seeds that the plan lists.
SEEDS = (1, 2, 3, 5, 10, 20)

#: Differences that the figure shows.
DIFFERENCES = tuple(np.round(np.geomspace(0.005, 0.2, 40), 5))


def paired_power(items: int, disagreement: float, difference: float) -> float:
    """Probability that :func:`breadth.comparison.paired_difference` finds a difference between single runs (p < 0.05).

    The number of items on which exactly one model is right is binomial with the share ``disagreement``; given it, so is
    the number on which the worse model is. Up to 1,000 such items the test is exact, beyond it is normal.
    """
    middle, sd = items * disagreement, np.sqrt(items * disagreement * (1 - disagreement))
    apart = np.arange(max(0, int(middle - 6 * sd)), min(items, int(np.ceil(middle + 6 * sd))) + 1)
    chance = special.bdtr(apart, items, disagreement)
    chance = np.diff(chance, prepend=0.0)
    # The largest number of items that only one model is right on with which the other is found to be better.
    least = np.nan_to_num(np.floor(special.bdtrik(0.025, apart, 0.5)), nan=-1.0)
    least = np.where(special.bdtr(least, apart, 0.5) < 0.025, least, least - 1)
    lead = NORMAL * items * np.sqrt(apart / items / (items - 1 + NORMAL**2))
    least = np.where(apart > EXACT, np.ceil((apart - lead) / 2) - 1, least)
    behind = (disagreement - difference) / (2 * disagreement)
    found = special.bdtr(np.maximum(least, 0), apart, behind)
    return float(chance @ np.where(least < 0, 0.0, found))


def paired_items(disagreement: float, difference: float) -> float:
    """Items that a paired comparison takes to see a difference with 80 % power, at 5 % two-sided.

    n = (1.96 sqrt(q) + 0.84 sqrt(q - d^2))^2 / d^2 (Miettinen 1968), where q is the share of items on which exactly one
    of the two models is right; up to 2,000 such items, the smallest number that has the power (:func:`paired_power`),
    because there the test counts whole items. Assumes independent items and single runs.

    >>> round(paired_items(0.25, 0.02))
    4896
    """
    disagreement = min(max(disagreement, difference), 1.0)
    left = max(disagreement - difference**2, 0.0)
    about = (NORMAL * np.sqrt(disagreement) + POWER * np.sqrt(left)) ** 2 / difference**2
    if about * disagreement > 2 * EXACT:
        return float(np.ceil(about))
    low, high = int(0.5 * about), int(1.5 * about + 10 / difference)
    while high - low > 1:
        middle = (low + high) // 2
        if paired_power(middle, disagreement, difference) >= PLANNED:
            high = middle
        else:
            low = middle
    return float(high)


def unpaired_items(accuracy: float, difference: float) -> float:
    """Items that each of two models takes if they answer different items: two shares, 80 % power, 5 % two-sided."""
    one, two = np.clip([accuracy - difference / 2, accuracy + difference / 2], 0, 1)
    middle = (one + two) / 2
    spread = NORMAL * np.sqrt(2 * middle * (1 - middle)) + POWER * np.sqrt(one * (1 - one) + two * (1 - two))
    return float(spread**2 / difference**2)


class AnswerNoise(NamedTuple):
    """What a comparison has to see through.

    ``disagreement``: share of items on which exactly one of two models is right, median over pairs, with its 10 % and
    90 % quantiles. ``design``: how much clusters multiply the variance by. ``run``: variance of accuracy between runs;
    NaN if no model has several. ``checkpoint``: variance of accuracy between neighbouring checkpoints; NaN if unknown.
    """

    disagreement: float
    low: float
    high: float
    accuracy: float
    design: float
    run: float
    checkpoint: float


#: Why a number of questions is no answer where there are few runs.
TOO_FEW_RUNS = "Runs of a model differ too much for any number of questions to be enough."

#: What to do where the data cannot show a difference, besides collecting more.
AIM_LARGER = "aim for a larger difference"

PLAN = Columns(
    Column("seeds", format="d", header="runs of each model", priority=1, meaning="Training runs of each model."),
    Column(
        "checkpoints", format="d", header="checkpoints averaged", priority=1,
        meaning="How many of the last checkpoints of a run are averaged.",
    ),
    Column(
        "items_paired", format="needed", header="same questions", priority=1,
        meaning="Questions that are needed if both models answer the same ones; a dash where no number is enough.",
    ),
    Column(
        "items_unpaired", format="needed", header="different questions", priority=2,
        meaning="Questions that each model needs if they answer different ones; a dash where no number is enough.",
    ),
)  # fmt: skip
NOISE = Columns(
    Column("disagreement", format="share", priority=1, meaning="Share of questions that only one of two models gets."),
    Column("low", "high", format="share", header="of most pairs", meaning="The same for 80 of 100 pairs of models."),
    Column("accuracy", format="share1", meaning="Median accuracy of these models."),
    Column("design", format=".2f", header="clusters", meaning="By how much clusters multiply the questions needed."),
    Column("run", format=".2g", header="variance of runs", meaning="Variance of accuracy between runs of a model."),
    Column("checkpoint", format=".2g", header="variance of checkpoints", meaning="The same between checkpoints."),
)
CURVE = Columns(
    Column("difference", format="share1", priority=1, meaning="The difference of accuracy to see."),
    Column("items_paired", format="needed", header="same questions", priority=1, meaning="Questions it takes."),
    Column("items_unpaired", format="needed", header="different questions", meaning="Questions for each model."),
)


@dataclass(frozen=True)
class PowerAdvice(Result):
    """What a difference takes.

    ``plan``: ``seeds, checkpoints, items_paired, items_unpaired``, null where no number of items suffices. ``noise``:
    what was estimated from the data. ``curve``: ``difference, items_paired, items_unpaired`` for one seed.
    ``wrong_sign``: the chance that the data there are show a difference of this size with the wrong sign, and
    ``power`` the chance that they show it at all.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"plan": PLAN, "noise": NOISE, "curve": CURVE}

    plan: pl.DataFrame
    noise: pl.DataFrame
    curve: pl.DataFrame
    difference: float
    n_items: int
    n_runs: int
    wrong_sign: float
    power: float
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The plan, the noise it rests on, and items by difference."""
        return {"plan": self.plan, "noise": self.noise, "curve": self.curve}

    def verdict(self) -> Verdict:
        """How many questions does it take? A number, and whether there are as many, or nearly.

        Yes: the difference would be seen with a probability of at least 80 %. Where no number of questions is enough
        with the runs there are, the answer is a number of runs.
        """
        said = size_text(self.difference)
        facts: dict[str, float | str] = {"questions": self.n_items, "difference to see, in points": said.split()[0]}
        have = count(self.n_items, "question")
        if self.n_runs > 1:
            have += f" and {self.n_runs} runs of each model"
            facts["runs of each model"] = self.n_runs
        row = self._with_these_runs()
        needed = None
        if row is not None:
            needed = row["items_paired"]
        nearly = needed is not None and self.n_runs == 1 and needed <= NEARLY * self.n_items
        if self.power >= PLANNED or nearly:
            enough = "are enough"
            if self.power < PLANNED:
                enough = "are about enough"
            reason = f"{have} {enough} to see a difference of {said}"
            answer = f"{have} {enough}"
            if needed is not None and needed * NEARLY < self.n_items:
                answer = f"About {rounded_up(needed)} questions"
                reason += f"; about {rounded_up(needed)} would do"
            return self._answer(answer, f"{reason}.", State.YES, facts, self._same_questions(row))
        chance = chances_text(self.power)
        facts["chance to see it"] = chance
        unseen = f"With {have} there {agree_chance(chance)} of seeing a difference of {said}."
        if self.power < UNLIKELY:
            unseen = f"A difference of {said} would probably go unnoticed with {have} ({chance} of seeing it)."
        if needed is None:
            return self._more_runs(unseen, facts)
        number, planned = rounded_up(needed), chances_text(PLANNED)
        facts["chance that is planned for"] = planned
        reason = f"{unseen} For {planned} you need about {number}."
        advice = f"Add questions, or {AIM_LARGER}. {self._same_questions(row)}".strip()
        return self._answer(f"About {number} questions", reason, State.NO, facts, advice)

    def _with_these_runs(self) -> dict[str, Any] | None:
        """The row of the plan for as many runs as there are; None where no number of questions is enough for them."""
        rows = self.plan.filter(pl.col("seeds") <= self.n_runs, checkpoints=1).drop_nulls("items_paired")
        if not rows.height:
            return None
        return rows.row(-1, named=True)

    def _more_runs(self, unseen: str, facts: dict[str, float | str]) -> Verdict:
        """What to say where runs vary so much that questions alone do not help."""
        possible = self.plan.drop_nulls("items_paired")
        if not possible.height:
            spread = 2 * (self.noise["run"][0] or 0.0)
            # Beyond so many runs, some number of questions is enough.
            least = rounded_up(SEEN**2 * spread / self.difference**2)
            facts["runs that are too few"] = least
            reason = f"{unseen} Runs of a model differ so much that even {least} runs of each would not be enough."
            return self._answer(f"{least} runs are not enough", reason, State.NO, facts, self._larger(facts))
        # The cheapest plan: with the questions there are if that is possible, else with the fewest answers in all.
        here = possible.filter(pl.col("items_paired") <= NEARLY * self.n_items).sort("seeds", "checkpoints")
        if here.height:
            row = here.row(0, named=True)
        else:
            answers = pl.col("seeds") * pl.col("items_paired")
            row = possible.sort(answers, "seeds", "checkpoints").row(0, named=True)
        runs, number = row["seeds"], rounded_up(row["items_paired"])
        averaged = ""
        if row["checkpoints"] > 1:
            averaged = f", averaging the last {row['checkpoints']} checkpoints of each"
        reason = f"{unseen} {TOO_FEW_RUNS} You need about {runs} runs of each{averaged}, and {number} questions."
        advice = f"Train more runs, or {AIM_LARGER}."
        return self._answer(f"About {runs} runs of each model", reason, State.NO, facts, advice)

    def _larger(self, facts: dict[str, float | str]) -> str:
        """The difference that the most runs of the plan would show with the questions there are, in whole points."""
        runs, noise = SEEDS[-1], self.noise.row(0, named=True)
        error = math.sqrt(noise["disagreement"] * noise["design"] / self.n_items + 2 * (noise["run"] or 0.0) / runs)
        points = math.ceil(100 * SEEN * error)
        if points >= LARGEST_AIM:
            return f"{AIM_LARGER.capitalize()}, or find out why runs differ so much."
        facts["runs that would show a larger difference"] = runs
        facts["larger difference, in points"] = points
        return f"{AIM_LARGER.capitalize()}: about {runs} runs of each would show {count(points, 'point')}."

    def _answer(self, answer: str, reason: str, state: State, facts: dict[str, float | str], advice: str) -> Verdict:
        """A verdict with what all of them say: how easily the wrong model comes out ahead."""
        findings = describe_wrong_sign(self.wrong_sign, facts)
        return Verdict(answer, reason, findings, advice=advice, question=Question.POWER, state=state, facts=facts)

    def _same_questions(self, row: Mapping[str, Any] | None) -> str:
        """That both models should answer the same questions; and what different ones take, where it is more."""
        advice = "Let both models answer the same questions"
        if row is None or row["items_unpaired"] < NEARLY * row["items_paired"]:
            return f"{advice}."
        return f"{advice}; with different ones for each it takes about {rounded_up(row['items_unpaired'])}."

    def shown(self) -> Sequence[Shown]:
        """Questions by runs and checkpoints."""
        columns = PLAN
        if self.plan["seeds"].n_unique() == 1:
            columns = columns.without("seeds")
        if self.plan["checkpoints"].n_unique() == 1:
            columns = columns.without("checkpoints")
        frame, note = self.plan, ""
        possible = frame.drop_nulls("items_paired")
        if possible.height < frame.height:
            note = "-: no number of questions is enough, because runs differ too much."
        if 0 < possible.height < frame.height:
            frame, note = possible, "With other numbers of runs, no number of questions is enough."
        return [Shown(f"Questions needed to see {size_text(self.difference)}", frame, columns, note=note)]

    def details(self) -> str:
        """Where the numbers come from."""
        noise = self.noise.row(0, named=True)
        apart = 2 * noise["accuracy"] * (1 - noise["accuracy"])
        parts = [
            f"Models that are close disagree on {noise['disagreement']:.0%} of questions (10% to 90% of pairs: "
            f"{noise['low']:.0%} to {noise['high']:.0%})."
        ]
        if apart > 0:
            parts.append(
                f"The same questions for both take {noise['disagreement'] / apart:.0%} of what different ones would."
            )
        if noise["design"] >= NEARLY:
            parts.append(f"Clusters multiply the questions needed by {noise['design']:.1f}.")
        if noise["run"] is not None:
            parts.append(f"Runs of a model differ by {100 * math.sqrt(noise['run']):.1f} points (standard deviation).")
        if noise["checkpoint"] is not None:
            parts.append(
                f"Neighbouring checkpoints differ by {100 * math.sqrt(noise['checkpoint']):.1f} points (standard "
                "deviation)."
            )
        parts.append("Planned for a power of 80% in a two-sided test at 5% (McNemar).")
        return " ".join(parts)

    def figure(self) -> alt.TopLevelMixin:
        """Items against difference, paired and unpaired."""
        return as_chart(power_figure(self.difference), tables={"curve": self.curve})


power_verdict = PowerAdvice.verdict


def advise_power(
    responses: Any,
    *subjects: str,
    difference: float = 0.02,
    seeds: bool = False,
    cluster: str | None = None,
) -> PowerAdvice | SeedAdvice:
    """How many items, seeds and checkpoints does it take to see a difference with 80 % power?

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes, with at least two models; or a table of scores, which tells how many seeds
        and checkpoints it takes, but not how many items.
    *subjects
        Models to plan for; by default all pairs that are close to each other in accuracy.
    difference
        The difference of accuracy to see, 0.02 for two points.
    seeds
        Insist on the spread between seeds: an error if no model has several runs.
    cluster
        Column of the items that says which of them belong together.

    Notes
    -----
    Items: :func:`breadth.advice.paired_items` with the disagreement of the data's own pairs, times the design effect of
    clusters. With several runs per model, their variance is added to that of the items, so no number of items makes up
    for too few seeds. Checkpoints: noise between neighbouring checkpoints of a run, from second differences over the
    later half of training; averaging the last ones removes its part of the variance between runs.

    Do not use it to justify a sample after the fact, or where models will disagree much more than those in the data.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((4, 2000)) < 0.7
    >>> result = breadth.advise_power(answers, difference=0.05)
    >>> 1200 < result.plan["items_paired"][0] < 1400
    True
    """
    if not 0 < difference < 1:
        raise InputError(f"--difference is {difference:g}; choose a share between 0 and 1, 0.02 for two points")
    study, keys = open_runs(responses)
    if isinstance(study, ScoreTable):
        if subjects or cluster is not None:
            raise InputError(f"{study.name}: holds scores; naming models and --cluster take answers, item by item")
        return advise_seeds(study, keys, difference=difference, seeds=seeds)
    study = study.comparable()
    groups, warnings = named_groups(study, subjects) if subjects else (final_groups(study), [])
    if len(groups) < 2:
        known = listed(study.subject_names, 3)
        raise InputError(f"{study.name}: planning a comparison takes answers of at least two models; it has {known}")
    several = [group for group in groups if len(group.rows) > 1]
    if seeds and not several:
        raise InputError(
            f"{study.name}: every model has one run, so nothing is known about seeds; add runs that differ in `seed` "
            "alone, or leave out --seeds"
        )
    noise = measure_noise(study, groups, item_clusters(study, cluster))
    runs = min(len(group.rows) for group in groups)
    items = int(np.median([study.answered[list(group.rows)].all(axis=0).sum() for group in groups]))
    run_variance = 0.0 if np.isnan(noise.run) else noise.run
    error = np.sqrt(noise.disagreement * noise.design / items + 2 * run_variance / runs)
    shifts = difference / error if error else np.inf  # models that answer all items alike
    if not several:
        warnings.append("every model has one run: the plan does not count how much training runs vary")
    return PowerAdvice(
        plan_frame(noise, difference, bool(several)),
        pl.DataFrame([noise._asdict()]).fill_nan(None),
        pl.DataFrame(
            {
                "difference": DIFFERENCES,
                "items_paired": [paired_items(noise.disagreement, d) * noise.design for d in DIFFERENCES],
                "items_unpaired": [unpaired_items(noise.accuracy, d) * noise.design for d in DIFFERENCES],
            }
        ),
        *(difference, items, runs, float(special.ndtr(-shifts)), float(special.ndtr(shifts - NORMAL))),
        (*study.warnings, *warnings),
    )


def plan_frame(noise: AnswerNoise, difference: float, several: bool) -> pl.DataFrame:
    """Items by number of seeds and of checkpoints that are averaged; null where no number of items suffices."""
    rows: list[tuple[int | None, ...]] = []
    seeds: tuple[int, ...] = (1,)
    averages: tuple[int, ...] = (1,)
    spread = 0.0
    if several:
        seeds = SEEDS
        if not np.isnan(noise.checkpoint):
            averages = CHECKPOINTS
    paired, unpaired = paired_items(noise.disagreement, difference), unpaired_items(noise.accuracy, difference)
    for runs, checkpoints in itertools.product(seeds, averages):
        if several:
            removed = 0.0
            if checkpoints > 1:
                removed = noise.checkpoint * (1 - 1 / checkpoints)
            spread = 2 * max(noise.run - removed, 0.0)
        room = 1 - SEEN**2 * spread / runs / difference**2
        if room > 0:
            same, different = np.ceil(np.array([paired, unpaired]) * noise.design / room)
            rows.append((runs, checkpoints, int(same), int(different)))
        else:
            rows.append((runs, checkpoints, None, None))
    names = ("seeds", "checkpoints", "items_paired", "items_unpaired")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")


def measure_noise(study: Study, groups: Sequence[Group], cluster: Any) -> AnswerNoise:
    """Disagreement of pairs, design effect of clusters, variance between runs and between checkpoints."""
    measured = []
    for a, b in _some_pairs(len(groups)):
        rows = (groups[a].rows[0], groups[b].rows[0])
        both = study.answered[list(rows)].all(axis=0)
        if both.sum() < 2:
            continue
        one, two = (study.matrix[row, both].astype(np.float64) for row in rows)
        gap = one - two
        design = 1.0
        if cluster is not None and gap.any():
            design = mean_spread(gap, cluster[both]).variance / mean_spread(gap).variance
        measured.append((float((gap**2).mean()), abs(float(gap.mean())), float((one.mean() + two.mean()) / 2), design))
    if not measured:
        raise InputError(f"{study.name}: no two models answered the same items, so their disagreement is not known")
    table = np.array(measured)
    close = table[table[:, 1] < CLOSE]
    if len(close) >= FEWEST_CLOSE:
        table = close
    low, middle, high = np.quantile(table[:, 0], [0.1, 0.5, 0.9])
    design = max(1.0, float(np.nanmedian(table[:, 3])))
    run = _run_variance(study, groups)
    return AnswerNoise(
        float(middle), float(low), float(high), float(np.median(table[:, 2])), design, run, _checkpoint_noise(study)
    )


def _some_pairs(number: int) -> list[tuple[int, int]]:
    """Pairs of so many models: all, or some that are drawn. Twenty thousand models have two hundred million pairs."""
    total = math.comb(number, 2)
    if total <= MOST_PAIRS:
        return list(itertools.combinations(range(number), 2))
    chosen = np.random.default_rng(0).choice(total, MOST_PAIRS, replace=False)
    # In the order of ``itertools.combinations`` model a comes first in number - 1 - a pairs.
    ends = np.cumsum(np.arange(number - 1, 0, -1))
    first = np.searchsorted(ends, chosen, side="right")
    second = number - (ends[first] - chosen)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _run_variance(study: Study, groups: Sequence[Group]) -> float:
    total = df = 0.0
    for group in groups:
        columns = np.flatnonzero(study.answered[list(group.rows)].all(axis=0))
        if len(group.rows) > 1 and len(columns) > 1:
            spread, noise, own = run_spread(group_answers(study, group, columns))
            total, df = total + own * (spread - noise), df + own
    if not df:
        return float("nan")
    return max(total / df, 0.0)


def _checkpoint_noise(study: Study) -> float:
    """Variance of a checkpoint's accuracy around the course of its run; NaN where there are too few."""
    subjects = study.subjects
    if not {"run", "step"} <= set(subjects.columns) or subjects["step"].null_count():
        return float("nan")
    accuracy: Floats = np.where(study.answered, study.matrix, 0).sum(axis=1) / np.maximum(study.answered.sum(axis=1), 1)
    rows = subjects.with_row_index("row").sort("run", "step")
    return checkpoint_variance([accuracy[part["row"].to_numpy()] for part in rows.partition_by("run")])
