import polars as pl
import pytest

from breadth.level_transfer import gain_by_distance, gain_matrix
from breadth.results import as_chart, write_figure

CELLS = pl.DataFrame(
    {
        "train_level": [k for k in range(3) for _ in range(3)], "test_level": [*range(3)] * 3, "n_items": 40,
        "n_seeds": 2, "accuracy": 0.6, "baseline": 0.5, "gain": [0.3, 0.1, 0.0, 0.1, 0.2, 0.1, -0.05, 0.1, 0.2],
        "ci_low": 0.01, "ci_high": 0.2, "p": 0.01, "q": 0.04,
    }
)  # fmt: skip


def two_models(cells):
    return pl.concat([cells.select(pl.lit(m).alias("model"), pl.lit("t").alias("train_set"), pl.all()) for m in "ab"])


@pytest.mark.parametrize("cells", [CELLS, two_models(CELLS)], ids=["one result", "two models"])
def test_figures_can_be_written(cells, tmp_path):
    figures = [gain_matrix(cells, "gains"), gain_by_distance(cells, "gains", ["a", "b"])]
    chart = as_chart(*figures, tables={"gains": cells})
    assert write_figure(chart, tmp_path / "gains.png", "gains").stat().st_size > 5000
    assert len(chart.to_dict()["datasets"]["gains"]) == cells.height


def test_strategies_keep_their_order():
    names = ["easy", "full", "hard"]
    cells = CELLS.with_columns(strategy=pl.Series(names).gather(CELLS["train_level"])).drop("train_level")
    figure = gain_matrix(cells)
    assert (figure.key, figure.title) == ("strategy", "Strategy by test level")
    assert figure.spec["encoding"]["y"]["sort"] == names


def test_a_panel_per_model_and_training_set():
    cells = two_models(CELLS)
    one = gain_matrix(cells, "gains")
    assert one.spec["facet"]["field"] == "panel"
    assert one.spec["usermeta"]["panels"] == 2
    assert one.spec["transform"][0]["calculate"] == "datum.model"
    several = gain_matrix(pl.concat([cells, cells.with_columns(train_set=pl.lit("u"))]), "gains")
    assert several.spec["usermeta"]["panels"] == 4
    assert "train_set" in several.spec["transform"][0]["calculate"]
    sizes = gain_by_distance(pl.concat([cells.with_columns(examples=pl.lit(n)) for n in (8, 16)]), "gains", ["a", "b"])
    assert sizes.spec["usermeta"]["panels"] == 4
    assert sizes.spec["transform"][0]["calculate"] == "datum.model + ' · ' + datum.examples + ' examples'"
    assert one.drill == {"level": "test_level", "model": "model"}


def test_hue_is_left_to_models():
    alone = str(gain_by_distance(CELLS).spec)
    assert "@model" not in alone
    assert "@ink" in alone
    assert "@model1" in str(gain_by_distance(two_models(CELLS), models=["a", "b"]).spec)
    assert all(token in str(gain_matrix(CELLS).spec) for token in ("@low", "@high"))
    assert "@model" not in str(gain_matrix(two_models(CELLS)).spec)


def test_only_findings_are_strong_and_bold(tmp_path):
    cells = CELLS.with_columns(q=pl.Series([0.04] * 4 + [0.06] * 5))
    chart = as_chart(gain_matrix(cells), tables={"cells": cells})
    picture = write_figure(chart, tmp_path / "f.svg", "gains").read_text()
    assert picture.count('opacity="0.35"') == 5
    labels = [part for part in picture.split("<text ") if 'aria-roledescription="text mark"' in part]
    assert sum('font-weight="bold"' in label for label in labels) == 4
