"""Figures of gains: training condition by test level, and gain by distance. Defined once for files and the report.

``cells`` are those of one ``Transfer``, or of several with ``model, train_set, examples`` (or some of these columns) in
front: then every combination has a panel.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from breadth.level_transfer.words import condition_words
from breadth.results import Figure
from breadth.results.figures import Spec, heat_layers, model_colour, tooltip
from breadth.results.words import FINDING

#: Which fields of a mark choose the items behind it.
_DRILL = {"level": "test_level", "model": "model"}


def gain_matrix(cells: pl.DataFrame, table: str = "cells") -> Figure:
    """Gain over the model before training per training condition (level or strategy) and test level."""
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
    """Gain against the distance of the test level from the training level; ``models`` in the order of their colours."""
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
        "groupby": [*_keys(cells), *(["panel"] if _keys(cells) else []), "distance"],
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
    keys = _keys(cells)
    data: Spec = {"data": {"name": table}}
    if not keys:
        return data | {"usermeta": size, "width": "container"} | view | {"transform": computed}
    words = [f"datum.{key}" + " + ' examples'" * (key == "examples") for key in keys if cells[key].n_unique() > 1]
    panel = {"calculate": " + ' · ' + ".join(words or [f"datum.{keys[0]}"]), "as": "panel"}
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}}
    data["usermeta"] = size | {"panels": cells.select(keys).unique().height}
    return data | {"transform": [panel, *computed], "facet": facet, "spec": view}


def _keys(cells: pl.DataFrame) -> list[str]:
    return [name for name in ("model", "train_set", "examples") if name in cells.columns]
