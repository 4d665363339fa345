"""Figures of correlations: heatmaps per group, agreement between models, similarity of runs, windows over training.

Each is a Vega-Lite specification over a table of the analysis, for files, notebooks, the report and the live page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from breadth.results import Control, Figure, as_chart
from breadth.results.figures import SHORT_R, Spec, heat_layers, model_colour, nominal, sure, tooltip

if TYPE_CHECKING:
    import altair as alt

    from breadth.correlation.result import Correlation

#: Above this many groups the figure shows the mean over groups instead of a panel for each.
MOST_PANELS = 60

#: Above this many pairs, the figure of agreement shows those on which runs differ most.
MOST_PAIRS = 28

#: Above this many runs, cells of the figure of similarity are too small for numbers.
MOST_NUMBERED = 16

#: Tooltips of a correlation: column, words, format. A figure shows those that its table has.
TIPS = (
    ("panel", "shown"), ("a", "a"), ("b", "b"), ("r_raw", "plain r", ".3f"), ("r", "r", ".3f"),
    ("ci_low", "from", ".3f"), ("ci_high", "to", ".3f"), ("n", "rows", "d"), ("n_eff", "effective rows", ".1f"),
    ("k", "runs", "d"), ("p", "p", ".2g"), ("q", "q", ".2g"), ("note", "note"),
)  # fmt: skip

#: Tooltips of a mean over a model's runs.
MEAN_TIPS = (("r", "r", ".2f"), ("ci_low", "from", ".2f"), ("ci_high", "to", ".2f"), ("k", "runs", "d"))

#: What a cell needs besides r: whether its interval excludes 0, whether it is bold, its text.
CELL: tuple[Spec, ...] = (
    {"calculate": sure(), "as": "sure"},
    {"calculate": "isValid(datum.q) ? datum.q < 0.05 : datum.sure", "as": "bold"},
    {"calculate": f"isValid(datum.r) ? {SHORT_R} : ''", "as": "text"},
    {"calculate": "datum.note || ''", "as": "note"},
)

#: A panel per value of the column ``panel``.
PANELS: Spec = {
    "field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"},
}  # fmt: skip

#: A click on a mark chooses the items of its two test sets.
DRILL = {"testset": "b", "testset2": "a"}

COLOURS = "Strong colour: the 95% interval excludes 0; faded: it covers 0. Grey: not computed."


def result_figure(result: Correlation) -> alt.TopLevelMixin:
    """A lower-triangle heatmap per group, as an Altair chart; above 60 groups, one of the mean over groups."""
    pairs, by = result.pairs, result.by
    panel = [pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator=" / ")] if by else []
    caption = f"Partial correlation r given the control. {COLOURS} Bold: q < 0.05."
    if by and pairs.select(by).n_unique() > MOST_PANELS:
        apart = "train_set" in result.heterogeneity.columns
        panel = [pl.format("mean over runs trained on {}", "train_set")] if apart else []
        pairs = result.heterogeneity.rename({"r_mean": "r"})
        caption = f"Mean partial correlation r over groups, given the control. {COLOURS}"
    columns = [tip[0] for tip in TIPS if tip[0] in pairs.columns]
    cells = pairs.select(*(name.alias("panel") for name in panel), *columns)
    figure = heatmap(
        cells,
        result.trajectories.testsets,
        table="pairs",
        title="Does doing better on one test set go with doing better on another?",
        caption=caption,
    )
    return as_chart(figure, tables={"pairs": cells})


def heatmap(
    cells: pl.DataFrame,
    testsets: Sequence[str],
    *,
    table: str,
    title: str,
    caption: str,
    params: Sequence[Spec] = (),
    choose: Sequence[Spec] = (),
    controls: tuple[Control, ...] = (),
) -> Figure:
    """A lower triangle of correlations per panel: colour and text are r.

    Orange is positive and blue negative, which readers with any kind of colour vision can tell apart. Hovering shows
    the numbers behind a cell.

    Parameters
    ----------
    cells
        A row per pair: ``a, b, r, ci_low, ci_high`` and, where known, ``q``, ``note`` and other numbers; and per
        ``panel``, if there are several.
    testsets
        Test sets in the order of the pairs.
    table
        What the figure calls its table.
    params, choose, controls
        Parameters, the transforms that choose rows by them, and what a reader can switch.
    """
    panels = cells["panel"].n_unique() if "panel" in cells.columns else 1
    size = 44 if len(testsets) <= 8 else 38 if len(testsets) <= 12 else 32 if len(testsets) <= 20 else 28
    size = size if panels <= 6 else max(28, size - 8)
    layers = heat_layers("r", "text", tooltip(*(tip for tip in TIPS if tip[0] in cells.columns)), 1.0, "r", ".0f")
    for layer in layers:
        if layer["mark"]["type"] == "text":
            layer["mark"]["fontSize"] = 11 if size >= 36 else 9
    labels = 7 * max((len(name) for name in testsets), default=0)
    spec: Spec = {
        "data": {"name": table},
        "usermeta": {"panel": size * (len(testsets) - 1) + min(labels, 150) + 20},
        "params": list(params),
        "transform": [*choose, *CELL],
        "facet": PANELS,
        "spec": {
            "width": {"step": size},
            "height": {"step": round(0.8 * size)},
            "encoding": {"x": nominal("a", testsets, labelAngle=-45), "y": nominal("b", testsets)},
            "layer": layers,
        },
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
    }
    if "panel" not in cells.columns:
        del spec["facet"], spec["resolve"]
        spec |= spec.pop("spec")
    return Figure("correlations", title, caption, spec, table, controls, DRILL)


def correlations_figure(correlations: pl.DataFrame, testsets: Sequence[str], models: Sequence[str]) -> Figure:
    """Heatmaps of a study: raw, partial or corrected; the mean over a model's runs, or single runs."""
    known = set(correlations.filter(pl.col("r").is_not_null())["kind"])
    kinds = [kind for kind in ("partial", "raw", "corrected") if kind in known]
    there = set(correlations["model"])
    single = ((name, f"single runs of {name}") for name in models if name in there)
    caption = (
        "Correlation over checkpoints of accuracy on two test sets. Partial: after controlling for in-domain accuracy. "
        "Raw: without control. Corrected: partial, and corrected for the sampling noise of the test sets. "
        f"{COLOURS} Bold: q < 0.05 (single runs), or the mean's interval excludes 0."
    )
    return heatmap(
        correlations.filter(pl.col("run").is_null()),
        testsets,
        table="correlations",
        title="Correlations between test sets",
        caption=caption,
        params=[{"name": "kind", "value": "partial"}, {"name": "of", "value": ""}],
        choose=[
            {"filter": "datum.kind == kind && (of ? datum.model == of && isValid(datum.run) : !isValid(datum.run))"}
        ],
        controls=(
            Control("kind", "Correlation", tuple((kind, kind) for kind in kinds)),
            Control("of", "Panels", (("", "mean over runs, per model"), *single), "select"),
        ),
    )


def agreement_figure(heterogeneity: pl.DataFrame, models: Sequence[str]) -> Figure:
    """Correlations per model and pair of test sets, with the prediction for a new run.

    Uses the tables ``heterogeneity`` and ``correlations`` of a study.
    """
    pairs = heterogeneity.select("a", "b").unique(maintain_order=True)
    chosen = heterogeneity.sort("p_differ", nulls_last=True).select("a", "b").unique(maintain_order=True)
    chosen = chosen.head(MOST_PAIRS)
    order = [f"{a} – {b}" for a, b in pairs.join(chosen, on=["a", "b"], how="semi", maintain_order="left").iter_rows()]
    # Python writes a list of texts as Vega's expressions do.
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
        "axis": {"title": "partial correlation given in-domain accuracy", "tickCount": 5, "format": ".1f"},
    }
    y = nominal("pair", order, labelLimit=190)
    prediction_tips = tooltip(
        ("pair", "pair"), ("r_mean", "mean", ".2f"), ("predict_low", "a new run, from", ".2f"),
        ("predict_high", "to", ".2f"), ("i2", "I2", ".0%"), ("sign_agreement", "same sign", ".0%"),
        ("p_differ", "p (runs differ)", ".2g"),
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
    dot = {"type": "point", "filled": True, "size": 42, "opacity": 1, "cursor": "pointer"}
    means = {
        "data": {"name": "correlations"},
        "transform": [{"filter": "datum.kind == 'partial' && !isValid(datum.run)"}, *transform],
        "encoding": {
            "y": y,
            "yOffset": {"field": "model", "sort": list(models)},
            "color": model_colour(models),
            "tooltip": tooltip(("pair", "pair"), ("model", "model"), *MEAN_TIPS),
        },
        "layer": [
            {"mark": line, "encoding": {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}}},
            {"mark": dot, "encoding": {"x": x | {"field": "r"}}},
        ],
    }
    spec: Spec = {
        "usermeta": {"most": 860},
        "width": "container",
        "height": {"step": max(20, 7 * len(models)), "for": "position"},
        "params": params,
        "layer": [prediction, zero, means],
    }
    caption = (
        "Dot: mean over the model's runs; line: its 95% interval. Grey bar: where a new run's correlation is expected "
        "(95% prediction interval). Dots on both sides of 0 mean that models disagree."
    )
    if more := pairs.height - chosen.height:
        caption += f" Shown: the {chosen.height} pairs on which runs differ most; {more} more are in the table."
    return Figure("agreement", "Do models agree?", caption, spec, "heterogeneity", controls, DRILL)


def similarity_figure(runs: Sequence[str]) -> Figure:
    """How alike the correlation matrices of every two runs are; ``runs`` in the order of the axes.

    Uses the table ``similarity`` of a study.
    """
    small = len(runs) > MOST_NUMBERED
    tips = tooltip(
        ("run_1", "run"),
        ("run_2", "run"),
        ("similarity", "similarity", ".2f"),
        ("difference", "mean difference of r", ".2f"),
        ("p", "p", ".2g"),
    )
    # Runs of one model are neighbours, whichever of the two the table names first.
    straight = f"indexof({list(runs)}, datum.run_1) < indexof({list(runs)}, datum.run_2)"
    spec = {
        "data": {"name": "similarity"},
        "transform": [
            {"calculate": "isValid(datum.p) && datum.p < 0.05", "as": "sure"},
            {"calculate": "datum.sure", "as": "bold"},
            {"calculate": "datum.similarity", "as": "r"},
            {"calculate": f"isValid(datum.r) && {str(not small).lower()} ? {SHORT_R} : ''", "as": "text"},
            {"calculate": straight, "as": "straight"},
            {"calculate": "datum.straight ? datum.run_1 : datum.run_2", "as": "first"},
            {"calculate": "datum.straight ? datum.run_2 : datum.run_1", "as": "second"},
        ],
        "width": {"step": 22 if small else 36},
        "height": {"step": 20 if small else 30},
        "encoding": {"x": nominal("first", runs, labelAngle=-45), "y": nominal("second", runs)},
        "layer": heat_layers("r", "text", tips, 1.0, "similarity", ".0f"),
    }
    caption = (
        "For every two runs: do pairs of test sets that go together in one go together in the other? (Correlation of "
        "their partial correlations; Mantel's test.) Strong and bold: p < 0.05; faded: undecided."
    )
    return Figure("similarity", "How alike are runs?", caption, spec, "similarity")


def windows_figure(window_means: pl.DataFrame, testsets: Sequence[str]) -> Figure:
    """Correlations in consecutive parts of training, a panel per model."""
    order = [f"{a} – {b}" for i, a in enumerate(testsets) for b in testsets[i + 1 :]]
    apart = window_means["train_set"].n_unique() > 1
    panel = "datum.model + ' · ' + datum.train_set" if apart else "datum.model"
    tips = tooltip(("pair", "pair"), ("model", "model"), ("steps", "steps"), *MEAN_TIPS)
    spec = {
        "data": {"name": "window_means"},
        "usermeta": {
            "panel": 64 * window_means["window"].n_unique() + 140,
            "panels": window_means.select("model", "train_set").n_unique(),
        },
        "transform": [
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
        "The same partial correlations in consecutive parts of training (mean over the model's runs). A part has few "
        "checkpoints, so intervals are wide: strong colour only where they exclude 0."
    )
    return Figure("windows", "Does it change through training?", caption, spec, "window_means", (), DRILL)
