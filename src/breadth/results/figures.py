"""Figures: Vega-Lite specifications over named tables, defined once for files, notebooks, the report and the live page.

Strings that begin with @ stand for colours of a theme. ``as_chart`` fills them in for an Altair chart, the script of
the page does so in the report. Pictures are in the light theme; pages follow the reader's theme and width.
"""

from __future__ import annotations

import copy
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from breadth.boundary import drawing
from breadth.errors import escape_bytes
from breadth.records import atomic_write
from breadth.results.table_writing import check_target

if TYPE_CHECKING:
    import altair as alt


Spec = dict[str, Any]

#: Width of a figure outside the report, in pixels; a figure may ask for less (``usermeta: most``). Panels that keep
#: their size may take more.
WIDTH, WIDEST = 860, 1200

#: Space that a panel needs beside its width, for the gap and what the last label of an axis sticks out. As in the page.
GAP = 30

#: Models that have a hue of their own; in a figure of more models, hue says nothing.
MODEL_COLOURS = 8

#: Colours of the tokens. A colour means one thing in every figure and page:
#:
#: - ``@model0`` to ``@model7``: the hue is the model (or the subject, where a figure shows single subjects);
#: - ``@low``, ``@mid``, ``@high``: the sign and size of a correlation or a gain, orange below 0 and blue above;
#: - ``@ink`` and ``@muted``: everything else, means over models included. ``@strong`` is text on strong cells.
#:
#: Before and after training differ by fill, chance is dashed. Readers with protanopia or deuteranopia can tell all
#: hues of a theme apart, and all have a contrast of 3:1 with the paper (``tests/results/test_figures.py``).
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "@ink": "#1f2328", "@muted": "#59636e", "@grid": "#e4e7eb", "@paper": "#ffffff", "@blank": "#d9dce0",
        "@low": "#D9640A", "@mid": "#f3f3f1", "@high": "#1B7BBD", "@strong": "#000000",
        "@model0": "#099833", "@model1": "#4A14A8", "@model2": "#F85695", "@model3": "#5A5410",
        "@model4": "#2C9DA8", "@model5": "#8A1458", "@model6": "#A95CEE", "@model7": "#0B3D10",
    },
    "dark": {
        "@ink": "#e6e9ed", "@muted": "#a3adb8", "@grid": "#30363d", "@paper": "#14171a", "@blank": "#3d444c",
        "@low": "#F08A3C", "@mid": "#23282d", "@high": "#4BA3DC", "@strong": "#0c0e10",
        "@model0": "#74F2BE", "@model1": "#AE54DB", "@model2": "#E09DB0", "@model3": "#DBC242",
        "@model4": "#32D2EF", "@model5": "#D2525F", "@model6": "#7A739F", "@model7": "#2A7A0A",
    },
}  # fmt: skip

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
        "header": {
            "labelColor": theme["@ink"], "labelFontSize": 12, "labelFontWeight": "bold", "titleColor": theme["@muted"],
        },
        "title": {"color": theme["@ink"]},
        "rule": {"color": theme["@muted"]},
        "text": {"color": theme["@ink"]},
    }
    for name, theme in THEMES.items()
}  # fmt: skip


def model_colour(models: Sequence[str], legend: bool = True) -> Spec:
    """One hue per model, the same in every figure, with a legend above it if there are several; grey for too many."""
    if len(models) > MODEL_COLOURS:
        return {"value": "@muted"}
    scale = {"domain": list(models), "range": [f"@model{k}" for k in range(len(models))]}
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


#: Share of the scale beyond which a cell is so strong that ``@ink`` could not be read on it in every theme.
STRONG = 0.65


def heat_layers(value: str, text: str, tips: list[Spec], limit: float, title: str, legend_format: str) -> list[Spec]:
    """Squares with numbers: faded where ``sure`` is false, bold where ``bold`` is true, grey without a number."""
    known, strong = f"isValid(datum.{value})", f"datum.sure && abs(datum.{value}) > {STRONG * limit}"
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
    """One Altair chart of one or several figures, below each other, with their data.

    Its ``usermeta`` keeps the figures as they were, so that :func:`breadth.results.write_figure` can write a page that
    follows the reader's theme and width.
    """
    import altair as alt

    used: set[str] = set()
    drafts = [_bound(figure) for figure in figures]
    _collect_tables(drafts, used)
    panels: list[int] = []
    for figure, draft in zip(figures, drafts, strict=True):
        column, frame = draft.get("facet", {}).get("field"), tables[figure.table]
        known = column in frame.columns
        panels.append(frame[column].n_unique() if known else draft.get("usermeta", {}).get("panels", 1))
    parts = [_standalone(*given) for given in zip(figures, drafts, panels, strict=True)]
    spec: Spec = parts[0] if len(parts) == 1 else {"vconcat": parts, "spacing": 36}
    if len(parts) > 1:
        spec["resolve"] = {"scale": {"color": "independent"}}
        spec["params"] = list({param["name"]: param for part in parts for param in part.pop("params", [])}.values())
    colours = THEMES[theme]
    drawn = themed(spec, colours) | {
        "$schema": alt.SCHEMA_URL,
        "config": CONFIGS[theme] | {"background": colours["@paper"]},
        "usermeta": {
            "figures": [
                {"title": figure.title, "caption": figure.caption, "spec": draft, "panels": number}
                for figure, draft, number in zip(figures, drafts, panels, strict=True)
            ]
        },
    }
    chart: alt.TopLevelMixin = alt.Chart.from_dict(drawn)
    # Altair would check every row against its schema, which takes minutes for large tables.
    chart.datasets = {name: tables[name].to_dicts() for name in sorted(used)}  # type: ignore[attr-defined]
    return chart


def _bound(figure: Figure) -> Spec:
    """The specification with an input for each of its controls."""
    spec = copy.deepcopy(figure.spec)
    inputs = {control.name: control for control in figure.controls}
    for param in spec.get("params", []):
        if param["name"] in inputs:
            values, labels = zip(*inputs[param["name"]].options, strict=True)
            bound = {"input": inputs[param["name"]].kind, "options": list(values), "labels": list(labels)}
            param["bind"] = bound | {"name": f"{inputs[param['name']].label} "}
    return spec


def _standalone(figure: Figure, draft: Spec, panels: int) -> Spec:
    """The specification with title and fixed width."""
    spec = copy.deepcopy(draft)
    hint = spec.pop("usermeta", {})
    width = min(WIDTH, hint.get("most", WIDTH))
    if "facet" in spec and hint.get("panel"):
        spec["columns"] = max(1, min(panels, WIDEST // hint["panel"]))
    elif "facet" in spec:
        room = width - hint.get("pad", 60) - 12
        most = max(1, min(panels, (room + GAP) // (hint.get("least", 220) + GAP)))
        columns = 1 if "row" in spec["facet"] else math.ceil(panels / math.ceil(panels / most))
        spec["spec"]["width"] = (room - GAP * (columns - 1)) // columns
        if "row" not in spec["facet"]:
            spec["columns"] = columns
    elif spec.get("width") == "container":
        spec["width"] = width
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


@cache
def vega_library() -> str:
    """Vega, Vega-Lite and vega-embed from the installed package, and what pages of ours share, as one script."""
    with drawing("the library of figures"):
        import vl_convert

        library: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    shared = (Path(__file__).parent / "templates" / "figures.js").read_text(encoding="utf-8")
    return library.replace("</script", "<\\/script") + "\n;" + shared


#: Endings of figure files.
FORMATS = (".html", ".pdf", ".png", ".svg")


def write_figure(chart: Any, path: str | os.PathLike[str], heading: str, finding: str = "") -> Path:
    """Write an Altair chart; the ending of ``path`` chooses the format. HTML shows the finding above the figure."""
    target = check_target(path, FORMATS)
    kind, spec = target.suffix.lower(), chart.to_dict(validate=False)
    figures = spec.pop("usermeta", {}).get("figures")
    if kind == ".html":
        content = _page(spec, figures, escape_bytes(heading), escape_bytes(finding)).encode()
    else:
        with drawing(target):
            content = _picture(spec, kind)
    atomic_write(target, lambda temporary: temporary.write_bytes(content))
    return target


def _picture(spec: Spec, kind: str) -> bytes:
    import vl_convert

    if kind == ".svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    if kind == ".pdf":
        return vl_convert.vegalite_to_pdf(spec)
    return vl_convert.vegalite_to_png(spec, scale=2)


def _page(spec: Spec, figures: list[Spec] | None, heading: str, finding: str) -> str:
    """Render the page; ``tojson`` escapes every character that could end the script early.

    A chart that was not made of figures is drawn as it is.
    """
    from jinja2 import Environment, PackageLoader

    page = Environment(loader=PackageLoader("breadth.results"), autoescape=True).get_template("figure.html")
    drawn = {
        "figures": figures or [{"title": "", "caption": "", "spec": spec, "panels": 1}],
        "datasets": spec.get("datasets", {}),
        "themes": {name: {"tokens": theme, "config": CONFIGS[name]} for name, theme in THEMES.items()},
    }
    lines = [line for line in finding.splitlines() if line]
    return page.render(page=drawn, themes=THEMES, heading=heading, lines=lines, library=vega_library())
