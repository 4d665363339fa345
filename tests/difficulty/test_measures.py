import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.difficulty import MeasureFlag, measures_table, rank_correlation, text_measures
from breadth.errors import InputError


def test_measures_of_text():
    items = pl.DataFrame(
        {
            "question": ["Ann has 12 eggs. She eats 3.", "Zephyr?", None],
            "answer": ["12-3=<<12-3=9>>9\n#### 9", "none\n#### 0", "x"],
        }
    )
    measures = text_measures(items)
    assert measures["question_length"].to_list() == [28, 7, None]
    assert measures["sentences"].to_list() == [2, 1, None]
    assert measures["digits"].to_list() == [3, 0, None]
    assert measures["steps"].to_list() == [1, 0, 0]
    assert measures["rare_words"][0] == pytest.approx(np.log(3))
    assert measures["rare_words"][2] is None


def test_measures_do_not_depend_on_the_hash_of_words():
    """Sets of words have another order in every process, and the rounding of a sum depends on its order."""
    code = (
        "import polars as pl; from breadth.difficulty import text_measures;"
        "texts = [' '.join('x' + chr(96 + j) for j in range(1, 27) if k % j == 0) for k in range(1, 400)];"
        "print(text_measures(pl.DataFrame({'question': texts}))['rare_words'].to_list())"
    )
    printed = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    assert len(printed) == 1


def test_steps_are_lines_where_nothing_is_marked():
    assert text_measures(pl.DataFrame({"solution": ["a\nb\nc\n", "a"]}))["steps"].to_list() == [3, 1]
    assert text_measures(pl.DataFrame({"grade": [1, 2]})).width == 0


def test_rank_correlation_is_spearmans():
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, 50))
    y = y + x
    x[3] = np.nan
    ours = rank_correlation(x, y)
    keep = ~np.isnan(x)
    assert ours.n == 49
    assert ours.rho == pytest.approx(stats.spearmanr(x[keep], y[keep]).statistic)
    assert ours.p == pytest.approx(stats.spearmanr(x[keep], y[keep]).pvalue)
    assert ours.low < ours.rho < ours.high


def test_interval_covers():
    generator = np.random.default_rng(1)
    truth = 6 / np.pi * np.arcsin(0.5 / 2)  # Spearman's rho of a normal pair correlated by 0.5
    held = 0
    for _ in range(600):
        x, y = generator.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 80).T
        interval = rank_correlation(x, y)
        held += interval.low <= truth <= interval.high
    assert 0.92 < held / 600 < 0.98


def test_measures_without_a_correlation():
    assert np.isnan(rank_correlation(np.ones(20), np.arange(20.0)).rho)
    assert np.isnan(rank_correlation(np.arange(3.0), np.arange(3.0)).rho)


ITEMS = pl.DataFrame(
    {
        "id": [f"q{j:02d}" for j in range(40)],
        "grade": list(range(40)),
        "rare": [None] * 37 + [1.0, 2.0, 3.0],
        "question": ["word " * (40 - j) for j in range(40)],
    }
)
CALIBRATION = breadth.Calibration(
    ITEMS.select(pl.col("id").alias("item"), pl.col("grade").cast(pl.Float64).alias("difficulty")).reverse(),
    pl.DataFrame(),
    pl.DataFrame(),
)


def test_difficulty_against_measures():
    result = breadth.difficulty_vs(CALIBRATION, ITEMS, measures="grade,length")
    assert result.columns == ["measure", "n", "rho", "ci_low", "ci_high", "p", "q", "flag", "note"]
    assert result["measure"].to_list() == ["grade", "question_length"]
    assert result["rho"].to_list() == pytest.approx([1, -1])
    everything = breadth.difficulty_vs(CALIBRATION, ITEMS)
    assert set(everything["measure"]) >= {"grade", "rare", "question_length", "digits"}


def test_measures_without_a_correlation_are_flagged():
    result = breadth.difficulty_vs(CALIBRATION, ITEMS, measures=["digits", "rare", "grade"])
    assert result["flag"].to_list() == [MeasureFlag.CONSTANT, MeasureFlag.FEW_ITEMS, None]
    assert result["note"].to_list() == ["constant over the items", "fewer than 5 items have it", None]
    assert result["n"].to_list() == [40, 3, 40]
    assert result["rho"].null_count() == 2


@pytest.mark.parametrize(
    ("change", "measures", "message"),
    [
        (lambda items: items.drop("id"), "grade", "no column 'item'"),
        (lambda items: items.with_columns(id=pl.lit("x")), "grade", "none of its 40 items"),
        (lambda items: items, "grades", "Did you mean grade"),
    ],
)
def test_bad_items(change, measures, message):
    with pytest.raises(InputError, match=message):
        breadth.difficulty_vs(CALIBRATION, change(ITEMS), measures=measures)


def test_measures_show_their_note(printed):
    row = {"measure": "grade", "note": "constant over the items", "n": 40}
    numbers = dict.fromkeys(("rho", "ci_low", "ci_high", "q"), None)
    line = printed(measures_table(pl.DataFrame([row | numbers]))).splitlines()[4]
    assert line.split() == ["grade", "constant", "over", "the", "items", "40", "-", "-", "-"]
