"""Figures of comparisons and rankings: estimates with their intervals."""

from __future__ import annotations

import polars as pl

from breadth.comparison.compare import By
from breadth.results import Figure
from breadth.results.figures import Spec, nominal, tooltip
from breadth.results.words import FINDING

#: Models that a figure of ranks shows: the best ones.
MOST_SHOWN = 60


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


def ranking_figure(ranks: pl.DataFrame, table: str = "ranks") -> Figure:
    """Accuracy with its interval, a row per model, the best first; the text is the interval of the rank."""
    shown = ranks["model"].to_list()[:MOST_SHOWN]
    tips = tooltip(
        ("model", "model"), ("rank", "rank", "d"), ("rank_low", "rank from", "d"), ("rank_high", "to", "d"),
        ("accuracy", "accuracy", ".1%"), ("ci_low", "from", ".1%"), ("ci_high", "to", ".1%"), ("runs", "runs", "d"),
    )  # fmt: skip
    x = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": "accuracy", "format": ".0%"},
    }
    text = "datum.rank_low == datum.rank_high ? '' + datum.rank_low : datum.rank_low + ' to ' + datum.rank_high"
    spec: Spec = {
        "data": {"name": table},
        "transform": [{"filter": f"datum.rank <= {MOST_SHOWN}"}, {"calculate": text, "as": "ranks"}],
        "usermeta": {"most": 620},
        "width": "container",
        "height": {"step": 18},
        "encoding": {"y": nominal("model", shown, labelLimit=220)},
        "layer": [
            {
                "mark": {"type": "rule", "color": "@muted", "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "ci_low"}, "x2": {"field": "ci_high"}, "tooltip": tips},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 55, "color": "@ink"},
                "encoding": {"x": x, "tooltip": tips},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 10, "color": "@muted"},
                "encoding": {"x": {**x, "field": "ci_high"}, "text": {"field": "ranks"}},
            },
        ],
    }
    more = f" The best {MOST_SHOWN} of {ranks.height}." if ranks.height > MOST_SHOWN else ""
    caption = f"Accuracy with 95% intervals; the number is the rank, or the ranks that it may have.{more}"
    return Figure("ranking", "Ranking", caption, spec, table)
