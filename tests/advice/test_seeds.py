"""Seeds and checkpoints from scores: power against simulations, spread and noise against simulated truth."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.advice import SeedAdvice
from breadth.advice.seeds import checkpoint_variance, seed_power, seeds_needed
from breadth.errors import InputError
from breadth.results import Answer, Question, State


def scores(seeds=20, steps=0, spread=1.0, noise=0.0, models=("a", "b")):
    """Scores in points of runs on three test sets; a row per run, or per checkpoint."""
    generator = np.random.default_rng(3)
    rows = []
    for model in models:
        for seed in range(seeds):
            level = generator.normal(60, spread, 3)
            for step in range(steps or 1):
                values = level + np.log1p(step) + generator.normal(0, noise, 3)
                rows.append({"model": model, "seed": seed, "step": step, **dict(zip("xyz", values, strict=True))})
    frame = pl.DataFrame(rows)
    return frame if steps else frame.drop("step")


def test_power_is_that_of_a_t_test():
    generator = np.random.default_rng(0)
    one, two = generator.normal(0, 1, (4000, 6)), generator.normal(1.5, 1, (4000, 6))
    assert seed_power(6, 1.0, 1.5) == pytest.approx((stats.ttest_ind(one, two, axis=1).pvalue < 0.05).mean(), abs=0.02)
    assert seeds_needed(1.0, 1.0) == 17  # Cohen (1988), table 2.4.1, d = 1: 17
    assert seeds_needed(100.0, 1.0) is None


def test_spread_between_runs_without_checkpoints():
    result = breadth.advise_power(scores(seeds=60), difference=0.01)
    assert isinstance(result, SeedAdvice)
    assert result.n_models == 2
    assert result.noise["run_sd"].to_list() == pytest.approx([1 / np.sqrt(3), 1, 1, 1], rel=0.2)
    assert result.noise["checkpoint_sd"].null_count() == 4
    verdict = result.verdict()
    assert (verdict.question, verdict.state) == (Question.SEEDS, State.YES)
    assert verdict.facts["runs of each model"] == 60
    assert str(result.plan["seeds"][0]) in verdict.answer.split()
    assert "answers to single questions" in result.details()
    assert len(result.figure().to_dict()["datasets"]["noise"]) == 4


def test_noise_of_checkpoints_and_what_averaging_saves():
    result = breadth.advise_power(scores(seeds=6, steps=60, spread=0.5, noise=1.0), difference=0.01)
    assert result.noise["checkpoint_sd"][1] == pytest.approx(1.0, rel=0.15)
    own = result.plan.filter(testset="x")
    assert own["checkpoints"].to_list() == [1, 3, 5]
    assert own["seeds"].is_sorted(descending=True)
    few = breadth.advise_power(scores(seeds=3, steps=60, spread=2, noise=1.0), difference=0.01)
    verdict, whole = few.verdict(), few.plan.filter(testset="mean of test sets")["seeds"].to_list()
    assert verdict.state is State.NO
    assert {str(whole[0]), str(whole[-1])} <= set(verdict.numbers())
    assert checkpoint_variance([np.arange(5.0)]) != checkpoint_variance([np.arange(5.0)])  # too few: NaN
    assert checkpoint_variance([np.arange(20.0)]) == pytest.approx(0)


def test_one_run_each_tells_checkpoints_alone():
    frame = scores(seeds=1, steps=20, noise=0.5).drop("seed")
    result = breadth.advise_power(frame)
    assert result.verdict().answer is Answer.UNKNOWN
    assert "seed" in result.verdict().advice
    assert result.plan["seeds"].null_count() == result.plan.height
    with pytest.raises(InputError, match=r"one run each, so nothing is known about seeds.*or leave out seeds=True"):
        breadth.advise_power(frame, seeds=True)


def test_what_is_refused():
    models = scores(seeds=1, models=[f"m{k}" for k in range(30)]).drop("seed")
    with pytest.raises(InputError, match="scores of 30 models with one run each"):
        breadth.advise_power(models)
    with pytest.raises(InputError, match="holds scores; naming models and cluster= take answers"):
        breadth.advise_power(scores(), "a", "b")
    unnamed = models.rename({"model": "which"})
    with pytest.raises(InputError, match="no column says which rows are runs of one model"):
        breadth.advise_power(unnamed)
