"""Section 4, difficulty: the map of items and subjects, accuracy by level, train level x test level."""

from __future__ import annotations

import polars as pl

from breadth.report.contents import Figure, Gathered, Section
from breadth.report.level_matrix import gain_by_distance, level_matrix
from breadth.report.vega import Spec, model_colour, tooltip
from breadth.report.words import count, joined, points


def difficulty(gathered: Gathered) -> Section:
    """Build the section."""
    figures, absent = [], []
    if gathered.has("subjects"):
        figures.append(_map(gathered))
    else:
        absent.append(gathered.absent.get("subjects", "difficulty was not estimated"))
    if gathered.has("by_level"):
        figures.append(_by_level(gathered))
    if gathered.has("cross_cells"):
        figures += [level_matrix(gathered, "train_level"), gain_by_distance(gathered)]
    if gathered.has("strategy_cells"):
        figures.append(level_matrix(gathered, "strategy"))
    if "cross_cells" in gathered.absent:
        absent.append(f"train level x test level: {gathered.absent['cross_cells']}")
    details = (*gathered.summaries.get("difficulty", ()), *gathered.summaries.get("cross", ()))
    return Section("difficulty", "Difficulty", _finding(gathered), tuple(figures), details, tuple(absent))


def map_table(gathered: Gathered, bins: int = 44) -> pl.DataFrame:
    """Counts of subjects and items along one scale: ``side, from, to, count``.

    Items that all or none got right have no place on the scale (their difficulty comes from the prior): left out.
    """
    items, subjects = gathered.table("items"), gathered.table("subjects")
    if "difficulty" not in items.columns or not subjects.height:
        return pl.DataFrame()
    placed = items.filter(~pl.col("note").str.contains("comes from the prior").fill_null(False))[
        "difficulty"
    ].drop_nulls()
    ability = subjects["ability"].drop_nulls()
    both = pl.concat([placed, ability])
    low, high = (float(both.quantile(q) or 0) for q in (0.005, 0.995))
    step = max(high - low, 1e-9) / bins
    parts = []
    for side, values in (("subjects (checkpoints)", ability), ("items", placed)):
        place = ((values.clip(low, high) - low) / step).floor().clip(0, bins - 1).cast(pl.Int64)
        counts = place.rename("bin").value_counts().sort("bin")
        parts.append(
            counts.select(
                pl.lit(side).alias("side"),
                (low + pl.col("bin") * step).alias("from"),
                (low + (pl.col("bin") + 1) * step).alias("to"),
                pl.col("count").cast(pl.Int64),
            )
        )
    return pl.concat(parts)


def _finding(gathered: Gathered) -> str:
    levels = gathered.table("by_level")
    if not levels.height:
        return "Undecided: items have no level, and difficulty could not be estimated from this study."
    for caution in gathered.summaries.get("caution", ()):
        return f"Undecided: {caution}."
    text = "Accuracy falls with difficulty as the picture shows."
    if gathered.has("gains"):
        wide = levels.pivot(on="when", index=["model", "level"], values=["accuracy", "ci_low", "ci_high"])
        wide = wide.with_columns(
            gain=pl.col("accuracy_after") - pl.col("accuracy_before"),
            clear=(pl.col("ci_low_after") > pl.col("ci_high_before")).fill_null(False),
        )
        text = f"By difficulty (level 0 is the easiest): {_gained(wide)}."
    effects = gathered.table("cross_effects")
    if effects.height:
        fade = effects.filter(pl.col("effect").str.starts_with("gain per level"))
        down, total = int((fade["ci_high"] < 0).sum()), fade.height
        names = fade.filter(pl.col("ci_high") < 0)["model"].to_list()
        if not down:
            return text + " That gains fade as training and test levels move apart is not decided for any model."
        which = f" ({joined(names)})" if down < total else ""
        text += f" Gains fade as training and test levels move apart in {down} of {count(total, 'model')}{which}"
        text += "." if down == total else "; not decided for the others."
    return text


def _gained(wide: pl.DataFrame) -> str:
    """Where models gained; model by model if there are few."""
    parts = []
    for (model,), group in wide.group_by(["model"], maintain_order=True):
        best = group.sort("gain", "level").row(-1, named=True)
        parts.append(
            f"{model} gained most on level {best['level']} ({points(best['gain'])}) and clearly on "
            f"{int(group['clear'].sum())} of {count(group.height, 'level')}"
        )
    if len(parts) <= 3:
        return "; ".join(parts)
    every = wide.group_by("model").agg(pl.col("clear").all())["clear"].sum()
    where = wide.sort("gain", "level").group_by("model").last()["level"].value_counts().sort(["count", "level"])
    return (
        f"{every} of {len(parts)} models gained clearly on every level; the level of the largest gain is most often "
        f"level {where['level'][-1]} ({where['count'][-1]} models)"
    )


def _map(gathered: Gathered) -> Figure:
    x = {
        "field": "from",
        "type": "quantitative",
        "bin": {"binned": True},
        "scale": {"nice": False},
        "axis": {
            "title": "ability and difficulty, in standard deviations of ability",
            "tickCount": 8,
            "format": ".1~f",
        },
    }
    spec = {
        "data": {"name": "scale_map"},
        "usermeta": {"pad": 64, "most": 860},
        "facet": {
            "row": {
                "field": "side",
                "type": "nominal",
                "title": None,
                "sort": ["subjects (checkpoints)", "items"],
                "header": {"labelAngle": 0, "labelOrient": "top", "labelAnchor": "start"},
            }
        },
        "spec": {
            "height": 90,
            "mark": {"type": "bar", "cursor": "pointer", "binSpacing": 1},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": {"field": "count", "type": "quantitative", "axis": {"title": "number", "tickCount": 3}},
                "color": {
                    "field": "side",
                    "type": "nominal",
                    "legend": None,
                    "scale": {"domain": ["subjects (checkpoints)", "items"], "range": ["@model0", "@model1"]},
                },
                "tooltip": tooltip(
                    ("side", "what"), ("from", "from", ".2f"), ("to", "to", ".2f"), ("count", "number", ",d")
                ),
            },
        },
        "resolve": {"scale": {"y": "independent"}},
        "spacing": 14,
    }
    caption = (
        "One scale for both: a subject gets an item at its own height right half of the time. The ends "
        "hold what lies beyond; items that all or "
        "none got right have no place on the scale. Click a bar of items to see them."
    )
    return Figure(
        "map",
        "How able the checkpoints, how hard the items",
        caption,
        spec,
        "scale_map",
        drill={"low": "from", "high": "to"},
    )


def _by_level(gathered: Gathered) -> Figure:
    once = "before" not in gathered.table("by_level")["when"].to_list()
    models = gathered.models
    x = {
        "field": "level",
        "type": "ordinal",
        "axis": {"title": "difficulty level (0 is the easiest)", "labelAngle": 0, "ticks": False},
    }
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "axis": {"title": "accuracy", "format": ".0%", "tickCount": 5},
        "scale": {"domain": [0, 1]},
    }
    base = {"x": x, "xOffset": {"field": "model", "sort": models}, "color": model_colour(models)}
    tips = tooltip(
        ("model", "model"),
        ("when", "when"),
        ("level", "level"),
        ("accuracy", "accuracy", ".1%"),
        ("ci_low", "from", ".1%"),
        ("ci_high", "to", ".1%"),
        ("n_items", "items", ",d"),
        ("runs", "runs", "d"),
    )
    link = {
        "transform": [
            {"pivot": "when", "value": "accuracy", "groupby": ["model", "level"]},
            {"filter": "isValid(datum.before) && isValid(datum.after)"},
        ],
        "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.18},
        "encoding": base | {"y": y | {"field": "before"}, "y2": {"field": "after"}},
    }
    bars = {
        "mark": {"type": "rule", "strokeWidth": 1.5},
        "encoding": base | {"y": y | {"field": "ci_low"}, "y2": {"field": "ci_high"}, "tooltip": tips},
    }
    hollow = {"test": "datum.when == 'before'", "value": "@paper"}
    fill = {"condition": hollow, **model_colour(models)}
    dots = {
        "mark": {"type": "point", "size": 55, "strokeWidth": 2, "opacity": 1, "cursor": "pointer"},
        "encoding": base | {"y": y, "fill": fill, "tooltip": tips},
    }
    spec: Spec = {
        "data": {"name": "by_level"},
        "usermeta": {"most": 680},
        "width": "container",
        "height": 240,
        "layer": [bars, dots] if once else [link, bars, dots],
    }
    source = (
        "as stored with the items"
        if gathered.facts["levels_stored"]
        else "equal-size, by the difficulty that was estimated from the answers of this study"
    )
    caption = (
        f"Levels {source}. {'' if once else 'Hollow: before training; filled: after. '}Lines: 95% intervals "
        "(items and runs as samples). Click a dot for its items."
    )
    return Figure(
        "by_level", "Accuracy by difficulty", caption, spec, "by_level", drill={"level": "level", "model": "model"}
    )
