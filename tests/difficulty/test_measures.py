import numpy as np
import polars as pl
import pytest
from scipy import stats

from breadth.difficulty import rank_correlation, text_measures


def test_measures_of_text():
    items = pl.DataFrame(
        {
            "question": ["Ann has 12 eggs. She eats 3.", "Zephyr?", None],
            "answer": ["12-3=<<12-3=9>>9\n#### 9", "none\n#### 0", "x"],
        }
    )
    found = text_measures(items)
    assert found["question_length"].to_list() == [28, 7, None]
    assert found["sentences"].to_list() == [2, 1, None]
    assert found["digits"].to_list() == [3, 0, None]
    assert found["steps"].to_list() == [1, 0, 0]
    assert found["rare_words"][0] == pytest.approx(np.log(3))
    assert found["rare_words"][2] is None


def test_steps_are_lines_where_nothing_is_marked():
    assert text_measures(pl.DataFrame({"solution": ["a\nb\nc\n", "a"]}))["steps"].to_list() == [3, 1]
    assert text_measures(pl.DataFrame({"grade": [1, 2]})).width == 0


def test_rank_correlation_is_spearmans():
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, 50))
    y = y + x
    x[3] = np.nan
    found = rank_correlation(x, y)
    keep = ~np.isnan(x)
    assert found.n == 49
    assert found.rho == pytest.approx(stats.spearmanr(x[keep], y[keep]).statistic)
    assert found.p == pytest.approx(stats.spearmanr(x[keep], y[keep]).pvalue)
    assert found.low < found.rho < found.high


def test_interval_covers():
    generator = np.random.default_rng(1)
    truth = 6 / np.pi * np.arcsin(0.5 / 2)  # Spearman's rho of a normal pair correlated by 0.5
    held = 0
    for _ in range(600):
        x, y = generator.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 80).T
        found = rank_correlation(x, y)
        held += found.low <= truth <= found.high
    assert 0.92 < held / 600 < 0.98


def test_hopeless_measures():
    assert np.isnan(rank_correlation(np.ones(20), np.arange(20.0)).rho)
    assert np.isnan(rank_correlation(np.arange(3.0), np.arange(3.0)).rho)
