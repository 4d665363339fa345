import numpy as np
import pytest

from breadth.level_transfer.breaks import breaking_point
from breadth.level_transfer.gains import Gains
from transfer_recovery import Setting, boundaries


def answered(chance, items=150, seeds=1, seed=3, cluster=None):
    """Answers to items of as many levels as there are chances of a right one."""
    generator = np.random.default_rng(seed)
    level = np.repeat(np.arange(len(chance)), items)
    answers = (generator.random((seeds, len(level))) < np.array(chance)[level]).astype(float)
    return Gains((answers,), np.zeros(len(level)), level, 0, cluster)


def test_recovers_the_level_of_a_drop():
    sharp = breaking_point(answered([0.8] * 5 + [0.2] * 3), 0, trained=False)
    assert (sharp.level, sharp.low, sharp.high) == (5, 5, 5)
    assert sharp.drop == pytest.approx(0.6, abs=0.05)
    assert sharp.p < 0.01


@pytest.mark.parametrize(
    "chance",
    [
        [0.5] * 6, np.linspace(0.9, 0.2, 6), np.linspace(0.9, 0.2, 4), 0.25 + 0.6 / (1 + np.arange(6)),
        1 / (1 + np.exp(1.5 * (np.arange(6) - 2.3))),
    ],
    ids=["none", "straight", "straight, 4 levels", "towards chance", "logistic"],
)  # fmt: skip
def test_a_smooth_decline_is_no_boundary(chance):
    below = [breaking_point(answered(chance, seed=seed), 0, seed).p < 0.05 for seed in range(20)]
    assert sum(below) <= 3


def test_a_range_is_wide_where_nothing_breaks():
    vague = breaking_point(answered([0.5] * 8), 0)
    assert vague.high - vague.low >= 3


def test_three_levels_are_not_tested():
    few = breaking_point(answered([0.9, 0.9, 0.1]), 0)
    assert np.isnan(few.p)
    assert few.level == 2


def test_the_seed_decides_the_draws():
    gains = answered([0.8, 0.7, 0.4, 0.3, 0.2])
    assert breaking_point(gains, 0, 1) == breaking_point(gains, 0, 1)


def test_clusters_make_a_step_less_sure():
    """The same accuracies from 5 passages a level instead of 150 items."""
    gains = answered([0.8, 0.8, 0.3, 0.3, 0.3])
    cluster = np.arange(750) // 30
    passage = np.random.default_rng(0).normal(0, 0.1, 25)[cluster]
    noisy = gains._replace(trained=(gains.trained[0] + passage,))
    assert breaking_point(noisy._replace(cluster=cluster), 0).p > breaking_point(noisy, 0).p


def test_level_accuracies_that_seeds_move_make_a_step_less_sure():
    gains = answered([0.8, 0.8, 0.3, 0.3, 0.3], seeds=2)
    moved = np.array([0.1, -0.1])[:, None] * np.array([1, -1, 1, 1, -1])[gains.level]
    unstable = gains._replace(trained=(gains.trained[0] + moved,))
    assert breaking_point(unstable, 0).p > 0.1 + breaking_point(gains, 0).p


def test_nothing_varies():
    same = breaking_point(answered([1.0] * 5), 0)
    assert same.drop == 0
    assert same.p > 0.05


@pytest.mark.slow
def test_few_studies_of_a_steady_decline_name_a_boundary():
    """At most 5 %, and 60 studies add 6 points; a step of 30 points is found."""
    named, *_ = boundaries(Setting(seeds=2, items=100), 60, seed=5)
    assert named <= 0.11
    named, *_ = boundaries(Setting(seeds=2, items=200, step=0.3), 20, seed=5)
    assert named > 0.8
