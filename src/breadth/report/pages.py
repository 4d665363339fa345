"""A gathered study as one HTML page, as Markdown, or as JSON; all three say the same."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from breadth.report.carry_over import carry_over
from breadth.report.contents import Figure, Gathered, Section
from breadth.report.difficulty_section import difficulty, map_table
from breadth.report.glance import glance
from breadth.report.making import STATISTICS, TABLES, items, making
from breadth.report.through_training import through_training
from breadth.report.vega import THEMES, config

#: Digits that numbers keep in a page and its downloads.
DIGITS = 7

#: Texts with fewer different values than this share of the rows are written once and numbered.
FEW_VALUES = 0.5


def sections(gathered: Gathered) -> list[Section]:
    """The parts of a report, in order."""
    return [build(gathered) for build in (glance, through_training, carry_over, difficulty, items, making)]


def tables(gathered: Gathered) -> dict[str, pl.DataFrame]:
    """Every table that can be downloaded, those that figures need included, in the order of the list."""
    found = {**gathered.tables, "scale_map": map_table(gathered)}
    return {name: found[name] for name in TABLES if name in found and found[name].height}


def payload(gathered: Gathered) -> dict[str, Any]:
    """What the page's script works on: tables by column, figures, themes."""
    return {
        "name": gathered.name,
        "models": gathered.models,
        "testsets": gathered.testsets,
        "tables": {name: _columns(frame) for name, frame in tables(gathered).items()},
        "figures": {figure.key: _figure(figure) for section in sections(gathered) for figure in section.figures},
        "themes": {name: {"tokens": theme, "config": config(theme)} for name, theme in THEMES.items()},
    }


def render_main(gathered: Gathered) -> str:
    """The body of the page, without data and scripts."""
    return str(template("main.html").render(**_context(gathered)))


def render_html(gathered: Gathered, live: dict[str, Any] | None = None) -> str:
    """One page that needs nothing else; ``live`` adds the strip that follows a running study."""
    page = template("report.html").render(
        **_context(gathered),
        live=live,
        library=vega_library(),
        style=asset("report.css"),
        scripts=[asset(name) for name in ("figures.js", "items.js", "page.js", *(["live.js"] if live else []))],
        payload=script_json(payload(gathered)),
        live_json=script_json(live),
    )
    return str(page)


def render_json(gathered: Gathered) -> str:
    """The findings and every table, as data."""
    found = {
        "name": gathered.name,
        "description": gathered.description,
        "facts": dict(gathered.facts),
        "findings": {
            section.key: {
                "title": section.title,
                "finding": section.finding,
                "details": list(section.details),
                "absent": list(section.absent),
            }
            for section in sections(gathered)
        },
        "warnings": list(gathered.warnings),
        "environments": [dict(entry) for entry in gathered.environments],
        "study_file": gathered.study_file,
        "tables": {name: frame.to_dicts() for name, frame in tables(gathered).items()},
    }
    return json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def render_markdown(gathered: Gathered) -> str:
    """The findings with the tables that fit on a page."""
    interval = ("accuracy", "ci_low", "ci_high")
    shown: dict[str, list[tuple[str, pl.DataFrame, tuple[str, ...]]]] = {
        "glance": [("Accuracy", gathered.table("profile"), ("model", "train_set", "testset", "when", *interval))],
        "carry_over": [("Mean over runs", _means(gathered), ("train_set", "model", "a", "b", "r", *interval[1:]))],
        "difficulty": [("Accuracy by level", gathered.table("by_level"), ("model", "when", "level", *interval))],
        "items": [("Labels to look at", _doubts(gathered), ("item", "testset", "label", "right", "doubt"))],
    }
    parts = [f"# {_plain(gathered.name)}\n", _plain(gathered.description)]
    for section in sections(gathered):
        parts.append(f"## {section.title}\n\n**{_plain(section.finding)}**")
        parts += [_plain(text) for text in section.details]
        parts += [f"Absent: {_plain(text)}." for text in section.absent]
        for caption, frame, columns in shown.get(section.key, []):
            if frame.height:
                parts.append(f"{caption}:\n\n{_markdown_table(frame.select(c for c in columns if c in frame.columns))}")
    if gathered.study_file:
        longest = max((len(run) for run in re.findall("`+", gathered.study_file)), default=0)
        fence = "`" * max(4, longest + 1)
        parts.append(f"{fence}yaml\n{gathered.study_file.strip()}\n{fence}")
    return "\n\n".join(part for part in parts if part) + "\n"


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def asset(name: str) -> str:
    """A file of the page's own, as text."""
    return (resources.files("breadth.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def vega_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the installed package."""
    import vl_convert

    found: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return found.replace("</script", "<\\/script")


def template(name: str) -> Any:
    """A template of the page, with text escaped."""
    from jinja2 import Environment, PackageLoader

    return Environment(
        loader=PackageLoader("breadth.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


def _context(gathered: Gathered) -> dict[str, Any]:
    sheet = gathered.table("items")
    return {
        "gathered": gathered,
        "sections": sections(gathered),
        "statistics": STATISTICS,
        "downloads": {name: (TABLES[name], frame.height) for name, frame in tables(gathered).items()},
        "environments": [json.dumps(dict(entry), indent=1, ensure_ascii=False) for entry in gathered.environments],
        "levels": sorted(sheet["level"].drop_nulls().unique().to_list()) if "level" in sheet.columns else [],
        "labels": sorted(sheet["label"].drop_nulls().unique().to_list())[:50] if "label" in sheet.columns else [],
        "runs": gathered.table("runs").sort("model", "run").to_dicts(),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {"title": figure.title, "spec": figure.spec, "table": figure.table, "drill": dict(figure.drill)}


def _columns(frame: pl.DataFrame) -> dict[str, Any]:
    """A frame by column: numbers as they are, repeated texts as numbers into a list."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype.is_float():
            columns[name] = values.fill_nan(None).round_sig_figs(DIGITS).to_list()
        elif values.dtype == pl.String and values.n_unique() < FEW_VALUES * values.len():
            names = values.unique(maintain_order=True).drop_nulls()
            codes = values.replace_strict(names, range(names.len()), default=None, return_dtype=pl.Int64)
            columns[name] = {"names": names.to_list(), "codes": codes.to_list()}
        else:
            columns[name] = values.to_list()
    return {"rows": frame.height, "columns": columns}


def _means(gathered: Gathered) -> pl.DataFrame:
    frame = gathered.table("correlations")
    return frame.filter(pl.col("run").is_null() & (pl.col("kind") == "partial")) if frame.height else frame


def _doubts(gathered: Gathered) -> pl.DataFrame:
    return gathered.table("items").filter(pl.col("doubt").is_not_null()).head(50)


def _plain(text: str) -> str:
    """Text that Markdown and the HTML made of it show as it is."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped.replace("\n", " ")


def _markdown_table(frame: pl.DataFrame) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return ""
        return f"{value:.2f}" if isinstance(value, float) else _plain(str(value))

    lines = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * frame.width]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in frame.iter_rows()]
    return "\n".join(lines)
