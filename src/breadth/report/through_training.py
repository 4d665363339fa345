"""Section 2, through training: a trajectory per run and test set."""

from __future__ import annotations

import polars as pl

from breadth.report.contents import Figure, Gathered, Section
from breadth.report.vega import Spec, model_colour, tooltip
from breadth.report.words import count, joined


def through_training(gathered: Gathered) -> Section:
    """Build the section."""
    frame = gathered.table("trajectories")
    steps = frame["step"].n_unique() if frame.height else 0
    if steps < 2:
        reason = "every run has one checkpoint, so there is no trajectory to draw"
        return Section(
            "training",
            "Through training",
            "Runs were measured once; nothing can be said about the course of training.",
            absent=(reason,),
        )
    figure = Figure(
        "trajectories",
        "Accuracy through training",
        "Thin: a run. Thick: the mean of the model's runs shown. Hover for values; choose runs below. "
        "Click a point for the items of its test set.",
        _lines(gathered),
        "trajectories",
        drill={"testset": "testset", "model": "model"},
    )
    return Section("training", "Through training", _finding(gathered), (figure,))


def _finding(gathered: Gathered) -> str:
    """Which sets peak before the end: where the best checkpoint beats the last by more than both intervals allow."""
    frame = gathered.table("trajectories")
    means = (
        frame.group_by("model", "testset", "step", maintain_order=True)
        .agg(pl.col("accuracy").mean(), pl.col("ci_low").mean(), pl.col("ci_high").mean(), pl.col("run").n_unique())
        .sort("step")
    )
    last = means.group_by("model", "testset", maintain_order=True).last()
    best = means.sort("accuracy").group_by("model", "testset", maintain_order=True).last()
    both = best.join(last, on=["model", "testset"], suffix="_last")
    fell = both.filter(pl.col("ci_low") > pl.col("ci_high_last"))
    steps = int(frame["step"].max() or 0)  # type: ignore[arg-type]
    text = f"Over {steps:,} steps, {count(both.height, 'curve')} (model x test set, mean over runs). "
    if not fell.height:
        return text + (
            "No curve ends clearly below its best checkpoint (the intervals of the two overlap): stopping "
            "earlier would not have helped any test set for certain."
        )
    names = [f"{row['testset']} in {row['model']}" for row in fell.iter_rows(named=True)]
    verb = "ends" if fell.height == 1 else "end"
    return text + (
        f"{fell.height} {verb} clearly below the best checkpoint ({joined(names)}): the intervals of "
        "the two do not overlap."
    )


def _lines(gathered: Gathered) -> Spec:
    x = {
        "field": "step",
        "type": "quantitative",
        "axis": {"title": "training step", "tickCount": 4, "grid": False},
        "scale": {"nice": False},
    }
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": "accuracy", "format": ".0%", "tickCount": 4},
    }
    colour = model_colour(gathered.models)
    tips = tooltip(
        ("run", "run"),
        ("model", "model"),
        ("testset", "test set"),
        ("step", "step", "d"),
        ("accuracy", "accuracy", ".1%"),
        ("ci_low", "from", ".1%"),
        ("ci_high", "to", ".1%"),
        ("n", "items", ",d"),
    )
    runs = {
        "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.45},
        "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "run"}},
    }
    means = {
        "transform": [
            {"aggregate": [{"op": "mean", "field": "accuracy", "as": "mean"}], "groupby": ["model", "step", "testset"]}
        ],
        "mark": {"type": "line", "strokeWidth": 2.5},
        "encoding": {"x": x, "y": y | {"field": "mean"}, "color": colour},
    }
    points = {
        "params": [
            {"name": "near", "select": {"type": "point", "on": "pointermove", "clear": "pointerout", "nearest": True}}
        ],
        "mark": {"type": "point", "filled": True, "size": 70, "cursor": "pointer"},
        "encoding": {
            "x": x,
            "y": y,
            "color": colour,
            "tooltip": tips,
            "opacity": {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0},
        },
    }
    return {
        "data": {"name": "trajectories"},
        "usermeta": {"pad": 60, "least": 118, "renderer": "canvas"},
        "params": [{"name": "shown", "value": None}],
        "transform": [{"filter": "!shown || indexof(shown, datum.run) >= 0"}],
        "facet": {
            "field": "testset",
            "type": "nominal",
            "title": None,
            "sort": gathered.testsets,
            "header": {"labelAnchor": "start"},
        },
        "spec": {"height": 140, "layer": [runs, means, points]},
    }
