"""Coverage of the default interval where its rule was not chosen, and where its assumptions fail.

    python benchmarks/interval_robustness.py [--runs 3000]

The rule for effective rows was picked among several by its coverage on the settings of interval_coverage.py. These
settings were not used for that: other kinds of dependence, another control, other lengths, and heavy tails, which
break the normal theory behind every interval here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from breadth.correlation import Panel, Settings, partial_correlations
from breadth.datasets import autoregressive, control_series


class Series(NamedTuple):
    """Fluctuations [runs, n, 2], control [runs, n], and the true correlation of the fluctuations."""

    fluctuations: np.ndarray
    control: np.ndarray
    truth: float


Maker = Callable[[np.random.Generator, int, int, float], Series]


def pair(r: float) -> np.ndarray:
    return np.array([[1.0, r], [r, 1.0]])


def plus_noise(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    slow, quick = (autoregressive(generator, runs, n, pair(r), rho) for rho in (0.9, 0.0))
    return Series((slow + quick) / np.sqrt(2), control_series(generator, runs, n, "learning", 0.9), r)


def recursion(generator: np.random.Generator, runs: int, n: int, r: float, lags: list[np.ndarray]) -> np.ndarray:
    """An autoregression of any order, after 200 steps of settling in."""
    shocks = generator.standard_normal((runs, n + 200, 2)) @ np.linalg.cholesky(pair(r)).T
    series = shocks.copy()
    for t in range(len(lags), n + 200):
        series[:, t] += sum(weight * series[:, t - k] for k, weight in enumerate(lags, start=1))
    return series[:, 200:]


def unequal(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    rho = np.array([0.9, 0.3])
    truth = r * np.sqrt(np.prod(1 - rho**2)) / (1 - rho.prod())
    series = recursion(generator, runs, n, r, [rho]) * np.sqrt(1 - rho**2)
    return Series(series, control_series(generator, runs, n, "learning", 0.6), truth)


def second_order(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    series = recursion(generator, runs, n, r, [np.array(1.1), np.array(-0.3)])
    return Series(series / series.std(), control_series(generator, runs, n, "learning", 0.6), r)


def random_walk(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    walk = np.cumsum(generator.standard_normal((runs, n)), axis=1) / np.sqrt(n)
    return Series(autoregressive(generator, runs, n, pair(r), 0.6), walk, r)


def heavy_tails(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    """Checkpoints at which both test sets jump: t with 4 degrees of freedom."""
    wild = np.sqrt(4 / generator.chisquare(4, (runs, n, 1)))
    return Series(
        autoregressive(generator, runs, n, pair(r), 0.6) * wild, control_series(generator, runs, n, "learning", 0.6), r
    )


def longer(rho: float) -> Maker:
    def make(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
        return Series(
            autoregressive(generator, runs, n, pair(r), rho), control_series(generator, runs, n, "learning", rho), r
        )

    return make


CASES: list[tuple[str, int, Maker]] = [
    ("AR 0.9 plus as much white noise", 41, plus_noise),
    ("one series AR 0.9, the other AR 0.3", 41, unequal),
    ("AR(2) with 1.1 and -0.3", 41, second_order),
    ("AR 0.6, control a random walk", 41, random_walk),
    ("AR 0.6, control a random walk", 20, random_walk),
    ("AR 0.8", 100, longer(0.8)),
    ("AR 0.9", 100, longer(0.9)),
    ("AR 0.6, heavy tails", 41, heavy_tails),
]


def coverage(make: Maker, n: int, adjust: str, r: float, runs: int, seed: int = 77) -> float:
    """Share of runs whose default interval covers the truth."""
    made = make(np.random.default_rng(seed), runs, n, r)
    curve = np.sin(2 * made.control) if adjust == "gam" else made.control
    panel = Panel(made.fluctuations + curve[:, :, None] * np.array([1.0, 1.5]), made.control[:, :, None])
    result = partial_correlations(panel, Settings(adjust, ci="ar"))  # type: ignore[arg-type]
    return float(np.mean((result.ci_low <= made.truth) & (made.truth <= result.ci_high)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000)
    runs = parser.parse_args().runs
    print("| residuals | rows | linear, r 0 | linear, r 0.5 | gam, r 0 | gam, r 0.5 |\n|---|---|---|---|---|---|")
    for name, n, make in CASES:
        cells = [coverage(make, n, adjust, r, runs) for adjust in ("linear", "gam") for r in (0.0, 0.5)]
        print(f"| {name} | {n} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
