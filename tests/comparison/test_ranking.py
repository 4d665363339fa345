"""Ranks and their intervals."""

import re

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.advice import paired_items
from breadth.comparison import rank_intervals
from breadth.comparison.comparison import NOT_DECIDED
from breadth.comparison.groups import ONE_RUN_EACH
from breadth.errors import InputError
from breadth.results import State


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
    clustered, alone = rank_intervals(apart, np.repeat(np.arange(20), 10)), rank_intervals(apart)
    assert (clustered.variance > 5 * alone.variance).all()


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
    verdict = result.verdict()
    assert (verdict.answer, verdict.state) == ("0", State.YES)
    assert verdict.facts == {"questions": 280, "models": 4, "may be the best": 1}
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


def probit_answers(generator, truth, items):
    """Answers of models that find the same items hard: their shares are close to ``truth``."""
    luck = generator.random(items)
    own = np.where(generator.random((len(truth), items)) < 0.6, luck, generator.random((len(truth), items)))
    return (own < np.asarray(truth)[:, None]).astype(np.int8)


TRUTHS = {
    "2 equal": [0.6, 0.6],
    "2 different": [0.6, 0.68],
    "3 equal": [0.6] * 3,
    "3 different": [0.6, 0.66, 0.72],
    "10 equal": [0.6] * 10,
    "10 different": list(np.linspace(0.4, 0.85, 10)),
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("items", [40, 400])
def test_no_two_statements_contradict_each_other(truth, items):
    for seed in range(8):
        answers = probit_answers(np.random.default_rng(seed), truth, items)
        ranking = breadth.rank(answers)
        ranks, near, verdict = ranking.ranks, ranking.neighbours, ranking.verdict()
        candidates = ranks.filter(pl.col("rank_low") == 1)
        assert candidates["model"].to_list() == ranking.candidates
        first, second = ranks["model"][0], ranks["model"][1]
        pair = breadth.compare(answers, second, first)
        whole = pair.cells.row(0, named=True)
        # One number for the difference of two models, in the ranking and in a comparison.
        ends = ["difference", "ci_low", "ci_high", "p"]
        assert [near[name][0] for name in ends] == pytest.approx([whole[name] for name in ends])
        if verdict.state is State.YES:
            assert candidates.height == 1
            assert near["apart"][0]
            assert ranks["rank_high"][0] == 1
            assert verdict.answer == pair.verdict().answer == first
            assert whole["ci_low"] > 0
        else:
            assert candidates.height > 1
            assert verdict.state is (State.OPEN if candidates.height == len(truth) else State.MIXED)
        # Neighbours that cannot be told apart may share a rank, and those that can are apart by the comparison too.
        for k, row in enumerate(near.iter_rows(named=True)):
            assert row["p_joint"] >= row["p"] - 1e-12
            if row["apart"]:
                assert row["ci_low"] > 0
                assert ranks["rank_low"][k + 1] > 1
            else:
                assert ranks["rank_high"][k] > ranks["rank"][k] or ranks["rank"][k] == ranks["rank"][k + 1]
                assert ranks["rank_low"][k + 1] <= k + 1
        if len(truth) == 2:
            # Of two models, the ranking is the comparison.
            assert near["apart"][0] == (whole["p"] < 0.05)


@pytest.mark.parametrize("models", [2, 3, 10])
def test_the_best_model_is_among_those_that_may_be(models):
    # Nearly equal models are the hardest case: 5 % and two standard errors of 300 draws.
    truth = np.full(models, 0.6)
    truth[0] = 0.605
    lost = 0
    for seed in range(300):
        standing = rank_intervals(probit_answers(np.random.default_rng(seed), truth, 150).astype(float), seed=seed)
        lost += int(standing.rank_low[0] > 1)
    assert lost / 300 <= 0.05 + 0.025


def test_whether_there_is_a_best_model_hardly_depends_on_the_seed():
    answers = probit_answers(np.random.default_rng(3), [0.6, 0.64, 0.7], 300).astype(float)
    joint = [rank_intervals(answers, seed=seed).neighbour_p for seed in range(5)]
    assert np.ptp(joint, axis=0).max() < 0.01
    pair = [rank_intervals(answers[:2], seed=seed).neighbour_p for seed in range(5)]
    assert np.ptp(pair, axis=0).max() == 0


def test_a_lead_on_three_items_is_no_proof():
    answers = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0]], dtype=np.int8)
    assert breadth.rank(answers).verdict().state is State.OPEN


def test_two_models_are_ranked_in_the_words_of_a_comparison():
    answers = probit_answers(np.random.default_rng(0), [0.6, 0.8], 400)
    ranking, compared = breadth.rank(answers), breadth.compare(answers)
    assert ranking.verdict().reason == compared.verdict().reason
    equal = breadth.rank(probit_answers(np.random.default_rng(0), [0.6, 0.6], 100)).verdict()
    assert (equal.answer, equal.state) == (NOT_DECIDED, State.OPEN)
    assert int(equal.facts["questions that would be enough"].replace(",", "")) > 100


def test_models_that_share_the_first_place_lead_together():
    answers = np.zeros((4, 60), dtype=np.int8)
    answers[:2, :40] = 1
    answers[2, :38] = 1
    answers[3, :5] = 1
    verdict = breadth.rank(answers).verdict()
    assert verdict.state is State.MIXED
    assert {"3", "4"} <= set(verdict.answer.split())
    assert {"0", "1", "2"} <= set(re.findall(r"\w+", verdict.reason))


def test_all_that_may_be_the_best_are_named_and_bold_in_the_table():
    answers = probit_answers(np.random.default_rng(2), [0.6, 0.62, 0.64, 0.66, 1.6, 1.7], 300)
    ranking = breadth.rank(answers)
    verdict, shown = ranking.verdict(), ranking.shown()[0].frame
    assert verdict.state is State.MIXED
    assert 1 < len(ranking.candidates) < 6
    for name in ranking.candidates:
        assert name in re.findall(r"\w+", verdict.reason)
    assert shown.filter("may_be_best")["model"].to_list() == ranking.candidates
    assert verdict.advice


def test_as_many_questions_as_would_separate_the_first_two_do():
    answers = np.zeros((3, 1000), dtype=np.int8)
    answers[:2, :700] = 1
    answers[0, 700:810] = 1
    answers[1, 810:900] = 1
    answers[2, :300] = 1
    ranking = breadth.rank(answers)
    said = int(ranking.verdict().facts["questions that would separate the first two"].replace(",", ""))
    assert not ranking.neighbours["apart"][0]
    # Seen with a probability of 80 %: a lead of 2 points where the two disagree on 20 of 100 questions.
    assert said == pytest.approx(paired_items(0.2, 0.02), rel=0.05)
    assert breadth.rank(np.tile(answers, (1, round(said / 1000)))).neighbours["apart"][0]


def test_one_run_each_is_about_these_models(levels_study):
    frame = []
    for model, share in {"a": 0.5, "b": 0.7}.items():
        for seed in range(2):
            correct = np.random.default_rng([seed, len(frame)]).random(200) < share
            frame.append(pl.DataFrame({"model": model, "seed": seed, "item": range(200), "correct": correct * 1}))
    several = breadth.rank(pl.concat(frame))
    assert ONE_RUN_EACH not in str(several.verdict())
    assert ONE_RUN_EACH in str(breadth.rank(pl.concat(frame[::2])).verdict())
    mixed = breadth.rank(pl.concat(frame[:3]))
    assert "b has one run" in mixed.details()
