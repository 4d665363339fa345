"""Figures of the sections Overview and Training."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from breadth.reporting.accuracy import BOUNDED
from breadth.reporting.data import ReportData
from breadth.results.figures import Control, Figure, Spec, model_colour, nominal, tooltip
from breadth.results.words import SCORE_WORDS

#: What the figure of trajectories can show, as its switch names it.
MEASURES = {"accuracy": "accuracy", "auc": "sensitivity (area under the ROC curve)", "share": "bias (share of {})"}

ACCURACY_TIPS = (("accuracy", "accuracy", ".1%"), ("ci_low", "from", ".1%"), ("ci_high", "to", ".1%"))


def profile_figure(data: ReportData) -> Figure:
    """A score on every test set, a panel per model: before and after training where there is both."""
    profile = data.table("profile")
    name, form = SCORE_WORDS[data.score], ".1%" if data.score in BOUNDED else ".2f"
    once = "before" not in profile["when"]
    shifts = json.dumps({name: shift or "" for name, shift in data.study.shifts.items()})
    label = {"labelExpr": f"[datum.label, {shifts}[datum.label]]", "labelLineHeight": 12, "labelOffset": -6}
    y = nominal("testset", data.testsets, **label)
    x: Spec = {
        "field": data.score, "type": "quantitative", "scale": {"zero": False, "nice": True},
        "axis": {"title": name, "format": form.replace(".1%", ".0%"), "tickCount": 5},
    }  # fmt: skip
    tips = tooltip(
        ("model", "model"), ("testset", "test set"), ("shift", "shift"), ("when", "when"), ("runs", "runs", "d"),
        ("n_items", "items", ",d"), (data.score, name, form), ("ci_low", "from", form),
        ("ci_high", "to", form), ("chance", "commonest label", ".1%"),
    )  # fmt: skip
    order = {"field": "when", "sort": ["before", "after"]}
    colour = model_colour(data.models, legend=False)
    base: Spec = {"y": y, "yOffset": order, "color": colour, "tooltip": tips}
    hollow = {"test": "datum.when == 'before'", "value": "@paper"}
    fill = {"condition": hollow} | colour
    ticks: list[Spec] = [
        {
            "transform": [{"filter": "datum.when == 'after'"}],
            "mark": {"type": "tick", "color": "@muted", "thickness": 2, "size": 26, "opacity": 0.6},
            "encoding": {"y": y, "x": x | {"field": "chance"}, "tooltip": tips},
        }
    ]
    layers: list[Spec] = [
        *(ticks if data.score == "accuracy" else ()),
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": base | {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}},
        },
        {
            "mark": {"type": "point", "size": 62, "strokeWidth": 2, "opacity": 1, "cursor": "pointer"},
            "encoding": base | {"x": x, "fill": fill},
        },
    ]
    shown = {"filter": {"field": "model", "oneOf": data.models}}
    # A panel per model, or per model and training set where a model has several of these.
    kept = profile.filter(pl.col("model").is_in(data.models))
    panels, panel = kept.select("model", "train_set").n_unique(), "datum.model"
    if panels > kept["model"].n_unique():
        panel += " + ' · ' + (datum.train_set || 'untrained')"
    spec: Spec = {
        "data": {"name": "profile"},
        "usermeta": {"pad": 100, "least": 230, "panels": panels},
        "transform": [shown, {"calculate": panel, "as": "panel"}],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
        "spec": {"height": {"step": 34, "for": "position"}, "layer": layers},
    }
    models = len(data.facts["models"])
    sentences = {
        f"Dot: mean {name} over runs. Line: 95% interval, with both the items and the runs as samples.": data.has_runs,
        "Line: 95% interval, with the items as a sample.": not data.has_runs,
        "Hollow: first checkpoint; filled: last.": not once,
        "Grey tick: accuracy of always giving the commonest label.": data.score == "accuracy"
        and profile["chance"].is_not_null().any(),
        f"Shown: {len(data.models)} of {models} models, evenly spread over accuracy.": models > len(data.models),
    }
    caption = " ".join(sentence for sentence, applies in sentences.items() if applies)
    title = f"{name[0].upper()}{name[1:]} on every test set{'' if once else ', before and after training'}"
    return Figure("profile", title, caption, spec, "profile", drill={"testset": "testset", "model": "model"})


def trajectory_figure(data: ReportData) -> Figure:
    """Scores during training, a panel per test set, with a switch between accuracy, sensitivity and bias."""
    table = data.table("trajectories")
    answers = table["answer"].drop_nulls().unique().to_list()
    answer = answers[0] if len(answers) == 1 else "the first answer"
    known = {name: words.format(answer) for name, words in MEASURES.items() if table[name].is_not_null().any()}
    others = [(name, words.split(" (")[-1].rstrip(")"), ".1%") for name, words in known.items() if name != "accuracy"]
    axes: dict[str, Any] = {
        "x": {
            "field": "step", "type": "quantitative", "scale": {"nice": False},
            "axis": {"title": "training step", "tickCount": 4, "grid": False},
        },
        "y": {
            "field": "value", "type": "quantitative", "scale": {"zero": False},
            "axis": {"title": None, "format": ".0%", "tickCount": 4},
        },
        "color": model_colour(data.models),
    }  # fmt: skip
    tips = tooltip(
        ("run", "run"), ("model", "model"), ("testset", "test set"), ("step", "step", "d"), *ACCURACY_TIPS, *others,
        ("n", "items", ",d"),
    )  # fmt: skip
    mean = {"aggregate": [{"op": "mean", "field": "value", "as": "mean"}], "groupby": ["model", "step", "testset"]}
    nearest = {"type": "point", "on": "pointermove", "clear": "pointerout", "nearest": True}
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.45},
            "encoding": axes | {"detail": {"field": "run"}},
        },
        {
            "transform": [mean],
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": axes | {"y": axes["y"] | {"field": "mean"}},
        },
        {
            "params": [{"name": "near", "select": nearest}],
            "mark": {"type": "point", "filled": True, "size": 70, "cursor": "pointer"},
            "encoding": axes
            | {"tooltip": tips, "opacity": {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}},
        },
    ]
    header = {"labelAnchor": "start"}
    spec: Spec = {
        "data": {"name": "trajectories"},
        "usermeta": {"pad": 60, "least": 118, "renderer": "canvas"},
        "autosize": {"type": "pad", "resize": True},  # labels of the axes change their width with the switch
        "params": [{"name": "shown", "value": None}, {"name": "measure", "value": "accuracy"}],
        "transform": [
            {"filter": {"field": "model", "oneOf": data.models}},
            {"filter": "!shown || indexof(shown, datum.run) >= 0"},
            {"calculate": "datum[measure]", "as": "value"},
            {"filter": "isValid(datum.value)"},
        ],
        "facet": {"field": "testset", "type": "nominal", "title": None, "sort": data.testsets, "header": header},
        "spec": {"height": 140, "layer": layers},
    }
    caption = "Thin: one run. Thick: mean of the model's runs that are shown. Hover for values; choose runs below."
    if len(known) > 1:
        caption += " Sensitivity is what the model can tell apart, whichever answer it leans to: 50% is chance."
    controls = (Control("measure", "Show", tuple(known.items())),) if len(known) > 1 else ()
    title = "Accuracy, sensitivity and bias during training" if len(known) > 2 else "Accuracy during training"
    drill = {"testset": "testset", "model": "model"}
    return Figure("trajectories", title, caption, spec, "trajectories", controls, drill)
