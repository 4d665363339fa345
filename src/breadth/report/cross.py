"""Train level x test level: the heatmap, gain against distance, and what they say."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from breadth.report.calibration import styled


def cross_figure(cells: pl.DataFrame, by: str) -> alt.TopLevelMixin:
    """Heatmap of gains, faded where the interval covers 0; beside it gain against distance, if training was by
    level."""
    order = cells[by].unique(maintain_order=True).cast(pl.String).to_list()
    rows = [
        {**row, "way": str(row[by]), "sure": row["ci_low"] is not None and (row["ci_low"] > 0 or row["ci_high"] < 0)}
        | {"text": f"{100 * row['gain']:+.0f}"}
        for row in cells.iter_rows(named=True)
    ]
    reach = max(0.05, *(abs(row["gain"]) for row in rows))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("test_level:O", title="test level (0 is the easiest)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("way:N", sort=order, title=by.replace("_", " ")),
    )
    tooltip = [alt.Tooltip("way:N", title=by.replace("_", " ")), "test_level:O", "n_items:Q", "n_seeds:Q"]
    tooltip += [
        alt.Tooltip(f"{name}:Q", format=".3f") for name in ("accuracy", "baseline", "gain", "ci_low", "ci_high")
    ]
    colour = alt.Color(
        "gain:Q", scale=alt.Scale(scheme="blueorange", domain=[-reach, reach]), legend=alt.Legend(format="+.0%")
    )
    faded = alt.when("datum.sure").then(alt.value(1)).otherwise(alt.value(0.25))
    squares = base.mark_rect(stroke="white").encode(color=colour, opacity=faded, tooltip=tooltip)
    ink = (
        alt.when(f"datum.sure && abs(datum.gain) > {0.75 * reach}")
        .then(alt.value("white"))
        .otherwise(alt.value("#222222"))
    )
    text = base.mark_text(fontSize=12).encode(text="text:N", color=ink, tooltip=tooltip)
    title = alt.TitleParams(
        "Gain over the model before training, in points", subtitle="Faded: the 95% interval covers 0."
    )
    size = 46 * cells["test_level"].n_unique()
    heat = alt.layer(squares, text).properties(width=size, height=46 * len(order), title=title)
    if by != "train_level":
        return styled(heat)
    return styled(alt.hconcat(heat, _by_distance(cells), spacing=40).resolve_scale(color="independent"))


def _by_distance(cells: pl.DataFrame) -> Any:
    away = cells.with_columns((pl.col("test_level") - pl.col("train_level").cast(pl.Int64)).alias("distance"))
    rows = away.group_by("distance").agg(pl.col("gain").mean()).sort("distance").to_dicts()
    points = alt.Chart(alt.InlineData(values=away.to_dicts())).mark_circle(opacity=0.45, color="#0072B2")
    line = alt.Chart(alt.InlineData(values=rows)).mark_line(point=True, color="#D55E00")
    x = alt.X("distance:Q", title="test level minus training level", axis=alt.Axis(format="+d", tickMinStep=1))
    y = alt.Y("gain:Q", title="gain", axis=alt.Axis(format="+.0%"))
    title = alt.TitleParams("Gain by distance", subtitle="Dots: cells. Line: their mean.")
    return alt.layer(points.encode(x=x, y=y), line.encode(x=x, y=y)).properties(width=320, height=230, title=title)


def cross_findings(
    cells: pl.DataFrame, effects: pl.DataFrame, best: pl.DataFrame, by: str, pairing: float | None = None
) -> str:
    """How many cells gained, whether gains fade with distance, whether direction matters, and what to train on."""
    up, down = int((cells["ci_low"] > 0).sum()), int((cells["ci_high"] < 0).sum())
    parts = [
        f"Of {cells.height} cells ({by.replace('_', ' ')} x test level), {up} gained over the model before training, "
        f"{down} lost and {cells.height - up - down} are undecided (95% interval covers 0)."
    ]
    if effects.height:
        fade, direction = effects.iter_rows(named=True)
        parts.append(
            f"Per level of distance between training and test, gain changes by {_points(fade)}: {_fading(fade)}."
        )
        parts.append(f"Easy-to-hard gains {_points(direction)} more than hard-to-easy: {_verdict(direction)}.")
    overall = best.row(0, named=True)
    if overall["second"] is not None:
        lead = f"ahead of {overall['second']} by {abs(100 * overall['lead']):.1f} points"
        parts.append(f"Over all levels the best is {overall['best']}, {lead} ({overall['verdict']}).")
    winners = best.filter((pl.col("verdict") == "decided") & pl.col("test_level").is_not_null()).height
    parts.append(f"A best one is decided on {winners} of {best.height - 1} test levels.")
    if pairing is not None:
        parts.append(
            f"Standard errors, paired by item, are {pairing:.2f} times what they would be unpaired (median over cells)."
        )
    return " ".join(parts)


def _points(row: dict[str, Any]) -> str:
    if row["ci_low"] is None:
        return f"{100 * row['estimate']:+.1f} points"
    return f"{100 * row['estimate']:+.1f} points ({100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f})"


def _fading(row: dict[str, Any]) -> str:
    if row["ci_low"] is None or row["ci_low"] <= 0 <= row["ci_high"]:
        return "undecided whether gains fade"
    return "gains fade with distance" if row["estimate"] < 0 else "gains grow with distance"


def _verdict(row: dict[str, Any]) -> str:
    if row["ci_low"] is None or row["ci_low"] <= 0 <= row["ci_high"]:
        return "undecided"
    return "decided"
