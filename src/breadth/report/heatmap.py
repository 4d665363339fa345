"""The picture of a correlation analysis: a lower-triangle heatmap per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

#: Above this many groups the picture shows the mean over groups instead of a panel for each.
MOST_PANELS = 60

FADED = 0.22
NOT_COMPUTED = "#d9d9d9"


def heatmap(
    pairs: pl.DataFrame, heterogeneity: pl.DataFrame, facets: Sequence[str], by: Sequence[str]
) -> alt.TopLevelMixin:
    """Draw r of every pair: colour and text are r, faded where the interval covers 0, bold where q < 0.05.

    Orange is positive and blue negative, which readers with any kind of colour vision can tell apart. Hovering shows
    the numbers behind a cell. With more than 60 groups, one panel shows the mean over groups.
    """
    groups = pairs.select(by).unique(maintain_order=True).height if by else 1
    if groups > MOST_PANELS:
        cells = _mean_cells(heterogeneity)
        panels = list(dict.fromkeys(cell["group"] for cell in cells))
    else:
        cells = _cells(pairs, by)
        panels = list(dict.fromkeys(cell["group"] for cell in cells))
    size = _cell_size(len(facets), len(panels))
    data = alt.InlineData(values=cells)
    chart = _panel(data, facets, size, _tooltip("n_eff" in cells[0]))
    title = alt.TitleParams(
        "Does doing better on one test set go with doing better on another?",
        subtitle=[
            "Partial correlation r given the control. Faded: the 95% interval covers 0. Bold: q < 0.05. "
            "Grey: not computed."
        ],
        anchor="start",
    )
    if len(panels) == 1 and not by:
        return _styled(chart.properties(title=title))
    columns = min(len(panels), max(1, 1200 // (size * len(facets) + 120)))
    return _styled(
        chart.facet(
            alt.Facet(
                "group:N",
                sort=panels,
                title=None,
                header=alt.Header(labelFontSize=13, labelFontWeight="bold"),
            ),
            columns=columns,
            spacing=16,
        )
        .resolve_axis(x="independent")
        .properties(title=title)
    )


def _cells(pairs: pl.DataFrame, by: Sequence[str]) -> list[dict[str, Any]]:
    group = pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator=" / ") if by else pl.lit("all")
    return [_cell(row) for row in pairs.with_columns(group.alias("group")).iter_rows(named=True)]


def _mean_cells(heterogeneity: pl.DataFrame) -> list[dict[str, Any]]:
    apart = "train_set" in heterogeneity.columns
    group = pl.format("mean over groups trained on {}", "train_set") if apart else pl.lit("mean over groups")
    renamed = heterogeneity.rename({"r_mean": "r", "k": "n"}).with_columns(
        group.alias("group"),
        pl.lit(None, dtype=pl.Float64).alias("q"),
        pl.lit(None, dtype=pl.String).alias("note"),
        pl.lit(None, dtype=pl.Float64).alias("p"),
    )
    return [_cell(row) for row in renamed.iter_rows(named=True)]


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    r, low, high, q = row["r"], row["ci_low"], row["ci_high"], row["q"]
    sure = low is not None and (low > 0 or high < 0)
    names = ("group", "a", "b", "n", "n_eff", "r_raw", "r", "ci_low", "ci_high", "p", "q", "note")
    cell = {name: row[name] for name in names if name in row}
    return cell | {
        "text": "" if r is None else _short(r),
        "sure": sure,
        "bold": q is not None and q < 0.05,
        "dark": sure and abs(r) > 0.75,
    }


def _short(r: float) -> str:
    """Two digits without the leading zero, as correlations are printed."""
    text = f"{abs(r):.2f}"
    if text == "0.00":
        return "0"
    return ("-" if r < 0 else "") + (text[1:] if text.startswith("0") else "1")


def _cell_size(facets: int, panels: int) -> int:
    size = 46 if facets <= 8 else 36 if facets <= 12 else 30 if facets <= 20 else 26
    return size if panels <= 6 else max(26, size - 10)


def _panel(data: alt.InlineData, facets: Sequence[str], size: int, tooltip: list[alt.Tooltip]) -> Any:
    order = list(facets)
    # A pair's first facet stands on the horizontal axis, so every cell lies below the diagonal.
    across = alt.X("a:N", sort=order[:-1], title=None, scale=alt.Scale(domain=order[:-1]), axis=_axis(-45))
    down = alt.Y("b:N", sort=order[1:], title=None, scale=alt.Scale(domain=order[1:]), axis=_axis(0))
    colour = alt.Color(
        "r:Q",
        scale=alt.Scale(scheme="blueorange", domain=[-1, 1]),
        legend=alt.Legend(title="partial r", gradientLength=140, values=[-1, -0.5, 0, 0.5, 1], format=".1f"),
    )
    base = alt.Chart(data).encode(x=across, y=down)
    known = base.transform_filter("datum.r !== null")
    strength = alt.when("datum.sure").then(alt.value(1)).otherwise(alt.value(FADED))
    ink = alt.when("datum.dark").then(alt.value("white")).otherwise(alt.value("#222222"))
    square = known.mark_rect(stroke="white", strokeWidth=1).encode(color=colour, opacity=strength, tooltip=tooltip)
    blank = (
        base.transform_filter("datum.r === null")
        .mark_rect(stroke="white", strokeWidth=1, color=NOT_COMPUTED)
        .encode(tooltip=[alt.Tooltip("a:N"), alt.Tooltip("b:N"), alt.Tooltip("note:N", title="not computed")])
    )
    # A mark has one weight, so cells that survive false-discovery control get a layer of their own.
    weights: list[tuple[str, Literal["normal", "bold"]]] = [("false", "normal"), ("true", "bold")]
    labels = [
        known.transform_filter(f"datum.bold === {test}")
        .mark_text(fontSize=11 if size >= 36 else 9, fontWeight=weight)
        .encode(text="text:N", color=ink, tooltip=tooltip)
        for test, weight in weights
    ]
    sides = size * (len(order) - 1)
    return alt.layer(blank, square, *labels).properties(width=sides, height=sides)


def _axis(angle: int) -> alt.Axis:
    return alt.Axis(labelAngle=angle, labelLimit=180, ticks=False, domain=False, labelPadding=6, grid=False)


def _tooltip(per_group: bool) -> list[alt.Tooltip]:
    names = [("group", "group"), ("a", "a"), ("b", "b")]
    numbers = [("r", "partial r", ".3f"), ("ci_low", "from", ".3f"), ("ci_high", "to", ".3f")]
    if per_group:
        numbers = [
            ("r_raw", "plain r", ".3f"),
            *numbers,
            ("n", "rows", "d"),
            ("n_eff", "effective rows", ".1f"),
            ("p", "p", ".2g"),
            ("q", "q", ".2g"),
        ]
    else:
        numbers.append(("n", "groups", "d"))
    tips = [alt.Tooltip(f"{name}:N", title=title) for name, title in names]
    tips += [alt.Tooltip(f"{name}:Q", title=title, format=form) for name, title, form in numbers]
    return [*tips, alt.Tooltip("note:N", title="note")]


def _styled(chart: Any) -> alt.TopLevelMixin:
    styled: alt.TopLevelMixin = (
        chart.configure(font="Helvetica, Arial, sans-serif", background="white")
        .configure_view(stroke=None)
        .configure_title(fontSize=16, subtitleFontSize=12, subtitleColor="#555555", offset=12)
        .configure_axis(labelFontSize=11)
    )
    return styled
