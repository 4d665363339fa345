import polars as pl

from breadth.results import Control, Figure, as_chart, write_figure
from breadth.results.figures import MODEL_COLOURS, THEMES, model_colour

TABLES = {"points": pl.DataFrame({"x": [1, 2, 3], "y": [3, 1, 2], "kind": ["a", "b", "a"]}), "unused": pl.DataFrame()}
SPEC = {
    "data": {"name": "points"},
    "params": [{"name": "shown", "value": "a"}],
    "transform": [{"filter": "datum.kind == shown"}],
    "usermeta": {"most": 400},
    "width": "container",
    "height": 100,
    "mark": {"type": "point", "color": "@model0"},
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
}
CONTROL = Control("shown", "Kind", (("a", "first"), ("b", "second")))
FIGURE = Figure("points", "Some points", "What they mean.", SPEC, "points", (CONTROL,))


def test_a_chart_carries_its_data_colours_and_inputs():
    spec = as_chart(FIGURE, tables=TABLES).to_dict()
    assert spec["datasets"] == {"points": TABLES["points"].to_dicts()}
    assert spec["mark"]["color"] == "#0072B2"
    assert spec["width"] == 400
    assert spec["params"][0]["bind"]["labels"] == ["first", "second"]
    assert spec["title"]["text"] == "Some points"
    assert "@" not in str(spec["config"])
    assert as_chart(FIGURE, tables=TABLES, theme="dark").to_dict()["mark"]["color"] == "#56B4E9"
    assert SPEC["width"] == "container", "the definition is not changed"


def test_several_figures_stand_below_each_other(tmp_path):
    chart = as_chart(FIGURE, FIGURE, tables=TABLES)
    assert len(chart.to_dict()["vconcat"]) == 2
    for name in ("f.svg", "f.png", "f.html"):
        assert write_figure(chart, tmp_path / name, "Heading", "Finding").stat().st_size > 1000


def test_colours_belong_to_models():
    scale = model_colour([f"m{k}" for k in range(10)])["scale"]
    assert scale["range"][0] == scale["range"][MODEL_COLOURS]
    assert len(set(scale["range"])) == MODEL_COLOURS
    for theme in THEMES.values():
        assert len({theme[f"@model{k}"] for k in range(MODEL_COLOURS)}) == MODEL_COLOURS
