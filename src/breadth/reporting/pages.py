"""A report as one HTML page, as Markdown, or as JSON; all three hold the same findings."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import polars as pl

from breadth.reporting.data import ReportData
from breadth.reporting.methods import STATISTICS
from breadth.results import markdown_table, plain_markdown
from breadth.results.figures import CONFIGS, THEMES, vega_library

#: Digits that numbers keep in a page and its downloads.
DIGITS = 7

#: Texts with fewer different values than this share of the rows are written once and numbered.
FEW_VALUES = 0.5

#: Labels that the filter of items lists.
MOST_LABELS = 50

#: Stylesheet and scripts of the page.
ASSETS = resources.files("breadth.reporting") / "assets"
SCRIPTS = ("figures.js", "items.js", "page.js")


def payload(data: ReportData) -> dict[str, Any]:
    """What the page's script works on: tables by column (repeated texts as numbers into a list), figures, themes."""
    tables: dict[str, Any] = {}
    for table, frame in data.tables.items():
        if not frame.height:
            continue
        columns: dict[str, Any] = {}
        for name, values in frame.to_dict().items():
            if values.dtype.is_float():
                columns[name] = values.fill_nan(None).round_sig_figs(DIGITS).to_list()
            elif values.dtype == pl.String and values.n_unique() < FEW_VALUES * values.len():
                names = values.unique(maintain_order=True).drop_nulls()
                codes = values.replace_strict(names, range(names.len()), default=None, return_dtype=pl.Int64)
                columns[name] = {"names": names.to_list(), "codes": codes.to_list()}
            else:
                columns[name] = values.to_list()
        tables[table] = {"rows": frame.height, "columns": columns}
    figures = [figure for content in data.contents.values() for figure in content.figures]
    return {
        "name": data.headings[0],
        "models": data.models,
        "unit": "runs" if data.has_runs else "subjects",
        "testsets": data.testsets,
        "tables": tables,
        "figures": {
            figure.key: {
                "title": figure.title, "spec": figure.spec, "table": figure.table, "drill": dict(figure.drill),
            }
            for figure in figures
        },
        "themes": {name: {"tokens": theme, "config": CONFIGS[name]} for name, theme in THEMES.items()},
    }  # fmt: skip


def render_html(data: ReportData, live: dict[str, Any] | None = None, page: str = "report.html") -> str:
    """One page that needs nothing else; ``live`` adds the strip that follows a running study.

    The page ``main.html`` is its body, without data and scripts.
    """
    items, facts = data.table("items"), data.facts
    sizes = {
        "model": len(facts["models"]), "run": facts["runs"], "checkpoint": facts["checkpoints"],
    } if data.has_runs else {"subject": facts["checkpoints"]}  # fmt: skip
    context = {
        "data": data,
        "sizes": sizes | {"test set": len(data.testsets), "item": facts["items"], "answer": facts["responses"]},
        "statistics": STATISTICS,
        "downloads": [
            (name, words, data.tables[name].height)
            for section in data.contents
            for name, words in section.tables.items()
            if data.table(name).height
        ],
        "environments": [json.dumps(entry, indent=1, ensure_ascii=False) for entry in data.environments],
        "choices": {
            name: sorted(items[name].drop_nulls().unique().to_list())[:MOST_LABELS] if name in items.columns else []
            for name in ("level", "label")
        },
        "runs": data.table("runs").sort("model", "run").to_dicts(),
    }
    if page == "report.html":
        scripts = (*SCRIPTS, *(["live.js"] if live else []))
        context |= {
            "live": live,
            "library": vega_library(),
            "scripts": [(ASSETS / name).read_text(encoding="utf-8") for name in scripts],
            "payload": script_json(payload(data)),
            "live_json": script_json(live),
        }
    return render_template(page, **context)


def render_template(name: str, /, **context: Any) -> str:
    """A template of the page filled in, with text escaped."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("breadth.reporting")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    style = (ASSETS / "report.css").read_text(encoding="utf-8")
    return environment.get_template(name).render(style=style, **context)


def render_json(data: ReportData) -> str:
    """The findings and every table, as data."""
    name, description = data.headings
    report = {
        "name": name,
        "description": description,
        "facts": data.facts,
        "findings": {
            section.key: {
                "title": section.title, "finding": content.finding, "details": list(content.details),
                "absent": list(content.absent),
            }
            for section, content in data.contents.items()
        },
        "warnings": list(data.study.warnings),
        "environments": data.environments,
        "study_file": data.study_file,
        "tables": {name: frame.fill_nan(None).to_dicts() for name, frame in data.tables.items() if frame.height},
    }  # fmt: skip
    return json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def render_markdown(data: ReportData) -> str:
    """The findings, with the tables that fit on a page."""
    name, description = data.headings
    parts = [f"# {plain_markdown(name)}\n", plain_markdown(description)]
    parts += [f"Warning: {plain_markdown(text)}." for text in data.study.warnings]
    for section, content in data.contents.items():
        parts.append(f"## {section.title}\n\n**{plain_markdown(content.finding)}**")
        parts += [plain_markdown(text) for text in content.details]
        parts += [f"Absent: {plain_markdown(text)}." for text in content.absent]
        parts += [f"{caption}:\n\n{markdown_table(frame)}" for caption, frame in content.shown.items() if frame.height]
    if data.study_file:
        longest = max((len(run) for run in re.findall("`+", data.study_file)), default=0)
        fence = "`" * max(4, longest + 1)
        parts.append(f"{fence}yaml\n{data.study_file.strip()}\n{fence}")
    return "\n\n".join(part for part in parts if part) + "\n"


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
