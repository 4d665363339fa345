import base64
import hashlib
import html
import json
import re
from dataclasses import replace

import polars as pl
import pytest
import vl_convert

from breadth.reporting import ReportData, build_report, pages
from breadth.reporting.pages import (
    ASSETS,
    SCRIPTS,
    narrow,
    payload,
    render_html,
    render_json,
    render_markdown,
    script_json,
)
from breadth.results.figures import CONFIGS, THEMES, themed
from breadth.results.table_writing import plain_markdown
from breadth.sources import open_study

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def data(levels_study):
    return build_report(levels_study.folder)


def filled(spec, tables, theme):
    """A figure as the page draws it: tokens and tables filled in."""
    spec = {**themed(spec, THEMES[theme]), "config": CONFIGS[theme]}
    names = {name for name in tables if f'"name": "{name}"' in json.dumps(spec)}
    return {**spec, "datasets": {name: tables[name] for name in names}}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_is_a_valid_specification(data, theme):
    tables = json.loads(render_json(data))["tables"]
    figures = [figure for content in data.contents.values() for figure in content.figures]
    assert len(figures) >= 8
    for figure in figures:
        spec = filled(figure.spec, tables, theme)
        text = json.dumps({key: value for key, value in spec.items() if key != "datasets"})
        assert not any(token in text for token in THEMES[theme]), figure.key
        spec["width"] = 400 if spec.get("width") == "container" else spec.get("width")
        picture = vl_convert.vegalite_to_svg({key: value for key, value in spec.items() if value is not None})
        assert picture.count("<path") > 5, figure.key


def test_any_name_of_a_test_set_can_be_a_label(simulated_study):
    study = open_study(simulated_study.folder).select(testset="plain")
    name = """it's a "test" \\ set"""
    named = replace(study, items=study.items.with_columns(testset=pl.lit(name), shift=pl.lit("don't know")), _parts=())
    data = build_report(named)
    figure = next(figure for content in data.contents.values() for figure in content.figures if figure.key == "profile")
    picture = vl_convert.vegalite_to_svg(filled(figure.spec, json.loads(render_json(data))["tables"], "light"))
    shown = html.unescape(picture)
    assert name in shown
    assert "don't know" in shown


def test_tables_reach_the_page_whole(data):
    tables = payload(data)["tables"]
    pairs, table = tables["pairs"], data.table("pairs")
    assert pairs["rows"] == table.height
    assert pairs["columns"]["r"] == pytest.approx(table["r"].to_list(), rel=1e-6)
    assert pairs["columns"]["run"] == table["run"].to_list()
    sets = tables["trajectories"]["columns"]["testset"]
    assert [sets["names"][code] for code in sets["codes"]] == data.table("trajectories")["testset"].to_list()


def test_json_is_whole_and_has_no_nan(data):
    report = json.loads(render_json(data), parse_constant=lambda word: pytest.fail(f"{word} in the data"))
    assert report["tables"]["gains"] == data.table("gains").to_dicts()
    assert list(report["findings"]) == [section.key for section in data.contents]


def test_text_is_escaped_everywhere(data):
    names = {"text": pl.lit(EVIL), "label": pl.lit(EVIL), "item": EVIL + pl.col("item")}
    items = data.table("items").with_columns(**names, doubt=pl.lit(EVIL))
    contents = {
        section: replace(content, finding=EVIL, details=[EVIL], absent=[EVIL], shown={EVIL: items})
        for section, content in data.contents.items()
    }
    columns = {"premise": pl.lit(EVIL), "label": pl.lit(EVIL), "item": EVIL + pl.col("item"), "shift": pl.lit(EVIL)}
    study = replace(data.study, warnings=(EVIL,), items=data.study.items.with_columns(**columns), _parts=())
    evil = ReportData(study, {**data.tables, "items": items}, contents)
    evil.headings, evil.study_file, evil.environments = (EVIL, EVIL), EVIL, [{"runs": EVIL}]
    page = render_html(evil)
    assert EVIL in evil.study.shifts.values()
    assert EVIL not in page
    assert page.count("</script>") == render_html(data).count("</script>")
    words, _, file = render_markdown(evil).partition("````yaml")
    assert "<script>" not in words
    assert file.count("````") == 1
    assert json.loads(script_json({"a": EVIL + "\u2028"})) == {"a": EVIL + "\u2028"}
    assert "\u2028" not in script_json("\u2028")


def test_markdown_pastes_into_an_issue(data):
    text = render_markdown(data)
    lines = text.splitlines()
    assert lines[0] == "# simulated"
    first = next(iter(data.contents.values()))
    verdict = next(line for line in lines if line.startswith("**"))
    assert verdict == f"**{plain_markdown(first.lines[0])}**"
    # Name, description, what was studied and the question come before it.
    assert lines.index(verdict) < 10
    tables = [line for line in lines if line.startswith("|")]
    assert max(line.replace("\\|", "").count("|") for line in tables) <= 7  # six columns
    assert max(map(len, lines)) < 1500
    opened = 0
    rows = 0
    for line in lines:
        opened += line.count("<details>") - line.count("</details>")
        rows = rows + 1 if line.startswith("|") and not opened else 0
        assert rows <= 22  # a head of two lines, and twenty rows
    assert opened == 0
    shown, _, folded = text.partition("<details><summary>Study file</summary>")
    assert "evaluate: {every" in folded
    assert "evaluate: {every" not in shown


def test_narrow_tables_keep_what_differs():
    rows = {"model": ["m", "m"], "testset": ["a", "b"], "r": [0.123456, None], "ci_low": [0.1, None]}
    frame = pl.DataFrame(rows | {"ci_high": [0.2, None], "n": [1200, 3], "p": [0.00012, 1.0], "long": ["x" * 90, "y"]})
    table, constant = narrow(frame)
    assert constant == ["model m"]
    assert table.columns == ["testset", "r", "95% interval", "n", "p", "long"]
    assert table.row(0)[:5] == ("a", "0.12", "0.10 to 0.20", "1,200", "< 0.001")
    assert len(table["long"][0]) <= 60
    assert table.row(1) == ("b", "", "", "3", "1.00", "y")


def test_nothing_is_fetched(data):
    page = render_html(data)
    assert "connect-src 'none'" in page
    assert "unsafe-eval" not in page.split("<body>")[0]
    for name in (*SCRIPTS, "report.css"):
        asset = (ASSETS / name).read_text()
        assert "http" not in asset
        assert asset in page


def test_a_page_allows_the_scripts_that_breadth_ships_and_no_other(data, monkeypatch):
    render = pages.render_template

    def smuggle(name, /, **context):
        return render(name, **context).replace("</main>", "<script>alert(1)</script></main>")

    monkeypatch.setattr(pages, "render_template", smuggle)
    page = render_html(data)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    sources = re.search(r"script-src ([^;]*);", policy)[1].split()
    hashes = []
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        digest = hashlib.sha256(script.encode()).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    assert len(hashes) == len(SCRIPTS) + 2
    assert set(hashes) - set(sources) == {hashes[0]}  # that of the smuggled one
    assert set(sources) == set(hashes[1:])
