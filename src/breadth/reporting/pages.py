"""A report as one HTML page, as Markdown, or as JSON; all three hold the same findings."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from breadth.reporting.cards import answer_cards
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.embedded import item_texts, single_answers, table_columns
from breadth.reporting.glossary import Explainer, corrections, page_words
from breadth.reporting.grid import score_grid
from breadth.reporting.items import labels_to_check
from breadth.reporting.methods import used_statistics
from breadth.reporting.overview import studied
from breadth.results.figures import CONFIGS, THEMES, vega_library
from breadth.results.table_writing import markdown_table, plain_markdown
from breadth.results.verdict import MARKS
from breadth.results.words import count, joined

#: Labels to check that the page lists without being asked.
MOST_DOUBTED = 8

#: Rows of a table that Markdown shows, and those that it folds away; columns; characters of a cell.
MARKDOWN_ROWS, FOLDED_ROWS, MARKDOWN_COLUMNS, CELL = 20, 200, 6, 60

#: Stylesheet and scripts of the page.
ASSETS = resources.files("breadth.reporting") / "assets"
SCRIPTS = ("tables.js", "state.js", "figures.js", "panel.js", "items.js", "item.js", "pair.js", "grid.js", "page.js")
LIVE_SCRIPT = "live.js"


def payload(data: ReportData) -> dict[str, Any]:
    """What the page's script works on: tables by column, figures, themes, texts of items and single answers."""
    tables = {
        # The texts of items are there by field already.
        name: {"rows": frame.height, "columns": table_columns(frame.drop("text") if name == "items" else frame)}
        for name, frame in (data.tables | data.page_tables).items()
        if frame.height
    }
    figures = [figure for content in data.contents.values() for figure in content.figures]
    answered = data.has_answers and "items" in tables
    return {
        "name": data.headings[0],
        "models": data.models,
        "unit": "runs" if data.has_runs else "subjects",
        "testsets": data.testsets,
        "tables": tables,
        "texts": item_texts(data) if answered else None,
        "answers": single_answers(data) if answered else None,
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
    doubted = labels_to_check(data)
    said = [*data.read_as, *data.warnings]
    for content in data.contents.values():
        said += [*content.lines, *content.absent]
    context = {
        "data": data,
        "cards": answer_cards(data),
        "grid": score_grid(data),
        "studied": page_words(studied(data)),
        "read_line": read_line(data),
        "reading": reading_of(data),
        "corrections": corrections(said),
        "notes_title": f"{count(len(data.warnings), 'note')} on these data",
        "statistics": used_statistics(data),
        "downloads": [
            (name, page_words(words), data.tables[name].height)
            for section in data.contents
            for name, words in section.tables.items()
            if data.table(name).height
        ],
        "environments": [json.dumps(entry, indent=1, ensure_ascii=False) for entry in data.environments],
        "doubted": doubted.head(MOST_DOUBTED).to_dicts(),
        "doubts": doubted.height,
        "runs": data.table("runs").sort("model", "run").to_dicts() if data.table("runs").height else [],
    }
    if page == "report.html":
        context |= {
            "live": live,
            "scripts": own_scripts(live=live is not None),
            "script_source": script_source(live=live is not None),
            "payload": script_json(payload(data)),
            "live_json": script_json(live),
        }
    return render_template(page, **context)


def read_line(data: ReportData) -> str:
    """What the source was taken for, in a sentence."""
    words = " ".join(page_words(line) for line in data.read_as[:1])
    if not words and data.has_answers:
        kind = "training runs" if data.has_runs else "answers of models that were evaluated once"
        words = f"{kind}; {count(len(data.testsets), 'test set')}: {joined(data.testsets, 4)}"
        home = [name for name, shift in data.about.shifts.items() if shift == "in-domain"]
        words += f"; in-domain: {joined(home, 3)}" if home else ""
    words = words or studied(data)
    return words if words.endswith(".") else f"{words}."


def reading_of(data: ReportData) -> list[tuple[str, str]]:
    """What is what, for whoever checks how the source was read: name and words."""
    facts = data.facts
    rows = [("Read as", "; ".join(map(page_words, data.read_as)))]
    for name, key in (("Models", "models"), ("Trained on", "train_sets"), ("Seeds", "seeds")):
        rows.append((name, joined([str(value) for value in facts[key]], 12)))
    sets = [f"{name} ({shift})" if shift else name for name, shift in data.about.shifts.items()]
    rows.append(("Test sets", joined(sets, 40)))
    others = data.about.others
    rows.append(("No accuracies", joined(others, 12)))
    return [(name, words) for name, words in rows if words]


@cache
def own_scripts(*, live: bool) -> tuple[str, ...]:
    """The scripts that breadth ships with a page: the library that draws figures, then its own."""
    names = (*SCRIPTS, LIVE_SCRIPT) if live else SCRIPTS
    return (vega_library(), *((ASSETS / name).read_text(encoding="utf-8") for name in names))


@cache
def script_source(*, live: bool) -> str:
    """The scripts that the policy of a page allows, by their hashes.

    They are taken of what breadth ships, never of a page: a script that got into a page with data would be in it, too.
    """
    hashes = []
    for script in own_scripts(live=live):
        digest = hashlib.sha256(script.encode()).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    return " ".join(hashes)


def render_template(name: str, /, **context: Any) -> str:
    """A template of the page filled in, with text escaped."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("breadth.reporting")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = page_words
    environment.globals |= {"explain": Explainer(), "marks": MARKS, "heading": heading}
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
                "title": section.title, "finding": " ".join(content.lines), "details": list(content.details),
                "absent": list(content.absent),
                "answer": None if content.verdict is None else str(content.verdict.answer),
                "state": None if content.verdict is None else str(content.verdict.state),
                "question": heading(section, content),
            }
            for section, content in data.contents.items()
        },
        "warnings": list(data.warnings),
        "environments": data.environments,
        "study_file": data.study_file,
        "tables": {name: frame.fill_nan(None).to_dicts() for name, frame in data.tables.items() if frame.height},
    }  # fmt: skip
    return json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def render_markdown(data: ReportData) -> str:
    """The findings, with tables narrow and short enough for an issue; what is long is folded away."""
    name, description = data.headings
    parts = [f"# {plain_markdown(name)}", plain_markdown(description)]
    parts += [plain_markdown(studied(data))]
    for section, content in data.contents.items():
        parts += _markdown_section(section, content)
    if data.warnings:
        notes = "\n".join(f"* {plain_markdown(text)}" for text in data.warnings)
        parts.append(_folded(f"{count(len(data.warnings), 'note')} on these data", notes))
    if data.study_file:
        longest = max((len(run) for run in re.findall("`+", data.study_file)), default=0)
        fence = "`" * max(4, longest + 1)
        parts.append(_folded("Study file", f"{fence}yaml\n{data.study_file.strip()}\n{fence}"))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_section(section: Section, content: SectionContent) -> list[str]:
    """Question, verdict in bold, its other lines, the first rows of tables; statistics and further rows folded away."""
    first, *others = map(plain_markdown, content.lines)
    parts = [f"## {plain_markdown(heading(section, content))}", f"**{first}**", *others]
    for caption, frame in content.shown.items():
        if not frame.height:
            continue
        table, constant = narrow(frame)
        words = f"{caption} ({', '.join(constant)})" if constant else caption
        parts.append(f"{plain_markdown(words)}:\n\n{markdown_table(table.head(MARKDOWN_ROWS))}")
        if more := table.height - MARKDOWN_ROWS:
            rest = table.slice(MARKDOWN_ROWS, FOLDED_ROWS)
            left = f"\n\nand {more - rest.height:,} more rows" if more > rest.height else ""
            parts += [_folded(f"{more:,} more rows", markdown_table(rest) + left)] if more > 0 else []
    for verdict in content.further:
        parts += [f"### {plain_markdown(verdict.question)}", *map(plain_markdown, verdict.lines())]
    behind = [*content.details, *content.absent]
    if behind:
        parts.append(_folded("Statistics and notes", "\n\n".join(map(plain_markdown, behind))))
    return parts


def heading(section: Section, content: SectionContent) -> str:
    """What a section is called: by the question that it answers."""
    if content.verdict is not None and content.verdict.question:
        return str(content.verdict.question)
    return section.title


def narrow(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """A table for a narrow page, and what all its rows have in common.

    The ends of an interval become one column, columns of one value leave the table, numbers keep two or three digits.
    """
    columns: dict[str, list[str]] = {}
    constant = []
    for name, values in frame.to_dict().items():
        tiny = name in ("p", "q")
        cells = ["< 0.001" if tiny and value is not None and value < 0.001 else _cell(value) for value in values]
        if name == "ci_high" and "ci_low" in columns:
            ends = zip(columns.pop("ci_low"), cells, strict=True)
            columns["95% interval"] = [f"{low} to {high}" if low and high else "" for low, high in ends]
        elif frame.height > 1 and len(set(cells)) == 1 and values.dtype == pl.String:
            constant += [f"{name} {cells[0]}"] if cells[0] else []
        else:
            columns[name] = cells
    return pl.DataFrame(dict(list(columns.items())[:MARKDOWN_COLUMNS])), constant


def _cell(value: Any) -> str:
    """Two decimals, or two digits of a very small number; long texts are cut."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= CELL else f"{text[: CELL - 2]} …"


def _folded(summary: str, text: str) -> str:
    """Text that opens on demand; the empty lines make GitHub read it as Markdown."""
    return f"<details><summary>{plain_markdown(summary)}</summary>\n\n{text}\n\n</details>"


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
