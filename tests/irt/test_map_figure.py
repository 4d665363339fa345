from dataclasses import replace

import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import SCALE_MAP_FIGURE, ItemFlag, scale_map, scale_map_reason
from breadth.irt.map_figure import BEYOND
from breadth.results import as_chart, write_figure


@pytest.fixture(scope="module")
def result():
    return breadth.calibrate(simulate_answers(300, 40).matrix, model="2pl")


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
