"""Short forms: the sample, the plain estimate, the assisted one and its checks."""

import numpy as np
import pytest

from breadth.advice import ShortFormScorer, plain_estimate, random_split, strong_split, try_short_form
from breadth.advice.short_form import (
    Trial,
    draw_from_strata,
    family_split,
    fit_ridge,
    fit_smooth,
    make_strata,
    spread_of,
)


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
    chosen = draw_from_strata(strata, k)
    assert len(chosen) == len(set(chosen)) == k
    assert set(np.bincount(strata[chosen])) <= {2, 3}


def test_plain_estimate_is_unbiased_and_covers():
    matrix = answers(60)
    truth, share = matrix.mean(axis=1), matrix.mean(axis=0)
    strata = make_strata(share, np.zeros(400, dtype=int), 50)
    plain = [
        plain_estimate(matrix[:, chosen], chosen, strata)
        for chosen in (draw_from_strata(strata, 50, s) for s in range(300))
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
    slopes = np.array([[1.0, 0.0], [-2.0, 1.0], [0.5, 0.0]])
    targets = penalised @ slopes + [3, -1] + [0, 1] * generator.normal(size=(200, 2))
    fit = fit_ridge(penalised, np.ones((200, 1)), targets)
    assert fit.penalised[:, 0] == pytest.approx([1, -2, 0.5], abs=0.01)
    assert fit.free[0, 0] == pytest.approx(3, abs=0.01)
    # Every target has a penalty of its own, whatever the others are.
    for k in range(2):
        alone = fit_ridge(penalised, np.ones((200, 1)), targets[:, [k]])
        assert alone.penalised[:, 0] == pytest.approx(fit.penalised[:, k], rel=1e-9)
        assert alone.residual[:, 0] == pytest.approx(fit.residual[:, k], rel=1e-9)


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
    chosen = draw_from_strata(strata, 30)
    scorer = ShortFormScorer.of(noise[:50], chosen, strata)
    estimate = scorer.score(noise[50:, chosen])
    assert scorer.r2 < 0.6
    assert not estimate.used.any()
    assert estimate.score == pytest.approx(estimate.plain.mean)


def test_errors_of_families_left_out_are_those_of_fitting_without_them():
    generator = np.random.default_rng(0)
    family = np.repeat([0, 1, 2, 3, 4], [10, 8, 6, 4, 2])
    cells, free = generator.integers(0, 2, (30, 12)), np.column_stack([np.ones(30), generator.normal(size=30)])
    target = cells.mean(axis=1) + generator.normal(0, 0.1, 5)[family] + generator.normal(0, 0.02, 30)
    fit = fit_smooth(cells, free, target, family)
    kernel = np.exp(-(cells[:, None] != cells[None]).mean(axis=2) / fit.reach)
    prediction = kernel @ fit.weights + free @ fit.free
    penalty = ((target - prediction) / fit.weights).mean()
    for number in range(5):
        left = family != number
        size = int(left.sum())
        block = np.block(
            [[kernel[np.ix_(left, left)] + penalty * np.eye(size), free[left]], [free[left].T, np.zeros((2, 2))]]
        )
        solved = np.linalg.solve(block, np.append(target[left], [0, 0]))
        alone = kernel[np.ix_(~left, left)] @ solved[:size] + free[~left] @ solved[size:]
        assert fit.residual[~left] == pytest.approx(target[~left] - alone, rel=1e-5, abs=1e-8)
    single = fit_smooth(cells, free, target, np.arange(30))
    assert single.residual == pytest.approx(single.alone, rel=1e-6)


def family_answers(families=12, each=12, items=300, seed=0):
    """Models of a family know some items that others do not; the family of every model."""
    generator = np.random.default_rng(seed)
    family = np.repeat(np.arange(families), each)
    ability, difficulty = generator.normal(size=(len(family), 1)), generator.normal(size=items)
    own = generator.normal(0, 1.5, (families, items))[family]
    chance = 1 / (1 + np.exp(-1.5 * (ability - difficulty) - own))
    return (generator.random(chance.shape) < chance).astype(np.int8), family


def test_assisted_intervals_with_families_are_never_narrower_and_stay_within_0_and_1():
    matrix, family = family_answers()
    strata = make_strata(matrix.mean(axis=0), np.zeros(300, dtype=int), 40)
    chosen = draw_from_strata(strata, 40)
    ends = np.vstack([matrix[:, chosen], np.zeros((1, 40), dtype=np.int8), np.ones((1, 40), dtype=np.int8)])
    grouped, single = ShortFormScorer.of(matrix, chosen, strata, family), ShortFormScorer.of(matrix, chosen, strata)
    with_families, without = grouped.score(ends), single.score(ends)
    for estimate in (with_families, without):
        for low, high in (
            (estimate.low, estimate.high),
            (estimate.plain.low, estimate.plain.high),
            (estimate.assisted_low, estimate.assisted_high),
        ):
            assert (low >= 0).all()
            assert (high <= 1).all()
            assert (low <= high).all()
    factor = [
        np.median((estimate.assisted_high - estimate.assisted) / spread_of(estimate.assisted))
        for estimate in (with_families, without)
    ]
    assert factor[0] > 0.95 * factor[1]
    assert grouped.r2 < single.r2


def test_short_forms_cover_families_that_were_left_out():
    covered, widths = [], []
    for seed in range(4):
        matrix, family = family_answers(seed=seed)
        for repeat in range(3):
            learn, test = family_split(family, repeat)
            trial = try_short_form(matrix, np.zeros(300, dtype=np.intp), 40, learn, test, seed, family)
            covered.append(trial.covered.mean())
            widths.append(trial.width.mean())
    # Simulated families shift items independently, so averages over items hardly shift: real ones are harder.
    assert np.mean(covered) > 0.92
    assert np.mean(widths) < 0.35


def test_splits_leave_out_whole_families_and_keep_half_of_the_models():
    family = np.repeat(np.arange(9), [200, 20, 10, 10, 5, 5, 5, 3, 2])
    for seed in range(10):
        learn, test = family_split(family, seed)
        assert len(learn) >= len(family) / 2
        assert len(test)
        assert not set(family[learn]) & set(family[test])
        assert sorted([*learn, *test]) == list(range(len(family)))


def test_with_too_few_families_to_learn_from_models_count_as_independent():
    matrix, _ = family_answers()
    family = np.repeat([0, 1], 72)
    learn, test = np.arange(100), np.arange(100, 144)
    everything = np.zeros(300, dtype=np.intp)
    grouped = try_short_form(matrix, everything, 40, learn, test, 0, family)
    single = try_short_form(matrix, everything, 40, learn, test, 0)
    assert (grouped.error == single.error).all()
