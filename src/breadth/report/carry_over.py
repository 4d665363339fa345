"""Section 3, do results carry over? Correlations between test sets, agreement of models, windows over training."""

from __future__ import annotations

import polars as pl

from breadth.report.agreement import agreement, correlated_sets, similarity, windows
from breadth.report.contents import Control, Figure, Gathered, Section
from breadth.report.findings import verdicts
from breadth.report.glance import panel
from breadth.report.vega import SHORT_R, heat_layers, nominal, sure, tooltip
from breadth.report.words import count, joined

#: Above this many runs, a matrix of runs cannot be read.
MOST_RUNS = 40

KINDS = (("partial", "partial"), ("raw", "raw"), ("corrected", "corrected"))


def carry_over(gathered: Gathered) -> Section:
    """Build the section."""
    title = "Do results carry over?"
    if not gathered.has("correlations"):
        reason = gathered.absent.get("correlations", "no correlation could be computed")
        return Section(
            "carry_over", title, "Undecided: no correlation over checkpoints could be computed.", absent=(reason,)
        )
    figures = [_heatmaps(gathered)]
    if gathered.table("heterogeneity").height:
        figures.append(agreement(gathered))
    absent = [gathered.absent["correlations"]] if "correlations" in gathered.absent else []
    if gathered.table("similarity")["similarity"].drop_nulls().len() and gathered.table("runs").height <= MOST_RUNS:
        figures.append(similarity(gathered))
    if gathered.has("window_means"):
        figures.append(windows(gathered))
    else:
        absent.append("windows over training need at least 20 checkpoints in every run")
    return Section(
        "carry_over", title, _finding(gathered), tuple(figures), gathered.summaries["carry_over"], tuple(absent)
    )


def _finding(gathered: Gathered) -> str:
    means = gathered.table("correlations").filter(pl.col("run").is_null() & (pl.col("kind") == "partial"))
    counts = verdicts(means)
    text = (
        f"Given in-domain accuracy, {counts.positive} of {count(counts.known, 'correlation')} between "
        "test sets (mean over "
        f"a model's runs) {'is' if counts.positive == 1 else 'are'} positive, {counts.negative} negative and "
        f"{counts.undecided} undecided. "
    )
    signs = (
        means.with_columns(sign=pl.when(pl.col("ci_low") > 0).then(1).when(pl.col("ci_high") < 0).then(-1).otherwise(0))
        .group_by("train_set", "a", "b", maintain_order=True)
        .agg(pl.col("sign").max().alias("top"), pl.col("sign").min().alias("bottom"))
    )
    if len(gathered.models) > 1:
        split = signs.filter((pl.col("top") == 1) & (pl.col("bottom") == -1))
        if split.height:
            names = [f"{row['a']} and {row['b']}" for row in split.iter_rows(named=True)]
            text += (
                f"Models contradict each other on {count(split.height, 'pair')} ({joined(names, 3)}): what "
                "carries over depends on the model."
            )
        else:
            text += "No pair is decided in opposite directions by two models."
    return text


def _heatmaps(gathered: Gathered) -> Figure:
    sets = correlated_sets(gathered)
    has_corrected = (
        gathered.table("correlations").filter((pl.col("kind") == "corrected") & pl.col("r").is_not_null()).height
    )
    kinds = KINDS if has_corrected else KINDS[:2]
    tips = tooltip(
        ("panel", "shown"),
        ("a", "a"),
        ("b", "b"),
        ("r", "r", ".3f"),
        ("ci_low", "from", ".3f"),
        ("ci_high", "to", ".3f"),
        ("q", "q", ".2g"),
        ("k", "runs", "d"),
        ("note", "note"),
    )
    layers = heat_layers("r", "text", tips, 1.0, "r", ".0f")
    spec = {
        "data": {"name": "correlations"},
        "usermeta": {"panel": 40 * len(sets) + 60},
        "params": [{"name": "kind", "value": "partial"}, {"name": "of", "value": ""}],
        "transform": [
            {"filter": "datum.kind == kind && (of ? datum.model == of && isValid(datum.run) : !isValid(datum.run))"},
            {"calculate": sure(), "as": "sure"},
            {"calculate": "isValid(datum.q) ? datum.q < 0.05 : datum.sure", "as": "bold"},
            {"calculate": f"isValid(datum.r) ? {SHORT_R} : ''", "as": "text"},
            *(
                [panel(gathered) | {"calculate": "datum.panel + ' · ' + datum.train_set"}]
                if len(gathered.facts["train_sets"]) > 1
                else []
            ),
        ],
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None, "header": {"labelAnchor": "start"}},
        "spec": {
            "width": {"step": 40},
            "height": {"step": 32},
            "encoding": {"x": nominal("a", sets, labelAngle=-45), "y": nominal("b", sets)},
            "layer": layers,
        },
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
    }
    models = tuple((name, f"single runs of {name}") for name in gathered.models)
    controls = (
        Control("kind", "Correlation", kinds),
        Control("of", "Panels", (("", "mean over runs, per model"), *models), "select"),
    )
    caption = (
        "Correlation over checkpoints of accuracy on two test sets. Partial: after in-domain accuracy "
        "is taken out of both. Raw: "
        "as it is. Corrected: partial, and freed of the sampling noise of the test sets. Strong "
        "colour: the 95% interval excludes 0; "
        "faded: it covers 0. Bold: also decided with the false discovery rate held at 5% (single "
        "runs), or by the mean's interval. "
        "Grey: not computed. Click a cell for the items of its two sets."
    )
    return Figure(
        "correlations",
        "Correlations between test sets",
        caption,
        spec,
        "correlations",
        controls,
        {"testset": "b", "testset2": "a"},
    )
