from dataclasses import replace

import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import (
    SCALE_MAP_FIGURE,
    ItemFlag,
    accuracy_by_level_figure,
    evenly,
    item_curves_figure,
    scale_map,
    scale_map_reason,
)
from breadth.irt.figure import BEYOND
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


def test_the_map_counts_every_subject_and_item(result):
    table = scale_map(result.items, result.subjects)
    assert table.columns == ["side", "from", "to", "count", "low", "high", "beyond"]
    assert dict(table.group_by("side").agg(pl.col("count").sum()).iter_rows()) == {"subjects": 300, "items": 40}
    assert (table["from"] < table["to"]).all()
    assert set(table["beyond"]) == {0}
    assert (table["low"] == table["from"]).all()
    flags = [ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG, ItemFlag.WRONG_KEY, *[None] * 37]
    part = scale_map(result.items.with_columns(flag=pl.Series(flags, dtype=pl.String)), result.subjects)
    assert part.filter(side="items")["count"].sum() == 38, "a difficulty from the prior has no place on the map"
    lower = result.items.with_columns(pl.when(item="3").then(float("-inf")).otherwise("difficulty").alias("difficulty"))
    assert scale_map(lower, result.subjects).filter(side="items")["count"].sum() == 39
    assert scale_map(result.items.drop("flag"), pl.DataFrame())["side"].unique().to_list() == ["items"]
    assert scale_map(result.items.clear(), pl.DataFrame()).height == 0


def test_items_far_beyond_the_subjects_share_a_bar(result, tmp_path):
    far = pl.when(pl.col("item").is_in(["1", "2", "3"])).then(35.0).when(item="4").then(-35.0).otherwise("difficulty")
    table = scale_map(result.items.with_columns(far.alias("difficulty")), result.subjects)
    most, least = (getattr(result.subjects["ability"], end)() for end in ("max", "min"))
    above, below = (table.filter(beyond=side).row(0, named=True) for side in (1, -1))
    assert (above["count"], below["count"]) == (3, 1)
    assert (above["low"], above["high"]) == pytest.approx((most + BEYOND, 35))
    assert (below["low"], below["high"]) == pytest.approx((-35, least - BEYOND))
    assert table["to"].max() - table["from"].min() < most - least + 2 * BEYOND + 2
    assert table["count"].sum() == 340
    picture = write_figure(as_chart(SCALE_MAP_FIGURE, tables={"scale_map": table}), tmp_path / "f.svg", "x").read_text()
    assert f">{most + BEYOND:.1f} or more<" in picture
    assert f">−{abs(least - BEYOND):.1f} or less<" in picture


def test_a_bar_leads_to_what_it_counts(result):
    assert SCALE_MAP_FIGURE.drill == {"low": "low", "high": "high"}
    table = scale_map(result.items, result.subjects).filter(side="items")
    for row in table.iter_rows(named=True):
        inside = result.items.filter(pl.col("difficulty").is_between(row["low"], row["high"] + 1e-9))
        assert inside.height >= row["count"]


def test_neither_side_has_the_hue_of_a_model_or_a_sign():
    assert not any(token in str(SCALE_MAP_FIGURE.spec) for token in ("@model", "@low", "@high"))


def test_a_map_is_drawn_only_where_the_scale_says_something(result):
    assert scale_map_reason(result) is None
    assert scale_map_reason(replace(result, scale_warning="the subjects are too alike")) == "the subjects are too alike"
    vague = replace(result, items=result.items.with_columns(difficulty_se=pl.lit(3.0)))
    assert scale_map_reason(vague).startswith(
        "difficulties are less certain than they differ (median standard error 3.00"
    )
    none = replace(result, items=result.items.with_columns(difficulty=pl.lit(None, dtype=pl.Float64)))
    assert scale_map_reason(none) == "the difficulty of fewer than two items is known"


def test_a_figure_that_was_asked_for_says_so_first(result):
    assert not result.figure().to_dict()["vconcat"][0]["title"]["subtitle"][0].startswith("Undecided")
    doubted = replace(result, scale_warning="the subjects are too alike")
    subtitle = doubted.figure().to_dict()["vconcat"][0]["title"]["subtitle"][0]
    assert subtitle.startswith("Undecided: the subjects are too alike.")
