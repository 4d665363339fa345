"""Figures of advice: items against difference, expected errors, estimated scores, test sets, gains."""

from __future__ import annotations

import polars as pl

from breadth.results import Figure
from breadth.results.figures import Spec, nominal, tooltip

#: Models that a figure of scores shows.
MOST_SHOWN = 60

#: A dot; its colour says what it stands for.
DOT: Spec = {"type": "point", "filled": True, "opacity": 1, "size": 55, "stroke": "@ink"}


def power_figure(difference: float, table: str = "curve") -> Figure:
    """Items that a difference takes, paired and unpaired, on log scales; the dashed line is the one asked for."""
    x = {
        "field": "difference",
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {"title": "difference of accuracy", "format": "~%", "tickCount": 5},
    }
    number = {"title": "questions", "format": "~s", "tickCount": 5}
    y = {"field": "items", "type": "quantitative", "scale": {"type": "log"}, "axis": number}
    kind = {
        "field": "kind",
        "type": "nominal",
        "legend": {"orient": "top", "title": None},
        "scale": {"domain": ["paired", "unpaired"], "range": [[1, 0], [5, 4]]},
    }
    tips = tooltip(("kind", "questions"), ("difference", "difference", ".1%"), ("items", "number", ",.0f"))
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": 240, "usermeta": {"most": 520},
        "transform": [
            {"fold": ["items_paired", "items_unpaired"], "as": ["key", "items"]},
            {"calculate": "datum.key == 'items_paired' ? 'paired' : 'unpaired'", "as": "kind"},
        ],
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": difference}}},
            {
                "mark": {"type": "line", "color": "@ink", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "strokeDash": kind, "tooltip": tips},
            },
        ],
    }  # fmt: skip
    caption = (
        "Questions with which a difference is seen 4 times in 5, if both models answer the same ones (paired) or "
        "different ones (unpaired). How much training runs vary is not counted here: where it matters, the plan says "
        "so."
    )
    return Figure("power", "Questions needed", caption, spec, table)


def seeds_figure(noise: pl.DataFrame, table: str = "noise") -> Figure:
    """How far runs of a model lie apart (filled), and neighbouring checkpoints (hollow), by test set."""
    order = noise["testset"].to_list()[:MOST_SHOWN]
    tips = tooltip(("testset", "test set"), ("run_sd", "runs", ".2f"), ("checkpoint_sd", "checkpoints", ".2f"))
    x = {"type": "quantitative", "axis": {"title": "standard deviation (points)"}}
    y = nominal("testset", order, labelLimit=220)
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": {"step": 20}, "usermeta": {"most": 560},
        "transform": [{"filter": {"field": "testset", "oneOf": order}}],
        "layer": [
            {
                "transform": [{"filter": f"isValid(datum.{field})"}],
                "mark": DOT | {"color": colour},
                "encoding": {"x": {**x, "field": field}, "y": y, "tooltip": tips},
            }
            for field, colour in (("checkpoint_sd", "@paper"), ("run_sd", "@ink"))
        ],
    }  # fmt: skip
    caption = "Filled: how far runs of a model lie apart. Hollow: how far neighbouring checkpoints of a run do."
    return Figure("seeds", "Noise of runs and checkpoints", caption, spec, table)


def errors_figure(table: str = "errors") -> Figure:
    """Expected error on models like these, on stronger ones, and below them on those of another family if known."""
    tips = tooltip(
        ("models", "models"), ("rmse", "RMSE", ".1%"), ("plain_rmse", "plain", ".1%"), ("coverage", "coverage", ".0%")
    )
    axis = {"title": "root mean squared error", "format": "~%"}
    x = {"field": "rmse", "type": "quantitative", "axis": axis}
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": {"step": 24}, "usermeta": {"most": 560},
        "mark": {"type": "bar", "color": "@muted", "height": 12},
        "encoding": {"y": nominal("models", ["like these", "stronger"]), "x": x, "tooltip": tips},
    }  # fmt: skip
    caption = "Error of scores on all questions, estimated from the subset, on models that it was not made with."
    return Figure("short_form", "Expected error of the subset", caption, spec, table)


def scores_figure(scores: pl.DataFrame, table: str = "scores") -> Figure:
    """Estimated scores with their intervals; filled where reference models helped."""
    shown = scores.sort("score", descending=True)["subject"].to_list()[:MOST_SHOWN]
    tips = tooltip(
        ("subject", "model"),
        ("score", "score", ".1%"),
        ("ci_low", "from", ".1%"),
        ("ci_high", "to", ".1%"),
        ("estimate", "estimate"),
    )
    x = {
        "field": "score",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": "estimated score", "format": ".0%"},
    }
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": {"step": 18}, "usermeta": {"most": 620},
        "encoding": {"y": nominal("subject", shown, labelLimit=220)},
        "layer": [
            {
                "mark": {"type": "rule", "color": "@muted"},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "tooltip": tips},
            },
            *(
                {
                    "transform": [{"filter": f"datum.estimate == '{kind}'"}],
                    "mark": DOT | {"color": colour},
                    "encoding": {"x": x, "tooltip": tips},
                }
                for kind, colour in (("assisted", "@ink"), ("plain", "@paper"))
            ),
        ],
    }  # fmt: skip
    if scores.height > MOST_SHOWN:
        spec["transform"] = [{"filter": {"field": "subject", "oneOf": shown}}]
    caption = "95% intervals. Filled: other models helped; hollow: the model's own answers alone."
    return Figure("short_scores", "Scores on all questions, from the subset", caption, spec, table)


def steps_figure(steps: pl.DataFrame, error: float, table: str = "steps") -> Figure:
    """Error of predicting the other test sets, by how many are known; the dashed line is the error asked for."""
    tips = tooltip(
        ("testset", "added"), ("rmse", "RMSE", ".1f"), ("worst_testset", "worst"), ("worst", "its RMSE", ".1f")
    )
    x = {"field": "n", "type": "ordinal", "axis": {"title": "test sets evaluated", "labelAngle": 0}}
    y = {"field": "rmse", "type": "quantitative", "axis": {"title": "error of the others (points)"}}
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": 220, "usermeta": {"most": 520},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"y": {"datum": error}}},
            {
                "mark": {"type": "line", "color": "@ink", "point": {"color": "@ink", "filled": True}},
                "encoding": {"x": x, "y": y, "tooltip": tips},
            },
            {
                "mark": {"type": "text", "dy": -10, "fontSize": 10},
                "encoding": {"x": x, "y": y, "text": {"field": "testset"}},
            },
        ],
    }  # fmt: skip
    caption = f"Test sets in the order in which they are best added, from left ({steps['testset'][0]}) to right."
    return Figure("testsets", "How many test sets are enough", caption, spec, table)


def gains_figure(gains: pl.DataFrame, table: str = "gains") -> Figure:
    """Naive gains (hollow) and honest ones with their intervals (filled)."""
    order = [name for name in gains["combination"] if name != "oracle"]
    tips = tooltip(
        ("combination", "combination"),
        ("naive", "naive", "+.1%"),
        ("honest", "honest", "+.1%"),
        ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"),
    )
    labels = "datum.value ? format(datum.value, '+.1%') : '0'"
    x: Spec = {
        "field": "honest",
        "type": "quantitative",
        "axis": {"title": "better than the best model by", "labelExpr": labels},
    }
    y = nominal("combination", order)
    spec: Spec = {
        "data": {"name": table}, "width": "container", "height": {"step": 22}, "usermeta": {"most": 560},
        "transform": [{"filter": "datum.combination != 'oracle'"}],
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "rule", "color": "@ink"},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "y": y, "tooltip": tips},
            },
            *(
                {"mark": DOT | {"color": colour}, "encoding": {"x": {**x, "field": field}, "y": y, "tooltip": tips}}
                for field, colour in (("naive", "@paper"), ("honest", "@ink"))
            ),
        ],
    }  # fmt: skip
    caption = "Filled: on questions that nothing was chosen on, with 95% intervals. Hollow: on those it was chosen on."
    return Figure("together", "Models together", caption, spec, table)
