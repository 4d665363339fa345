"""Figures: Vega-Lite specifications over named tables, defined once for files, notebooks, the report and the live page.

Strings that begin with @ stand for colours of a theme. ``as_chart`` fills them in for an Altair chart, the script of
the page does so in the report.
"""

from __future__ import annotations

import copy
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from breadth.records import atomic_write, check_target

if TYPE_CHECKING:
    import altair as alt

Spec = dict[str, Any]

#: Width of a figure outside the report, in pixels; a figure may ask for less (``usermeta: most``).
WIDTH = 860

#: Hues after Okabe and Ito (2008), which readers with any kind of colour vision can tell apart. A ninth model repeats
#: the first.
MODEL_COLOURS = 8

#: Colours of the tokens. Correlations and gains run from blue to orange.
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "@ink": "#1f2328", "@muted": "#59636e", "@grid": "#e4e7eb", "@paper": "#ffffff", "@blank": "#d9dce0",
        "@low": "#0072B2", "@mid": "#f3f3f1", "@high": "#D55E00", "@strong": "#ffffff",
        "@model0": "#0072B2", "@model1": "#D55E00", "@model2": "#009E73", "@model3": "#CC79A7",
        "@model4": "#B07800", "@model5": "#3A9BD9", "@model6": "#555555", "@model7": "#5E4AA0",
    },
    "dark": {
        "@ink": "#e6e9ed", "@muted": "#a3adb8", "@grid": "#30363d", "@paper": "#14171a", "@blank": "#3d444c",
        "@low": "#4BA3DC", "@mid": "#23282d", "@high": "#F08A3C", "@strong": "#0c0e10",
        "@model0": "#56B4E9", "@model1": "#F08A3C", "@model2": "#2BBF93", "@model3": "#E39CC4",
        "@model4": "#E6C229", "@model5": "#8FB8FF", "@model6": "#B8B8B8", "@model7": "#B9A5F0",
    },
}  # fmt: skip

#: Endings of figure files.
FORMATS = (".html", ".png", ".svg")

FONT = "Helvetica, Arial, sans-serif"

#: The appearance that all figures share, by theme.
CONFIGS: dict[str, Spec] = {
    name: {
        "font": FONT,
        "background": None,
        "view": {"stroke": None},
        "axis": {
            "labelColor": theme["@ink"], "titleColor": theme["@muted"], "titleFontWeight": "normal",
            "gridColor": theme["@grid"], "domainColor": theme["@grid"], "tickColor": theme["@grid"],
            "labelFontSize": 11, "titleFontSize": 12,
        },
        "legend": {
            "labelColor": theme["@ink"], "titleColor": theme["@muted"], "titleFontWeight": "normal",
            "labelFontSize": 12, "titleFontSize": 11, "labelLimit": 240,
        },
        "header": {"labelColor": theme["@ink"], "labelFontSize": 12, "labelFontWeight": "bold"},
        "title": {"color": theme["@ink"]},
        "rule": {"color": theme["@muted"]},
        "text": {"color": theme["@ink"]},
    }
    for name, theme in THEMES.items()
}  # fmt: skip


def model_colour(models: Sequence[str], legend: bool = True) -> Spec:
    """One hue per model, the same in every figure, with a legend above it if there are several models."""
    scale = {"domain": list(models), "range": [f"@model{k % MODEL_COLOURS}" for k in range(len(models))]}
    look = (
        {"orient": "top", "title": None, "symbolType": "circle", "symbolOpacity": 1, "offset": 12}
        if legend and len(models) > 1
        else None
    )
    return {"field": "model", "type": "nominal", "scale": scale, "legend": look}


def tooltip(*fields: tuple[str, str] | tuple[str, str, str]) -> list[Spec]:
    """Tooltip lines: (field, words) for text, (field, words, format) for numbers."""
    return [
        {"field": entry[0], "title": entry[1], "type": "nominal"}
        if len(entry) == 2
        else {"field": entry[0], "title": entry[1], "type": "quantitative", "format": entry[2]}
        for entry in fields
    ]


def sure(low: str = "ci_low", high: str = "ci_high") -> str:
    """Expression: the interval lies on one side of 0."""
    return f"isValid(datum.{low}) && (datum.{low} > 0 || datum.{high} < 0)"


def heat_layers(value: str, text: str, tips: list[Spec], limit: float, title: str, legend_format: str) -> list[Spec]:
    """Squares with numbers: faded where the interval covers 0, grey where there is no number."""
    known, strong = f"isValid(datum.{value})", f"datum.sure && abs(datum.{value}) > {0.72 * limit}"
    colour = {
        "field": value, "type": "quantitative",
        "scale": {
            "domain": [-limit, 0, limit], "range": ["@low", "@mid", "@high"], "interpolate": "lab", "clamp": True,
        },
        "legend": {
            "title": title, "orient": "top", "direction": "horizontal", "gradientLength": 140, "gradientThickness": 10,
            "values": [-limit, 0, limit], "offset": 12,
            "labelExpr": f"datum.value ? format(datum.value, '{legend_format}') : '0'",
        },
    }  # fmt: skip
    return [
        {
            "transform": [{"filter": f"!{known}"}],
            "mark": {"type": "rect", "color": "@blank", "stroke": "@paper"},
            "encoding": {"tooltip": tips},
        },
        {
            "transform": [{"filter": known}],
            "mark": {"type": "rect", "stroke": "@paper", "cursor": "pointer"},
            "encoding": {
                "color": colour,
                "opacity": {"condition": {"test": "datum.sure", "value": 1}, "value": 0.35},
                "tooltip": tips,
            },
        },
        *(
            {
                "transform": [{"filter": f"{known} && {'' if bold else '!'}datum.bold"}],
                "mark": {
                    "type": "text",
                    "fontSize": 11,
                    "fontWeight": "bold" if bold else "normal",
                    "cursor": "pointer",
                },
                "encoding": {
                    "text": {"field": text},
                    "color": {"condition": {"test": strong, "value": "@strong"}, "value": "@ink"},
                    "tooltip": tips,
                },
            }
            for bold in (False, True)
        ),
    ]


#: Expression: a correlation without its leading zero.
SHORT_R = (
    "abs(datum.r) < 0.005 ? '0' : (datum.r < 0 ? '\u2212' : '') + slice(format(abs(datum.r), '.2f'), "
    "abs(datum.r) >= 0.995 ? 0 : 1)"
)


def nominal(field: str, order: Sequence[str], **axis: Any) -> Spec:
    """A nominal axis in a stated order."""
    look = {"title": None, "ticks": False, "domain": False, "labelPadding": 6, "labelLimit": 150, "grid": False} | axis
    return {"field": field, "type": "nominal", "sort": list(order), "axis": look}


def themed(value: Any, theme: Mapping[str, str]) -> Any:
    """Fill in the colours of a theme."""
    if isinstance(value, dict):
        return {key: themed(entry, theme) for key, entry in value.items()}
    if isinstance(value, list):
        return [themed(entry, theme) for entry in value]
    return theme.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Control:
    """A choice for the reader: sets the parameter ``name`` of a figure to one of ``options`` (value, words)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    kind: str = "radio"


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite specification over named tables.

    ``table`` is the main one. ``drill`` maps filters of the table of items to the fields of a mark that set them when
    the mark is clicked. ``usermeta`` of the specification sizes it: ``most`` is its greatest width, ``panel`` the width
    of a panel that keeps its size, ``least`` the smallest width of one that does not, ``pad`` the space left of the
    panels, ``panels`` their number where no column of the table gives it.
    """

    key: str
    title: str
    caption: str
    spec: Spec
    table: str
    controls: tuple[Control, ...] = ()
    drill: Mapping[str, str] = field(default_factory=dict)


def as_chart(*figures: Figure, tables: Mapping[str, pl.DataFrame], theme: str = "light") -> alt.TopLevelMixin:
    """One Altair chart of one or several figures, below each other, with their data."""
    import altair as alt

    used: set[str] = set()
    parts = [_standalone(figure, tables, used) for figure in figures]
    spec: Spec = parts[0] if len(parts) == 1 else {"vconcat": parts, "spacing": 36}
    if len(parts) > 1:
        spec["resolve"] = {"scale": {"color": "independent"}}
        spec["params"] = list({param["name"]: param for part in parts for param in part.pop("params", [])}.values())
    colours = THEMES[theme]
    spec |= {
        "$schema": alt.SCHEMA_URL,
        "datasets": {name: tables[name].to_dicts() for name in sorted(used)},
        "config": CONFIGS[theme] | {"background": colours["@paper"]},
    }
    chart: alt.TopLevelMixin = alt.Chart.from_dict(themed(spec, colours))
    return chart


def _standalone(figure: Figure, tables: Mapping[str, pl.DataFrame], used: set[str]) -> Spec:
    """The specification with title, fixed width and inputs for its controls; adds the tables it needs to ``used``."""
    spec = copy.deepcopy(figure.spec)
    _collect_tables(spec, used)
    hint = spec.pop("usermeta", {})
    width = min(WIDTH, hint.get("most", WIDTH))
    if "facet" in spec:
        facet = spec["facet"].get("field")
        frame = tables[figure.table]
        panels = frame[facet].n_unique() if facet in frame.columns else hint.get("panels", 1)
        least = hint.get("panel") or hint.get("least", 220)
        if facet is not None:
            spec["columns"] = max(1, min(panels, (1200 if hint.get("panel") else width) // least))
        if not hint.get("panel") and "width" not in spec["spec"]:
            spec["spec"]["width"] = width // spec.get("columns", 1) - 50
    elif spec.get("width") == "container":
        spec["width"] = width
    inputs = {control.name: control for control in figure.controls}
    for param in spec.get("params", []):
        if param["name"] in inputs:
            values, labels = zip(*inputs[param["name"]].options, strict=True)
            bound = {"input": inputs[param["name"]].kind, "options": list(values), "labels": list(labels)}
            param["bind"] = bound | {"name": f"{inputs[param['name']].label} "}
    style = {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "subtitleColor": "@muted", "offset": 12}
    spec["title"] = {"text": figure.title, "subtitle": textwrap.wrap(figure.caption, 120) or [""], **style}
    return spec


def _collect_tables(value: Any, used: set[str]) -> None:
    if isinstance(value, dict):
        data = value.get("data")
        if isinstance(data, dict) and isinstance(data.get("name"), str) and "values" not in data:
            used.add(data["name"])
        for entry in value.values():
            _collect_tables(entry, used)
    elif isinstance(value, list):
        for entry in value:
            _collect_tables(entry, used)


def write_figure(chart: Any, path: str | os.PathLike[str], heading: str, finding: str = "") -> Path:
    """Write an Altair chart; the ending of ``path`` chooses the format. HTML shows the finding above the figure."""
    import vl_convert

    target = check_target(path, FORMATS)
    kind, spec = target.suffix.lower(), chart.to_dict()
    if kind == ".html":
        content = _page(spec, heading, finding).encode()
    elif kind == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    else:
        content = vl_convert.vegalite_to_png(spec, scale=2)
    atomic_write(target, lambda temporary: temporary.write_bytes(content))
    return target


@cache
def vega_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the installed package."""
    import vl_convert

    library: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return library.replace("</script", "<\\/script")


def _page(spec: Spec, heading: str, finding: str) -> str:
    """Render the page; ``tojson`` escapes every character that could end the script early."""
    from jinja2 import Environment, PackageLoader

    page = Environment(loader=PackageLoader("breadth.results"), autoescape=True).get_template("figure.html")
    return page.render(spec=spec, heading=heading, finding=finding, library=vega_library())
