"""Figures of the sections Overview and Training: scores of every model on every test set, and through training.

The panel of a mean comes first. Means are taken where the figure is drawn, so that they follow the reader's choice of
runs: a row goes to its own panel and, in addition, to that of the mean (``flatten``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from breadth.inference import LEVEL
from breadth.reporting.accuracy import LEAST_RUNS, common_start
from breadth.reporting.data import ReportData
from breadth.reporting.names import short_names
from breadth.results import Control, Figure
from breadth.results.figures import MODEL_COLOURS, Spec, model_colour, nominal, tooltip
from breadth.results.words import count, joined

#: What the figure of trajectories can show of answers, as its switch names it.
MEASURES = {"accuracy": "accuracy", "auc": "sensitivity (area under the ROC curve)", "share": "bias (share of {})"}

#: What the models of a table are called that names none.
UNNAMED_MODELS = (["all runs"], ["run"])

#: Panels of the profile: with more, it shows the mean and a selection of models, spread evenly over their scores.
MOST_PANELS = 12

#: Above this many test sets a row of the profile has one short line, and there are half as many panels.
MOST_TALL = 12

#: Test sets from which a chart is so long that its axis stands above it as well.
LONG = 24


def profile_figure(data: ReportData) -> Figure:
    """A score on every test set, a panel per model: before and after training where there is both."""
    testsets = data.comparable
    profile, name = data.table("profile").filter(pl.col("testset").is_in(testsets)), data.measure_words
    once, tall = "before" not in profile["when"], len(testsets) <= MOST_TALL
    models = profile["model"].n_unique()
    panels, transform, shown = _model_panels(data, MOST_PANELS if tall else MOST_PANELS // 2)
    y = nominal("testset", testsets)
    label = f"{json.dumps(short_names(testsets))}[datum.label]"
    y["axis"]["labelExpr"] = label
    if tall:
        shift = f"{json.dumps({name: shift or '' for name, shift in data.shifts.items()})}[datum.label]"
        two = {"labelExpr": f"{shift} ? [{label}, {shift}] : {label}", "labelLineHeight": 12}
        y["axis"] |= two | {"labelOffset": {"condition": {"test": shift, "value": -6}, "value": 0}}
    form = data.value_format
    x: Spec = {
        "field": data.measure, "type": "quantitative", "scale": {"zero": False, "nice": True},
        "axis": {"title": name, "format": form.replace(".1%", ".0%"), "tickCount": 5},
    }  # fmt: skip
    tips = tooltip(
        ("model", "model"), ("testset", "test set"), ("shift", "shift"), ("when", "when"), ("runs", "runs", ".3~r"),
        ("n_items", "questions", ",.0f"), (data.measure, name, form), ("ci_low", "from", form),
        ("ci_high", "to", form), ("chance", "commonest label", ".1%"),
    )  # fmt: skip
    colour = {"condition": {"test": "!datum.model", "value": "@ink"}} | model_colour(data.models, legend=False)
    base: Spec = {"y": y, "yOffset": {"field": "when", "sort": ["before", "after"]}, "color": colour, "tooltip": tips}
    hollow = {"test": "datum.when == 'before'", "value": "@paper"}
    fill = colour | {"condition": [hollow, colour["condition"]]}
    chance = data.measure == "accuracy" and bool(profile["chance"].is_not_null().any())
    tick: Spec = {
        "transform": [{"filter": "datum.when == 'after'"}],
        "mark": {"type": "tick", "color": "@muted", "thickness": 2, "size": 26 if tall else 14, "opacity": 0.6},
        "encoding": {"y": y, "x": x | {"field": "chance"}, "tooltip": tips},
    }
    layers: list[Spec] = [
        *([tick] if chance else ()),
        {
            "transform": [{"filter": "isValid(datum.ci_low)"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": base | {"x": x | {"field": "ci_low"}, "x2": {"field": "ci_high"}},
        },
        {
            "mark": {"type": "point", "size": 62 if tall else 32, "strokeWidth": 2, "opacity": 1, "cursor": "pointer"},
            "encoding": base | {"x": x, "fill": fill},
        },
    ]
    width = 7 * max(len(name) for name in testsets)
    spec: Spec = {
        "data": {"name": "profile"},
        "usermeta": {"pad": min(width, 150) + 30, "least": 230, "panels": len(panels)},
        "transform": transform,
        "facet": _facet(panels),
        "spec": {"height": {"step": 34 if tall else 20, "for": "position"}, "layer": layers},
        # Every panel has its axis: under a row that is not full there would be one without a panel.
        "resolve": {"axis": {"x": "independent"}},
    }
    if len(testsets) > LONG:
        _repeat_axis(spec["spec"])
    samples = "both the questions and the runs as samples" if data.has_runs else "the questions as a sample"
    samples = samples if data.has_answers else "the runs as a sample"
    sentences = {
        f"Dot: mean {name} over runs.": data.has_runs,
        f"Line: 95% interval, with {samples}.": bool(profile["ci_low"].is_not_null().any()),
        f"First panel: mean over models, and of the ends of their intervals{_apart_words(data)}.": models > 1,
        "Hollow: first checkpoint; filled: last.": not once,
        "Grey tick: accuracy of always giving the commonest label.": chance,
        "Models from best to worst.": 1 < models == shown,
        f"Models from best to worst; shown: {shown} of {models}, evenly spread.": models > shown,
    }
    caption = " ".join(sentence for sentence, applies in sentences.items() if applies)
    title = f"{name[0].upper()}{name[1:]} on every test set{'' if once else ', before and after training'}"
    return Figure("profile", title, caption, spec, "profile", drill={"testset": "testset", "model": "model"})


def _repeat_axis(spec: Spec) -> None:
    """The axis of a long chart above it as well, so that it can be read without scrolling."""
    layers = spec["layer"]
    for place, layer in enumerate(layers):
        x = dict(layer["encoding"]["x"])
        axis = x.pop("axis", None) or {}
        if place == 0:
            x["axis"] = axis | {"orient": "top", "title": None}
        elif place == len(layers) - 1:
            x["axis"] = axis
        else:
            x["axis"] = None
        layer["encoding"] = layer["encoding"] | {"x": x}
    spec["resolve"] = {"axis": {"x": "independent"}}


def _model_panels(data: ReportData, most: int) -> tuple[list[str], list[Spec], int]:
    """Titles of the panels, transforms that send every row to its own and to that of the mean, and how many models.

    A panel is that of a model, or of a model and training set where a model has several of these; the best model comes
    first. A row of the mean has no model.
    """
    profile = data.table("profile").filter(pl.col("testset").is_in(data.comparable))
    score = pl.col(data.measure).mean()
    ranked = profile.filter(pl.col("model").is_in(data.models), when="after").group_by("model").agg(score)
    order = ranked.sort(data.measure, "model", descending=[True, False], nulls_last=True)["model"].to_list()
    models = profile["model"].n_unique()
    if len(order) > most:
        order = [order[k] for k in np.linspace(0, len(order) - 1, most - 1).round().astype(int)]
    pairs = profile.select("model", "train_set").unique(maintain_order=True).filter(pl.col("model").is_in(order))
    panel, titles = "datum.model", order
    if pairs.height > len(order):
        panel += " + ' · ' + (datum.train_set || 'untrained')"
        sets = {model: pairs.filter(model=model)["train_set"].fill_null("untrained") for model in order}
        titles = [f"{model} · {train_set}" for model in order for train_set in sets[model]]
    apart = _models_apart(data)
    mean = f"mean of {count(models - len(apart), 'model')}"
    own = f"indexof({json.dumps(order)}, datum.model) >= 0"
    both = f"{own} ? ['{mean}', {panel}] : ['{mean}']" if models > 1 else f"[{panel}]"
    if apart:
        both = f"indexof({json.dumps(apart)}, datum.model) >= 0 ? ({own} ? [{panel}] : []) : ({both})"
    ends, keys = ("ci_low", "ci_high"), ["panel", "model", "testset", "shift", "when"]
    drawn = {"filter": {"field": "testset", "oneOf": data.comparable}}
    transform: list[Spec] = [
        *([drawn] if data.others else []),
        {"calculate": both, "as": "panel"},
        {"flatten": ["panel"]},
        {"calculate": f"datum.panel == '{mean}' ? null : datum.model", "as": "model"},
        *_mean_ends([data.measure, "chance", "runs", "n_items"], ends, keys),
    ]
    return [mean] * (models > 1) + titles, transform, len(order)


def _models_apart(data: ReportData) -> list[str]:
    """Models whose runs begin at another step than those of most: no mean before and after training is over both."""
    if "before" not in data.table("profile")["when"]:
        return []
    runs = data.table("runs")
    starts = []
    for (model,), own in runs.filter(pl.col("checkpoints") > 1).group_by("model", maintain_order=True):
        starts.append((model, common_start(own["first_step"])))
    frame = pl.DataFrame(starts, schema={"model": pl.String, "start": runs["first_step"].dtype}, orient="row")
    start = common_start(frame["start"])
    return [] if start is None else frame.filter(pl.col("start") != start)["model"].to_list()


def _apart_words(data: ReportData) -> str:
    """Which models the mean over models is without, and why."""
    apart = _models_apart(data)
    return f", without {joined(apart)}, whose first checkpoint is from another step" if apart else ""


def trajectory_figure(data: ReportData) -> Figure:
    """Scores during training, a panel per test set and one of their mean, with a switch between measures of answers.

    The band of a model is the mean of the intervals of its runs. The standard error of a mean is at most the mean of
    the standard errors, so that band is wide enough. Test sets share no items: in the panel of their mean, errors of
    different sets are independent.
    """
    table = data.table("trajectories").filter(pl.col("model").is_in(data.models), ~pl.col("testset").is_in(data.others))
    answers = table["answer"].drop_nulls().unique().to_list() if "answer" in table.columns else []
    answer = answers[0] if len(answers) == 1 else "the first answer"
    columns = MEASURES if data.has_answers else {data.measure: data.measure_words}
    known = {name: words.format(answer) for name, words in columns.items() if table[name].is_not_null().any()}
    first, many = next(iter(known)), len(data.models) > MODEL_COLOURS
    panels, placed = _testset_panels(data, table)
    band = _band(data, table)
    profile = data.table("profile")
    guessed = first == "accuracy" and "chance" in profile.columns and bool(profile["chance"].is_not_null().any())
    # In a table that names no models, a hue is a run.
    runs = table["run"].unique(maintain_order=True).to_list()
    by_run = data.models in UNNAMED_MODELS and 1 < len(runs) <= MODEL_COLOURS
    short_runs = short_names(runs)
    run_colour = model_colour([short_runs[run] for run in runs]) | {"field": "named"}
    axes: Spec = {
        "x": {
            "field": "step", "type": "quantitative", "scale": {"nice": False},
            "axis": {"title": "training step", "tickCount": 3, "grid": False, "format": "~s"},
        },
        "y": {
            # A line at the edge would push the title of its panel out of line with the others.
            "field": "value", "type": "quantitative", "scale": {"zero": False, "nice": False, "padding": 6},
            "axis": {"title": None, "format": ".0%" if data.share else ".3~g", "tickCount": 4},
        },
        "color": run_colour if by_run else model_colour(data.models),
    }  # fmt: skip
    tips = tooltip(
        ("run", "run"), ("model", "model"), ("testset", "test set"), ("step", "step", ",~f"),
        *((name, words.split(" (")[-1].rstrip(")"), data.value_format) for name, words in known.items()),
        *((("low", "from", ".1%"), ("high", "to", ".1%"), ("n", "questions", ",.0f")) if data.has_answers else ()),
    )  # fmt: skip
    params: list[Spec] = [{"name": "shown", "value": None}, {"name": "measure", "value": first}]
    controls = [Control("measure", "Show", tuple(known.items()))] if len(known) > 1 else []
    if many:
        params.append({"name": "picked", "value": ""})
        options = (("", "none"), *((name, name) for name in data.models))
        controls.append(Control("picked", "Highlight", options, "select"))
    even = "curves" not in getattr(data, "page_tables", {})
    rows = _trajectory_rows(data, list(known), placed, guessed, even)
    if by_run:
        rows.append({"calculate": f"{json.dumps(short_runs)}[datum.run]", "as": "named"})
    spec: Spec = {
        "data": {"name": "trajectories" if even else "curves"},
        "usermeta": {"pad": 60, "least": 128, "renderer": "canvas", "panels": len(panels)},
        "autosize": {"type": "pad", "resize": True},  # labels of the axes change their width with the switch
        "params": params,
        "transform": rows,
        "facet": _facet(panels, 158),
        "spec": {"height": 140, "layer": _trajectory_layers(axes, tips, band, many, by_run)},
        "resolve": {"axis": {"x": "independent"}},
    }
    caption = _trajectory_caption(data, guessed, len(known) > 1, many, bool(band))
    if not even:
        caption += " Where runs were evaluated at different steps, means are over values interpolated between them."
    words = "Accuracy, sensitivity and bias" if len(known) > 2 else f"{known[first][0].upper()}{known[first][1:]}"
    drill = {"testset": "testset", "model": "model"}
    return Figure("trajectories", f"{words} during training", caption, spec, "trajectories", tuple(controls), drill)


def _testset_panels(data: ReportData, table: pl.DataFrame) -> tuple[list[str], list[Spec]]:
    """Titles of the panels, and transforms that send every row to its own and, if it is shifted, to that of the mean.

    In-domain is the test set of a run's training set, else those marked so. A row of the mean has no test set.
    """
    marked = [name for name, kind in data.shifts.items() if kind == "in-domain"]
    homes = [[name] if name in data.shifts else marked for name in table["train_set"].unique()]
    testsets = [name for name in data.comparable if name in table["testset"]]
    shifted = [name for name in testsets if not all(name in home for home in homes)]
    training = sorted(set(table["testset"].drop_nulls()) - set(data.testsets))
    some = {name for home in homes for name in home}
    suffix = {name: f" (in-domain{' for some runs' * (name in shifted)})" for name in some}
    short = short_names(testsets)
    titles = {name: short[name] + suffix.get(name, "") for name in testsets}
    titles |= {name: f"{name} examples" for name in training}
    own = f"{json.dumps(titles)}[datum.testset]"
    if len(shifted) < 2:
        return list(titles.values()), [{"calculate": own, "as": "panel"}]
    mean = f"mean of {len(shifted)} {'shifted' if some else 'test'} sets"
    named = f"indexof({json.dumps(data.testsets)}, datum.train_set) >= 0"
    home = f"({named} ? datum.testset == datum.train_set : indexof({json.dumps(marked)}, datum.testset) >= 0)"
    if training:  # training examples are no test set, so they are no part of the mean
        home = f"(indexof({json.dumps(training)}, datum.testset) >= 0 || {home})"
    return [mean, *titles.values()], [
        {"calculate": f"{home} ? [{own}] : ['{mean}', {own}]", "as": "panel"},
        {"flatten": ["panel"]},
        {"calculate": "datum.testset", "as": "set"},
        {"calculate": f"datum.panel == '{mean}' ? null : datum.testset", "as": "testset"},
    ]


def evened(trajectories: pl.DataFrame) -> pl.DataFrame | None:
    """Scores with those between a run's own steps at which other runs of its model were evaluated (``between``).

    None where runs share their steps, as far as each of them goes: means over runs then need nothing in between.
    """
    values = [name for name, dtype in trajectories.schema.items() if dtype.is_float() and name != "step"]
    added = []
    for _, curves in trajectories.group_by("model", "testset", maintain_order=True):
        every = curves["step"].drop_nulls().unique().sort().to_numpy()
        ordered = curves.drop_nulls("step").sort("step", maintain_order=True)
        for (run,), own in ordered.group_by("run", maintain_order=True):
            steps = own["step"].to_numpy()
            inside = every[(every > steps[0]) & (every < steps[-1])] if len(steps) > 1 else every[:0]
            missing = np.setdiff1d(inside, steps)
            if not len(missing):
                continue
            columns: dict[str, Any] = {"run": run, "step": missing}
            for name in values:
                known = own[name].to_numpy().astype(np.float64)
                columns[name] = np.interp(missing, steps, known)
            constant = [name for name in own.columns if name not in columns]
            added.append(pl.DataFrame(columns).with_columns(pl.lit(own[name][0]).alias(name) for name in constant))
    if not added:
        return None
    own_rows = trajectories.with_columns(between=pl.lit(False))
    parts = [own_rows, *(part.with_columns(between=pl.lit(True)) for part in added)]
    return pl.concat(parts, how="diagonal_relaxed").sort("run", "testset", "step", maintain_order=True)


def _trajectory_rows(
    data: ReportData, measures: Sequence[str], placed: list[Spec], guessed: bool, even: bool
) -> list[Spec]:
    """Transforms: a row per panel, run and step with ``value``, the ends of its interval, and ``chance`` if known."""
    drawn = [{"filter": f"indexof({json.dumps(list(data.others))}, datum.testset) < 0"}] if data.others else []
    lookup = {"lookup": "testset", "from": {"data": {"name": "profile"}, "key": "testset", "fields": ["chance"]}}
    chance = f"measure == 'auc' ? 0.5 : measure == 'accuracy' ? {'datum.chance' if guessed else 'null'} : null"
    rows: list[Spec] = [
        {"filter": {"field": "model", "oneOf": data.models}},
        *drawn,
        {"filter": "!shown || indexof(shown, datum.run) >= 0"},
        {"calculate": "datum[measure]", "as": "value"},
        {"filter": "isValid(datum.value)"},
        *([lookup] if guessed else []),
        {"calculate": chance, "as": "chance"},
    ]
    keys = ["panel", "testset", "model", "run", "step", *([] if even else ["between"])]
    # A run may not have been evaluated on every test set at every step: its mean is over the same sets throughout.
    placed = [*placed, *_only_shared("set", ["panel", "model", "run"])] if len(placed) > 1 else placed
    if not data.has_answers:
        return [*rows, *placed, _mean_aggregate(["value", "chance", *measures], keys)]
    # The squared error of a mean of n independent scores is the mean of their squared errors, over n.
    end = "datum[measure == 'accuracy' ? 'ci_{0}' : measure + '_{0}']"
    square = f"isValid({end}) ? pow({end} - datum.value, 2) : null"
    return [
        *rows,
        *({"calculate": square.format(name), "as": name} for name in ("low", "high")),
        *placed,
        *_mean_ends(["value", "chance", "n", *measures], ("low", "high"), keys),
        *(
            {
                "calculate": f"isValid(datum.{name}) ? datum.value {sign} sqrt(datum.{name} / datum.rows) : null",
                "as": name,
            }
            for name, sign in (("low", "-"), ("high", "+"))
        ),
    ]


def _trajectory_layers(axes: Spec, tips: list[Spec], band: list[Spec], many: bool, by_run: bool = False) -> list[Spec]:
    """Chance, bands, runs, means of models, and a dot under the pointer.

    Where a hue is a run, the mean of all runs is in ink.

    For more models than hues: the means of models in grey, their mean in ink, and the model that the reader picks.
    """
    y, colour = axes["y"], axes["color"]
    own = ["panel", "model", "step"]
    # The mean of whichever runs have a step would rise and fall with which runs are in it.
    of_model = [*_only_shared("run", ["panel", "model"]), _mean_aggregate(["value"], own)]
    mean: Spec = {"transform": of_model, "mark": {"type": "line", "strokeWidth": 2.5}, "encoding": axes}
    area: Spec = {
        "transform": band,
        "mark": {"type": "area", "opacity": 0.16},
        "encoding": axes | {"y": y | {"field": "low"}, "y2": {"field": "high"}},
    }
    chance: Spec = {
        "transform": [{"filter": "isValid(datum.chance)"}, _mean_aggregate(["chance"], ["panel"])],
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "@muted"},
        "encoding": {"y": y | {"field": "chance"}},
    }
    measured: list[Spec] = [{"filter": "!datum.between"}]
    run: Spec = {
        "transform": measured,
        "mark": {"type": "line", "strokeWidth": 1.5 if by_run else 1, "opacity": 0.9 if by_run else 0.4},
        "encoding": axes | {"detail": {"field": "run"}},
    }
    nearest = {"type": "point", "on": "pointermove", "clear": "pointerout", "nearest": True}
    near = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    dot: Spec = {
        "transform": measured,
        "params": [{"name": "near", "select": nearest}],
        "mark": {"type": "point", "filled": True, "size": 70, "cursor": "pointer"},
        "encoding": axes | {"tooltip": tips, "opacity": near},
    }
    if by_run:
        ink: Spec = {"color": {"value": "@ink"}}
        area["encoding"] = axes | {"y": area["encoding"]["y"], "y2": {"field": "high"}} | ink
        return [chance, *([area] if band else []), run, mean | {"encoding": axes | ink}, dot]
    if not many:
        return [chance, *([area] if band else []), run, mean, dot]
    picked = [{"filter": "datum.model == picked"}]
    means = [*of_model, *_only_shared("model", ["panel"]), _mean_aggregate(["value"], ["panel", "step"])]
    plain, dark, hue = ({"color": {"value": token}} for token in ("@muted", "@ink", "@model0"))
    thin = {"type": "line", "strokeWidth": 1, "opacity": 0.5}
    return [
        chance,
        *([area | {"transform": picked + band, "encoding": area["encoding"] | hue}] if band else []),
        mean | {"mark": thin, "encoding": axes | plain | {"detail": {"field": "model"}}},
        mean | {"transform": means, "encoding": axes | dark},
        mean | {"transform": [*picked, *of_model], "encoding": axes | hue},
        dot | {"encoding": dot["encoding"] | {"color": colour}},
    ]


def _band(data: ReportData, table: pl.DataFrame) -> list[Spec]:
    """Ends of a model's interval at a step: means of those of its runs, or from how much the runs differ, if enough."""
    keys = ["panel", "model", "step"]
    shared = _only_shared("run", ["panel", "model"])
    if data.has_answers:
        return [*shared, *_mean_ends([], ("low", "high"), keys), {"filter": "isValid(datum.low)"}]
    most = int(table.group_by("model", "step", "testset").len()["len"].max() or 1)  # type: ignore[arg-type]
    if most < LEAST_RUNS:
        return []
    quantiles = [0.0, 0.0, *special.stdtrit(np.arange(1, most), (1 + LEVEL) / 2).round(4).tolist()]
    spread = _mean_aggregate(["value"], keys)
    spread["aggregate"] += [{"op": "stdev", "field": "value", "as": "sd"}, {"op": "count", "as": "runs"}]
    half = f"{quantiles}[datum.runs] * datum.sd / sqrt(datum.runs)"
    low, high = f"datum.value - {half}", f"datum.value + {half}"
    if data.share:
        low, high = f"max(0, {low})", f"min(1, {high})"
    return [
        *shared,
        spread,
        {"filter": f"datum.runs >= {LEAST_RUNS}"},
        {"calculate": low, "as": "low"},
        {"calculate": high, "as": "high"},
    ]


def _only_shared(member: str, curve: Sequence[str]) -> list[Spec]:
    """Transforms: of a curve, only the steps at which all of its members (runs, models or test sets) have a value.

    Members with a single step are no curve, and count neither as all nor in the mean, unless all are like that.
    """
    mine, steps, all_steps = [*curve, member], f"steps_of_{member}", f"most_steps_of_{member}"
    return [
        {"joinaggregate": [{"op": "distinct", "field": "step", "as": steps}], "groupby": mine},
        {"joinaggregate": [{"op": "max", "field": steps, "as": all_steps}], "groupby": list(curve)},
        {"filter": f"datum.{steps} > 1 || datum.{all_steps} == 1"},
        {"joinaggregate": [{"op": "distinct", "field": member, "as": f"all_{member}s"}], "groupby": list(curve)},
        {"joinaggregate": [{"op": "distinct", "field": member, "as": f"{member}s_here"}], "groupby": [*curve, "step"]},
        {"filter": f"datum.{member}s_here == datum.all_{member}s"},
    ]


def _trajectory_caption(data: ReportData, guessed: bool, several: bool, many: bool, band: bool) -> str:
    sample = "the questions as a sample, averaged over these runs" if data.has_answers else "the runs as a sample"
    sentences = {
        "Thin: one run. Thick: mean of the model's runs that are shown, at the steps that all of them have.": not many,
        f"Thin: the mean of a model's runs. Thick: mean of the {len(data.models)} models shown (steps all have).": many,
        f"Band{' of a highlighted model' * many}: 95% interval with {sample}.": band,
        "Dashed: accuracy of always giving the commonest label.": guessed,
        "Sensitivity is what the model can distinguish, whichever answer it leans to: 50% is chance.": several,
        "Hover for values; choose runs below.": True,
    }
    return " ".join(sentence for sentence, applies in sentences.items() if applies)


def _mean_aggregate(fields: Sequence[str], keys: Sequence[str]) -> Spec:
    """Transform: the mean of each field per combination of keys, under the field's name."""
    return {"aggregate": [{"op": "mean", "field": name, "as": name} for name in fields], "groupby": list(keys)}


def _mean_ends(fields: Sequence[str], ends: tuple[str, str], keys: Sequence[str]) -> list[Spec]:
    """Transforms: the same, and the mean of the ends of intervals, which are null where one of them is not known."""
    means = _mean_aggregate([*fields, *ends], keys)
    means["aggregate"] += [{"op": "count", "as": "rows"}, {"op": "valid", "field": ends[0], "as": "known"}]
    return [means, *({"calculate": f"datum.known == datum.rows ? datum.{name} : null", "as": name} for name in ends)]


def _facet(order: Sequence[str], limit: int = 190) -> Spec:
    header = {"labelAnchor": "start", "labelLimit": limit}
    return {"field": "panel", "type": "nominal", "title": None, "sort": list(order), "header": header}
