import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.difficulty import HumanMeasures, MeasureFlag, rank_correlation, text_measures
from breadth.errors import InputError
from breadth.results import Answer, Question


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
    result = breadth.difficulty_vs(CALIBRATION, ITEMS, measures="grade,length").measures
    assert result.columns == ["measure", "n", "rho", "ci_low", "ci_high", "p", "q", "flag", "note"]
    assert result["measure"].to_list() == ["grade", "question_length"]
    assert result["rho"].to_list() == pytest.approx([1, -1])
    everything = breadth.difficulty_vs(CALIBRATION, ITEMS).measures
    assert set(everything["measure"]) >= {"grade", "rare", "question_length", "digits"}


def test_measures_without_a_correlation_are_flagged():
    result = breadth.difficulty_vs(CALIBRATION, ITEMS, measures=["digits", "rare", "grade"]).measures
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


def compared(rows):
    """Measures with name, number of questions, rho and q; intervals reach 0.1 to either side."""
    frame = pl.DataFrame(rows, schema=["measure", "n", "rho", "q"], orient="row")
    ends = {"ci_low": pl.col("rho") - 0.1, "ci_high": pl.col("rho") + 0.1}
    return HumanMeasures(frame.with_columns(**ends, flag=None, note=None))


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ([("grade", 400, 0.7, 0.001), ("digits", 400, 0.1, 0.2)], Answer.YES),
        ([("grade", 400, -0.7, 0.001)], Answer.YES),
        ([("grade", 400, 0.3, 0.001), ("digits", 400, -0.2, 0.01)], Answer.MIXED),
        ([("grade", 400, 0.05, 0.2)], Answer.NO),
        ([("grade", 40, 0.15, 0.2)], Answer.UNKNOWN),
    ],
)
def test_the_strongest_measure_decides(rows, answer):
    verdict = compared(rows).verdict()
    assert verdict.question is Question.HUMAN_MEASURES
    assert verdict.answer is answer
    assert "rade" in verdict.reason
    if answer in (Answer.YES, Answer.MIXED):
        assert f"{rows[0][2]:+.2f}".replace("-", "−") in verdict.reason
        assert ("easier" in verdict.reason) == (rows[0][2] < 0)
    assert bool(verdict.facts.get("questions needed")) == (answer is Answer.UNKNOWN)


def test_as_many_questions_as_are_called_enough_find_a_small_correlation():
    generator = np.random.default_rng(0)
    number = int(compared([("grade", 40, 0.15, 0.2)]).verdict().facts["questions needed"])
    found = []
    for _ in range(400):
        one = generator.standard_normal(number)
        two = 0.209 * one + np.sqrt(1 - 0.209**2) * generator.standard_normal(number)
        found.append(rank_correlation(one, two).p < 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=0.07)


def test_measures_without_any_correlation():
    verdict = breadth.difficulty_vs(CALIBRATION, ITEMS, measures=["digits", "rare"]).verdict()
    assert (verdict.answer, verdict.computed) == (Answer.UNKNOWN, False)


def test_measures_show_their_note():
    shown = breadth.difficulty_vs(CALIBRATION, ITEMS, measures=["digits", "grade"]).shown()[0]
    assert "constant" in shown.rows[0][-1]
    assert shown.rows[1][2] == "+1.00"
