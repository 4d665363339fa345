"""Figures that compare models, runs and parts of training: agreement, similarity, windows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from breadth.correlation.figure import CELL, COLOURS, DRILL, FOUND, MOST_PANELS, PANELS, by_strength
from breadth.results import Control, Figure
from breadth.results.figures import SHORT_R, Spec, heat_layers, model_colour, nominal, tooltip

#: Above this many pairs, the figure of agreement shows those on which groups differ most.
MOST_PAIRS = 28

#: Above this many models or runs, the figure of agreement has no room for their intervals.
MOST_LANES = 12

#: Above this many groups, cells of the figure of similarity are too small for numbers.
MOST_NUMBERED = 16

#: Tooltips of a mean over runs.
MEAN_TIPS = (
    ("r", "r", ".2f"), ("ci_low", "from", ".2f"), ("ci_high", "to", ".2f"), ("k", "runs", "d"), ("q", "q", ".2g"),
)  # fmt: skip


def agreement_figure(
    heterogeneity: pl.DataFrame, correlations: pl.DataFrame, models: Sequence[str], *, given: str, new: str = "run"
) -> Figure:
    """Correlations per pair of test sets and model (or run, where there is one model), and where a new one is expected.

    Uses the tables ``heterogeneity`` and ``correlations`` of a study; ``models`` are in the order of their colours and
    ``new`` says of what the mean is taken. For several models or runs only.
    """
    # The same correlations as in the heatmap and in ``heterogeneity``: those that decide.
    known = set(correlations.filter(pl.col("r").is_not_null())["kind"])
    kind = next((name for name in ("corrected", "partial") if name in known), "raw")
    if len(models) > 1:
        unit, lanes, dots = "model", list(models), "Dot: mean over the model's runs"
        own = "!isValid(datum.run) && isValid(datum.model)"
    else:
        unit, lanes, dots = "run", correlations["run"].drop_nulls().unique().sort().to_list(), "Dot: a run"
        own = "isValid(datum.run)"
    pairs = heterogeneity.select("a", "b").unique(maintain_order=True)
    chosen = heterogeneity.sort("p_differ", nulls_last=True).select("a", "b").unique(maintain_order=True)
    chosen = chosen.head(MOST_PAIRS)
    order = [f"{a} – {b}" for a, b in pairs.join(chosen, on=["a", "b"], how="semi", maintain_order="left").iter_rows()]
    keep = f"indexof({order}, datum.pair) >= 0"
    params: list[Spec] = []
    controls: tuple[Control, ...] = ()
    if "train_set" in heterogeneity.columns:
        sets = heterogeneity["train_set"].unique(maintain_order=True).to_list()
        params = [{"name": "trained", "value": sets[0]}]
        controls = (Control("trained", "Training set", tuple((name, name) for name in sets), "select"),)
        keep += " && datum.train_set == trained"
    transform = [{"calculate": "datum.a + ' – ' + datum.b", "as": "pair"}, {"filter": keep}]
    x = {
        "type": "quantitative",
        "scale": {"domain": [-1, 1]},
        "axis": {"title": f"correlation {given}", "tickCount": 5, "format": ".1f"},
    }
    y = nominal("pair", order, labelLimit=190)
    prediction_tips = tooltip(
        ("pair", "pair"), ("r_mean", "mean", ".2f"), ("predict_low", f"a new {new}, from", ".2f"),
        ("predict_high", "to", ".2f"), ("i2", "I2", ".0%"), ("sign_agreement", "same sign", ".0%"),
        ("p_differ", f"p ({new}s differ)", ".2g"),
    )  # fmt: skip
    prediction = {
        "data": {"name": "heterogeneity"},
        "transform": [*transform, {"filter": "isValid(datum.predict_low)"}],
        "mark": {"type": "bar", "color": "@grid", "height": 10},
        "encoding": {
            "y": y, "x": x | {"field": "predict_low"}, "x2": {"field": "predict_high"}, "tooltip": prediction_tips,
        },
    }  # fmt: skip
    zero = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": "@muted"},
        "encoding": {"x": x | {"field": "zero"}},
    }
    line = {"type": "rule", "strokeWidth": 1.5}
    dot = {"type": "point", "filled": True, "size": 42, "cursor": "pointer"}
    roomy = len(lanes) <= MOST_LANES
    # Where there is room, every lane has a place of its own, and an interval.
    offset: Spec = {}
    lines: list[Spec] = []
    step, with_lines, clear = 20, "", "that has strong dots on both sides of 0"
    if roomy:
        offset = {"yOffset": {"field": unit, "sort": lanes}}
        lines = [{"mark": line, "encoding": {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}}}]
        step, with_lines = max(20, 7 * len(lanes)), "; line: its 95% interval"
        clear = "where intervals on both sides of 0 exclude it"
    means: Spec = {
        "data": {"name": "correlations"},
        "transform": [{"filter": f"datum.kind == '{kind}' && {own}"}, *transform],
        "encoding": {
            "y": y,
            **offset,
            "color": model_colour(models, legend=unit == "model"),
            "opacity": {"condition": {"test": FOUND, "value": 1}, "value": 0.35},
            "tooltip": tooltip(("pair", "pair"), (unit, unit), *MEAN_TIPS),
        },
        "layer": [
            *lines,
            {"mark": dot, "encoding": {"x": x | {"field": "r"}}},
        ],
    }
    spec: Spec = {
        "usermeta": {"most": 860},
        "width": "container",
        "height": {"step": step, "for": "position"},
        "params": params,
        "layer": [prediction, zero, means],
    }
    caption = (
        f"{dots}{with_lines}; faded: may be chance. "
        f"Grey bar: where a new {new}'s correlation is expected (95% prediction interval). "
        f"{unit.capitalize()}s disagree on a pair {clear}; faded dots on both sides of it do not show that."
    )
    if more := pairs.height - chosen.height:
        caption += f" Shown: the {chosen.height} pairs on which {new}s differ most; {more} more are in the table."
    return Figure("agreement", f"Do {unit}s agree, {given}?", caption, spec, "heterogeneity", controls, DRILL)


def similarity_figure(groups: Sequence[str], *, given: str, unit: str = "run") -> Figure:
    """How alike the correlation matrices of every two groups are; ``groups`` in the order of the axes.

    Uses the table ``similarity`` of a study, where columns ``unit`` with _1 and _2 name the groups.
    """
    small, first, second = len(groups) > MOST_NUMBERED, f"{unit}_1", f"{unit}_2"
    tips = tooltip(
        (first, unit),
        (second, unit),
        ("similarity", "similarity", ".2f"),
        ("difference", "mean difference of r", ".2f"),
        ("p", "p", ".2g"),
        ("q", "q", ".2g"),
    )
    # Runs of one model are neighbours, whichever of the two the table names first.
    names = list(groups)
    width, height = 36, 30
    if small:
        width, height = 22, 20
    straight = f"indexof({names}, datum['{first}']) < indexof({names}, datum['{second}'])"
    spec = {
        "data": {"name": "similarity"},
        "transform": [
            {"calculate": FOUND, "as": "sure"},
            {"calculate": "datum.sure", "as": "bold"},
            {"calculate": "datum.similarity", "as": "r"},
            {"calculate": f"isValid(datum.r) && {str(not small).lower()} ? {SHORT_R} : ''", "as": "text"},
            {"calculate": straight, "as": "straight"},
            {"calculate": f"datum.straight ? datum['{first}'] : datum['{second}']", "as": "first"},
            {"calculate": f"datum.straight ? datum['{second}'] : datum['{first}']", "as": "second"},
        ],
        "width": {"step": width},
        "height": {"step": height},
        "encoding": {"x": nominal("first", groups, labelAngle=-45), "y": nominal("second", groups)},
        "layer": heat_layers("r", "text", tips, 1.0, "similarity", ".0f"),
    }
    caption = (
        f"For every two {unit}s: do pairs of test sets that go together in one go together in the other? (1: the "
        f"same pairs do, {given}; 0: no relation.) Strong and bold: more than chance; faded: undecided."
    )
    return Figure("similarity", f"How alike are {unit}s?", caption, spec, "similarity")


def windows_figure(window_means: pl.DataFrame, testsets: Sequence[str], *, given: str) -> Figure:
    """Correlations in consecutive parts of training, a panel per model; of many models, the strongest."""
    models = by_strength(window_means, "model")
    shown = models[:MOST_PANELS]
    order = [f"{a} – {b}" for i, a in enumerate(testsets) for b in testsets[i + 1 :]]
    # Every panel has its labels beside it: of long names, fewer panels fit side by side.
    labels = min(190, 7 * max(map(len, order), default=0)) + 30
    apart = window_means["train_set"].n_unique() > 1
    panel = "datum.model"
    if apart:
        panel = "datum.model + ' · ' + datum.train_set"
    tips = tooltip(("pair", "pair"), ("model", "model"), ("steps", "steps"), *MEAN_TIPS)
    spec = {
        "data": {"name": "window_means"},
        "usermeta": {
            "panel": 64 * window_means["window"].n_unique() + labels,
            "panels": window_means.filter(pl.col("model").is_in(shown)).select("model", "train_set").n_unique(),
        },
        "transform": [
            {"calculate": f"indexof({shown}, datum.model)", "as": "place"},
            {"filter": "datum.place >= 0"},
            {"calculate": "datum.a + ' – ' + datum.b", "as": "pair"},
            {"calculate": "datum.from + '–' + datum.to", "as": "steps"},
            {"calculate": panel, "as": "panel"},
            *CELL,
        ],
        "facet": PANELS,
        "spec": {
            "width": {"step": 64},
            "height": {"step": 20},
            "encoding": {
                "x": {
                    "field": "steps",
                    "type": "ordinal",
                    "sort": {"field": "window"},
                    "axis": {"title": "training steps", "labelAngle": 0, "ticks": False, "domain": False},
                },
                "y": nominal("pair", order, labelLimit=190),
            },
            "layer": heat_layers("r", "text", tips, 1.0, "r", ".0f"),
        },
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
    }
    caption = (
        f"The same correlations, {given}, in consecutive parts of training (mean over the model's runs). A part has "
        f"few checkpoints, so intervals are wide. {COLOURS}"
    )
    if len(models) > len(shown):
        caption += f" Shown: {len(shown)} of {len(models)} models, those with the strongest correlations."
    return Figure("windows", "Does it change through training?", caption, spec, "window_means", (), DRILL)
