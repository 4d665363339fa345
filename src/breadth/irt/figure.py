"""Figures of a calibration, each beside the table it shows; defined once for files, notebooks and the report.

Hue is left to models and subjects: items are drawn in ink, a panel each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.inference import with_wilson
from breadth.irt.answers import Floats
from breadth.irt.flags import is_placed
from breadth.records import Study
from breadth.results import Figure
from breadth.results.figures import MODEL_COLOURS, Spec, model_colour, tooltip

if TYPE_CHECKING:
    from breadth.irt.calibration import Calibration

Probability = Callable[[Floats], Floats]

LEVEL_TITLE = "difficulty level (0 is the easiest)"

#: Both sides of the map, in order.
SIDES = ["subjects", "items"]

#: How far beyond the subjects the map goes, in standard deviations of ability. All answers to harder items are wrong
#: and to easier ones right, so their difficulty is hardly known.
BEYOND = 6.0


def evenly(names: pl.Series, count: int = 5) -> list[str]:
    """Pick a few names evenly from a sorted list, away from its ends."""
    if names.len() <= count:
        return names.to_list()
    place = np.linspace(0.05, 0.95, count) * (names.len() - 1)
    return [str(names[int(index)]) for index in place.round()]


def item_curves(
    names: Sequence[str], items: Sequence[str], probability: Probability, responses: Study | None, ability: Floats
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Curves of chosen items of ``names``: ``item, ability, probability``; and, with ``n``, shares right.

    Shares are those of ten equal-size groups of subjects by ability, at the mean ability of the group; the second
    table is empty without responses.
    """
    index = indices_of(names, items, "the calibration has no item")
    theta = np.linspace(-4, 4, 81)
    columns = {
        "item": np.repeat(items, len(theta)),
        "ability": np.tile(theta, len(items)),
        "probability": probability(theta)[:, index].T.ravel(),
    }
    lines = pl.DataFrame(columns, schema_overrides={"item": pl.String})
    if responses is None:
        return lines, lines.clear()
    known = np.flatnonzero(~np.isnan(ability))
    ranked = known[np.argsort(ability[known], kind="stable")]
    dots = []
    for name, j in zip(items, index, strict=True):
        for group in np.array_split(ranked, 10):
            answered = group[responses.matrix[group, j] >= 0]
            if len(answered):
                share = float(responses.matrix[answered, j].mean())
                dots.append((name, float(ability[answered].mean()), share, len(answered)))
    schema = {"item": pl.String, "ability": pl.Float64, "probability": pl.Float64, "n": pl.Int64}
    return lines, pl.DataFrame(dots, schema=schema, orient="row")


def item_curves_figure(curves: pl.DataFrame, table: str = "curves") -> Figure:
    """Chance of a right answer against ability, a panel per item: the model's curve, and shares right in groups.

    ``curves`` has both tables of :func:`item_curves`, one below the other: rows with ``n`` are shares.
    """
    order = list(dict.fromkeys(curves["item"]))
    axes: Spec = {
        "x": {
            "field": "ability", "type": "quantitative", "axis": {"title": "ability", "format": ".1~f", "tickCount": 4},
        },
        "y": {
            # A little beyond 0 and 1: a dot at the edge would push the title of its panel out of line.
            "field": "probability", "type": "quantitative", "scale": {"domain": [-0.05, 1.05], "nice": False},
            "axis": {"title": "chance of a right answer", "format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]},
        },
    }  # fmt: skip
    tips = tooltip(
        ("item", "item"), ("ability", "ability", ".2f"), ("probability", "share right", ".1%"), ("n", "subjects", ",d")
    )
    size = {"field": "n", "type": "quantitative", "scale": {"range": [15, 60]}, "legend": None}
    layers: list[Spec] = [
        {
            "transform": [{"filter": "!isValid(datum.n)"}],
            "mark": {"type": "line", "strokeWidth": 2, "color": "@ink"},
            "encoding": axes,
        },
        {
            "transform": [{"filter": "isValid(datum.n)"}],
            "mark": {"type": "point", "strokeWidth": 1.5, "color": "@ink", "fill": "@paper", "opacity": 1},
            "encoding": axes | {"size": size, "tooltip": tips},
        },
    ]
    seen = curves["n"].is_not_null().any()
    header = {"labelAnchor": "start", "labelLimit": 160}
    facet = {"field": "item", "type": "nominal", "title": None, "sort": order, "header": header}
    spec: Spec = {
        "data": {"name": table},
        "usermeta": {"pad": 60, "least": 120},
        "facet": facet,
        "spec": {"height": 130, "layer": layers if seen else layers[:1]},
    }
    dots = " Dots: the share right in ten groups of subjects by ability." if seen else ""
    return Figure("curves", "Item curves", f"Lines: the model.{dots}", spec, table)


def accuracy_by_level(
    responses: Study, level: Floats, ability: Floats, probability: Probability | None, subjects: Sequence[str]
) -> pl.DataFrame:
    """Accuracy of ``subjects`` on the items of every level: ``subject, level, n, accuracy, ci_low, ci_high, expected``.

    ``level`` [items] may hold NaN; ``ability`` [all subjects]; ``probability`` gives [subjects, items] for abilities;
    without it nothing is expected.
    """
    place = {name: row for row, name in enumerate(responses.subject_names)}
    rows = [place[name] for name in subjects]
    values = responses.matrix[rows].astype(np.float64)
    seen = values >= 0
    chance = np.full(values.shape, np.nan) if probability is None else probability(ability[rows])
    parts = []
    for k in np.unique(level[~np.isnan(level)]):
        inside = seen & (level == k)[None, :]
        n = inside.sum(axis=1)
        right, expected = (np.where(inside, table, 0.0).sum(axis=1) for table in (values, chance))
        share = {"accuracy": right, "expected": expected}
        divided = {name: np.where(n > 0, total / np.maximum(n, 1), np.nan) for name, total in share.items()}
        parts.append(pl.DataFrame({"subject": list(subjects), "level": [int(k)] * len(rows), "n": n, **divided}))
    if not parts:
        raise InputError(f"{responses.name}: none of its items has a level, because no difficulty is known")
    return with_wilson(pl.concat(parts).fill_nan(None)).select(
        "subject", "level", "n", "accuracy", "ci_low", "ci_high", "expected"
    )


def indices_of(names: Sequence[str], wanted: Sequence[str], unknown: str) -> list[int]:
    """Where the wanted names stand among all; ``unknown`` begins the message about those that do not."""
    place = {name: index for index, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise InputError(f"{unknown} {listed(missing)}")
    return [place[name] for name in wanted]


def accuracy_by_level_figure(
    cells: pl.DataFrame, table: str = "by_level", group: str = "subject", order: Sequence[str] = (), source: str = ""
) -> Figure:
    """Accuracy per difficulty level with a 95% interval: a hue per group, or a panel in ink where hues do not suffice.

    ``cells`` has ``level, accuracy, ci_low, ci_high`` and a column ``group``. Where it has them, ``expected`` becomes a
    dash and ``when`` (before or after training) a hollow or filled dot. ``source`` says where the levels come from.
    """
    names = list(order or cells[group].unique(maintain_order=True))
    predicted = "expected" in cells.columns and bool(cells["expected"].is_not_null().any())
    twice = "when" in cells.columns and "before" in cells["when"].to_list()
    panels = len(names) > MODEL_COLOURS
    # What all layers share: level, colour, accuracy and tooltip.
    axis = {"title": None if panels else LEVEL_TITLE, "labelAngle": 0, "ticks": False}
    base: Spec = {"x": {"field": "level", "type": "ordinal", "axis": axis}, "color": {"value": "@ink"}}
    if not panels:
        base |= {"color": model_colour(names) | {"field": group}, "xOffset": {"field": group, "sort": names}}
        if group != "model":
            base["color"]["legend"] = {"title": group, "orient": "top", "symbolType": "circle", "symbolOpacity": 1}
    y: Spec = {
        "field": "accuracy",
        "type": "quantitative",
        "axis": {"title": "accuracy", "format": ".0%", "values": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        # A little beyond 0 and 1, so that dots there do not cover the labels.
        "scale": {"domain": [-0.03, 1.03], "nice": False},
    }
    known = (
        (group, group), ("when", "when"), ("level", "level"), ("accuracy", "accuracy", ".1%"),
        ("ci_low", "from", ".1%"), ("ci_high", "to", ".1%"), ("expected", "predicted", ".1%"),
        ("n", "items", ",d"), ("n_items", "items", ",d"), ("runs", "runs", "d"),
    )  # fmt: skip
    tips = tooltip(*(entry for entry in known if entry[0] in cells.columns))
    dots = base | {"y": y, "tooltip": tips}
    # Intervals, then what is predicted, then accuracies over them; before training hollow, and joined to after.
    ends = {"y": y | {"field": "ci_low"}, "y2": {"field": "ci_high"}}
    layers: list[Spec] = [{"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": dots | ends}]
    if predicted:
        dash = {"type": "tick", "thickness": 2, "size": 10, "opacity": 0.7}
        layers.append({"mark": dash, "encoding": dots | {"y": y | {"field": "expected"}}})
    point = {"type": "point", "size": 35 if panels else 55, "strokeWidth": 2, "opacity": 1, "cursor": "pointer"}
    layers.append({"mark": point | {"filled": True, "size": 50 if panels else 75}, "encoding": dots})
    if twice:
        change = [
            {"pivot": "when", "value": "accuracy", "groupby": [group, "level"]},
            {"filter": "isValid(datum.before) && isValid(datum.after)"},
        ]
        rule = {"type": "rule", "strokeWidth": 5, "opacity": 0.18}
        change_ends = {"y": y | {"field": "before"}, "y2": {"field": "after"}}
        layers.insert(0, {"transform": change, "mark": rule, "encoding": base | change_ends})
        before = [{"filter": "datum.when == 'before'"}]
        layers.append({"transform": before, "mark": point | {"fill": "@paper"}, "encoding": dots})
    if panels:
        # An owner and a model's name are wider together than a panel, so they go on two lines.
        header = {"labelExpr": "split(datum.label, '/')", "labelAnchor": "start", "labelLimit": 195}
        below = {"title": LEVEL_TITLE, "titleOrient": "bottom", "titleFontSize": 12, "titleFontWeight": "normal"}
        facet = {"field": group, "type": "nominal", "sort": names, "header": header | below}
        panel = {"width": 140, "height": 130, "layer": layers}
        spec: Spec = {"data": {"name": table}, "usermeta": {"panel": 190}, "facet": facet, "spec": panel}
    else:
        size = {"usermeta": {"most": 680}, "width": "container", "height": 240}
        spec = {"data": {"name": table}, **size, "layer": layers}
    sentences = [
        source,
        "Hollow: before training; filled: after." if twice else "",
        f"Lines: 95% intervals{' over items and runs' if 'runs' in cells.columns else ''}.",
        "Dashes: the accuracy that the ability of the subject predicts." if predicted else "",
    ]
    caption = " ".join(sentence for sentence in sentences if sentence)
    drill = {"level": "level"} | ({"model": "model"} if group == "model" else {})
    return Figure("by_level", "Accuracy by difficulty", caption, spec, table, drill=drill)


def scale_map_reason(calibration: Calibration) -> str | None:
    """Why a calibration says too little for a map of its scale, or for accuracy by its levels; None if it does not.

    Levels that come with the items need no calibration, and no reason.
    """
    if calibration.scale_warning is not None:
        return calibration.scale_warning
    items = calibration.items.filter(is_placed(calibration.items))
    error, spread = items["difficulty_se"].median(), items["difficulty"].std()
    if items.height < 2 or not isinstance(error, float) or not isinstance(spread, float):
        return "the difficulty of fewer than two items is known"
    if error > spread:
        return (
            f"difficulties are less certain than they differ (median standard error {error:.2f}, standard deviation "
            f"{spread:.2f}), so items cannot be ordered; add subjects"
        )
    return None


def scale_map(items: pl.DataFrame, subjects: pl.DataFrame, bins: int = 44) -> pl.DataFrame:
    """Counts of subjects and items along one scale: ``side, from, to, count, low, high, beyond``.

    Items that all or none got right are left out: their difficulty comes from the prior, not from the answers. Items
    more than ``BEYOND`` below or above all subjects share a bar at that end, apart from the others, whose ``beyond`` is
    -1 or 1. ``low`` and ``high`` enclose what a bar counts, ``from`` and ``to`` are where it is drawn.
    """
    difficulty = items.filter(is_placed(items))["difficulty"]
    ability = subjects["ability"].drop_nulls() if "ability" in subjects.columns else pl.Series(dtype=pl.Float64)
    both = pl.concat([difficulty, ability]) if difficulty.len() + ability.len() else pl.Series([0.0])
    least, most = float(both.min()), float(both.max())  # type: ignore[arg-type]
    within = ability if ability.len() else pl.Series([0.0])
    low = max(least, float(within.min()) - BEYOND)  # type: ignore[arg-type]
    high = min(most, float(within.max()) + BEYOND)  # type: ignore[arg-type]
    step = max(high - low, 1e-9) / bins
    inside = ((pl.col("value") - low) / step).floor().clip(0, bins - 1).cast(pl.Int64)
    place = pl.when(pl.col("value") < low).then(-2).when(pl.col("value") > high).then(bins + 1).otherwise(inside)
    start = low + pl.col("bin") * step
    below, above = pl.col("bin") < 0, pl.col("bin") >= bins
    parts = []
    for side, values in zip(SIDES, (ability, difficulty), strict=True):
        counts = values.to_frame("value").group_by(place.alias("bin")).agg(pl.len().cast(pl.Int64).alias("count"))
        drawn = counts.sort("bin").with_columns(start.alias("from"), (start + step).alias("to"))
        parts.append(
            drawn.select(
                pl.lit(side).alias("side"), "from", "to", "count",
                pl.when(below).then(least).when(above).then(high).otherwise("from").alias("low"),
                pl.when(below).then(low).when(above).then(most).otherwise("to").alias("high"),
                (above.cast(pl.Int64) - below.cast(pl.Int64)).alias("beyond"),
            )
        )  # fmt: skip
    return pl.concat(parts)


_SCALE: Spec = {
    "field": "from", "type": "quantitative", "bin": {"binned": True}, "scale": {"nice": False},
    "axis": {
        "title": "ability and difficulty, in standard deviations of ability", "tickCount": 8, "format": ".1~f",
    },
}  # fmt: skip
_COUNT: Spec = {"field": "count", "type": "quantitative", "axis": {"title": "number", "tickCount": 3}}
_BEYOND_TEXT: Spec = {"type": "text", "color": "@muted", "fontSize": 10, "dy": -7}

#: The Wright map: are the items as hard as the subjects are able?
SCALE_MAP_FIGURE = Figure(
    "map",
    "Ability of subjects, difficulty of items",
    "One scale for both: a subject answers an item at its own position right half of the time, or more often where "
    f"it can be guessed. Items more than {BEYOND:.0f} beyond all subjects share a bar at that end; items that all or "
    "none got right are left out.",
    {
        "data": {"name": "scale_map"},
        "usermeta": {"pad": 64, "most": 860},
        "facet": {
            "row": {
                "field": "side",
                "type": "nominal",
                "title": None,
                "sort": SIDES,
                "header": {"labelAngle": 0, "labelOrient": "top", "labelAnchor": "start"},
            }
        },
        "spec": {
            "height": 90,
            "layer": [
                {
                    "mark": {"type": "bar", "cursor": "pointer", "binSpacing": 1, "color": "@muted"},
                    "encoding": {
                        "x": _SCALE,
                        "x2": {"field": "to"},
                        "y": _COUNT,
                        "tooltip": tooltip(
                            ("side", "what"), ("low", "from", ".2f"), ("high", "to", ".2f"), ("count", "number", ",d")
                        ),
                    },
                },
                *(
                    {
                        "transform": [
                            {"filter": f"datum.beyond == {sign}"},
                            {"calculate": f"format(datum.{end}, '.1f') + ' or {word}'", "as": "text"},
                        ],
                        "mark": _BEYOND_TEXT | {"align": align},
                        "encoding": {"x": _SCALE | {"field": edge}, "y": _COUNT, "text": {"field": "text"}},
                    }
                    for sign, end, word, align, edge in (
                        (-1, "high", "less", "left", "from"),
                        (1, "low", "more", "right", "to"),
                    )
                ),
            ],
        },
        "resolve": {"scale": {"y": "independent"}},
        "spacing": 14,
    },
    "scale_map",
    drill={"low": "low", "high": "high"},
)
