"""Pictures for section 4: training level by test level, and gain by distance."""

from __future__ import annotations

from typing import Literal

from breadth.report.contents import Figure, Gathered
from breadth.report.glance import panel
from breadth.report.vega import heat_layers, model_colour, sure, tooltip


def level_matrix(gathered: Gathered, by: Literal["train_level", "strategy"]) -> Figure:
    """Gain over the model before training per training level (or strategy) and test level."""
    table = "cross_cells" if by == "train_level" else "strategy_cells"
    cells = gathered.table(table)
    limit = max(0.05, float(cells["gain"].abs().max() or 0))  # type: ignore[arg-type]
    limit = -(-limit * 20 // 1) / 20
    order = [str(way) for way in cells[by].unique(maintain_order=True)]
    tips = tooltip(
        (by, by.replace("_", " ")),
        ("test_level", "test level"),
        ("gain", "gain", "+.1%"),
        ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"),
        ("baseline", "before", ".1%"),
        ("accuracy", "trained", ".1%"),
        ("n_items", "items", ",d"),
        ("n_seeds", "seeds", "d"),
        ("q", "q", ".2g"),
    )
    spec = {
        "data": {"name": table},
        "usermeta": {"panel": 44 * cells["test_level"].n_unique() + 90},
        "transform": [
            panel(gathered),
            {"calculate": sure(), "as": "sure"},
            {"calculate": "isValid(datum.q) && datum.q < 0.05", "as": "bold"},
            {"calculate": "replace(format(100 * datum.gain, '+.0f'), '-', '−')", "as": "text"},
        ],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
        "spec": {
            "width": {"step": 44},
            "height": {"step": 34},
            "encoding": {
                "x": {
                    "field": "test_level",
                    "type": "ordinal",
                    "axis": {
                        "title": "test level (0 is the easiest)",
                        "labelAngle": 0,
                        "ticks": False,
                        "domain": False,
                    },
                },
                "y": {
                    "field": by,
                    "type": "ordinal",
                    "sort": order,
                    "axis": {
                        "title": by.replace("_", " ").replace("train", "training"),
                        "ticks": False,
                        "domain": False,
                    },
                },
            },
            "layer": heat_layers("gain", "text", tips, limit, "gain", "+.0%"),
        },
    }
    caption = (
        "Gain over the model before training, in points. Strong colour: the 95% interval excludes 0; bold: also "
        "with the false discovery rate held at 5%; faded: undecided. Click a cell for the items of the "
        "test level."
    )
    title = "Training level by test level" if by == "train_level" else "Strategy by test level"
    key = "cross" if by == "train_level" else "strategy"
    return Figure(key, title, caption, spec, table, drill={"level": "test_level", "model": "model"})


def gain_by_distance(gathered: Gathered) -> Figure:
    """Gain against how far the test level is from the training level."""
    x = {
        "field": "distance",
        "type": "quantitative",
        "axis": {
            "title": "test level minus training level",
            "labelExpr": "datum.value ? format(datum.value, '+d') : '0'",
            "tickMinStep": 1,
        },
    }
    y = {"field": "gain", "type": "quantitative", "axis": {"title": "gain", "format": "+.0%", "tickCount": 5}}
    colour = model_colour(gathered.models, legend=False)
    tips = tooltip(
        ("model", "model"),
        ("train_level", "training level"),
        ("test_level", "test level"),
        ("gain", "gain", "+.1%"),
        ("ci_low", "from", "+.1%"),
        ("ci_high", "to", "+.1%"),
    )
    spec = {
        "data": {"name": "cross_cells"},
        "usermeta": {"pad": 70, "least": 240},
        "transform": [panel(gathered), {"calculate": "datum.test_level - datum.train_level", "as": "distance"}],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
        "spec": {
            "height": 170,
            "layer": [
                {
                    "mark": {"type": "point", "filled": True, "opacity": 0.55, "size": 45, "cursor": "pointer"},
                    "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
                },
                {
                    "transform": [
                        {
                            "aggregate": [{"op": "mean", "field": "gain", "as": "mean"}],
                            "groupby": ["model", "panel", "distance"],
                        }
                    ],
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {"x": x, "y": y | {"field": "mean"}, "color": colour},
                },
            ],
        },
    }
    caption = (
        "Dots: the cells of the matrix. Line: their mean at each distance. To the right, training was "
        "easier than the test."
    )
    return Figure(
        "distance", "Gain by distance", caption, spec, "cross_cells", drill={"level": "test_level", "model": "model"}
    )
