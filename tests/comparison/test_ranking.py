"""Ranks and their intervals."""

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.comparison import rank_intervals
from breadth.errors import InputError


def test_intervals_hold_the_true_ranks():
    generator = np.random.default_rng(0)
    truth = np.array([0.3, 0.5, 0.52, 0.54, 0.7, 0.72, 0.9])
    order = np.argsort(np.argsort(-truth)) + 1
    inside = np.zeros(len(truth))
    for seed in range(200):
        luck = generator.random(400)
        own = np.where(generator.random((7, 400)) < 0.5, luck, generator.random((7, 400)))
        standing = rank_intervals((own < truth[:, None]).astype(float), seed=seed)
        inside += (standing.rank_low <= order) & (order <= standing.rank_high)
    assert (inside / 200 >= 0.93).all()
    assert standing.rank_low[6] == 1
    assert standing.rank_high[6] == 1


def test_equal_models_share_all_ranks_and_clusters_matter():
    answers = np.tile(np.random.default_rng(0).random(200) < 0.5, (4, 1)).astype(float)
    standing = rank_intervals(answers)
    assert (standing.rank_low == 1).all()
    assert (standing.rank_high == 4).all()
    apart = np.repeat(np.random.default_rng(1).random((2, 20)) < 0.6, 10, axis=1).astype(float)
    assert rank_intervals(apart, np.repeat(np.arange(20), 10)).apart[0, 1] > 5 * rank_intervals(apart).apart[0, 1]


def test_more_models_than_are_drawn():
    answers = (np.random.default_rng(0).random((410, 100)) < 0.5).astype(float)
    standing = rank_intervals(answers)
    assert standing.rank_low.min() == 1
    assert (standing.rank_low <= standing.rank_high).all()


def test_ranking_of_a_table_with_gaps():
    generator = np.random.default_rng(0)
    answers = (generator.random((5, 300)) < np.array([[0.9], [0.5], [0.5], [0.2], [0.6]])).astype(np.int8)
    answers[4, 10:] = -1
    answers[0, :20] = -1
    result = breadth.rank(answers)
    assert result.ranks["model"].to_list()[0] == "0"
    assert result.ranks.height == 4
    assert result.n_items == 280
    assert len(result.warnings) == 2
    assert str(result.verdict()).startswith("Yes: 0 is the best of 4 models")
    assert not result.neighbours["apart"][1]
    assert len(result.figure().to_dict()["datasets"]["ranks"]) == 4


def test_runs_are_part_of_the_interval(levels_study):
    result = breadth.rank(levels_study.folder)
    assert (result.ranks["runs"] == 2).all()
    assert result.ranks["model"].str.contains("train_level").all()


def test_what_is_refused():
    with pytest.raises(InputError, match="at least two models"):
        breadth.rank(np.ones((1, 5), dtype=np.int8))
    answers = pl.DataFrame({"subject": ["a", "b"], "item": ["i", "j"], "correct": [1, 0]})
    with pytest.raises(InputError, match=r"no item was answered by all 2 models.*Fewest answers: a \(1\), b \(1\)"):
        breadth.rank(answers)
