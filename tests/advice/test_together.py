"""Models together: votes, routing, honest gains."""

import re

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.advice import route, route_gain, vote, vote_gain
from breadth.advice.together import make_folds
from breadth.errors import InputError
from breadth.results import Answer, Question, State


def test_votes_and_ties():
    cells = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]], dtype=float)
    assert vote(cells, (0, 1, 2)).tolist() == [1, 1, 1, 0]
    assert vote(cells, (0, 1)).tolist() == [1, 0, 1, 0], "a tie goes to the first"


def test_independent_models_gain_and_the_honest_gain_is_near_the_truth():
    """Three independent models of 0.7: the majority is right with 0.7^3 + 3 x 0.7^2 x 0.3 = 0.784."""
    gains = []
    for seed in range(30):
        answers = (np.random.default_rng(seed).random((3, 600)) < 0.7).astype(float)
        gains.append(vote_gain(answers, make_folds(600, None, 2, seed), 3, False).honest)
    assert np.mean(gains) == pytest.approx(0.084, abs=0.012)


def test_search_among_equal_models_gains_nothing_honestly():
    shared = np.random.default_rng(0).random(400) < 0.6
    naive, honest = [], []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        answers = np.where(generator.random((12, 400)) < 0.1, ~shared, shared).astype(float)
        gain = route_gain(answers, make_folds(400, None, 2, seed), np.arange(400) % 8)
        naive.append(gain.naive)
        honest.append(gain.honest)
    assert np.mean(naive) > 0.02
    assert abs(np.mean(honest)) < 0.01


def test_routing_switches_only_where_a_model_leads_clearly():
    generator = np.random.default_rng(0)
    group = np.repeat([0, 1], 500)
    share = np.array([[0.8, 0.5], [0.5, 0.75]])
    answers = (generator.random((2, 1000)) < share[:, group]).astype(float)
    assert route(answers, group) == {0: 0, 1: 1}
    equal = (generator.random((2, 1000)) < 0.7).astype(float)
    assert len(set(route(equal, group).values())) == 1
    assert route_gain(answers, make_folds(1000, None), group).honest > 0.05


def test_folds_keep_clusters_together():
    cluster = np.repeat(np.arange(30), 5)
    folds = make_folds(150, cluster, 3)
    assert folds.shape == (3, 150)
    assert all(len(set(row[cluster == k])) == 1 for row in folds for k in range(30))


def test_table_with_levels_sets_and_margins():
    generator = np.random.default_rng(0)
    parts = []
    for k, model in enumerate("abcde"):
        luck = generator.random(300)
        part = {"model": model, "item": np.arange(300), "testset": np.where(np.arange(300) % 2, "x", "y")}
        part |= {
            "level": np.arange(300) % 3,
            "correct": (luck < 0.6 + 0.02 * k).astype(int),
            "margin": 0.6 + 0.02 * k - luck,
        }
        parts.append(pl.DataFrame(part))
    result = breadth.advise_together(pl.concat(parts), cluster="level")
    names = ["best pair", "best triple", "top 3", "top 5", "route by test set", "route by level", "oracle"]
    assert result.gains["combination"].to_list() == names
    assert result.gains["honest"].null_count() == 1
    assert result.gains["naive"][-1] > result.gains["naive"][:-1].max()
    assert result.verdict().answer in (Answer.YES, Answer.NO, Answer.UNKNOWN)
    assert result.verdict().question == Question.TOGETHER
    assert len(result.figure().to_dict()["datasets"]["gains"]) == 7


def test_what_is_refused():
    with pytest.raises(InputError, match="2 models share 50 questions; combining takes at least 3 models"):
        breadth.advise_together(np.ones((2, 50), dtype=np.int8))
    with pytest.raises(InputError, match="no model gets any question right"):
        breadth.advise_together(np.zeros((4, 50), dtype=np.int8))
    with pytest.raises(InputError, match="answers are shares"):
        breadth.advise_together(np.full((4, 50), 0.5))


def test_a_vote_of_independent_models_is_named_with_its_interval():
    answers = (np.random.default_rng(0).random((3, 1500)) < 0.7).astype(np.int8)
    result = breadth.advise_together(answers)
    verdict = result.verdict()
    assert verdict.answer is Answer.YES
    best = result.gains.drop_nulls("honest").sort("honest", descending=True).row(0, named=True)
    for number in ("honest", "ci_low", "ci_high"):
        assert f"{100 * best[number]:.1f}" in verdict.numbers()
    assert result.best in verdict.reason


def test_models_that_fail_together_gain_nothing_and_no_number_has_a_sign():
    shared = np.random.default_rng(0).random(3000) < 0.7
    answers = np.tile(shared, (4, 1))
    answers[1:, :300] = False
    verdict = breadth.advise_together(answers.astype(np.int8)).verdict()
    assert (verdict.answer, verdict.state) == (Answer.NO, State.NO)
    assert not re.search(r"[+−]\d", str(verdict))


def test_what_is_open_says_how_many_questions_would_tell():
    answers = (np.random.default_rng(1).random((5, 60)) < 0.7).astype(np.int8)
    verdict = breadth.advise_together(answers).verdict()
    if verdict.answer is Answer.UNKNOWN:
        assert int(verdict.facts["questions that would be enough"].replace(",", "")) > 60
    assert verdict.answer is not Answer.NO
