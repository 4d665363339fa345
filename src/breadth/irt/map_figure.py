"""The Wright map: abilities of subjects and difficulties of items on one scale, and when that scale says too little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from breadth.irt.words import ItemFlag
from breadth.results import Figure
from breadth.results.figures import Spec, tooltip

if TYPE_CHECKING:
    from breadth.irt.calibration import Calibration

#: Both sides of the map, in order.
SIDES = ["subjects", "items"]

#: How far beyond the subjects the map goes, in standard deviations of ability. All answers to harder items are wrong
#: and to easier ones right, so their difficulty is hardly known.
BEYOND = 6.0


def scale_map_reason(calibration: Calibration) -> str | None:
    """Why a calibration says too little for a map of its scale, or for accuracy by its levels; None if it does not.

    Levels that come with the items need no calibration, and no reason.
    """
    if calibration.scale_warning is not None:
        return calibration.scale_warning
    items = calibration.items.filter(placed(calibration.items))
    error, spread = items["difficulty_se"].median(), items["difficulty"].std()
    if items.height < 2 or not isinstance(error, float) or not isinstance(spread, float):
        return "the difficulty of fewer than two items is known"
    if error > spread:
        return (
            f"difficulties are less certain than they differ (median standard error {error:.2f}, standard deviation "
            f"{spread:.2f}), so items cannot be ordered; add subjects"
        )
    return None


def placed(items: pl.DataFrame) -> pl.Expr:
    """Items whose difficulty comes from answers: not those that all or none got right, which only the prior places."""
    flag = pl.col("flag") if "flag" in items.columns else pl.lit(None, dtype=pl.String)
    unplaced = flag.is_in([ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG]).fill_null(False)
    return ~unplaced & pl.col("difficulty").is_finite().fill_null(False)


def scale_map(items: pl.DataFrame, subjects: pl.DataFrame, bins: int = 44) -> pl.DataFrame:
    """Counts of subjects and items along one scale: ``side, from, to, count, low, high, beyond``.

    Items that all or none got right are left out: their difficulty comes from the prior, not from the answers. Items
    more than ``BEYOND`` below or above all subjects share a bar at that end, apart from the others, whose ``beyond`` is
    -1 or 1. ``low`` and ``high`` enclose what a bar counts, ``from`` and ``to`` are where it is drawn.
    """
    difficulty = items.filter(placed(items))["difficulty"]
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
