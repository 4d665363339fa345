"""Short forms: the sample, the plain estimate, the assisted one and its checks."""

import numpy as np
import pytest

from breadth.advice import Scorer, plain_estimate, random_split, strong_split, try_short_form
from breadth.advice.short_form import Trial, draw_items, fit_ridge, fit_smooth, make_strata


def answers(models=120, items=400, seed=0, slopes=0.0):
    """Answers of models to items whose log slopes spread by ``slopes``."""
    generator = np.random.default_rng(seed)
    ability, difficulty = generator.normal(size=(models, 1)), generator.normal(size=items)
    slope = 2.5 * np.exp(slopes * np.random.default_rng(seed + 1).normal(size=items))
    return (generator.random((models, items)) < 1 / (1 + np.exp(slope * (difficulty - ability)))).astype(np.int8)


def test_strata_are_even_and_sorted_by_set_and_share():
    share, sets = np.random.default_rng(0).random(200), np.repeat([0, 1], 100)
    strata = make_strata(share, sets, 40)
    assert (np.bincount(strata) == 10).all()
    assert [len(np.unique(sets[strata == h])) for h in range(20)] == [1] * 20
    assert share[strata == 0].max() < share[strata == 9].min()


@pytest.mark.parametrize("k", [10, 51, 100])
def test_as_many_items_as_asked_for_two_or_three_of_a_stratum(k):
    strata = make_strata(np.random.default_rng(0).random(213), np.zeros(213, dtype=int), k)
    chosen = draw_items(strata, k)
    assert len(chosen) == len(set(chosen)) == k
    assert set(np.bincount(strata[chosen])) <= {2, 3}


def test_plain_estimate_is_unbiased_and_covers():
    matrix = answers(60)
    truth, share = matrix.mean(axis=1), matrix.mean(axis=0)
    strata = make_strata(share, np.zeros(400, dtype=int), 50)
    plain = [
        plain_estimate(matrix[:, chosen], chosen, strata) for chosen in (draw_items(strata, 50, s) for s in range(300))
    ]
    mean = np.mean([one.mean for one in plain], axis=0)
    assert np.abs(mean - truth).max() < 0.015
    covered = np.mean([(one.low <= truth) & (truth <= one.high) for one in plain])
    assert 0.94 < covered < 0.99


def test_all_items_give_the_score_itself():
    matrix = answers(5, 40)
    strata = make_strata(matrix.mean(axis=0), np.zeros(40, dtype=int), 20)
    assert plain_estimate(matrix, np.arange(40), strata).mean == pytest.approx(matrix.mean(axis=1))


def test_smooth_leave_one_out_is_what_leaving_one_out_gives():
    generator = np.random.default_rng(0)
    cells, free = generator.integers(0, 2, (30, 12)), np.column_stack([np.ones(30), generator.normal(size=30)])
    target = cells.mean(axis=1) + generator.normal(0, 0.1, 30)
    fit = fit_smooth(cells, free, target)
    kernel = np.exp(-(cells[:, None] != cells[None]).mean(axis=2) / fit.reach)
    prediction = kernel @ fit.weights + free @ fit.free
    penalty = ((target - prediction) / fit.weights).mean()
    left = np.arange(30) != 7
    block = np.block(
        [[kernel[np.ix_(left, left)] + penalty * np.eye(29), free[left]], [free[left].T, np.zeros((2, 2))]]
    )
    solved = np.linalg.solve(block, np.append(target[left], [0, 0]))
    alone = kernel[7, left] @ solved[:29] + free[7] @ solved[29:]
    assert fit.residual[7] == pytest.approx(target[7] - alone, rel=1e-6)


def test_ridge_recovers_a_linear_relation():
    generator = np.random.default_rng(0)
    penalised = generator.normal(size=(200, 3))
    fit = fit_ridge(penalised, np.ones((200, 1)), penalised @ [1.0, -2.0, 0.5] + 3)
    assert fit.penalised == pytest.approx([1, -2, 0.5], abs=0.01)
    assert fit.free == pytest.approx([3], abs=0.01)


def test_references_help_inside_their_range_and_are_not_used_beyond():
    matrix = answers(200, 600, slopes=0.6)
    sets = np.zeros(600, dtype=np.intp)
    trials = [try_short_form(matrix, sets, 50, *random_split(200, seed), seed) for seed in range(12)]
    inside = Trial(*(np.concatenate(part) for part in zip(*trials, strict=True)))
    beyond = try_short_form(matrix, sets, 50, *strong_split(matrix.mean(axis=1)))
    assert inside.used.mean() > 0.7
    assert (inside.error**2).mean() < 0.9 * (inside.plain_error**2).mean()
    assert inside.covered.mean() > 0.9
    assert beyond.used.mean() < 0.15
    assert beyond.covered.mean() > 0.9


def test_references_that_do_not_predict_each_other_are_not_used():
    noise = (np.random.default_rng(0).random((60, 300)) < 0.5).astype(np.int8)
    strata = make_strata(noise.mean(axis=0), np.zeros(300, dtype=int), 30)
    chosen = draw_items(strata, 30)
    scorer = Scorer.of(noise[:50], chosen, strata)
    estimate = scorer.score(noise[50:, chosen])
    assert scorer.r2 < 0.6
    assert not estimate.used.any()
    assert estimate.score == pytest.approx(estimate.plain.mean)
