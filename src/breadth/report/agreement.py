"""Pictures for section 3: do models agree, how alike are runs, does it change through training?"""

from __future__ import annotations

from breadth.report.contents import Control, Figure, Gathered
from breadth.report.glance import panel
from breadth.report.vega import SHORT_R, Spec, heat_layers, model_colour, nominal, sure, tooltip

#: Above this many pairs, the picture of agreement shows those on which models differ most.
MOST_PAIRS = 28


def correlated_sets(gathered: Gathered) -> list[str]:
    """Test sets between which correlations were computed, in-domain first."""
    there = gathered.table("correlations")
    used = {*there["a"].unique(), *there["b"].unique()}
    return [name for name in gathered.testsets if name in used]


def _train_control(gathered: Gathered) -> tuple[Spec, tuple[Control, ...], str]:
    sets = gathered.table("heterogeneity")["train_set"].unique(maintain_order=True).to_list()
    controls = (
        (Control("trained", "Training set", tuple((name, name) for name in sets), "select"),) if len(sets) > 1 else ()
    )
    return {"name": "trained", "value": sets[0]}, controls, "datum.train_set == trained"


def agreement(gathered: Gathered) -> Figure:
    """Correlations per model and pair of test sets, with where a new run is expected."""
    table = gathered.table("heterogeneity")
    chosen = table.sort("p_differ", nulls_last=True).select("a", "b").unique(maintain_order=True).head(MOST_PAIRS)
    left_out = table.select("a", "b").unique().height - chosen.height
    place = {name: k for k, name in enumerate(gathered.testsets)}
    pairs = sorted(chosen.iter_rows(), key=lambda pair: (place.get(pair[0], 0), place.get(pair[1], 0)))
    order = [f"{a} – {b}" for a, b in pairs]
    param, controls, mine = _train_control(gathered)
    label = {"calculate": "datum.a + ' – ' + datum.b", "as": "pair"}
    x = {
        "type": "quantitative",
        "scale": {"domain": [-1, 1]},
        "axis": {"title": "partial correlation given in-domain accuracy", "tickCount": 5, "format": ".1f"},
    }
    y = nominal("pair", order, labelLimit=190)
    names = ", ".join(f"'{name}'" for name in (o.replace("'", "\\'") for o in order))
    keep = {"filter": f"{mine} && indexof([{names}], datum.pair) >= 0"}
    band = {
        "data": {"name": "heterogeneity"},
        "transform": [label, keep, {"filter": "isValid(datum.predict_low)"}],
        "mark": {"type": "bar", "color": "@grid", "height": 10},
        "encoding": {
            "y": y,
            "x": x | {"field": "predict_low"},
            "x2": {"field": "predict_high"},
            "tooltip": tooltip(
                ("pair", "pair"),
                ("r_mean", "mean", ".2f"),
                ("predict_low", "a new run, from", ".2f"),
                ("predict_high", "to", ".2f"),
                ("i2", "I2", ".0%"),
                ("sign_agreement", "same sign", ".0%"),
                ("p_differ", "p (runs differ)", ".2g"),
            ),
        },
    }
    tips = tooltip(
        ("pair", "pair"),
        ("model", "model"),
        ("r", "r", ".2f"),
        ("ci_low", "from", ".2f"),
        ("ci_high", "to", ".2f"),
        ("k", "runs", "d"),
    )
    per_model = {
        "data": {"name": "correlations"},
        "transform": [{"filter": "datum.kind == 'partial' && !isValid(datum.run)"}, label, keep],
        "encoding": {
            "y": y,
            "yOffset": {"field": "model", "sort": gathered.models},
            "color": model_colour(gathered.models),
            "tooltip": tips,
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1, "cursor": "pointer"},
                "encoding": {"x": x | {"field": "r"}},
            },
        ],
    }
    zero = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": "@muted"},
        "encoding": {"x": x | {"field": "zero"}},
    }
    step = max(20, 7 * len(gathered.models))
    spec: Spec = {
        "usermeta": {"most": 860},
        "width": "container",
        "height": {"step": step, "for": "position"},
        "params": [param],
        "layer": [band, zero, per_model],
    }
    caption = (
        "Dot: mean over the model's runs; line: its 95% interval. Grey bar: where a new run's "
        "correlation is expected (95% prediction interval). "
        "Dots on both sides of 0 mean that models disagree."
        + (
            f" The {chosen.height} pairs on which runs differ most; {left_out} more are in the table."
            if left_out
            else ""
        )
    )
    return Figure(
        "agreement", "Do models agree?", caption, spec, "heterogeneity", controls, {"testset": "b", "testset2": "a"}
    )


def similarity(gathered: Gathered) -> Figure:
    """How alike the correlation matrices of every two runs are."""
    runs = gathered.table("runs").sort("model", "run")["run"].to_list()
    tips = tooltip(
        ("run_1", "run"),
        ("run_2", "run"),
        ("similarity", "similarity", ".2f"),
        ("difference", "mean difference of r", ".2f"),
        ("p", "p", ".2g"),
    )
    spec = {
        "data": {"name": "similarity"},
        "transform": [
            {"calculate": "isValid(datum.p) && datum.p < 0.05", "as": "sure"},
            {"calculate": "datum.sure", "as": "bold"},
            {"calculate": "datum.similarity", "as": "r"},
            {"calculate": f"isValid(datum.r) ? {SHORT_R} : ''", "as": "text"},
            # Runs of one model stand together, whichever of two was named first.
            {
                "calculate": f"indexof({_list(runs)}, datum.run_1) < indexof({_list(runs)}, datum.run_2)",
                "as": "straight",
            },
            {"calculate": "datum.straight ? datum.run_1 : datum.run_2", "as": "first"},
            {"calculate": "datum.straight ? datum.run_2 : datum.run_1", "as": "second"},
        ],
        "width": {"step": 36 if len(runs) <= 16 else 22},
        "height": {"step": 30 if len(runs) <= 16 else 20},
        "encoding": {"x": nominal("first", runs, labelAngle=-45), "y": nominal("second", runs)},
        "layer": heat_layers("r", "text" if len(runs) <= 16 else "none", tips, 1.0, "similarity", ".0f"),
    }
    caption = (
        "For every two runs: do pairs of test sets that go together in one go together in the other? "
        "(Correlation of their partial "
        "correlations; Mantel's test.) Strong and bold: p < 0.05; faded: undecided."
    )
    return Figure("similarity", "How alike are runs?", caption, spec, "similarity")


def _list(names: list[str]) -> str:
    escaped = (name.replace("\\", "\\\\").replace("'", "\\'") for name in names)
    return "[" + ", ".join(f"'{name}'" for name in escaped) + "]"


def windows(gathered: Gathered) -> Figure:
    """Correlations in consecutive parts of training."""
    sets = correlated_sets(gathered)
    order = [f"{a} – {b}" for i, a in enumerate(sets) for b in sets[i + 1 :]]
    tips = tooltip(
        ("pair", "pair"),
        ("model", "model"),
        ("steps", "steps"),
        ("r", "r", ".2f"),
        ("ci_low", "from", ".2f"),
        ("ci_high", "to", ".2f"),
        ("k", "runs", "d"),
    )
    spec = {
        "data": {"name": "window_means"},
        "usermeta": {"panel": 64 * gathered.table("window_means")["window"].n_unique() + 140},
        "transform": [
            {"calculate": "datum.a + ' – ' + datum.b", "as": "pair"},
            {"calculate": "datum.from + '–' + datum.to", "as": "steps"},
            {"calculate": sure(), "as": "sure"},
            {"calculate": "datum.sure", "as": "bold"},
            {"calculate": f"isValid(datum.r) ? {SHORT_R} : ''", "as": "text"},
            panel(gathered),
        ],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
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
        "resolve": {"axis": {"y": "independent"}},
    }
    caption = (
        "The same partial correlations in consecutive parts of training (mean over the model's runs). A "
        "part has few checkpoints, so intervals are wide: strong colour only where they exclude 0."
    )
    return Figure(
        "windows",
        "Does it change through training?",
        caption,
        spec,
        "window_means",
        (),
        {"testset": "b", "testset2": "a"},
    )
