"""The result of ``transfer``: gains by level with their verdict, words, terminal tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.records import Score
from breadth.results import ALMOST_ALL, ALMOST_NONE, Answer, Figure, Result, Verdict, as_chart, as_many, times_more
from breadth.results.figures import Spec, heat_layers, model_colour, tooltip
from breadth.results.terminal import WIDTH, interval_text, make_table, signed_text
from breadth.results.words import FINDING, SCORE_WORDS, joined, points_text, score_interval_text

if TYPE_CHECKING:
    import altair as alt

#: Which fields of a mark in a figure choose the items behind it.
_DRILL = {"level": "test_level", "model": "model"}

#: What a verdict adds where every condition was trained once.
ONE_SEED_EACH = (
    "With one seed each, this holds for these trained models; trained with another seed, they may gain less."
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


@dataclass(frozen=True)
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
        It depends: otherwise. With one seed each, the answer is about these trained models only, and says so.
        """
        cells, levels = self.cells, self.by == "train_level"
        away = (
            cells.filter(pl.col(self.by).cast(pl.String) != pl.col("test_level").cast(pl.String)) if levels else cells
        )
        away = away if away.height else cells
        known = away.drop_nulls("q")
        where = "training on one level" if levels else "training"
        others = "the others" if levels else "test levels"
        if not known.height:
            alike = "all items of a level gain the same"
            if "flag" in away.columns and (away["flag"] == TransferFlag.ONE_CLUSTER).any():
                alike = f"all items of a level have one {self.cluster}"
            return Verdict(Answer.UNKNOWN, f"no gain on {others} has an interval, because {alike}.")
        up, down = _gains(known)
        counted = f"{up} of {known.height} cells ({condition_words(self.by)} x test level) gain and {down} lose"
        lines = _strongest(self, known)
        single = f" {ONE_SEED_EACH}" if _one_seed_each(cells) else ""
        if up >= ALMOST_ALL * known.height:
            return Verdict(Answer.YES, f"{where} helps on {others}: {counted}.{single}", lines)
        if down >= ALMOST_ALL * known.height:
            return Verdict(Answer.NO, f"{where} harms {others}: {counted}.{single}", lines)
        if up + down > ALMOST_NONE * known.height:
            some = "some of the others" if levels else f"some {others}"
            return Verdict(Answer.DEPENDS, f"{where} helps on {some}: {counted}.{single}", lines)
        times = times_more(float(known["se"].median() or 0))  # type: ignore[arg-type]
        if times <= 1:
            reason = f"{where} hardly changes {others}: {counted}, although a gain of 5 points would have been seen."
            return Verdict(Answer.NO, f"{reason}{single}", lines)
        needed = f"To see a gain of 5 points takes {as_many(times, 'test items and seeds')}."
        return Verdict(Answer.UNKNOWN, f"whether {where} helps on {others} is open: {counted}.{single}", lines, needed)

    def details(self) -> str:
        """How many cells gained, whether gains fade with distance, whether direction matters, and what to train on."""
        cells, best, condition = self.cells, self.best, condition_words(self.by)
        up, down = _gains(cells)
        open_ = cells.height - up - down
        parts = [] if self.score == "accuracy" else [f"Scored by {SCORE_WORDS[self.score]}; a point is 0.01."]
        parts += [
            f"Of all {cells.height} cells ({condition} x test level), {up} gained over the model before training, "
            f"{down} lost and {open_} {'is' if open_ == 1 else 'are'} undecided (false discovery rate 5%)."
        ]
        if self.effects.height:
            fade, direction = self.effects.iter_rows(named=True)
            fading = {-1: "gains fade with distance", 1: "gains grow with distance", 0: "undecided whether gains fade"}
            parts.append(
                f"Per level of distance between training and test, gain changes by {_points(fade)}: "
                f"{fading[_side(fade)]}."
            )
            decided = "decided" if _side(direction) else "undecided"
            parts.append(
                "Easy-to-hard minus hard-to-easy gain, apart from training levels of different quality: "
                f"{_points(direction)}, {decided}."
            )
        parts.append(_breaks_words(self.breaks, condition))
        overall = best.row(0, named=True)
        if overall["second"] is not None:
            lead = f"ahead of {overall['second']} by {abs(100 * overall['lead']):.1f} points"
            parts.append(
                f"Over all test levels, the best {condition} is {overall['best']}, {lead} ({overall['verdict']})."
            )
        winners = best.filter((pl.col("verdict") == "decided") & pl.col("test_level").is_not_null()).height
        parts.append(f"The best {condition} is decided on {winners} of {best.height - 1} test levels.")
        if "flag" in cells.columns and (cells["flag"] == TransferFlag.ONE_SEED).any():
            parts.append("Cells of one seed (flag one_seed) leave out how much training runs vary.")
        if self.cluster is not None:
            parts.append(f"Items of one {self.cluster} count as dependent.")
        if self.pairing is not None:
            ratio = f"{self.pairing:.2f} times what they would be unpaired (median over cells)"
            parts.append(f"Standard errors, paired by item, are {ratio}.")
        return " ".join(part for part in parts if part)


transfer_verdict = Transfer.verdict


def condition_words(by: str) -> str:
    """The column of the training condition in words."""
    return "training level" if by == "train_level" else by


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


def _strongest(result: Transfer, cells: pl.DataFrame) -> str:
    """The largest change that is a finding, and the effects of distance and direction that are."""
    parts = []
    found = cells.filter(pl.col("q") < FINDING).sort(pl.col("gain").abs(), descending=True, maintain_order=True)
    if found.height:
        row, word = found.row(0, named=True), "level " if result.by == "train_level" else ""
        change = f"{points_text(row['gain'])} ({score_interval_text(row)})"
        parts.append(f"Largest: trained on {word}{row[result.by]}, tested on level {row['test_level']}: {change}.")
    if result.effects.height:
        fade, direction = result.effects.iter_rows(named=True)
        if _side(fade):
            parts.append(f"Gains {'fade' if _side(fade) < 0 else 'grow'} with distance: {_points(fade)} per level.")
        if _side(direction):
            first, second = ("easy-to-hard", "hard-to-easy")[:: _side(direction)]
            parts.append(f"Training {first} gains more than {second}: {_points(direction)}.")
    return " ".join(parts)


def _side(row: dict[str, Any]) -> int:
    """1 if an effect is a finding above 0, -1 below, 0 if it is undecided."""
    found = row["q"] is not None and row["q"] < FINDING
    return found * (1 if row["estimate"] > 0 else -1)


def _points(row: dict[str, Any]) -> str:
    if row["ci_low"] is None:
        return f"{100 * row['estimate']:+.1f} points"
    return f"{100 * row['estimate']:+.1f} points ({100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f})"


def level_gains_table(cells: pl.DataFrame, by: str, width: int = WIDTH) -> Table:
    """A row per training condition, a column per test level: gain in points, starred if it is a finding."""
    names = [str(level) for level in cells["test_level"].unique().sort()]
    title = "Gain in points by test level (*: q < 0.05)"
    table = make_table(title, [condition_words(by)], [], width, what="test level")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=4)
    for part in cells.partition_by(by, maintain_order=True):
        gains = []
        for row in part.sort("test_level").iter_rows(named=True):
            sure = row["q"] is not None and row["q"] < FINDING
            gains.append(Text(f"{100 * row['gain']:+.0f}{'*' if sure else ' '}", style="bold" if sure else ""))
        table.add_row(Text(str(part[by][0])), *gains)
    return table


def best_table(best: pl.DataFrame, width: int = WIDTH) -> Table:
    """The best training condition per test level and overall, and its lead over the second best."""
    names, numbers = ["test level", "best", "second", "verdict"], ["gain", "lead", "95% interval"]
    least = ["gain", "95% interval", "second"]
    table = make_table("Best training per test level", names, numbers, width, least=least)
    for row in best.iter_rows(named=True):
        table.add_row(
            "all" if row["test_level"] is None else str(row["test_level"]),
            Text(row["best"]),
            Text(row["second"] or "-"),
            row["verdict"],
            signed_text(row["gain"]),
            signed_text(row["lead"]),
            interval_text(row["ci_low"], row["ci_high"]),
        )
    return table


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
