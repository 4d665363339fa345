"""Intervals of differences cover the truth in simulations with clusters and runs, on settings of all sizes.

``benchmarks/compare.py coverage`` has more settings and repetitions.
"""

import numpy as np
import pytest
from scipy.stats import norm

from breadth.comparison import paired_difference

REPEATS = 1200


def simulated(generator, items, clusters, runs, spread, alike, unequal=False, base=0.0):
    """Answers of two models whose true difference is known: probit, with effects of items, clusters and runs."""
    size = generator.geometric(clusters / items, clusters) if unequal else np.full(clusters, items // clusters)
    cluster = np.repeat(np.arange(clusters), size)
    scale = np.sqrt(alike)
    common = generator.normal(0, scale, clusters)[cluster] + generator.normal(size=len(cluster))
    answers = []
    for mean, count in zip((base, base + 0.3), runs, strict=True):
        own = generator.normal(0, scale, clusters)[cluster] + generator.normal(0, spread, (count, 1))
        answers.append((generator.normal(size=(count, len(cluster))) < mean + common + own).astype(float))
    total = np.sqrt(2 + 2 * alike + spread**2)
    truth = norm.cdf((base + 0.3) / total) - norm.cdf(base / total)
    return answers, cluster if alike else None, truth


@pytest.mark.parametrize(
    ("items", "clusters", "runs", "spread", "alike", "unequal"),
    [
        (60, 60, (1, 1), 0, 0, False),
        (300, 30, (1, 1), 0, 0.5, False),
        (240, 12, (1, 1), 0, 0.5, True),
        (300, 300, (3, 3), 0.2, 0, False),
        (300, 30, (3, 3), 0.2, 0.5, True),
        (400, 40, (5, 2), 0.15, 0.3, False),
        (250, 250, (3, 3), 0.0, 0, False),
        (400, 40, (3, 3), 0.02, 0.3, False),
    ],
)
def test_coverage(items, clusters, runs, spread, alike, unequal):
    generator = np.random.default_rng(items + clusters)
    inside = 0
    for _ in range(REPEATS):
        (one, two), cluster, truth = simulated(generator, items, clusters, runs, spread, alike, unequal)
        gap = paired_difference(one, two, cluster)
        inside += gap.low <= truth <= gap.high
    # 0.93 to 0.97, and two standard errors of the simulation.
    assert 0.93 - 0.0126 <= inside / REPEATS <= 0.97 + 0.0126
