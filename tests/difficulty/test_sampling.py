from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import breadth
from breadth.difficulty import STRATEGIES, DifficultySampler, sample_items
from breadth.errors import InputError
from breadth.results import Question

NAMES = list(STRATEGIES)
WANTED = {
    "easy": stats.uniform(0, 1 / 3),
    "middle": stats.uniform(1 / 3, 1 / 3),
    "hard": stats.uniform(2 / 3, 1 / 3),
    "full": stats.uniform(0, 1),
    "centred": stats.truncnorm(-2.5, 2.5, loc=0.5, scale=0.2),
}
ITEMS = pl.DataFrame({"item": [f"q{j}" for j in range(60)], "text": ["x"] * 60, "difficulty": np.arange(60.0)})
ITEMS_AS_CALIBRATION = breadth.Calibration(
    ITEMS.select("item", "difficulty").with_columns(
        difficulty_se=pl.lit(0.1), discrimination=pl.lit(1.0), guessing=pl.lit(0.0)
    ),
    pl.DataFrame(),
    pl.DataFrame(),
)


def quantiles(difficulty):
    return (np.argsort(np.argsort(difficulty)) + 0.5) / len(difficulty)


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("n", [30, 1500])
def test_draws_follow_the_strategy(strategy, n):
    difficulty = np.random.default_rng(0).exponential(size=5000)
    drawn = sample_items(difficulty, n, strategy)
    wanted = WANTED[STRATEGIES[strategy].selection]
    assert stats.kstest(quantiles(difficulty)[drawn], wanted.cdf).pvalue > 0.2


@given(st.integers(1, 300), st.sampled_from(NAMES), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_no_item_twice_and_all_sizes_possible(items, strategy, seed):
    generator = np.random.default_rng(seed)
    difficulty = generator.integers(0, 5, items).astype(float)
    difficulty[generator.random(items) < 0.2] = np.nan
    known = int((~np.isnan(difficulty)).sum())
    most = len(DifficultySampler(difficulty, strategy=strategy))
    for n in {1, most // 2, most} - {0}:
        if n > most:
            continue
        drawn = sample_items(difficulty, n, strategy, seed=seed)
        assert len(set(drawn.tolist())) == n
        assert not np.isnan(difficulty[drawn]).any()
    assert most <= known
    with pytest.raises(InputError, match="can draw"):
        sample_items(difficulty, most + 1, strategy)


def test_thirds_stay_in_their_third():
    difficulty = np.arange(99.0)
    for k, strategy in enumerate(("easy", "middle", "hard")):
        drawn = sample_items(difficulty, 33, strategy)
        assert sorted(drawn.tolist()) == list(range(33 * k, 33 * (k + 1)))


def test_seed_decides():
    difficulty = np.random.default_rng(1).standard_normal(500)
    for strategy in NAMES:
        first, again, other = (sample_items(difficulty, 40, strategy, seed=seed).tolist() for seed in (1, 1, 2))
        assert first == again
        assert first != other


def test_orders():
    difficulty = np.random.default_rng(2).standard_normal(1000)
    rising = difficulty[sample_items(difficulty, 200, "curriculum")]
    assert np.all(np.diff(rising) > 0)
    assert np.all(np.diff(difficulty[sample_items(difficulty, 200, "anti-curriculum")]) < 0)
    assert set(sample_items(difficulty, 200, "easy", order="rising").tolist()) == set(
        sample_items(difficulty, 200, "easy", order="falling").tolist()
    )
    with pytest.raises(InputError, match="order is 'sideways'"):
        sample_items(difficulty, 10, "easy", order="sideways")
    with pytest.raises(InputError, match="strategy is 'odd'"):
        sample_items(difficulty, 10, "odd")


def test_spiral_rises_in_turns_and_comes_back_to_easy_items():
    difficulty = np.arange(4000.0)
    path = difficulty[sample_items(difficulty, 800, "spiral")]
    falls = np.flatnonzero(np.diff(path) < 0)
    assert len(falls) == 3, "four turns"
    turns = np.split(path, falls + 1)
    starts, ends = [turn[0] for turn in turns], [turn[-1] for turn in turns]
    assert max(starts) < 300, "every turn begins with easy items"
    assert ends == sorted(ends), "and goes further than the one before"
    assert ends[0] < 1100
    assert ends[-1] > 3900


def test_sampler_for_a_training_loop():
    sampler = DifficultySampler(np.random.default_rng(3).standard_normal(300), n=50, strategy="full", seed=7)
    first = list(sampler)
    assert len(first) == len(sampler) == 50
    assert first == list(sampler), "the same epoch draws the same items"
    sampler.set_epoch(1)
    assert first != list(sampler)


def test_items_keep_their_columns_and_gain_difficulty():
    result = breadth.sample(
        ITEMS.drop("difficulty").with_columns(hard=pl.Series(np.arange(60.0))), difficulty="hard", n=20
    )
    assert result.items.columns == ["item", "text", "hard", "difficulty", "quantile"]
    assert result.items.height == 20
    assert result.histogram["before"].sum() == 60
    assert result.histogram["after"].sum() == 20
    assert result.histogram["after"].max() <= 3, "the whole range is covered evenly"


def test_ease_reverses_the_column():
    hard = breadth.sample(ITEMS.rename({"difficulty": "right"}), ease="right", strategy="hard", n=5)
    assert hard.items["right"].max() < 20
    with pytest.raises(InputError, match="choose one"):
        breadth.sample(ITEMS, ITEMS_AS_CALIBRATION, ease="difficulty")


def test_a_calibration_gives_the_difficulties_and_missing_ones_are_named():
    more = pl.concat([ITEMS.drop("difficulty"), pl.DataFrame({"item": ["new1", "new2"], "text": ["y", "y"]})])
    result = breadth.sample(more, ITEMS_AS_CALIBRATION, strategy="curriculum", n=10)
    assert result.items["difficulty"].is_sorted()
    assert "60 of 62 items have a difficulty" in result.warnings[0]
    assert "new1, new2" in result.warnings[0]


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


def test_a_sample_shows_itself():
    drawn = breadth.sample(ITEMS, strategy="hard", n=5)
    assert list(drawn.tables()) == ["items", "histogram"]
    verdict = drawn.verdict()
    assert (verdict.answer, verdict.question) == ("5 questions", Question.SAMPLE)
    assert (verdict.facts["drawn"], verdict.facts["questions"]) == (5, 60)
    assert "hardest third" in verdict.reason
    assert verdict.headline in str(drawn)
    assert "from hard to easy" in breadth.sample(ITEMS, strategy="hard", n=5, order="falling").verdict().reason


def test_histogram_shows_shares():
    histogram = pl.DataFrame(
        {"level": [0, 1], "from": [-2.0, 0.1], "to": [0.0, 2.0], "before": [30, 10], "after": [2, 6]}
    )
    drawn = replace(breadth.sample(ITEMS, n=8), histogram=histogram)
    first, second = drawn.shown()[0].rows
    assert first == ["0", "-2.00 to +0.00", "30", "2", "█" * 10]
    assert second == ["1", "+0.10 to +2.00", "10", "6", "█" * 30]
