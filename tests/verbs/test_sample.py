import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError

ITEMS = pl.DataFrame({"item": [f"q{j}" for j in range(60)], "text": ["x"] * 60, "difficulty": np.arange(60.0)})


def test_items_keep_their_columns_and_gain_difficulty():
    found = breadth.sample(
        ITEMS.drop("difficulty").with_columns(hard=pl.Series(np.arange(60.0))), difficulty="hard", n=20
    )
    assert found.items.columns == ["item", "text", "hard", "difficulty", "quantile"]
    assert found.items.height == 20
    assert found.histogram["before"].sum() == 60
    assert found.histogram["after"].sum() == 20
    assert found.histogram["after"].max() <= 3, "the whole range is covered evenly"


def test_ease_turns_the_column_round():
    hard = breadth.sample(ITEMS.rename({"difficulty": "right"}), ease="right", strategy="hard", n=5)
    assert hard.items["right"].max() < 20
    with pytest.raises(InputError, match="choose one"):
        breadth.sample(ITEMS, ITEMS_AS_CALIBRATION, ease="difficulty")


ITEMS_AS_CALIBRATION = breadth.Calibration(
    ITEMS.select("item", "difficulty").with_columns(
        difficulty_se=pl.lit(0.1), discrimination=pl.lit(1.0), guessing=pl.lit(0.0)
    ),
    pl.DataFrame(),
    pl.DataFrame(),
)


def test_calibration_gives_the_difficulties_and_says_what_is_missing():
    more = pl.concat([ITEMS.drop("difficulty"), pl.DataFrame({"item": ["new1", "new2"], "text": ["y", "y"]})])
    found = breadth.sample(more, ITEMS_AS_CALIBRATION, "curriculum", 10)
    assert found.items["difficulty"].is_sorted()
    assert "60 of 62 items have a difficulty" in found.warnings[0]
    assert "new1, new2" in found.warnings[0]


@pytest.mark.parametrize(
    ("frame", "calibrated", "message"),
    [
        (ITEMS.drop("difficulty"), False, "no column 'difficulty'"),
        (ITEMS.drop("item"), True, "no column 'item'"),
        (ITEMS.with_columns(item=pl.lit("z")), True, "none of its 60 items has a difficulty"),
        (ITEMS.with_columns(difficulty=pl.lit(None, dtype=pl.Float64)), False, "no item has a difficulty"),
    ],
)
def test_bad_items(frame, calibrated, message):
    with pytest.raises(InputError, match=message):
        breadth.sample(frame, ITEMS_AS_CALIBRATION if calibrated else None)


def test_items_without_difficulty_are_counted():
    gaps = ITEMS.with_columns(
        pl.when(pl.col("difficulty") < 5).then(None).otherwise(pl.col("difficulty")).alias("difficulty")
    )
    assert "5 of 60 items have no difficulty" in breadth.sample(gaps, n=10).warnings[0]
