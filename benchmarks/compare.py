"""``compare``: coverage of its intervals in simulations, the exact test against its peers, and speed.

``python benchmarks/compare.py coverage|confirm|exact|speed``; needs scipy, and statsmodels for ``exact``. The interval
was chosen on the settings SETTINGS alone; ``confirm`` has its coverage on CONFIRM.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from scipy import stats

import breadth
from breadth.comparison import exact_p, paired_difference

#: Items, clusters, runs of the two models, spread of runs, likeness within clusters, whether sizes are unequal, base,
#: and how far an item's difficulty differs between the models.
SETTINGS = [
    (30, 30, (1, 1), 0, 0, False, 0.0, 0),
    (100, 100, (1, 1), 0, 0, False, 2.0, 0),
    (1000, 1000, (1, 1), 0, 0, False, -1.0, 0),
    (300, 30, (1, 1), 0, 0.5, False, 0.0, 0),
    (300, 30, (1, 1), 0, 0.5, True, 1.0, 0),
    (200, 8, (1, 1), 0, 0.3, True, 0.0, 0),
    (300, 300, (3, 3), 0.2, 0, False, 0.0, 0),
    (300, 300, (3, 3), 0.05, 0, False, 0.0, 0),
    (300, 300, (5, 1), 0.2, 0, False, 0.0, 0),
    (1000, 1000, (2, 2), 0.1, 0, False, 1.0, 0),
    (300, 30, (3, 3), 0.2, 0.5, True, 0.0, 0),
    (300, 30, (2, 2), 0.2, 0.3, False, 0.0, 0),
    (1000, 50, (5, 5), 0.3, 0.3, False, 0.0, 0),
    (1000, 50, (10, 10), 0.1, 0.3, True, -1.0, 0),
    (300, 300, (3, 3), 0.0, 0, False, 0.0, 0),
]

CONFIRM = [
    (150, 150, (2, 2), 0.0, 0, False, 0.5, 0),
    (150, 150, (2, 2), 0.3, 0, False, 0.5, 0),
    (500, 500, (4, 4), 0.0, 0, False, -0.5, 0.7),
    (500, 500, (4, 2), 0.1, 0, False, 0.0, 0.7),
    (80, 80, (3, 2), 0.2, 0, False, 1.0, 1),
    (2000, 2000, (3, 3), 0.05, 0, False, -1.0, 0),
    (200, 200, (8, 8), 0.15, 0, False, 0.5, 0),
    (600, 40, (3, 3), 0.0, 0.4, True, 0.5, 0.5),
    (600, 40, (3, 3), 0.1, 0.4, True, 0.5, 0.5),
    (400, 20, (6, 6), 0.05, 0.3, False, 0.0, 0),
    (800, 25, (2, 3), 0.3, 0.5, True, 0.0, 0),
    (240, 12, (5, 5), 0.1, 0.2, False, -1.0, 0.3),
    (400, 400, (2, 1), 0.2, 0, False, 0.0, 0),
]


def coverage(settings: list[tuple[Any, ...]], repeats: int = 2000) -> None:
    """Share of intervals that hold the true difference; answers are probit with items, clusters and runs."""
    generator = np.random.default_rng(16)
    for items, clusters, runs, spread, alike, unequal, base, apart in settings:
        total = np.sqrt(2 + 2 * alike + spread**2 + apart**2)
        truth = stats.norm.cdf((base + 0.3) / total) - stats.norm.cdf(base / total)
        inside = 0
        for _ in range(repeats):
            even = np.full(clusters, items // clusters)
            cluster = np.repeat(
                np.arange(clusters), generator.geometric(clusters / items, clusters) if unequal else even
            )
            n, scale = len(cluster), np.sqrt(alike)
            common = generator.normal(0, scale, clusters)[cluster] + generator.normal(size=n)
            answers = []
            for mean, count in zip((base, base + 0.3), runs, strict=True):
                own = generator.normal(0, scale, clusters)[cluster] + generator.normal(0, spread, (count, 1))
                own = own + generator.normal(0, apart, n)
                answers.append((generator.normal(size=(count, n)) < mean + common + own).astype(float))
            gap = paired_difference(*answers, cluster if alike else None)
            inside += gap.low <= truth <= gap.high
        print(f"{items:5} items {clusters:5} clusters {runs} runs spread {spread:4} alike {alike:3} "
              f"unequal {unequal!s:5} base {base:4} apart {apart:3}: {inside / repeats:.3f}", flush=True)  # fmt: skip


def exact() -> None:
    """Largest relative difference of the exact paired test from scipy and statsmodels, tables up to 60 x 60."""
    from statsmodels.stats.contingency_tables import mcnemar

    worst = {"scipy": 0.0, "statsmodels": 0.0}
    for first in range(61):
        for second in range(61):
            own = exact_p(first, second)
            if first + second:
                peer = stats.binomtest(first, first + second, 0.5).pvalue
                worst["scipy"] = max(worst["scipy"], abs(own / peer - 1))
            peer = float(mcnemar([[9, first], [second, 9]], exact=True).pvalue) if first + second else 1.0
            worst["statsmodels"] = max(worst["statsmodels"], abs(own / peer - 1))
    print(worst)


def speed(models: int = 100, items: int = 100_000) -> None:
    """Rank all models, and compare two of them, from an array in memory."""
    generator = np.random.default_rng(0)
    level = generator.normal(size=items)
    answers = (generator.normal(size=(models, items)) < level + np.linspace(-1, 1, models)[:, None]).astype(np.int8)
    for name, call in (
        ("rank", lambda: breadth.rank(answers)),
        ("compare", lambda: breadth.compare(answers, "0", "1")),
    ):
        start, cpu = time.perf_counter(), time.process_time()
        call()
        print(f"{name} {models} x {items}: {time.perf_counter() - start:.1f} s, CPU {time.process_time() - cpu:.1f} s")


if __name__ == "__main__":
    {
        "coverage": lambda: coverage(SETTINGS), "confirm": lambda: coverage(CONFIRM), "exact": exact, "speed": speed,
    }[sys.argv[1]]()  # fmt: skip
