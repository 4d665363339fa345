import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import accuracy_by_level_figure, evenly, item_curves_figure
from breadth.results import as_chart, write_figure
from breadth.results.figures import MODEL_COLOURS


@pytest.fixture(scope="module")
def result():
    return breadth.calibrate(simulate_answers(300, 40).matrix, model="2pl")


def test_chosen_items_and_subjects_are_shown(result, tmp_path):
    chart = result.figure(items=["3", "5"], subjects=["10"])
    tables = chart.to_dict()["datasets"]
    assert sorted(tables) == ["by_level", "curves", "scale_map"]
    seen = [row for row in tables["curves"] if row["n"] is not None]
    assert {row["item"] for row in tables["curves"]} == {row["item"] for row in seen} == {"3", "5"}
    assert {row["subject"] for row in tables["by_level"]} == {"10"}
    assert all(row["ci_low"] <= row["accuracy"] <= row["ci_high"] for row in tables["by_level"])
    assert write_figure(chart, tmp_path / "f.png", "x").stat().st_size > 10_000


def test_more_subjects_than_colours_get_a_panel_each(result, tmp_path):
    few, many = ([str(k) for k in range(count)] for count in (MODEL_COLOURS, MODEL_COLOURS + 1))
    assert "facet" not in accuracy_by_level_figure(result.accuracy_by_level(few)).spec
    cells = result.accuracy_by_level(many)
    panels = accuracy_by_level_figure(cells, "levels")
    assert panels.spec["facet"]["sort"] == many
    assert "@model" not in str(panels.spec), "panels name their subjects"
    chart = as_chart(panels, tables={"levels": cells})
    assert {row["subject"] for row in chart.to_dict()["datasets"]["levels"]} == set(many)
    assert write_figure(chart, tmp_path / "f.svg", "x").stat().st_size > 10_000


def test_before_and_after_training(tmp_path):
    cells = pl.DataFrame(
        {"model": ["a", "a", "b", "b"], "when": ["before", "after"] * 2, "level": 0, "accuracy": [0.2, 0.5, 0.3, 0.4]}
    ).with_columns(ci_low=pl.col("accuracy") - 0.1, ci_high=pl.col("accuracy") + 0.1, n_items=20, runs=2)
    figure = accuracy_by_level_figure(cells, group="model", order=["b", "a"], source="Levels as stored.")
    assert figure.drill == {"level": "level", "model": "model"}
    assert (
        figure.caption
        == "Levels as stored. Hollow: before training; filled: after. Lines: 95% intervals over items and runs."
    )
    assert len(figure.spec["layer"]) == 4
    assert figure.spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["b", "a"]
    svg = write_figure(as_chart(figure, tables={"by_level": cells}), tmp_path / "f.svg", "x").read_text()
    assert svg.count("#ffffff") >= 2, "hollow dots have the colour of the paper"
    once = accuracy_by_level_figure(cells.filter(when="after"), group="model")
    assert "Hollow" not in once.caption


def test_items_have_a_panel_each_and_no_hue(result, tmp_path):
    lines, dots = result.curves(["3", "5", "8"])
    curves = pl.concat([lines.with_columns(n=pl.lit(None, dtype=pl.Int64)), dots], how="diagonal")
    figure = item_curves_figure(curves)
    assert figure.spec["facet"]["sort"] == ["3", "5", "8"]
    assert "@model" not in str(figure.spec)
    picture = write_figure(as_chart(figure, tables={"curves": curves}), tmp_path / "f.svg", "x").read_text()
    assert picture.count('aria-roledescription="point"') == dots.height
    assert picture.count('aria-roledescription="line mark"') == 3


def test_curves_without_responses_have_no_dots(result):
    lines, _ = result.curves(["3"])
    alone = item_curves_figure(lines.with_columns(n=pl.lit(None, dtype=pl.Int64)))
    assert len(alone.spec["spec"]["layer"]) == 1
    assert alone.caption == "Lines: the model."


def test_names_are_picked_evenly():
    assert evenly(pl.Series(["a", "b"])) == ["a", "b"]
    assert evenly(pl.Series([str(k) for k in range(201)])) == ["10", "55", "100", "145", "190"]
