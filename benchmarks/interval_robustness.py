"""Coverage of the default interval where its rule was not chosen, and where its assumptions fail.

    python benchmarks/interval_robustness.py [--runs 3000] [--only dependence|tails|unseen|groups|few|fails]

The rule for effective rows was picked among several by its coverage on the settings of interval_coverage.py. The
settings of ``dependence`` were not used for that: other kinds of dependence, another control, other lengths.

``tails`` has fluctuations with heavy tails, as single rows far out (``rows``) or as jumps that die away with the
autoregression (``jumps``), for the default interval and for ``--robust``. ``unseen`` has tails, lengths, dependence
and controls that played no part in choosing the rule for tails. ``groups`` is Cochran's test that groups differ, when
they do not. ``few`` is the mean over ten groups of few rows. ``fails`` has the shapes of residuals that no rule here
covers: a level that both test sets change to in mid-training, and residuals that are random walks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from breadth.correlation import Panel, Partial, Settings, partial_correlations, summarise_units
from breadth.correlation.intervals import z_variance
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


def scales(generator: np.random.Generator, runs: int, n: int, tail: str) -> np.ndarray:
    """Factor [runs, n, 1] by which both test sets are thrown out at a checkpoint; t3 has 3 degrees of freedom."""
    if tail == "normal":
        return np.ones((runs, n, 1))
    if tail == "contaminated":  # a tenth of the rows
        return np.where(generator.random((runs, n, 1)) < 0.1, 5.0, 1.0)
    if tail == "one spike":
        factor = np.ones((runs, n, 1))
        factor[np.arange(runs), generator.integers(0, n, runs)] = 8
        return factor
    df = float(tail.removeprefix("t"))
    return np.sqrt(df / generator.chisquare(df, (runs, n, 1)))


def tailed(tail: str, rho: float, place: str = "rows", control: str = "learning") -> Maker:
    """Autoregressions whose rows, or shocks, have heavy tails. All directions are alike, so r stays the truth."""

    def make(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
        factor = scales(generator, runs, n, tail)
        if place == "rows":
            series = autoregressive(generator, runs, n, pair(r), rho) * factor
        else:
            shocks = generator.standard_normal((runs, n, 2)) @ np.linalg.cholesky(pair(r)).T * factor
            series = shocks.copy()
            for t in range(1, n):
                series[:, t] = rho * series[:, t - 1] + np.sqrt(1 - rho**2) * shocks[:, t]
        return Series(series, control_series(generator, runs, n, control, rho), r)  # type: ignore[arg-type]

    return make


def longer(rho: float) -> Maker:
    def make(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
        return Series(
            autoregressive(generator, runs, n, pair(r), rho), control_series(generator, runs, n, "learning", rho), r
        )

    return make


def level_shift(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    """Both test sets jump by 1.5 standard deviations somewhere in the middle third, and stay there."""
    place = generator.integers(n // 3, 2 * n // 3, (runs, 1))
    shift = 1.5 * (np.arange(n) >= place)[:, :, None]
    return Series(
        generator.standard_normal((runs, n, 2)) @ np.linalg.cholesky(pair(r)).T + shift,
        control_series(generator, runs, n, "learning", 0.6),
        r,
    )


def random_walk_residuals(generator: np.random.Generator, runs: int, n: int, r: float) -> Series:
    shocks = generator.standard_normal((runs, n, 2)) @ np.linalg.cholesky(pair(r)).T
    return Series(np.cumsum(shocks, axis=1) / np.sqrt(n), control_series(generator, runs, n, "learning", 0.6), r)


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


def analysed(
    make: Maker, n: int, adjust: str, r: float, runs: int, seed: int, robust: bool = False, size: float = 1.0
) -> tuple[Partial, float]:
    """Simulated runs, analysed as by default with an order, and the truth; fluctuations are ``size`` large."""
    made = make(np.random.default_rng(seed), runs, n, r)
    curve = np.sin(2 * made.control) if adjust == "gam" else made.control
    panel = Panel(size * made.fluctuations + curve[:, :, None] * np.array([1.0, 1.5]), made.control[:, :, None])
    return partial_correlations(panel, Settings(adjust, ci="ar", robust=robust)), made.truth  # type: ignore[arg-type]


def coverage(make: Maker, n: int, adjust: str, r: float, runs: int, seed: int = 77, robust: bool = False) -> float:
    """Share of runs whose interval covers the truth."""
    result, truth = analysed(make, n, adjust, r, runs, seed, robust)
    return float(np.mean((result.ci_low <= truth) & (truth <= result.ci_high)))


def differ(make: Maker, n: int, adjust: str, groups: int, calls: int, seed: int = 78) -> float:
    """Share of calls in which Cochran's test finds at 5 % that groups differ, though all have the correlation 0.3."""
    result, _ = analysed(make, n, adjust, 0.3, groups * calls, seed)
    z = np.arctanh(result.r[:, 0]).reshape(calls, groups)
    variance = z_variance(result.n_eff, result.spent)[:, 0].reshape(calls, groups)
    return float(np.mean(summarise_units(z, variance).p_differ < 0.05))


def power(make: Maker, n: int, adjust: str, runs: int, robust: bool, seed: int = 79) -> float:
    """Share of runs that find a correlation of 0.5."""
    return float(np.mean(analysed(make, n, adjust, 0.5, runs, seed, robust)[0].p < 0.05))


def mean_over_groups(
    n: int, adjust: str, r: float, calls: int, rho: float = 0.6, seed: int = 80
) -> tuple[float, float]:
    """Bias and coverage of the mean over ten groups of n rows."""
    result, _ = analysed(longer(rho), n, adjust, r, 10 * calls, seed, size=0.2)
    z = np.arctanh(result.r[:, 0]).reshape(calls, 10)
    variance = z_variance(result.n_eff, result.spent)[:, 0].reshape(calls, 10)
    mean = summarise_units(z, variance)
    return float(np.mean(mean.r_mean) - r), float(np.mean((mean.ci_low <= r) & (r <= mean.ci_high)))


TAILS = ("normal", "t5", "t3", "contaminated", "one spike")
LENGTHS = (20, 41, 100)
RHOS = (0.0, 0.3, 0.6, 0.8, 0.9)
UNSEEN = (
    (30, "drifting", 0.4, "jumps"), (60, "independent", 0.7, "rows"), (30, "drifting", 0.9, "jumps"),
    (60, "learning", 0.9, "jumps"), (150, "learning", 0.95, "jumps"),
)  # fmt: skip


def show_dependence(runs: int) -> None:
    print("| residuals | rows | linear, r 0 | linear, r 0.5 | gam, r 0 | gam, r 0.5 |\n|---|---|---|---|---|---|")
    for name, n, make in CASES:
        cells = [coverage(make, n, adjust, r, runs) for adjust in ("linear", "gam") for r in (0.0, 0.5)]
        print(f"| {name} | {n} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


def show_tails(runs: int) -> None:
    """Lowest and highest coverage over linear and gam, r 0 and 0.5, and lengths of 20, 41 and 100 (robust: 41)."""
    print(
        "| tails | as | interval | " + " | ".join(f"AR {rho:g}" for rho in RHOS) + " | power at r 0.5, AR 0, 41 rows |"
    )
    print("|---|---|---|" + "---|" * (len(RHOS) + 1))
    for tail in TAILS:
        for place in ("rows", "jumps") if tail != "normal" else ("rows",):
            for robust in (False, True):
                shown = []
                for rho in RHOS:
                    cells = [
                        coverage(tailed(tail, rho, place), n, adjust, r, runs // 2 if robust else runs, robust=robust)
                        for n in ((41,) if robust else LENGTHS) for adjust in ("linear", "gam") for r in (0.0, 0.5)
                    ]  # fmt: skip
                    shown.append(f"{min(cells):.3f}-{max(cells):.3f}")
                found = power(tailed(tail, 0.0, place), 41, "gam", runs // 2, robust)
                name = "--robust" if robust else "default"
                print(f"| {tail} | {place} | {name} | " + " | ".join(shown) + f" | {found:.2f} |", flush=True)


def show_unseen(runs: int) -> None:
    print("| tails | rows | control | AR | as | linear, r 0 | linear, r 0.7 | gam, r 0 | gam, r 0.7 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for tail in ("t8", "t4", "t2.5", "contaminated", "one spike"):
        for n, control, rho, place in UNSEEN:
            make = tailed(tail, rho, place, control)
            cells = [coverage(make, n, adjust, r, runs, seed=5) for adjust in ("linear", "gam") for r in (0.0, 0.7)]
            shown = " | ".join(f"{cell:.3f}" for cell in cells)
            print(f"| {tail} | {n} | {control} | {rho} | {place} | {shown} |", flush=True)


def show_groups(runs: int) -> None:
    settings = [(n, rho) for n in LENGTHS for rho in (0.0, 0.6, 0.9)]
    print("| tails | as | adjust | " + " | ".join(f"{n} rows, AR {rho:g}" for n, rho in settings) + " |")
    print("|---|---|---|" + "---|" * 9)
    for tail in TAILS:
        for place in ("rows", "jumps") if tail != "normal" else ("rows",):
            for adjust in ("linear", "gam"):
                cells = [differ(tailed(tail, rho, place), n, adjust, 12, runs // 3) for n, rho in settings]
                print(
                    f"| {tail} | {place} | {adjust} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True
                )


def show_few(runs: int) -> None:
    print("| adjust | rows | bias, r 0 | coverage | bias, r 0.5 | coverage |\n|---|---|---|---|---|---|")
    for adjust, lengths in (("linear", (5, 6, 8, 10, 15, 20)), ("gam", (8, 10, 12, 15, 20, 41))):
        for n in lengths:
            cells = [value for r in (0.0, 0.5) for value in mean_over_groups(n, adjust, r, runs // 10, rho=0.0)]
            print(f"| {adjust} | {n} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)


def show_fails(runs: int) -> None:
    print("| residuals | rows | linear, r 0 | linear, r 0.5 | gam, r 0 | gam, r 0.5 |\n|---|---|---|---|---|---|")
    for name, make in (("level shift", level_shift), ("random walk", random_walk_residuals)):
        for n in (41, 100):
            cells = [coverage(make, n, adjust, r, runs) for adjust in ("linear", "gam") for r in (0.0, 0.5)]
            print(f"| {name} | {n} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000)
    sections = {
        "dependence": show_dependence, "tails": show_tails, "unseen": show_unseen, "groups": show_groups,
        "few": show_few, "fails": show_fails,
    }  # fmt: skip
    parser.add_argument("--only", choices=sections)
    options = parser.parse_args()
    for name, show in sections.items():
        if options.only in (None, name):
            print(f"\n{name}\n")
            show(options.runs)


if __name__ == "__main__":
    main()
