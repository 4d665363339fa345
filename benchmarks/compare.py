"""``compare``: coverage of its intervals in simulations, the exact test against its peers, and speed.

``python benchmarks/compare.py coverage|confirm|runs|confirm-runs|best|exact|speed``; needs scipy, and statsmodels for
``exact``. The interval was chosen on the settings SETTINGS alone; ``confirm`` has its coverage on CONFIRM.
"""

from __future__ import annotations

import itertools
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


#: Spreads of the runs of the two recipes, and their numbers of runs: tuned on the first, judged on the second.
RUNS = {
    "runs": (
        (200, 1000),
        ((0.0, 0.0), (0.1, 0.1), (0.3, 0.3), (0.0, 0.3)),
        ((1, 1), (2, 2), (3, 3), (2, 1), (1, 2), (3, 1), (3, 2), (2, 3), (5, 2), (8, 3)),
    ),
    "confirm-runs": (
        (500,),
        ((0.05, 0.05), (0.2, 0.2), (0.05, 0.25), (0.25, 0.05)),
        ((1, 1), (2, 2), (3, 3), (1, 3), (2, 4), (4, 2), (6, 3), (10, 2)),
    ),
}


def runs(name: str, repeats: int = 1500) -> None:
    """Coverage with few runs of two recipes: of the recipes' true difference, and of that of the trained models.

    Training moves a whole run up or down (normal on the probit scale). The trained models' true difference is that of
    the runs there are, on new items.
    """
    items, spreads, counts = RUNS[name]
    base, gap, apart = (0.0, 0.3, 0.0) if name == "runs" else (0.5, 0.2, 0.5)
    generator = np.random.default_rng(33)
    for n, spread, runs in itertools.product(items, spreads, counts):
        levels = [base, base + gap]
        own = np.sqrt(2 + apart**2)
        truth = [stats.norm.cdf(level / np.hypot(own, s)) for level, s in zip(levels, spread, strict=True)]
        recipe = trained = found = 0
        for _ in range(repeats):
            common = generator.normal(size=n)
            answers, means = [], []
            for level, s, count in zip(levels, spread, runs, strict=True):
                run = level + generator.normal(0, s, (count, 1))
                item = common + generator.normal(0, apart, n)
                answers.append((generator.normal(size=(count, n)) < run + item).astype(float))
                means.append(stats.norm.cdf(run / own).mean())
            one = paired_difference(*answers)
            recipe += one.low <= truth[1] - truth[0] <= one.high
            trained += one.low <= means[1] - means[0] <= one.high
            found += one.p < 0.05
        print(f"{n:5} items, runs {runs}, spread {spread}: recipe {recipe / repeats:.3f}, "
              f"trained models {trained / repeats:.3f}, found {found / repeats:.2f}", flush=True)  # fmt: skip


def best(repeats: int = 400) -> None:
    """Is the best model among those that may be? How often is one called best, and do other sentences contradict it?

    A contradiction: one model is called the best, but the table of neighbours, or ``compare``, does not tell it from
    the second.
    """
    generator = np.random.default_rng(3)
    for models, step, items in itertools.product((2, 3, 10, 40), (0.0, 0.01, 0.05), (60, 400)):
        truth = 0.5 + step * np.arange(models)[::-1] / max(1.0, step * models / 0.4)
        lost = called = wrong = contradicted = 0
        for seed in range(repeats):
            luck = generator.random(items)
            own = np.where(generator.random((models, items)) < 0.5, luck, generator.random((models, items)))
            ranking = breadth.rank((own < truth[:, None]).astype(np.int8), seed=seed)
            ranks, names = ranking.ranks, ranking.ranks["model"].to_list()
            lost += ranks["rank_low"][names.index("0")] > 1
            if ranking.verdict().answer != "Yes":
                continue
            called += 1
            wrong += names[0] != "0" or step == 0
            pair = breadth.compare((own < truth[:, None]).astype(np.int8), names[1], names[0]).verdict().answer
            contradicted += not ranking.neighbours["apart"][0] or pair not in ("Yes", "It depends")
        where = f"{models:3} models {step:4} apart, {items:4} items"
        print(f"{where}: best one left out {lost / repeats:.3f}, one called best {called / repeats:.3f} (wrongly "
              f"{wrong / repeats:.3f}), contradicted {contradicted}", flush=True)  # fmt: skip


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
        "coverage": lambda: coverage(SETTINGS), "confirm": lambda: coverage(CONFIRM), "runs": lambda: runs("runs"),
        "confirm-runs": lambda: runs("confirm-runs"), "best": best, "exact": exact, "speed": speed,
    }[sys.argv[1]]()  # fmt: skip
