"""What correlations depend on, in words and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from breadth.correlation.moderators import ANY, KIND, ModeratorFlag
from breadth.results import Figure
from breadth.results.figures import Spec, tooltip
from breadth.results.words import FINDING, correlation_text, joined

#: Names of levels that a sentence gives.
MOST_LEVELS = 3


def moderator_words(frame: pl.DataFrame, means: pl.DataFrame) -> str:
    """A sentence per moderator: whether correlations depend on it, from where to where."""
    alone = frame.filter((pl.col("given") == "") | (pl.col("moderator") == KIND))
    sentences = []
    for part in alone.partition_by("moderator", maintain_order=True):
        rows = part.to_dicts()
        ends = means.filter(pl.col("moderator") == rows[0]["moderator"], pl.col("what") == "fit").sort("value")
        sentences.append(_sentence(rows, ends))
    return " ".join(sentences)


def _sentence(rows: Sequence[dict[str, Any]], ends: pl.DataFrame) -> str:
    name, last = rows[0]["moderator"], rows[-1]
    if last["p"] is None:
        return f"Whether correlations depend on {name} cannot be said: {last['note']}."
    if name == KIND:
        sentence = _kind_sentence(last)
    elif last["contrast"] == ANY:
        sentence = _category_sentence(name, rows)
    else:
        sentence = _number_sentence(name, last, ends)
    if last["flag"] == ModeratorFlag.LOW_RELIABILITY:
        sentence += " (The noise of small test sets is not accounted for: too little would be left.)"
    return sentence


def _kind_sentence(row: dict[str, Any]) -> str:
    """Whether test sets of one kind of shift agree more."""
    change = f"{_mean(row['r_to'])} for two of one kind, {_mean(row['r_from'])} for two of different kinds"
    if row["q"] >= FINDING:
        return f"Whether two test sets are of one kind of shift makes no clear difference (mean correlation {change})."
    which = "farther apart"
    if row["estimate"] > 0:
        which = "closer together"
    return f"Test sets of one kind of shift are {which} than others (mean correlation {change})."


def _category_sentence(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Whether correlations differ between the levels of a category, and which stand out."""
    last = rows[-1]
    if last["q"] >= FINDING:
        return f"Correlations do not clearly depend on {name}{_scope(last)}."
    named = []
    for row in rows:
        if row["contrast"] != ANY and row["q"] is not None and row["q"] < FINDING:
            named.append(f"{_mean(row['r_to'])} for {row['contrast'].removesuffix(' - others')}")
    if not named:
        return f"Correlations depend on {name}{_scope(last)}."
    return f"Correlations depend on {name}: mean correlation {joined(named, MOST_LEVELS)}{_scope(last)}."


def _number_sentence(name: str, row: dict[str, Any], ends: pl.DataFrame) -> str:
    """Whether correlations grow or fall with a number, or differ between two levels."""
    first, last = "the lowest", "the highest"
    if ends.height:
        first, last = ends["level"][0], ends["level"][-1]
    at = "for"
    if row["contrast"].startswith("per "):
        at = "at"
    change = f"mean correlation {_mean(row['r_from'])} {at} {first}, {_mean(row['r_to'])} {at} {last}"
    if row["q"] >= FINDING:
        return f"Correlations do not clearly depend on {name} ({change}){_scope(row)}."
    words = f"Correlations depend on {name}"
    if row["contrast"].startswith("per "):
        words = f"Correlations fall with {name}"
        if row["estimate"] > 0:
            words = f"Correlations grow with {name}"
    return f"{words}: {change}{_scope(row)}."


def _scope(row: dict[str, Any]) -> str:
    """That the models were too few to speak for others, so that their runs were compared."""
    if row["over"] == "run" and row["k"] < row["n"]:
        return ", for these models only"
    return ""


def _mean(r: float) -> str:
    return correlation_text(r, sign=True)


def moderators_figure(means: pl.DataFrame, name: str, *, given: str, noun: str) -> Figure:
    """Mean correlation of every unit against one moderator, with intervals, and what the regression expects."""
    shown = means.filter(pl.col("moderator") == name)
    numeric = shown["level"].n_unique() > 1 and shown.filter(pl.col("what") == "fit")["ci_low"].is_not_null().any()
    values = shown["value"]
    low, high = float(values.min() or 0), float(values.max() or 0)  # type: ignore[arg-type]
    x: Spec = {"field": "value", "type": "quantitative", "title": name, "scale": {"zero": False}}
    if numeric and low > 0 and high >= 8 * low:
        # Billions are B for models, and G for a physicist.
        label = "replace(format(datum.value, '~s'), 'G', 'B')"
        x["scale"] = {"type": "log", "nice": False, "domain": [low / 1.3, high * 1.3]}
        x["axis"] = {"labelExpr": label, "tickCount": 6, "grid": False}
    if not numeric:
        levels = shown.sort("value")["level"].unique(maintain_order=True).to_list()
        x = {"field": "level", "type": "nominal", "title": name, "sort": levels, "axis": {"labelAngle": 0}}
    y: Spec = {"field": "r", "type": "quantitative", "title": "mean r over pairs", "scale": {"zero": False}}
    tips = tooltip(
        ("unit", noun), ("level", name), ("r", "mean r", ".2f"), ("ci_low", "from", ".2f"), ("ci_high", "to", ".2f"),
        ("runs", "runs", "d"),
    )  # fmt: skip
    unit, fit = {"filter": "datum.what == 'unit'"}, {"filter": "datum.what == 'fit'"}
    ends = {"y": {**y, "field": "ci_low"}, "y2": {"field": "ci_high"}}
    expected: list[Spec] = [
        {
            "transform": [fit],
            "mark": {"type": "tick", "color": "@ink", "thickness": 2, "width": 40},
            "encoding": {"x": x, "y": y},
        }
    ]
    if numeric:
        expected = [
            {
                "transform": [fit],
                "mark": {"type": "area", "color": "@muted", "opacity": 0.15},
                "encoding": {"x": x, **ends},
            },
            {"transform": [fit], "mark": {"type": "line", "color": "@ink"}, "encoding": {"x": x, "y": y}},
        ]
    offset: Spec = {} if numeric else {"xOffset": {"field": "unit", "type": "nominal"}}
    spec: Spec = {
        "data": {"name": "moderator_means"},
        "usermeta": {"most": 620},
        "width": "container",
        "height": 300,
        "transform": [{"filter": f"datum.moderator == '{_quoted(name)}'"}],
        "layer": [
            {"data": {"values": [{"zero": 0}]}, "mark": {"type": "rule", "strokeDash": [4, 4], "color": "@muted"},
             "encoding": {"y": {"datum": 0}}},
            *expected,
            {"transform": [unit], "mark": {"type": "rule", "color": "@muted"}, "encoding": {"x": x, **ends, **offset}},
            {
                "transform": [unit],
                "mark": {"type": "circle", "color": "@ink", "size": 50, "opacity": 1},
                "encoding": {"x": x, "y": y, "tooltip": tips, **offset},
            },
        ],
    }  # fmt: skip
    caption = f"Dot: mean correlation over pairs of test sets {given}, of one {noun}; line: its 95% interval. " + (
        "Band: where the fitted line may turn within the 95% interval of its slope."
        if numeric
        else f"Bar: what is expected of a {noun} with that value."
    )
    return Figure("moderators", f"Do correlations depend on {name}?", caption, spec, "moderator_means")


def _quoted(text: str) -> str:
    """A text within single quotes of a Vega expression."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
