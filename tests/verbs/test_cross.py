import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from cross_recovery import simulated_study


def table(seeds=2, items=60, by="train_level", names=None):
    gains, truth = simulated_study(np.random.default_rng(0), 0.03, 0.0, seeds, items)
    item = [f"i{i}" for i in range(len(gains.level))]
    ways = names or [str(k) for k in range(5)]
    parts = [
        pl.DataFrame({by: way, "seed": seed, "item": item, "level": gains.level, "correct": answers[seed]})
        for way, answers in zip(ways, gains.trained, strict=True)
        for seed in range(seeds)
    ]
    untrained = pl.DataFrame({"item": item, "level": gains.level, "correct": gains.baseline})
    return pl.concat([*parts, untrained], how="diagonal"), gains, truth


def test_cells_are_the_means(tmp_path):
    frame, gains, _ = table()
    found = breadth.cross(frame)
    assert found.cells.columns == [
        "train_level", "test_level", "n_items", "n_seeds", "accuracy", "baseline", "gain", "se", "ci_low", "ci_high",
        "p", "q",
    ]  # fmt: skip
    assert found.cells.height == 25
    row = found.cells.filter(train_level=3, test_level=1).row(0, named=True)
    inside = gains.level == 1
    assert row["accuracy"] == pytest.approx(gains.trained[3][:, inside].mean())
    assert row["gain"] == pytest.approx(row["accuracy"] - row["baseline"])
    assert (row["n_items"], row["n_seeds"]) == (60, 2)
    assert found.effects["estimate"][0] < 0
    assert "gains fade with distance" in found.summary()
    assert found.best.height == 6
    assert found.breaks["train_level"][0] == "before"
    assert found.figure().to_dict()
    frame.write_parquet(tmp_path / "a.parquet")
    assert breadth.cross(tmp_path).cells.equals(found.cells), "a directory of tables is one table"


def test_strategies_have_no_distance():
    names = ["easy", "hard", "full", "centred", "spiral"]
    frame, *_ = table(by="strategy", names=names)
    found = breadth.cross(frame)
    assert found.by == "strategy"
    assert found.effects.is_empty()
    assert set(found.cells["strategy"]) == set(names)
    assert set(found.best["verdict"]) <= {"decided", "undecided"}
    assert found.figure().to_dict()


def test_levels_may_come_from_a_calibration():
    frame, gains, _ = table()
    difficulty = pl.DataFrame(
        {"item": [f"i{i}" for i in range(300)], "difficulty": gains.level + np.linspace(0, 0.5, 300)}
    )
    calibration = breadth.Calibration(
        difficulty.with_columns(difficulty_se=pl.lit(0.1), discrimination=pl.lit(1.0), guessing=pl.lit(0.0)),
        pl.DataFrame(),
        pl.DataFrame(),
    )
    assert breadth.cross(frame.drop("level"), calibration, 5).cells.equals(breadth.cross(frame).cells)


def test_items_that_not_all_answered_are_left_out():
    frame, *_ = table()
    found = breadth.cross(frame.filter(~((pl.col("item") == "i0") & (pl.col("train_level") == "2"))))
    assert "1 items were not answered by every model" in found.warnings[0]
    assert found.cells.filter(test_level=0)["n_items"].unique().to_list() == [59]


def test_one_seed_is_warned_about():
    assert "one seed only" in " ".join(breadth.cross(table(seeds=1)[0]).warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("train_level"), "no column 'train_level'"),
        (lambda f: f.drop("level"), "no column 'level'"),
        (lambda f: f.drop("item"), "no column 'item'"),
        (lambda f: f.drop_nulls("train_level"), "no untrained model"),
        (lambda f: f.filter(pl.col("train_level").is_null()), "no trained model"),
        (lambda f: pl.concat([f, f.head(1)]), "answered more than once"),
        (lambda f: f.filter((pl.col("level") != 2) | (pl.col("item") == "i121")), "level 2 has only 1 items"),
        (lambda f: f.filter(pl.col("level") != 2), "without gaps"),
    ],
)
def test_bad_tables(change, message):
    with pytest.raises(InputError, match=message):
        breadth.cross(change(table()[0]))
