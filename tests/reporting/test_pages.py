import html
import json
from dataclasses import replace

import polars as pl
import pytest
import vl_convert

from breadth.records import open_study
from breadth.reporting import ReportData, build_report
from breadth.reporting.pages import ASSETS, payload, render_html, render_json, render_markdown, script_json
from breadth.results.figures import CONFIGS, THEMES, themed

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
    assert list(report["findings"]) == ["overview", "training", "carry_over", "difficulty", "items", "methods"]


def test_text_is_escaped_everywhere(data):
    items = data.table("items").with_columns(
        text=pl.lit(EVIL), label=pl.lit(EVIL), item=EVIL + pl.col("item"), doubt=pl.lit(EVIL)
    )
    contents = {
        section: replace(content, finding=EVIL, details=[EVIL], absent=[EVIL], shown={"Items": items})
        for section, content in data.contents.items()
    }
    evil = ReportData(replace(data.study, warnings=(EVIL,)), {**data.tables, "items": items}, contents)
    evil.headings, evil.study_file, evil.environments = (EVIL, EVIL), EVIL, [{"runs": EVIL}]
    page = render_html(evil)
    assert EVIL not in page
    assert page.count("</script>") == render_html(data).count("</script>")
    words, _, file = render_markdown(evil).partition("````yaml")
    assert "<script>" not in words
    assert file.count("````") == 1
    assert json.loads(script_json({"a": EVIL + "\u2028"})) == {"a": EVIL + "\u2028"}
    assert "\u2028" not in script_json("\u2028")


def test_nothing_is_fetched(data):
    page = render_html(data)
    assert "connect-src 'none'" in page
    assert "unsafe-eval" not in page.split("<body>")[0]
    for name in ("figures.js", "items.js", "page.js", "report.css"):
        asset = (ASSETS / name).read_text()
        assert "http" not in asset
        assert asset in page
