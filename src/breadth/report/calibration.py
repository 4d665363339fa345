"""Pictures of a calibration: the difficulty/ability map, item curves, accuracy by difficulty."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

#: Colours that readers with any kind of colour vision can tell apart (Okabe and Ito 2008), without the palest.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"]
ABILITY, DIFFICULTY = "#0072B2", "#D55E00"
WIDTH = 620
LEVEL_TITLE = "difficulty level (0 is the easiest)"
TOOLTIP = [
    "subject:N",
    "level:O",
    "n:Q",
    alt.Tooltip("accuracy:Q", format=".2f"),
    alt.Tooltip("expected:Q", format=".2f"),
]


def calibration_figure(
    items: pl.DataFrame, subjects: pl.DataFrame, curves: pl.DataFrame, observed: pl.DataFrame, profiles: pl.DataFrame
) -> alt.TopLevelMixin:
    """Put the three pictures above each other; those without data are left out.

    ``curves`` has ``item, ability, probability``, ``observed`` the same with ``n`` for groups of subjects, ``profiles``
    ``subject, level, n, accuracy, ci_low, ci_high, expected``.
    """
    parts = [wright_map(items, subjects)]
    if curves.height:
        parts.append(item_curves(curves, observed))
    if profiles.height:
        parts.append(accuracy_by_level(profiles))
    return styled(alt.vconcat(*parts, spacing=36).resolve_scale(color="independent"))


def styled(chart: Any) -> alt.TopLevelMixin:
    """Give a finished chart the looks that all of them share."""
    finished: alt.TopLevelMixin = (
        chart.configure(font="Helvetica, Arial, sans-serif", background="white")
        .configure_view(stroke=None)
        .configure_title(fontSize=15, subtitleFontSize=12, subtitleColor="#555555", anchor="start", offset=10)
        .configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#eeeeee")
        .configure_legend(labelLimit=260)
    )
    return finished


def wright_map(items: pl.DataFrame, subjects: pl.DataFrame) -> Any:
    """Subjects above, items below, on one scale: are the items as hard as the subjects are able?"""
    ability = subjects["ability"].drop_nulls() if "ability" in subjects.columns else pl.Series(dtype=pl.Float64)
    difficulty = items["difficulty"].drop_nulls()
    finite = pl.concat([ability, difficulty.filter(difficulty.is_finite())])
    low, high = (float(finite.quantile(q) or 0) for q in (0.002, 0.998))
    edges = [low - 0.3, high + 0.3]
    sides = []
    for values, noun, colour, reverse in (
        (ability, "subjects", ABILITY, False),
        (difficulty, "items", DIFFICULTY, True),
    ):
        if not values.len():
            continue
        counts = _histogram(values, edges)
        scale = alt.Scale(domain=edges, nice=False)
        sides.append(
            alt.Chart(alt.InlineData(values=counts))
            .mark_bar(color=colour, opacity=0.85)
            .encode(
                x=alt.X(
                    "from:Q",
                    scale=scale,
                    title="ability and difficulty, in standard deviations of ability" if reverse else None,
                    bin="binned",
                ),
                x2="to:Q",
                y=alt.Y(
                    "count:Q", title=noun, scale=alt.Scale(reverse=reverse), axis=alt.Axis(tickCount=4, format="~s")
                ),
                tooltip=[
                    alt.Tooltip("from:Q", format=".2f"),
                    alt.Tooltip("to:Q", format=".2f"),
                    alt.Tooltip("count:Q", title=noun),
                ],
            )
            .properties(width=WIDTH, height=130)
        )
    title = alt.TitleParams(
        "How able the subjects, how hard the items",
        subtitle="An item opposite a subject is one that the subject gets right half of the time (less guessing). "
        "The ends of the scale hold what lies beyond.",
    )
    return alt.vconcat(*sides, spacing=4).properties(title=title)


def item_curves(curves: pl.DataFrame, observed: pl.DataFrame) -> Any:
    """Chance of a right answer against ability: the model's curve, and the share right in groups of subjects."""
    order = list(dict.fromkeys(curves["item"]))
    colour = alt.Color("item:N", sort=order, scale=alt.Scale(range=COLOURS), legend=alt.Legend(title="item"))
    x = alt.X("ability:Q", title="ability")
    lines = (
        alt.Chart(alt.InlineData(values=curves.to_dicts()))
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y("probability:Q", title="chance of a right answer", scale=alt.Scale(domain=[0, 1])),
            color=colour,
        )
    )
    layers = [lines]
    if observed.height:
        layers.append(
            alt.Chart(alt.InlineData(values=observed.to_dicts()))
            .mark_circle(opacity=0.8)
            .encode(
                x=x,
                y="probability:Q",
                color=colour,
                size=alt.Size("n:Q", title="subjects", scale=alt.Scale(range=[10, 90]), legend=None),
                tooltip=[
                    "item:N",
                    alt.Tooltip("ability:Q", format=".2f"),
                    alt.Tooltip("probability:Q", title="share right", format=".2f"),
                    "n:Q",
                ],
            )
        )
    title = alt.TitleParams(
        "Curves of items", subtitle="Lines: the model. Dots: the share right in ten groups of subjects."
    )
    return alt.layer(*layers).properties(width=WIDTH, height=260, title=title)


def accuracy_by_level(profiles: pl.DataFrame) -> Any:
    """Accuracy of subjects per difficulty level with a 95 % interval, and what their ability leads one to expect.

    A colour per subject, or a panel per subject where there are more of them than colours that can be told apart.
    """
    order = list(dict.fromkeys(profiles["subject"]))
    cells = profiles.drop_nulls("accuracy")
    if len(order) > len(COLOURS):
        return _accuracy_panels(cells, order)
    base = alt.Chart(alt.InlineData(values=cells.to_dicts())).encode(
        x=alt.X("level:O", title=LEVEL_TITLE, axis=alt.Axis(labelAngle=0)),
        color=alt.Color("subject:N", sort=order, scale=alt.Scale(range=COLOURS), legend=alt.Legend(title="subject")),
        xOffset=alt.XOffset("subject:N", sort=order),
    )
    y = alt.Scale(domain=[0, 1])
    dots = base.mark_circle(size=55).encode(y=alt.Y("accuracy:Q", title="accuracy", scale=y), tooltip=TOOLTIP)
    bars = base.mark_rule().encode(y=alt.Y("ci_low:Q", scale=y), y2="ci_high:Q")
    ticks = base.mark_tick(thickness=2, size=9, opacity=0.7).encode(y=alt.Y("expected:Q", scale=y))
    title = alt.TitleParams(
        "Accuracy by difficulty",
        subtitle="Dots with 95% intervals: observed. Dashes: what the subject's one ability leads one to expect.",
    )
    return alt.layer(bars, ticks, dots).properties(width=WIDTH, height=260, title=title)


def _accuracy_panels(cells: pl.DataFrame, order: list[str]) -> Any:
    """A small panel per subject, in rows of five, all on the same axes."""
    base = alt.Chart().encode(
        x=alt.X("level:O", title=None, axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
    )
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format="%", ticks=False, domain=False, labelOverlap=False)
    # A little room beyond 0 and 1, or dots there would stick out of their panel.
    y: dict[str, Any] = {"title": "accuracy", "scale": alt.Scale(domain=[-0.04, 1.04], nice=False), "axis": axis}
    line = base.mark_line(color="#999999", strokeWidth=1.5).encode(y=alt.Y("expected:Q", **y))
    bars = base.mark_rule(color=ABILITY, strokeWidth=1.5).encode(y=alt.Y("ci_low:Q", **y), y2="ci_high:Q")
    dots = base.mark_circle(size=34, color=ABILITY, opacity=1).encode(y=alt.Y("accuracy:Q", **y), tooltip=TOOLTIP)
    # Owner and model on lines of their own: together they are wider than a panel.
    header = alt.Header(
        labelExpr="split(datum.label, '/')",
        labelFontSize=11,
        labelAnchor="start",
        labelLimit=160,
        title=LEVEL_TITLE,
        titleOrient="bottom",
        titleFontSize=12,
        titleFontWeight="normal",
    )
    title = alt.TitleParams(
        "Accuracy by difficulty",
        subtitle="Blue dots with 95% intervals: observed. Grey line: what the subject's one ability leads one to "
        "expect.",
    )
    return (
        alt.layer(line, bars, dots, data=alt.InlineData(values=cells.to_dicts()))
        .properties(width=150, height=140)
        .facet(facet=alt.Facet("subject:N", sort=order, header=header), columns=5, spacing=16)
        .properties(title=title)
    )


def _histogram(values: pl.Series, edges: list[float], bins: int = 50) -> list[dict[str, float]]:
    low, high = edges
    step = (high - low) / bins
    place = ((values.clip(low, high) - low) / step).floor().clip(0, bins - 1).cast(pl.Int64)
    counts = place.value_counts().iter_rows()
    return [{"from": low + k * step, "to": low + (k + 1) * step, "count": count} for k, count in sorted(counts)]
