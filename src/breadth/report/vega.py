"""Small pieces of Vega-Lite that the figures of a report share.

Strings that begin with @ stand for colours of the page's theme; the page (or ``themed``) fills them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Spec = dict[str, Any]

#: Hues after Okabe and Ito (2008), which readers with any kind of colour vision can tell apart; a ninth model shares.
MODEL_COLOURS = 8

#: What the tokens mean on paper and on a dark screen. Correlations and gains run from blue to orange.
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

FONT = "Helvetica, Arial, sans-serif"


def model_scale(models: Sequence[str]) -> Spec:
    """One hue per model, the same in every figure."""
    return {"domain": list(models), "range": [f"@model{k % MODEL_COLOURS}" for k in range(len(models))]}


def model_colour(models: Sequence[str], legend: bool = True) -> Spec:
    """Colour by model, with the legend above the picture where there is one."""
    look = (
        {"orient": "top", "title": None, "symbolType": "circle", "symbolOpacity": 1, "offset": 12}
        if legend and len(models) > 1
        else None
    )
    return {"field": "model", "type": "nominal", "scale": model_scale(models), "legend": look}


def diverging(limit: float = 1.0) -> Spec:
    """Blue below 0, orange above."""
    return {"domain": [-limit, 0, limit], "range": ["@low", "@mid", "@high"], "interpolate": "lab", "clamp": True}


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
        "field": value, "type": "quantitative", "scale": diverging(limit),
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


#: Correlations without a leading zero, as they are printed.
SHORT_R = (
    "abs(datum.r) < 0.005 ? '0' : (datum.r < 0 ? '\u2212' : '') + slice(format(abs(datum.r), '.2f'), "
    "abs(datum.r) >= 0.995 ? 0 : 1)"
)


def nominal(field: str, order: Sequence[str], **axis: Any) -> Spec:
    """A nominal axis in a stated order."""
    look = {"title": None, "ticks": False, "domain": False, "labelPadding": 6, "labelLimit": 150, "grid": False} | axis
    return {"field": field, "type": "nominal", "sort": list(order), "axis": look}


def config(theme: Mapping[str, str]) -> Spec:
    """The looks that all figures share."""
    quiet = {"labelColor": theme["@muted"], "titleColor": theme["@muted"], "titleFontWeight": "normal"}
    return {
        "font": FONT,
        "background": None,
        "view": {"stroke": None},
        "axis": quiet | {
            "gridColor": theme["@grid"], "domainColor": theme["@grid"], "tickColor": theme["@grid"],
            "labelFontSize": 11, "titleFontSize": 12, "labelColor": theme["@ink"],
        },
        "legend": quiet | {"labelFontSize": 12, "titleFontSize": 11, "labelColor": theme["@ink"], "labelLimit": 240},
        "header": {"labelColor": theme["@ink"], "labelFontSize": 12, "labelFontWeight": "bold"},
        "title": {"color": theme["@ink"]},
        "rule": {"color": theme["@muted"]},
        "text": {"color": theme["@ink"]},
    }  # fmt: skip


def themed(value: Any, theme: Mapping[str, str]) -> Any:
    """Fill in the colours of a theme."""
    if isinstance(value, dict):
        return {key: themed(entry, theme) for key, entry in value.items()}
    if isinstance(value, list):
        return [themed(entry, theme) for entry in value]
    return theme.get(value, value) if isinstance(value, str) else value
