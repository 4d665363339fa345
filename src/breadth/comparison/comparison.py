"""The result of ``compare``: differences with their verdict, words, terminal tables and figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.comparison.groups import ONE_RUN_EACH, describe_runs
from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import NORMAL, benjamini_hochberg
from breadth.results import (
    ALMOST_ALL,
    ALMOST_NONE,
    WORTH_SEEING,
    Answer,
    Figure,
    Result,
    Verdict,
    as_chart,
    as_many,
    times_more,
)
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, probability_text
from breadth.results.words import FINDING, count, joined

if TYPE_CHECKING:
    import altair as alt


class By(StrEnum):
    """What the items of a cell have in common: values of the column ``by``."""

    ALL = "all"
    TESTSET = "testset"
    SHIFT = "shift"
    LEVEL = "level"


class ComparisonFlag(StrEnum):
    """Why a cell has no interval."""

    NO_VARIATION = "no_variation"
    ONE_CLUSTER = "one_cluster"


class Within(StrEnum):
    """What an interval says about a margin: values of the column ``within``."""

    BETTER = "better"
    EQUIVALENT = "equivalent"
    NO_WORSE = "no worse"
    WORSE = "worse"
    OPEN = "open"


#: It is said that few runs widen an interval if they make it so many times as wide, and if runs make up so much of the
#: squared standard error.
MUCH_WIDER, MUCH_RUNS = 1.25, 0.1

#: Runs of a model up to which their spread is called badly known.
FEW_RUNS = 3

#: How the column ``by`` is written in front of a value.
PLACES = {By.TESTSET: "on {}", By.SHIFT: "on {} test sets", By.LEVEL: "on level {}", By.ALL: "overall"}


def points_with_decimal(value: float) -> str:
    """A difference of accuracy in points with one decimal, and its sign."""
    return f"{100 * value:+.1f} points".replace("-", "−")


def reach(row: Mapping[str, Any], low: str = "ci_low", high: str = "ci_high") -> str:
    """The ends of an interval in points; empty where there is none."""
    if row[low] is None:
        return ""
    return f"{100 * row[low]:+.1f} to {100 * row[high]:+.1f}".replace("-", "−")


def _with_interval(row: Mapping[str, Any]) -> str:
    inside = reach(row)
    return f"{points_with_decimal(row['difference'])} ({inside})" if inside else points_with_decimal(row["difference"])


def _place(row: Mapping[str, Any]) -> str:
    return PLACES[By(row["by"])].format(row["value"])


@dataclass(frozen=True)
class Comparison(Result):
    """Differences between every two of the chosen models; differences are second minus first.

    ``cells``: ``first, second, by, value, n_items, runs_first, runs_second, accuracy_first, accuracy_second,
    difference, se, ci_low, ci_high, p, q, exact, only_first, only_second, flag`` and, with a margin, ``within``; ``by``
    is all, testset, shift or level, and ``value`` which one. ``q`` is over the rows with ``all`` (for two models the
    same as ``p``), and over all other rows. ``only_first`` is the
    number of items that only the first got right (for several runs: the sum of the shares by which it is ahead).
    ``testsets``: per pair the mean over test sets as a sample of test sets, with its interval, and the interval of a
    new test set's difference (``predict_low, predict_high``; from three test sets on). ``items``: the items on which
    the first model and another differ, with the share of runs that got them right.
    """

    cells: pl.DataFrame
    testsets: pl.DataFrame
    items: pl.DataFrame
    margin: float | None = None
    cluster: str | None = None
    warnings: tuple[str, ...] = ()
    #: Whether the models are results of training runs, so that another run of a recipe is conceivable.
    trained: bool = False

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Differences by cell, means over test sets, and items on which models differ."""
        return {"cells": self.cells, "testsets": self.testsets, "items": self.items}

    def verdict(self) -> Verdict:
        """Is the second model better than the first?

        A difference is a finding if q < 0.05 (that on all items is one test, the cells are another family). For two
        models: It depends, where one is ahead on some cells, or on all items, and the other on others. Yes and No: the
        second is better, or worse, on all items. No, where it is neither, and a difference of 5 points would have been
        seen with a probability of 80 %, or where a margin was given and the interval lies within it. Not enough data:
        otherwise. For several models: Yes, if at least 90 % of pairs differ on all items; No, if at most 10 % do.
        Trained models with one run each stand for themselves: the second line says so.
        """
        whole = self.cells.filter(pl.col("by") == By.ALL)
        if whole.height > 1:
            return _many(whole, self.trained)
        row, parts = whole.row(0, named=True), self.cells.filter(pl.col("by") != By.ALL)
        first, second = row["first"], row["second"]
        # A cell that holds all items, such as the only test set, says nothing that the whole does not.
        found = parts.filter(pl.col("q") < FINDING, pl.col("n_items") < row["n_items"])
        up, down = found.filter(pl.col("difference") > 0), found.filter(pl.col("difference") < 0)
        clear = row["q"] is not None and row["q"] < FINDING
        lines = []
        if found.height:
            largest = found.sort(pl.col("difference").abs(), descending=True, maintain_order=True).row(0, named=True)
            lines.append(f"Largest: {_with_interval(largest)} {_place(largest)}.")
        lines.append(_carries(self.testsets, clear))
        if self.trained and row["runs_first"] == row["runs_second"] == 1:
            lines.append(ONE_RUN_EACH)
        line = " ".join(text for text in lines if text)
        overall = f"{_with_interval(row)} on {count(row['n_items'], 'item')}"
        if up.height and down.height:
            sides = f"{second} is ahead {_where_found(up)} and behind {_where_found(down)}; overall {overall}."
            return Verdict(Answer.DEPENDS, sides, line)
        if clear:
            better = row["difference"] > 0
            word = "better" if better else "worse"
            against = down if better else up
            if against.height:
                behind = "behind" if better else "ahead"
                reason = f"{second} is {word} than {first} overall, {overall}, but {behind} {_where_found(against)}."
                return Verdict(Answer.DEPENDS, reason, line)
            return Verdict(Answer.YES if better else Answer.NO, f"{second} is {word} than {first}: {overall}.", line)
        if found.height:
            side, word = (up, "ahead of") if up.height else (down, "behind")
            reason = f"{second} is {word} {first} {_where_found(side)}, but not clearly overall: {overall}."
            return Verdict(Answer.DEPENDS, reason, line)
        return _undecided(row, self, overall, line)

    def details(self) -> str:
        """What the items are treated as, means over test sets, items on which models differ, and what runs add."""
        whole = self.cells.filter(pl.col("by") == By.ALL)
        row = whole.row(0, named=True)
        parts = []
        if whole.height == 1:
            counts = (row["only_second"], row["second"]), (row["only_first"], row["first"])
            if row["runs_first"] == row["runs_second"] == 1:
                parts.append(
                    " ".join(f"{count(round(number), 'item')} only {name} gets right." for number, name in counts)
                )
            sets = self.testsets.row(0, named=True)
            if sets["ci_low"] is not None:
                parts.append(
                    f"Mean over {sets['n_testsets']} test sets, as a sample of test sets: {_with_interval(sets)}; "
                    f"{row['second']} is ahead on {sets['ahead']}."
                )
                if sets["predict_low"] is None:
                    parts.append("What to expect on a new test set takes at least three.")
        test = "exact paired test" if whole["exact"].all() else "paired t test"
        clustered = f" (in clusters by {self.cluster})" if self.cluster else ""
        several = whole.filter((pl.col("runs_first") > 1) | (pl.col("runs_second") > 1)).height
        sampled = f"Items{clustered}{' and runs' if several else ''} are treated as a sample ({test} on all items)"
        cells = self.cells.filter(pl.col("by") != By.ALL, pl.col("n_items") < row["n_items"]).height
        families = []
        if whole.height > 1:
            families.append(f"over the {whole.height} pairs of models")
        if cells:
            families.append(f"over the {count(cells, 'difference')} on parts of the items")
        controlled = f"; q controls the false discovery rate {' and '.join(families)}" if families else ""
        parts.append(f"{sampled}{controlled}.")
        parts.append(self._runs_words(whole))
        if self.margin is not None:
            tally = self.cells["within"].value_counts(sort=True).rows()
            parts.append(
                f"With a margin of {100 * self.margin:g} points, cells are "
                f"{joined([f'{word} ({number})' for word, number in tally])}."
            )
        return " ".join(part for part in parts if part)

    def _runs_words(self, whole: pl.DataFrame) -> str:
        """How many runs there are, and what that does to the intervals."""
        runs: dict[str, int] = {}
        for row in whole.iter_rows(named=True):
            runs |= {row["first"]: row["runs_first"], row["second"]: row["runs_second"]}
        words = describe_runs(runs)
        several = whole.filter((pl.col("runs_first") > 1) | (pl.col("runs_second") > 1), pl.col("se") > 0)
        if not several.height:
            return words
        share = several.select((pl.col("runs_se") ** 2 / pl.col("se") ** 2).mean()).item()
        words += f" Runs make up {share:.0%} of the squared standard error"
        most = max(max(row["runs_first"], row["runs_second"]) for row in several.iter_rows(named=True))
        words += ", as far as so few runs tell." if most <= FEW_RUNS else "."
        # Half the width of the interval, in those of an interval with a standard error that is known well.
        half = (pl.col("ci_high") - pl.col("ci_low")) / 2
        wider = several.select((half / pl.col("se")).median()).item() / NORMAL
        if wider >= MUCH_WIDER and share >= MUCH_RUNS:
            words += (
                " How far runs lie apart is known from few of them; with more runs, intervals would be up to "
                f"{wider:.1f} times narrower for that alone."
            )
        return words.strip()

    def figure(self) -> alt.TopLevelMixin:
        """Differences with their intervals, a panel per pair of models."""
        return as_chart(differences_figure(self.cells), tables={"cells": self.cells})

    def worse(self, threshold: float, on: str | Sequence[str] | None = None) -> str | None:
        """A sentence if a model is worse than the first by more than ``threshold``; None if none is.

        Checked are the test sets ``on``, or all items. A model is worse on a test set if it is behind by more than the
        threshold, and the difference is a finding (q < 0.05 over the differences that are checked).
        """
        if not 0 <= threshold < 1:
            raise InputError(f"--fail-if-worse is {threshold:g}; choose a share from 0 to 1, 0.02 for 2 points")
        base = self.cells["first"][0]
        cells = self.cells.filter(pl.col("first") == base, pl.col("by") == (By.TESTSET if on else By.ALL))
        if on:
            names = [part.strip() for entry in ([on] if isinstance(on, str) else on) for part in entry.split(",")]
            known = cells["value"].unique(maintain_order=True).to_list()
            if not known:
                raise InputError("--on: the data name no test sets; leave it out to check all items")
            if unknown := [name for name in names if name not in known]:
                raise InputError(
                    f"--on: there is no test set {listed(unknown)}.{did_you_mean(unknown, known)} Test sets: "
                    f"{listed(known)}"
                )
            cells = cells.filter(pl.col("value").is_in(names))
        q = benjamini_hochberg(cells["p"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        failed = cells.with_columns(pl.Series("q", q)).filter(pl.col("q") < FINDING, pl.col("difference") < -threshold)
        if not failed.height:
            return None
        parts = [
            f"{_place(row)} by {_with_interval(row)}".replace("by −", "by ") for row in failed.iter_rows(named=True)
        ]
        models = failed["second"].unique(maintain_order=True).to_list()
        told = "; ".join(parts[:4]) + ("; ..." if len(parts) > 4 else "")
        who = f"{joined(models, 3)} {'is' if len(models) == 1 else 'are'}"
        return f"{who} worse than {failed['first'][0]} by more than {100 * threshold:g} points: {told}."


comparison_verdict = Comparison.verdict


def _undecided(row: Mapping[str, Any], result: Comparison, overall: str, lines: str) -> Verdict:
    """Nothing was found: because there is nothing, or because there is too little data?"""
    first, second, within, margin = row["first"], row["second"], row.get("within"), result.margin
    if within in (Within.EQUIVALENT, Within.NO_WORSE):
        said = f"{100 * (margin or 0):g} points"
        what = f"within {said} of" if within == Within.EQUIVALENT else f"no more than {said} worse than"
        return Verdict(Answer.NO, f"{second} is not clearly better than {first}, and {what} it: {overall}.", lines)
    effect = margin or WORTH_SEEING
    if row["ci_low"] is None or times_more(_error(row), effect) <= 1:
        return Verdict(Answer.NO, f"{second} is neither clearly better nor worse than {first}: {overall}.", lines)
    # More runs also tell better how far runs lie apart, so the wide quantile of few runs is not what more data keep.
    times = 0.0
    if row["se"] is not None:  # the answers to one item have none
        times = times_more(row["se"], effect)
    if times <= 1:
        times = times_more(_error(row), effect)
    what = "items"
    if row["runs_se"] and row["runs_se"] ** 2 > row["se"] ** 2 / 2:
        what = "items or runs"
    needed = f"To see a difference of {100 * effect:g} points takes {as_many(times, what)}."
    return Verdict(Answer.UNKNOWN, f"whether {second} is better than {first} is open: {overall}.", lines, needed)


def _error(row: Mapping[str, Any]) -> float:
    """The standard error that an interval amounts to.

    Not the estimated one: that of two models which answer five items alike is 0, and that of two runs is badly known.
    """
    return float(row["ci_high"] - row["ci_low"]) / 2 / NORMAL


def _many(whole: pl.DataFrame, trained: bool) -> Verdict:
    clear = whole.filter(pl.col("q") < FINDING)
    reason = f"{clear.height} of {whole.height} pairs of models differ on all items."
    largest = clear.sort(pl.col("difference").abs(), descending=True)
    lines = []
    if largest.height:
        row = largest.row(0, named=True)
        lines.append(f"Largest: {row['second']} minus {row['first']}, {_with_interval(row)}.")
    if trained and (whole.select(pl.max_horizontal("runs_first", "runs_second")).to_series() == 1).all():
        lines.append(ONE_RUN_EACH)
    share = clear.height / whole.height
    answer = Answer.YES if share >= ALMOST_ALL else Answer.NO if share <= ALMOST_NONE else Answer.DEPENDS
    errors = [_error(row) for row in whole.drop_nulls("ci_low").iter_rows(named=True)]
    if answer is Answer.NO and errors and (times := times_more(float(np.median(errors)))) > 1:
        needed = f"To see a difference of 5 points takes {as_many(times, 'items')}."
        return Verdict(Answer.UNKNOWN, reason, " ".join(lines), needed)
    return Verdict(answer, reason, " ".join(lines))


def _where_found(cells: pl.DataFrame) -> str:
    """Test sets, else shifts, else levels, on which something was found."""
    for by, word in ((By.TESTSET, "on "), (By.SHIFT, "on shift "), (By.LEVEL, "on level ")):
        names = cells.filter(pl.col("by") == by).sort(pl.col("difference").abs(), descending=True)["value"].to_list()
        if names:
            return word + joined(names, 4)
    return ""


def _carries(testsets: pl.DataFrame, clear: bool) -> str:
    """Whether the sign of the difference carries over to a new test set; ``clear`` is whether there is a difference."""
    row = testsets.row(0, named=True)
    if row["predict_low"] is None:
        return ""
    inside = reach(row, "predict_low", "predict_high")
    sure = row["predict_low"] > 0 or row["predict_high"] < 0
    if sure:
        return f"On a new test set expect {inside} points{', so this carries over' if clear else ''}."
    either = "so it may not carry over" if clear else "so either may be ahead there"
    return f"On a new test set expect {inside} points, {either}."


def cells_table(cells: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per cell of one pair, in points; bold if the difference is a finding."""
    first, second = cells.row(0)[:2]
    within = ["margin"] if "within" in cells.columns else []
    numbers = ["items", "first", "second", "points", "interval", "q"]
    title, least = f"{second} (second) minus {first} (first)", ["items", "first", "second"]
    table = make_table(title, ["where", *within], numbers, width, least=least)
    for row in cells.head(MOST_ROWS).iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        ends = [Text(row["within"])] if within else []
        table.add_row(
            Text(_place(row).removeprefix("on ")), *ends, f"{row['n_items']:,}", f"{row['accuracy_first']:.1%}",
            f"{row['accuracy_second']:.1%}", Text(f"{100 * row['difference']:+.1f}", style="bold" if sure else ""),
            reach(row).replace("−", "-") or "-", probability_text(row["q"]),
        )  # fmt: skip
    return table


def pair_differences_table(cells: pl.DataFrame, width: int = WIDTH) -> Table:
    """A row per pair of models, on all items."""
    whole = cells.filter(pl.col("by") == By.ALL)
    title = "Differences on all items: second minus first" + (
        f", {MOST_ROWS} of {whole.height}" if whole.height > MOST_ROWS else ""
    )
    numbers = ["items", "points", "interval", "q"]
    table = make_table(title, ["first", "second"], numbers, width, least=["items"])
    for row in whole.head(MOST_ROWS).iter_rows(named=True):
        sure = row["q"] is not None and row["q"] < FINDING
        gap = Text(f"{100 * row['difference']:+.1f}", style="bold" if sure else "")
        shown = (Text(row[key]) for key in ("first", "second"))
        table.add_row(
            *shown, f"{row['n_items']:,}", gap, reach(row).replace("−", "-") or "-", probability_text(row["q"])
        )
    return table


def differences_figure(cells: pl.DataFrame, table: str = "cells") -> Figure:
    """Difference of accuracy with its interval, a row per cell and a panel per pair; findings are filled."""
    order = [
        f"{row['by']}: {row['value']}" if row["value"] is not None else "all items"
        for row in cells.unique(["by", "value"], keep="first", maintain_order=True).iter_rows(named=True)
    ]
    computed = [
        {"calculate": f"isValid(datum.q) && datum.q < {FINDING}", "as": "sure"},
        {"calculate": f"datum.by == '{By.ALL}' ? 'all items' : datum.by + ': ' + datum.value", "as": "cell"},
        {"calculate": "datum.second + ' minus ' + datum.first", "as": "pair"},
    ]
    tips = tooltip(
        ("pair", "models"), ("cell", "items"), ("difference", "difference", "+.1%"), ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"), ("accuracy_first", "first", ".1%"), ("accuracy_second", "second", ".1%"),
        ("n_items", "items", ",d"), ("q", "q", ".2g"),
    )  # fmt: skip
    labels = "datum.value ? format(datum.value, '+.0%') : '0'"
    axis = {"title": "difference of accuracy", "labelExpr": labels, "tickCount": 6}
    x = {"field": "difference", "type": "quantitative", "axis": axis}
    y = nominal("cell", order, labelLimit=220)
    view: Spec = {
        "height": {"step": 20},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 0}}},
            {
                "transform": [{"filter": "isValid(datum.ci_low)"}],
                "mark": {"type": "rule", "color": "@ink", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "y": y, "tooltip": tips},
            },
            *(
                {
                    "transform": [{"filter": f"{'' if sure else '!'}datum.sure"}],
                    "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60, "stroke": "@ink",
                             "color": "@ink" if sure else "@paper", "cursor": "pointer"},
                    "encoding": {"x": x, "y": y, "tooltip": tips},
                }
                for sure in (True, False)
            ),
        ],
    }  # fmt: skip
    caption = "Second minus first, with 95% intervals. Filled: a finding (false discovery rate below 5%)."
    pairs = cells.select("first", "second").n_unique()
    spec: Spec = {"data": {"name": table}, "transform": computed}
    if pairs == 1:
        spec |= {"width": "container", "usermeta": {"most": 620}} | view
    else:
        facet = {"field": "pair", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}}
        spec |= {"facet": facet, "spec": view, "usermeta": {"pad": 160, "least": 220, "panels": pairs}}
    return Figure("compare", "Differences between models", caption, spec, table)
