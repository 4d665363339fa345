"""Power: items against published and simulated values, seeds, checkpoints, clusters."""

import re

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.advice import paired_items, paired_power, unpaired_items
from breadth.comparison import exact_p
from breadth.errors import InputError
from breadth.results import Question, State


def test_paired_items_have_the_power_they_promise():
    generator = np.random.default_rng(0)
    for disagreement, difference in ((0.3, 0.05), (0.15, 0.03), (0.4, 0.1), (0.1, 0.1), (0.06, 0.05)):
        n = int(np.ceil(paired_items(disagreement, difference)))
        ahead = (disagreement + difference) / 2
        counts = generator.multinomial(n, [disagreement - ahead, ahead, 1 - disagreement], 2000)
        power = np.mean([exact_p(int(a), int(b)) < 0.05 for a, b, _ in counts])
        # 0.78 to 0.82, and two standard errors of the simulation.
        assert 0.78 - 0.018 < power < 0.82 + 0.018
        assert paired_power(n, disagreement, difference) == pytest.approx(power, abs=0.03)


def test_unpaired_items_agree_with_the_textbook():
    """Two shares of 0.5 and 0.6: 388 each without correction (Fleiss, Statistical Methods, table A.3: 387)."""
    assert unpaired_items(0.55, 0.1) == pytest.approx(388, abs=1.5)


def test_plan_from_answers():
    matrix = (np.random.default_rng(0).random((4, 1000)) < 0.7).astype(np.int8)
    result = breadth.advise_power(matrix, difference=0.02)
    assert result.noise["disagreement"][0] == pytest.approx(0.42, abs=0.02)
    assert result.plan["items_paired"][0] == pytest.approx(paired_items(0.42, 0.02), rel=0.06)
    assert result.power < 0.3
    assert result.wrong_sign == pytest.approx(stats.norm.sf(0.02 / np.sqrt(0.42 / 1000)), abs=0.01)
    verdict = result.verdict()
    assert (verdict.question, verdict.state) == (Question.POWER, State.NO)
    needed = result.plan["items_paired"][0]
    assert number_in(verdict.answer) == pytest.approx(needed, rel=0.03)
    assert verdict.facts["questions"] == 1000
    assert verdict.answer.split()[1] in verdict.reason
    enough = breadth.advise_power(matrix, difference=0.2).verdict()
    assert enough.state is State.YES
    assert number_in(enough.answer) < 1000
    assert "every model has one run" in result.warnings[0]
    assert len(result.figure().to_dict()["datasets"]["curve"]) == result.curve.height


def number_in(text):
    """The number in an answer such as "About 4,000 questions"."""
    return int(re.search(r"[\d,]+", text)[0].replace(",", ""))


def runs(spread, seeds=4, items=500, passages=0):
    generator = np.random.default_rng(1)
    parts = []
    for model in "ab":
        for seed in range(seeds):
            level = 0.6 + generator.normal(0, spread)
            group = np.repeat(generator.normal(0, 0.3, passages), items // passages) if passages else 0
            correct = (generator.random(items) < level + group).astype(int)
            frame = {"model": model, "seed": seed, "item": np.arange(items), "correct": correct}
            parts.append(
                pl.DataFrame(frame | ({"passage": np.arange(items) // (items // passages)} if passages else {}))
            )
    return pl.concat(parts)


def test_seeds_set_a_limit_that_items_do_not_lift():
    result = breadth.advise_power(runs(0.08), difference=0.05, seeds=True)
    needed = dict(result.plan.select("seeds", "items_paired").rows())
    assert needed[1] is None
    assert needed[20] is None or needed[20] > paired_items(0.48, 0.05)
    assert breadth.advise_power(runs(0.0), difference=0.05).plan["items_paired"].null_count() <= 1
    # The answer is a number of runs then, with one of questions that goes with it.
    result = breadth.advise_power(runs(0.04), difference=0.05)
    verdict = result.verdict()
    assert verdict.state is State.NO
    assert number_in(verdict.answer) > 4
    assert "runs" in verdict.answer.split()
    assert number_in(verdict.answer) in result.plan.drop_nulls("items_paired")["seeds"]
    for row in result.shown()[0].frame.iter_rows(named=True):
        assert row["items_paired"] is not None


def test_where_no_plan_is_enough_the_number_of_runs_that_is_too_small_is_said():
    result = breadth.advise_power(runs(0.2), difference=0.01)
    assert result.plan["items_paired"].null_count() == result.plan.height
    verdict = result.verdict()
    assert number_in(verdict.answer) > 20
    assert verdict.facts["runs that are too few"] in verdict.answer
    larger = verdict.facts["larger difference, in points"] / 100
    plan = breadth.advise_power(runs(0.2), difference=larger).plan
    assert plan.filter(pl.col("items_paired") <= 500)["seeds"].min() == 20


def test_clusters_multiply_the_items():
    result = breadth.advise_power(runs(0.0, seeds=1, passages=50), difference=0.05, cluster="passage")
    assert result.noise["design"][0] > 1.5


def test_checkpoints_of_a_study(simulated_study):
    result = breadth.advise_power(simulated_study.folder, difference=0.03)
    assert result.noise["checkpoint"][0] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": True}, "every model has one run, so nothing is known about seeds"),
        ({"difference": 0}, "difference= is 0"),
        ({"cluster": "topic"}, "there is no column 'topic'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        breadth.advise_power(np.eye(4, 30, dtype=np.int8), **options)
    with pytest.raises(InputError, match="at least two models"):
        breadth.advise_power(np.ones((1, 9), dtype=np.int8))


def test_models_that_answer_alike():
    advice = breadth.advise_power(np.tile([1, 0, 1, 1], (2, 20)).astype(np.int8))
    assert (advice.wrong_sign, advice.power) == (0, 1)


def test_items_that_are_nearly_enough_are_called_enough():
    answers = np.random.default_rng(0).random((4, 2000)) < 0.7
    needed = breadth.advise_power(answers, difference=0.05).plan["items_paired"][0]
    for share, state in ((0.95, State.YES), (0.85, State.NO)):
        few = int(share * needed)
        result = breadth.advise_power(answers[:, :few], difference=0.05)
        assert result.power < 0.8
        assert 0.9 * needed < result.plan["items_paired"][0] < 1.1 * needed
        assert result.verdict().state is state
