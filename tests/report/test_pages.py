import json

import polars as pl
import pytest
import vl_convert

from breadth.report.contents import Gathered
from breadth.report.pages import asset, payload, render_html, render_json, render_markdown, script_json, sections
from breadth.report.vega import MODEL_COLOURS, THEMES, config, model_scale, themed
from breadth.verbs import gather

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def gathered(levels_study):
    return gather(levels_study.folder)


def filled(spec, tables, theme):
    """A figure as the page draws it: tokens and tables filled in."""
    spec = {**themed(spec, THEMES[theme]), "config": config(THEMES[theme])}
    names = {name for name in tables if f'"name": "{name}"' in json.dumps(spec)}
    return {**spec, "datasets": {name: tables[name] for name in names}}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_is_a_valid_specification(gathered, theme):
    data = json.loads(render_json(gathered))["tables"]
    figures = [figure for section in sections(gathered) for figure in section.figures]
    assert len(figures) >= 8
    for figure in figures:
        spec = filled(figure.spec, data, theme)
        text = json.dumps({key: value for key, value in spec.items() if key != "datasets"})
        assert not any(token in text for token in THEMES[theme]), figure.key
        spec["width"] = 400 if spec.get("width") == "container" else spec.get("width")
        picture = vl_convert.vegalite_to_svg({key: value for key, value in spec.items() if value is not None})
        assert picture.count("<path") > 5, figure.key


def test_tables_reach_the_page_whole(gathered):
    found = payload(gathered)["tables"]["pairs"]
    table = gathered.table("pairs")
    assert found["rows"] == table.height
    assert found["columns"]["r"] == pytest.approx(table["r"].to_list(), rel=1e-6)
    assert found["columns"]["run"] == table["run"].to_list()
    sets = payload(gathered)["tables"]["trajectories"]["columns"]["testset"]
    assert [sets["names"][code] for code in sets["codes"]] == gathered.table("trajectories")["testset"].to_list()


def test_json_is_whole_and_has_no_nan(gathered):
    data = json.loads(render_json(gathered), parse_constant=lambda word: pytest.fail(f"{word} in the data"))
    assert data["tables"]["gains"] == gathered.table("gains").to_dicts()
    assert set(data["findings"]) == {"glance", "training", "carry_over", "difficulty", "items", "making"}


def test_text_is_escaped_everywhere(gathered):
    items = gathered.table("items").with_columns(
        text=pl.lit(EVIL), label=pl.lit(EVIL), item=EVIL + pl.col("item"), doubt=pl.lit(EVIL)
    )
    evil = Gathered(
        EVIL,
        EVIL,
        {**gathered.tables, "items": items},
        gathered.summaries,
        {"cross_cells": EVIL},
        gathered.facts,
        EVIL,
        ({"runs": EVIL},),
        (EVIL,),
    )
    page = render_html(evil)
    assert EVIL not in page
    assert page.count("</script>") == render_html(gathered).count("</script>")
    words, _, file = render_markdown(evil).partition("````yaml")
    assert "<script>" not in words
    assert file.count("````") == 1
    assert json.loads(script_json({"a": EVIL + "\u2028"})) == {"a": EVIL + "\u2028"}


def test_nothing_is_fetched(gathered):
    page = render_html(gathered)
    assert "connect-src 'none'" in page
    assert "unsafe-eval" not in page.split("<body>")[0]
    for name in ("figures.js", "items.js", "page.js", "report.css"):
        assert "http" not in asset(name)
        assert asset(name) in page


def test_colours_belong_to_models():
    scale = model_scale([f"m{k}" for k in range(10)])
    assert scale["range"][0] == scale["range"][MODEL_COLOURS]
    assert len(set(scale["range"])) == MODEL_COLOURS
    for theme in THEMES.values():
        assert len({theme[f"@model{k}"] for k in range(MODEL_COLOURS)}) == MODEL_COLOURS
