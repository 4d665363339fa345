"""The result of ``transfer``: gains by level with their verdict, words, terminal tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from breadth.irt import level_name
from breadth.records import Score
from breadth.results import (
    ALMOST_ALL,
    ALMOST_NONE,
    Answer,
    Column,
    Columns,
    Figure,
    Question,
    Result,
    Shown,
    Verdict,
    about,
    as_chart,
    times_more,
)
from breadth.results.figures import Spec, heat_layers, model_colour, tooltip
from breadth.results.words import (
    FINDING,
    SCORE_WORDS,
    amount_text,
    bracketed,
    capitalised,
    count,
    interval_words,
    joined,
    number_words,
    points_text,
)

if TYPE_CHECKING:
    import altair as alt

#: Which fields of a mark in a figure choose the items behind it.
_DRILL = {"level": "test_level", "model": "model"}

#: What a verdict adds where every condition was trained once.
ONE_SEED_EACH = "Every training ran with one seed only: with other seeds the gains may be larger or smaller."

#: Gains beside the largest that a verdict names.
MOST_NAMED = 3

#: Scores whose gains are shares, so that they are told in points.
SHARES = ("accuracy", "auc", "balanced")

_CONDITIONS = (
    Column("train_level", header="trained on level", format="name", priority=1, meaning="level of the training data"),
    Column("strategy", header="trained by", priority=1, meaning="strategy that chose and ordered the training data"),
)
_TEST_LEVEL = Column("test_level", header="test level", format="name", priority=1, meaning="level of the questions")
_LEVEL = "; level 0 is the easiest"

CELLS = Columns(
    *_CONDITIONS,
    _TEST_LEVEL,
    Column("n_items", header="questions", format=",d", priority=3, meaning="test questions of the level"),
    Column("n_seeds", header="seeds", format="d", priority=3, meaning="training runs"),
    Column("baseline", header="% before", format="percent", priority=2, meaning="score before training, in per cent"),
    *(
        Column(name, header="% after", format="percent", priority=2, meaning=f"{SCORE_WORDS[name]} after training")
        for name in SHARES
    ),
    *(
        Column(name, header="after", format=".2f", priority=2, meaning=f"{SCORE_WORDS[name]} after training")
        for name in ("dprime", "logscore")
    ),
    Column("gain", format="points", priority=1, meaning="points gained by training, over the model before it"),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="95% interval of the gain"),
    Column("se", header="error", format="points", priority=4, meaning="standard error of the gain"),
    Column("p", format="p", priority=4, meaning="p-value of the gain"),
    Column("q", format="p", priority=3, meaning="p-value that allows for all other cells"),
    Column("flag", priority=4, meaning="code of why an interval is missing or too narrow"),
)
EFFECTS = Columns(
    Column("effect", words=True, priority=1, meaning="what is asked of all gains together"),
    Column("estimate", header="points", format="points", priority=1, meaning="its size"),
    Column("ci_low", "ci_high", format="points", priority=1, meaning="95% interval"),
    Column("se", header="error", format="points", priority=4, meaning="standard error"),
    Column("p", format="p", priority=4, meaning="p-value"),
    Column("q", format="p", priority=3, meaning="p-value that allows for the other effect"),
)
BREAKS = Columns(
    *_CONDITIONS,
    Column("breaks_at", header="breaks off at", format="d", priority=1, meaning=f"level with a sudden drop{_LEVEL}"),
    Column(
        "drop", header="points lost", format="points", priority=1, meaning="by how much the score is lower from there"
    ),
    Column("low", "high", header="level from", format="d", priority=2, meaning="95% interval of that level"),
    Column("p", format="p", priority=4, meaning="p-value of a sudden drop against a steady decline"),
    Column("q", format="p", priority=3, meaning="p-value that allows for all conditions"),
    Column("flag", priority=4, meaning="code of why no level is named"),
)
BEST = Columns(
    _TEST_LEVEL,
    Column("best", priority=1, meaning="training with the largest gain on this level"),
    Column("gain", format="points", priority=2, meaning="its gain in points"),
    Column("second", priority=2, meaning="training with the second largest gain"),
    Column("lead", format="points", priority=1, meaning="points by which the best is ahead of the second"),
    Column("ci_low", "ci_high", format="points", priority=2, meaning="95% interval of the lead"),
    Column("p", format="p", priority=4, meaning="p-value of the lead"),
    Column("q", format="p", priority=4, meaning="p-value that allows for all levels"),
    Column("verdict", header="the lead is", priority=1, meaning="whether the lead is more than chance"),
)


class Effect(StrEnum):
    """Values of the column ``effect``."""

    FADING = "gain per level of distance"
    ASYMMETRY = "easy-to-hard minus hard-to-easy"


class TransferFlag(StrEnum):
    """Why the interval of a cell is missing, or too narrow."""

    NO_VARIATION = "no_variation"
    ONE_SEED = "one_seed"
    ONE_CLUSTER = "one_cluster"


class BreakFlag(StrEnum):
    """Why no level is named at which accuracy breaks off."""

    STEADY = "steady"
    FEW_LEVELS = "few_levels"
    RISE = "rise"


@dataclass(frozen=True, repr=False)
class Transfer(Result):
    """Gains of every training condition (a level or a strategy) on every test level.

    ``cells``: ``train_level`` (or ``strategy``), ``test_level, n_items, n_seeds, accuracy, baseline, gain, se,
    ci_low, ci_high, p, q, flag``; ``flag`` is ``no_variation`` where all items gain the same, so that there is no
    interval, ``one_cluster`` where all items of a level belong to one cluster, and ``one_seed`` where the interval does
    not include variation between training runs (or includes that of the other conditions, where these have several
    seeds). ``effects``: fading with distance and asymmetry (training by level only). ``breaks``: ``breaks_at``, the
    level at which accuracy drops, with ``drop``, the range ``low`` to ``high`` and ``p`` of a step against a smooth
    decline; null where no step fits clearly better (q < 0.05), with a ``flag``: ``steady``, ``few_levels`` or ``rise``.
    ``best``: the best condition per test level and overall, and whether its lead is decided (q < 0.05). ``q`` is over
    the rows of a frame. ``pairing``: standard error of a gain relative to one that is not paired by item, median over
    cells. ``score``: what is compared; the column ``accuracy`` has its name. ``strategies``: the same for strategies,
    where there are both kinds and ``by`` was not given. ``cluster``: the column of items that count as dependent.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {
        "cells": CELLS,
        "effects": EFFECTS,
        "breaks": BREAKS,
        "best": BEST,
        "strategy_cells": CELLS,
        "strategy_effects": EFFECTS,
        "strategy_breaks": BREAKS,
        "strategy_best": BEST,
    }

    cells: pl.DataFrame
    effects: pl.DataFrame
    breaks: pl.DataFrame
    best: pl.DataFrame
    warnings: tuple[str, ...] = ()
    pairing: float | None = None
    strategies: Transfer | None = None
    score: Score = "accuracy"
    cluster: str | None = None

    @property
    def by(self) -> str:
        """Name of the column with the training condition."""
        return self.cells.columns[0]

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The frames by name, with those of ``strategies`` as ``strategy_cells`` and so on."""
        tables = {"cells": self.cells, "effects": self.effects, "breaks": self.breaks, "best": self.best}
        if self.strategies is not None:
            tables |= {f"strategy_{name}": table for name, table in self.strategies.tables().items()}
        return tables

    def figure(self) -> alt.TopLevelMixin:
        """Heatmap of gains and, for training by level, gain against distance."""
        figures = [gain_matrix(self.cells)]
        if self.cells[self.by].dtype.is_integer():
            figures.append(gain_by_distance(self.cells))
        return as_chart(*figures, tables={"cells": self.cells})

    def verdict(self) -> Verdict:
        """Does training on one level help on the others? By strategy: does training help on every level?

        From the cells off the diagonal (all cells for strategies). A gain or a loss is a finding if q < 0.05, over all
        cells. Yes: at least 90 % are gains. No: at least 90 % are losses; or at most 10 % are findings, and the median
        cell would have shown a gain of 5 points with a probability of 80 %. Not enough data: the same, if it would not.
        Mixed: otherwise. With one seed each, the answer is about these trained models only, and says so.
        """
        question = Question.LEVEL_TRANSFER if self.by == "train_level" else Question.STRATEGIES
        known = self._away().drop_nulls("q")
        if not known.height:
            return Verdict(Answer.UNKNOWN, self._why_nothing_is_known(), question=question)
        found = known.filter(pl.col("q") < FINDING).sort(pl.col("gain").abs(), descending=True, maintain_order=True)
        up, down = found.filter(pl.col("gain") > 0), found.filter(pl.col("gain") < 0)
        facts: dict[str, float | str] = {}
        needed = ONE_SEED_EACH if _one_seed_each(self.cells) else ""
        answer = Answer.MIXED
        if up.height >= ALMOST_ALL * known.height:
            answer, reason = Answer.YES, self._helps_everywhere(up)
        elif down.height >= ALMOST_ALL * known.height:
            answer, reason = Answer.NO, self._harms_everywhere(down)
        elif found.height > ALMOST_NONE * known.height:
            reason = self._change_sentence(up if up.height else down)
        else:
            answer, reason, more = self._hardly_anything(known, facts)
            needed = f"{more} {needed}".strip()
        sentences = []
        if answer is Answer.MIXED:
            sentences += [self._also(up, facts), self._unimproved(known, up), self._not_clear(known, found, up, facts)]
            sentences.append(self._harmed(up, down))
        elif found.height and answer is Answer.YES:
            sentences.append(self._not_clear(known, found, up, facts))
        sentences += [self._fading_words(), self._direction_words(), self._break_words()]
        if self.score != "accuracy":
            sentences.append(f"Scores are {SCORE_WORDS[self.score]}.")
        findings = " ".join(filter(None, sentences))
        advice = self._advice(clear=found.height > 0)
        return Verdict(answer, reason, findings, needed, question=question, advice=advice, facts=facts)

    def _away(self) -> pl.DataFrame:
        """The cells of which the question is: those of another level than was trained on; all of strategies."""
        if self.by != "train_level":
            return self.cells
        away = self.cells.filter(pl.col(self.by).cast(pl.String) != pl.col("test_level").cast(pl.String))
        return away if away.height else self.cells

    def _why_nothing_is_known(self) -> str:
        others = "other levels" if self.by == "train_level" else "any level"
        if "flag" in self.cells.columns and (self._away()["flag"] == TransferFlag.ONE_CLUSTER).any():
            return f"No gain on {others} can be judged, because all questions of a level have one {self.cluster}."
        return f"No gain on {others} can be judged, because all questions of a level gain the same."

    @property
    def _sizes(self) -> dict[int, int]:
        """Questions of every test level."""
        sizes = self.cells.group_by("test_level", maintain_order=True).agg(pl.col("n_items").max())
        return dict(sizes.sort("test_level").iter_rows())

    def _level(self, level: int) -> str:
        return level_name(level, self._sizes)

    def _trained(self, condition: int | str) -> str:
        """A way of training as a sentence names it."""
        if self.by != "train_level":
            return f"training by {condition}"
        if isinstance(condition, int) and condition in self._sizes:
            return f"training on {self._level(condition)}"
        return f"training on level {condition}"

    def _amount(self, value: float) -> str:
        """A change without its sign, in points where the score is a share."""
        return amount_text(value) if self.score in SHARES else f"{abs(value):.2f}"

    def _change(self, row: Mapping[str, Any]) -> str:
        """A change without its sign, with its interval."""
        sign = 1 if row["gain"] >= 0 else -1
        if self.score in SHARES:
            return self._amount(row["gain"]) + bracketed(interval_words(row["ci_low"], row["ci_high"], True, sign))
        if row["ci_low"] is None:
            return self._amount(row["gain"])
        low, high = sorted((sign * row["ci_low"], sign * row["ci_high"]))
        return f"{self._amount(row['gain'])} (95% interval {number_words(low, '.2f')} to {number_words(high, '.2f')})"

    def _change_sentence(self, cells: pl.DataFrame) -> str:
        """The largest of some gains, or of some losses, as a sentence."""
        row = cells.row(0, named=True)
        also = "also " if self.by == "train_level" and row["gain"] > 0 else ""
        verb = f"{also}improved" if row["gain"] > 0 else "made worse"
        text = f"{self._trained(row[self.by])} {verb} {self._level(row['test_level'])} by {self._change(row)}."
        return capitalised(text)

    def _helps_everywhere(self, up: pl.DataFrame) -> str:
        row = up.row(0, named=True)
        start = "Training by any strategy improved all levels, most of all"
        if self.by == "train_level":
            start = "Training on one level also improved the others, most of all"
        return f"{start} {self._level(row['test_level'])} by {self._trained(row[self.by])}: {self._change(row)}."

    def _harms_everywhere(self, down: pl.DataFrame) -> str:
        row = down.row(0, named=True)
        start = "Training made all levels worse, most of all"
        if self.by == "train_level":
            start = "Training on one level made the others worse, most of all"
        return f"{start} {self._level(row['test_level'])} by {self._trained(row[self.by])}: {self._change(row)}."

    def _hardly_anything(self, known: pl.DataFrame, facts: dict[str, float | str]) -> tuple[Answer, str, str]:
        """Where hardly any gain is clear: is that for want of questions and seeds?"""
        what, others = "Training", "any level"
        if self.by == "train_level":
            what, others = "Training on one level", "other levels"
        facts["worth seeing"] = 5
        times = times_more(float(known["se"].median() or 0))  # type: ignore[arg-type]
        if times <= 1:
            reason = f"{what} hardly changed {others}, although a gain of 5 points would have been seen."
            return Answer.NO, reason, ""
        largest = known.sort(pl.col("gain").abs(), descending=True, maintain_order=True).row(0, named=True)
        facts["comparisons"] = known.height
        change = "gain" if largest["gain"] >= 0 else "loss"
        reason = (
            f"No change by {what.lower()} is clear on {others}, with {count(known.height, 'comparison')} allowed for; "
            f"the largest is a {change} of {self._change(largest)} on {self._level(largest['test_level'])} by "
            f"{self._trained(largest[self.by])}."
        )
        if self.score not in SHARES:
            return Answer.UNKNOWN, reason, "More test questions or seeds would narrow the intervals."
        questions = sum(self._sizes.values())
        facts |= {"questions": questions, "questions needed": about(times * questions)}
        more = (
            f"About {facts['questions needed']} test questions, or as many times the seeds, would show a gain of 5 "
            f"points; there are {questions:,} questions."
        )
        return Answer.UNKNOWN, reason, more

    def _also(self, up: pl.DataFrame, facts: dict[str, float | str]) -> str:
        """Which gains are clear beside the largest."""
        if up.height < 2:
            return ""
        parts = []
        for row in up.slice(1).iter_rows(named=True):
            parts.append(f"{self._briefly(row)} ({self._amount(row['gain'])})")
        facts["other gains"] = len(parts) - MOST_NAMED
        order = " (training level → test level)" if self.by == "train_level" else ""
        return f"Other clear gains{order}: {joined(parts, MOST_NAMED)}."

    def _briefly(self, row: Mapping[str, Any]) -> str:
        """A cell by the numbers of its levels, such as ``0 → 2``, or by its level and strategy."""
        if self.by == "train_level":
            return f"{row[self.by]} → {row['test_level']}"
        return f"level {row['test_level']} by {row[self.by]}"

    def _unimproved(self, known: pl.DataFrame, up: pl.DataFrame) -> str:
        """Test levels on which no gain is clear."""
        levels = known["test_level"].unique().sort().to_list()
        names = [self._level(level) for level in levels if level not in up["test_level"]]
        if not names or not up.height:
            return ""
        by = "Training on other levels" if self.by == "train_level" else "Training"
        return f"{by} did not clearly improve {joined(names, MOST_NAMED)}."

    def _harmed(self, up: pl.DataFrame, down: pl.DataFrame) -> str:
        """The largest loss, where the largest change that was named is a gain."""
        if not up.height or not down.height:
            return ""
        return self._change_sentence(down)

    def _not_clear(
        self, known: pl.DataFrame, found: pl.DataFrame, up: pl.DataFrame, facts: dict[str, float | str]
    ) -> str:
        """The cells that neither gain nor lose clearly, on levels that other training does improve."""
        rest = known.join(found, on=[self.by, "test_level"], how="anti", maintain_order="left")
        rest = rest.filter(pl.col("test_level").is_in(up["test_level"].to_list()))
        names = [self._briefly(row) for row in rest.iter_rows(named=True)]
        if len(names) > MOST_NAMED:
            facts["no clear gain"] = len(names) - MOST_NAMED
        return f"No clear gain: {joined(names, MOST_NAMED)}." if names else ""

    def _fading_words(self) -> str:
        """Whether gains fade with distance, where that is decided."""
        row = self._effect(Effect.FADING)
        if row is None or not _side(row):
            return ""
        change = "drops" if row["estimate"] < 0 else "grows"
        return f"The gain {change} by {self._amount(row['estimate'])} for each level between training and test."

    def _direction_words(self) -> str:
        """Whether easy-to-hard differs from hard-to-easy, where that is decided."""
        row = self._effect(Effect.ASYMMETRY)
        if row is None or not _side(row):
            return ""
        first, second = "easy-to-hard", "hard-to-easy"
        if row["estimate"] < 0:
            first, second = second, first
        return f"{capitalised(first)} transfer is {self._amount(row['estimate'])} larger than {second}."

    def _effect(self, name: Effect) -> dict[str, Any] | None:
        if not self.effects.height:
            return None
        rows = self.effects.filter(pl.col("effect") == name.value)
        return rows.row(0, named=True) if rows.height else None

    def _break_words(self) -> str:
        """At which level accuracy breaks off, where a sudden drop fits better than a steady decline."""
        if not self.breaks.height:
            return ""
        named = self.breaks.drop_nulls("breaks_at").sort("drop", descending=True, maintain_order=True)
        if not named.height:
            return ""
        row, before = named.row(0, named=True), named.filter(pl.col(self.by) == "before")
        if before.height:
            # Where it was there before, training is not what made it.
            row, when = before.row(0, named=True), "already before training"
        else:
            condition = int(row[self.by]) if str(row[self.by]).isdigit() else row[self.by]
            when = f"after {self._trained(condition)}"
        score = capitalised(SCORE_NAMES.get(self.score, "accuracy"))
        return f"{score} breaks off at {self._level(row['breaks_at'])} {when}, by {self._amount(row['drop'])}."

    def _advice(self, clear: bool) -> str:
        """What to train on, where there is a choice: the best over all levels, and whether its lead is decided."""
        row = self.best.row(0, named=True)
        best = int(row["best"]) if self.by == "train_level" and row["best"].isdigit() else row["best"]
        if row["second"] is None:
            return ""
        if not clear:
            return "Do not choose what to train on by these gains."
        trained = capitalised(self._trained(best).replace("training", "train", 1))
        if row["verdict"] == "decided":
            return f"{trained}: averaged over all test levels, the trained one included, it gained most."
        second = int(row["second"]) if self.by == "train_level" and row["second"].isdigit() else row["second"]
        other = self._trained(second).removeprefix("training ")
        return (
            f"{trained} or {other}: averaged over all test levels, the trained one included, these gain most, and the "
            "data cannot say which of the two is better."
        )

    def shown(self) -> Sequence[Shown]:
        """Gains by training and test level, then the best training per level."""
        best = self.best
        level = pl.col("test_level").cast(pl.String).fill_null("all").alias("test_level")
        columns = BEST.without("second") if best["second"].is_null().all() else BEST
        return [
            gains_shown(self.cells, self.by, self.score),
            Shown("Best training per test level", best.with_columns(level), columns.filled(best.with_columns(level))),
        ]

    def details(self) -> str:
        """How many cells gained, whether gains fade with distance, whether direction matters, what was checked."""
        cells, condition = self.cells, condition_words(self.by)
        up, down = _gains(cells)
        parts = [] if self.score == "accuracy" else ["A point is 0.01 of the score."]
        parts.append(
            f"Of all {cells.height} cells ({condition} x test level), {up} gained over the model before training and "
            f"{down} lost (false discovery rate 5%)."
        )
        fade, direction = self._effect(Effect.FADING), self._effect(Effect.ASYMMETRY)
        if fade is not None:
            parts.append(f"Change of the gain per level of distance: {_points(fade)}, {_decided(fade)}.")
        if direction is not None:
            parts.append(
                "Easy-to-hard minus hard-to-easy gain, apart from training levels of different quality: "
                f"{_points(direction)}, {_decided(direction)}."
            )
        parts.append(_breaks_words(self.breaks, condition))
        if "flag" in cells.columns and (cells["flag"] == TransferFlag.ONE_SEED).any():
            parts.append("Cells of one seed (flag one_seed) leave out how much training runs vary.")
        if self.cluster is not None:
            parts.append(f"Questions of one {self.cluster} count as dependent.")
        if self.pairing is not None:
            ratio = f"{self.pairing:.2f} times what they would be unpaired (median over cells)"
            parts.append(f"Standard errors, paired by question, are {ratio}.")
        return " ".join(part for part in parts if part)


transfer_verdict = Transfer.verdict

#: Scores in a word or two.
SCORE_NAMES = {"auc": "auc", "dprime": "d'", "balanced": "balanced accuracy", "logscore": "log-probability"}


def condition_words(by: str) -> str:
    """The column of the training condition in words."""
    return "training level" if by == "train_level" else by


def gains_shown(cells: pl.DataFrame, by: str, score: str = "accuracy") -> Shown:
    """A row per training condition, a column per test level: the gain, with a star where it is a finding."""
    names = [str(level) for level in cells["test_level"].unique().sort()]
    schema: dict[str, Any] = {by: pl.String}
    columns = [column for column in _CONDITIONS if column.name == by]
    form = "points0" if score in SHARES else "+.2f"
    for name in names:
        schema |= {name: pl.Float64, f"clear {name}": pl.Boolean}
        clear = f"clear {name}"
        meaning = f"gain on level {name} over the model before training"
        columns.append(Column(name, format=form, star=clear, bold=clear, meaning=meaning))
    rows = []
    for part in cells.partition_by(by, maintain_order=True):
        row: dict[str, Any] = {by: str(part[by][0])}
        for cell in part.iter_rows(named=True):
            row[str(cell["test_level"])] = cell["gain"]
            row[f"clear {cell['test_level']}"] = cell["q"] is not None and cell["q"] < FINDING
        rows.append(row)
    unit = "in points " if score in SHARES else ""
    title = f"Gain {unit}by test level, 0 is the easiest"
    note = "* more than chance (false discovery rate 5%)."
    return Shown(title, pl.DataFrame(rows, schema=schema), Columns(*columns), note=note)


def _one_seed_each(cells: pl.DataFrame) -> bool:
    """Whether no condition was trained with several seeds."""
    return "n_seeds" in cells.columns and cells["n_seeds"].max() == 1


def _breaks_words(breaks: pl.DataFrame, condition: str) -> str:
    """At which level accuracy breaks off, for whom; or why no level is named."""
    if not breaks.height:
        return ""
    if breaks["flag"].eq_missing(BreakFlag.FEW_LEVELS.value).all():
        return "With fewer than 4 test levels, a break in accuracy cannot be told from a steady decline."
    named = breaks.drop_nulls("breaks_at")
    if not named.height:
        return "No level stands out at which accuracy breaks off: a steady decline fits as well."
    found = []
    for (level,), rows in named.group_by("breaks_at", maintain_order=True):
        who = []
        for name, drop in rows.select(breaks.columns[0], "drop").iter_rows():
            whose = "before training" if name == "before" else f"{condition} {name}"
            who.append(f"{whose} ({points_text(-drop)})")
        found.append(f"from level {level} on: {joined(who)}")
    rest = " For the others a steady decline fits as well." if named.height < breaks.height else ""
    return f"Accuracy breaks off {'; '.join(found)}.{rest}"


def _gains(cells: pl.DataFrame) -> tuple[int, int]:
    """How many cells gain, and how many lose, with the false discovery rate at 5 %."""
    gains = cells.filter(pl.col("q") < FINDING)["gain"]
    return int((gains > 0).sum()), int((gains < 0).sum())


def _side(row: Mapping[str, Any]) -> int:
    """1 if an effect is a finding above 0, -1 below, 0 if it is undecided."""
    if row["q"] is None or row["q"] >= FINDING:
        return 0
    return 1 if row["estimate"] > 0 else -1


def _decided(row: Mapping[str, Any]) -> str:
    return "decided" if _side(row) else "undecided"


def _points(row: Mapping[str, Any]) -> str:
    estimate = number_words(100 * row["estimate"], "+.1f")
    if row["ci_low"] is None:
        return f"{estimate} points"
    low, high = number_words(100 * row["ci_low"], "+.1f"), number_words(100 * row["ci_high"], "+.1f")
    return f"{estimate} points ({low} to {high})"


def gain_matrix(cells: pl.DataFrame, table: str = "cells") -> Figure:
    """Gain over the model before training per training condition (level or strategy) and test level.

    ``cells`` are those of one ``Transfer``, or of several with ``model, train_set, examples`` (or some of these
    columns) in front: then every combination has a panel.
    """
    by = "train_level" if "train_level" in cells.columns else "strategy"
    limit = max(0.05, float(cells["gain"].abs().max() or 0))  # type: ignore[arg-type]
    limit = -(-limit * 20 // 1) / 20
    title, score = condition_words(by), cells.columns[cells.columns.index("baseline") - 1]
    tips = tooltip(
        (by, title), ("test_level", "test level"), ("gain", "gain", "+.1%"), ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"), ("baseline", "before", ".1%"), (score, "trained", ".1%"),
        ("n_items", "items", ",d"), ("n_seeds", "seeds", "d"), ("q", "q", ".2g"),
    )  # fmt: skip
    quiet = {"labelAngle": 0, "ticks": False, "domain": False}
    order = [str(condition) for condition in cells[by].unique(maintain_order=True)]
    x = {"field": "test_level", "type": "ordinal", "axis": {"title": "test level", **quiet}}
    y = {"field": by, "type": "ordinal", "sort": order, "axis": {"title": title, **quiet}}
    layers = heat_layers("gain", "text", tips, limit, "gain", "+.0%")
    view: Spec = {"width": {"step": 44}, "height": {"step": 34}, "encoding": {"x": x, "y": y}, "layer": layers}
    computed = [
        {"calculate": f"isValid(datum.q) && datum.q < {FINDING}", "as": "sure"},
        {"calculate": "datum.sure", "as": "bold"},
        {"calculate": "replace(format(100 * datum.gain, '+.0f'), '-', '−')", "as": "text"},
    ]
    caption = (
        "Gain over the model before training, in points; level 0 is the easiest. Strong and bold: a finding (false "
        "discovery rate below 5%); faded: undecided."
    )
    spec = _in_panels(cells, table, computed, view, {"panel": 44 * cells["test_level"].n_unique() + 90})
    key = "transfer" if by == "train_level" else "strategy"
    return Figure(key, f"{title.capitalize()} by test level", caption, spec, table, drill=_DRILL)


def gain_by_distance(cells: pl.DataFrame, table: str = "cells", models: Sequence[str] = ()) -> Figure:
    """Gain against the distance of the test level from the training level; ``models`` in the order of their colours.

    ``cells`` are those of one ``Transfer``, or of several: see :func:`gain_matrix`.
    """
    x = {
        "field": "distance",
        "type": "quantitative",
        "scale": {"nice": False, "padding": 10},
        "axis": {
            "title": "test level minus training level",
            "labelExpr": "datum.value ? format(datum.value, '+d') : '0'",
            "tickMinStep": 1,
        },
    }
    labels = "datum.value ? format(datum.value, '+.0%') : '0'"
    y = {"field": "gain", "type": "quantitative", "axis": {"title": "gain", "labelExpr": labels, "tickCount": 5}}
    model = "model" in cells.columns
    colour = model_colour(models, legend=False) if model else {"value": "@ink"}
    tips = tooltip(
        *([("model", "model")] if model else []), ("train_level", "training level"), ("test_level", "test level"),
        ("gain", "gain", "+.1%"), ("ci_low", "from", "+.1%"), ("ci_high", "to", "+.1%"),
    )  # fmt: skip
    mean = {
        "aggregate": [{"op": "mean", "field": "gain", "as": "mean"}],
        "groupby": [*_condition_keys(cells), *(["panel"] if _condition_keys(cells) else []), "distance"],
    }
    view: Spec = {
        "height": 170,
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.55, "size": 45, "cursor": "pointer"},
                "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
            },
            {
                "transform": [mean],
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y | {"field": "mean"}, "color": colour},
            },
        ],
    }
    computed = [{"calculate": "datum.test_level - datum.train_level", "as": "distance"}]
    caption = (
        "Dots: the cells of the matrix. Line: their mean at each distance. To the right of 0, the training level is "
        "easier than the test level."
    )
    spec = _in_panels(cells, table, computed, view, {"pad": 70, "least": 240, "most": 860 if model else 520})
    return Figure("distance", "Gain by distance", caption, spec, table, drill=_DRILL)


def _in_panels(cells: pl.DataFrame, table: str, computed: list[Spec], view: Spec, size: Spec) -> Spec:
    """A view of one result's cells, or a panel of it per result, named by what tells results apart."""
    keys = _condition_keys(cells)
    data: Spec = {"data": {"name": table}}
    if not keys:
        return data | {"usermeta": size, "width": "container"} | view | {"transform": computed}
    words = [f"datum.{key}" + " + ' examples'" * (key == "examples") for key in keys if cells[key].n_unique() > 1]
    panel = {"calculate": " + ' · ' + ".join(words or [f"datum.{keys[0]}"]), "as": "panel"}
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}}
    data["usermeta"] = size | {"panels": cells.select(keys).unique().height}
    return data | {"transform": [panel, *computed], "facet": facet, "spec": view}


def _condition_keys(cells: pl.DataFrame) -> list[str]:
    return [name for name in ("model", "train_set", "examples") if name in cells.columns]
