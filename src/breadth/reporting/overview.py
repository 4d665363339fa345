"""Sections Overview and Training: what was studied, accuracy before and after training, and every run's trajectory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import polars as pl

from breadth.reporting.accuracy import BOUNDED, bias_words, checkpoint_scores, follow_words, score_profile
from breadth.reporting.data import Content, ReportData, Section
from breadth.results.figures import Control, Figure, Spec, model_colour, nominal, tooltip
from breadth.results.words import SCORE_WORDS, count, interval, joined, points, verdict

#: Share of gains or correlations that must be decided, or agree, for a plain answer.
FEW, ALMOST_ALL = 0.1, 0.9

#: Changes of bias that the finding names.
MOST_CHANGES = 3

#: What the figure of trajectories can show, as its switch names it.
MEASURES = {"accuracy": "accuracy", "auc": "sensitivity (area under the ROC curve)", "share": "bias (share of {})"}

ACCURACY_TIPS = (("accuracy", "accuracy", ".1%"), ("ci_low", "from", ".1%"), ("ci_high", "to", ".1%"))


class Overview(Section):
    """What was studied, how accurate every model is, and whether the results generalise."""

    key, title, open = "overview", "Overview", True
    tables: ClassVar[Mapping[str, str]] = {
        "runs": "runs: what determines each, and how far it has come",
        "profile": "accuracy per model and test set, before and after training",
        "gains": "gain per model and test set, paired by run and item",
    }

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        profile, gains = score_profile(data.described, data.score)
        ends = data.described.ends.drop("first", "last")
        planned = {run: len(record.checkpoints) or None for run, record in data.study.runs.items()}
        runs = ends.with_columns(pl.Series("planned", [planned.get(run) for run in ends["run"]], dtype=pl.Int64))
        return {"runs": runs, "profile": profile, "gains": gains}

    def write(self, data: ReportData) -> Content:  # noqa: D102
        facts, runs = data.facts, data.table("runs")
        evaluated = (
            f"evaluated on {count(facts['items'], 'item')} of {count(len(data.testsets), 'test set')}; "
            f"{facts['responses']:,} answers."
        )
        studied = f"{count(facts['checkpoints'], 'subject')} {evaluated}"
        if data.has_runs:
            examples = f" ({joined(list(map(str, facts['examples'])))} examples)" if facts["examples"] else ""
            trained = f", trained on {joined(facts['train_sets'])}{examples}" if facts["train_sets"] else ""
            studied = (
                f"{count(len(facts['models']), 'model')} ({joined(facts['models'])}){trained}: "
                f"{count(facts['runs'], 'run')}, {count(facts['checkpoints'], 'checkpoint')} in total, {evaluated}"
            )
        unfinished = runs.filter(pl.col("checkpoints") < pl.col("planned")).height
        if unfinished:
            verb = "is" if unfinished == 1 else "are"
            studied += f" {count(unfinished, 'run')} {verb} not finished; the latest checkpoint counts as the last."
        # Where every model gained most and least.
        details = [studied]
        for (model, train_set), group in data.table("gains").group_by(["model", "train_set"], maintain_order=True):
            rows = group.sort("gain").rows(named=True)
            chosen = {"most": rows[-1], "least": rows[0]} if len(rows) > 1 else {"": rows[0]}
            where = [
                f"{word} on {row['testset']} ({points(row['gain'])}{', ' * bool(interval(row))}{interval(row)})".strip()
                for word, row in chosen.items()
            ]
            trained = f", trained on {train_set}" if train_set is not None else ""
            details.append(f"{model}{trained}: gained {' and '.join(where)}.")
        columns = ("model", "train_set", "testset", "when", data.score, "ci_low", "ci_high")
        shown = data.table("profile").filter(pl.col("model").is_in(data.models)).select(columns)
        name = SCORE_WORDS[data.score]
        answer = f"Do these results generalise? {_answer(data)}"
        return Content(
            answer,
            (_profile_figure(data),),
            details,
            shown={f"{name[0].upper()}{name[1:]}": shown},
        )


class Training(Section):
    """Accuracy of every run at every checkpoint, what it can tell apart, and which answer it leans to."""

    key, title = "training", "During training"
    tables: ClassVar[Mapping[str, str]] = {
        "trajectories": "accuracy, sensitivity and bias of every run at every checkpoint (breadth scores)"
    }
    template = "runs.html"

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """Accuracy, sensitivity and bias of every run at every checkpoint on every test set, as ``scores`` does."""
        return {"trajectories": checkpoint_scores(data.described, ("accuracy", "auc", "share"))}

    def write(self, data: ReportData) -> Content:
        """Which test sets peak before the end: the best checkpoint beats the last and their intervals are apart."""
        if data.table("runs")["checkpoints"].max() == 1:
            who = "run has one checkpoint" if data.has_runs else "subject was evaluated once"
            return Content(
                "Undecided: nothing is known about the course of training.",
                absent=(f"every {who}, so there are no trajectories",),
            )
        trajectories = data.table("trajectories")
        numbers = pl.col("accuracy", "ci_low", "ci_high").mean()
        means = trajectories.group_by("model", "testset", "step", maintain_order=True).agg(numbers).sort("step")
        last = means.group_by("model", "testset", maintain_order=True).last()
        best = means.sort("accuracy").group_by("model", "testset", maintain_order=True).last()
        both = best.join(last, on=["model", "testset"], suffix="_last")
        fell = both.filter(pl.col("ci_low") > pl.col("ci_high_last"))
        finding = (
            "No curve ends clearly below its best checkpoint (the intervals of the two overlap), so there is no clear "
            "sign that stopping earlier would have helped on any test set."
        )
        if fell.height:
            names = [f"{row['testset']} in {row['model']}" for row in fell.iter_rows(named=True)]
            finding = (
                f"{fell.height} {'ends' if fell.height == 1 else 'end'} clearly below the best checkpoint "
                f"({joined(names)}): the intervals of the two do not overlap."
            )
        steps, curves = count(max(trajectories["step"]), "step"), count(both.height, "curve")
        text = f"Over {steps}, {curves} (model x test set, mean over runs). {finding}"
        changes = bias_words(data.table("gains"), trajectories)
        if changes:
            text += f" {' '.join(changes[:MOST_CHANGES])}"
            more = len(changes) - MOST_CHANGES
            text += f" {count(more, 'more change')} of this kind: see the details." if more > 0 else ""
        return Content(text, (_trajectory_figure(data),), changes[MOST_CHANGES:])


def _answer(data: ReportData) -> str:
    """Whether the results generalise, from gains on shifted test sets and correlations between test sets."""
    gains, pairs = data.table("gains"), data.table("pairs")
    if not gains.height:
        who = "run" if data.has_runs else "subject"
        return (
            f"Undecided: every {who} was evaluated once, so there are no gains to compare between test sets. The "
            "figure shows the accuracy of each model."
        )
    shifted = gains.filter(~pl.col("in_domain"))
    if not shifted.height:
        return "Undecided: only the in-domain test set was evaluated."
    signs = [verdict(*ends) for ends in shifted.select("ci_low", "ci_high").iter_rows()]
    up, down, total = signs.count(1), signs.count(-1), len(signs)
    together = [verdict(*ends) for ends in pairs.select("ci_low", "ci_high").iter_rows()] if pairs.height else []
    if up + down < FEW * total:
        text = "Undecided: almost no gain on a shifted test set can be distinguished from 0."
    elif down > up:
        text = "No: more shifted test sets lost than gained."
    elif up < ALMOST_ALL * total:
        text = "In part."
    elif together and together.count(1) >= ALMOST_ALL * len(together):
        text = "Yes, on the test sets measured here."
    elif together:
        text = (
            f"The gains do, on the test sets measured here; but beyond in-domain {SCORE_WORDS[data.score]}, "
            "one test set does not predict another."
        )
    else:
        text = "The gains do, on the test sets measured here; whether one test set predicts another was not computed."
    text += (
        f" Of {count(total, 'gain')} on shifted test sets (model x test set), {up} {'is' if up == 1 else 'are'} above "
        f"0, {down} below and {total - up - down} undecided (the 95% interval covers 0). "
    )
    # Mean gain on shifted test sets per model, beside the in-domain gain where that is above 0.
    away = pl.col("gain").filter(~pl.col("in_domain")).mean().alias("away")
    home = pl.col("gain").filter(pl.col("in_domain") & (pl.col("ci_low") > 0)).mean().alias("home")
    means = gains.group_by("model", maintain_order=True).agg(away, home).drop_nulls()
    parts = [f"{model} {points(away)} (in-domain {points(home)})" for model, away, home in means.iter_rows()]
    if means.height > 3:
        low, *_, high = means.sort("away", "model").iter_rows()
        parts = [f"from {points(low[1])} ({low[0]}) to {points(high[1])} ({high[0]})"]
    text += f"Mean gain on shifted test sets: {'; '.join(parts)}." if parts else ""
    text += f" {follow_words(gains, data.score)}".rstrip()
    if together:
        text += (
            f" Beyond what in-domain {SCORE_WORDS[data.score]} explains, doing better on one test set goes with doing "
            f"better on another in {together.count(1)} of {count(len(together), 'correlation')} and with doing worse "
            f"in {together.count(-1)}; {together.count(0)} are undecided or could not be computed."
        )
    return text


def _profile_figure(data: ReportData) -> Figure:
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


def _trajectory_figure(data: ReportData) -> Figure:
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
