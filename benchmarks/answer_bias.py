"""Scores from margins: do intervals cover, does what only bias carries over disappear, and how long does it take?

python benchmarks/answer_bias.py coverage
python benchmarks/answer_bias.py few
python benchmarks/answer_bias.py carry_over
python benchmarks/answer_bias.py speed
"""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

import breadth
from breadth.datasets import simulate_study
from breadth.inference import wilson_interval
from breadth.records.sensitivity import area_interval, score_intervals, scored
from breadth.records.study import Study
from breadth.reporting.accuracy import crossed_mean

Floats = npt.NDArray[np.float64]

SETS = ("plain", "formal", "chat", "science", "negation", "numbers")


def simulated(subjects: int, items: int, sensitivity: float, criterion: float, testsets: int = 1) -> Study:
    """Subjects of one sensitivity and criterion: normal evidence, balanced labels."""
    first = np.arange(items * testsets) % 2 == 0
    evidence = np.random.default_rng(1).normal(size=(subjects, len(first))) + np.where(first, 0.5, -0.5) * sensitivity
    margin = np.where(first, 1, -1) * (evidence - criterion)
    names = {"testset": np.repeat([f"s{k}" for k in range(testsets)], items), "item": np.arange(len(first)).astype(str)}
    table = pl.DataFrame(names | {"label": np.where(first, "no", "yes")})
    rows = pl.DataFrame({"subject": np.arange(subjects).astype(str)})
    return Study("simulated", rows, table, (margin > 0).astype(np.int8), margin.astype(np.float32))


def coverage(subjects: int = 3000) -> None:
    """Share of 95 % intervals that hold the truth."""
    for items in (40, 200):
        for sensitivity in (0, 1, 2, 3):
            for criterion in (0.0, 0.7):
                study = simulated(subjects, items, sensitivity, criterion)
                hit, false = special.ndtr([sensitivity / 2 - criterion, -sensitivity / 2 - criterion])
                truth = {
                    "auc": special.ndtr(sensitivity / np.sqrt(2)), "dprime": sensitivity, "criterion": criterion,
                    "balanced": (hit + 1 - false) / 2,
                }  # fmt: skip
                held = {}
                for measure, value in truth.items():
                    interval = score_intervals(study, measure, "s0")  # type: ignore[arg-type]
                    held[measure] = float(np.mean((interval.low <= value) & (value <= interval.high)))
                print(items, sensitivity, criterion, {name: round(share, 3) for name, share in held.items()})


#: Items of the two labels: settings on which the interval was chosen, and others.
TUNED_SIZES = ((5, 20), (5, 200), (8, 100), (10, 10), (10, 200), (20, 200), (40, 40), (100, 100))
JUDGED_SIZES = ((5, 60), (6, 150), (7, 7), (12, 60), (15, 400), (30, 90))

#: How log-odds of the two labels are distributed. Names of the second line were not used in choosing the interval.
SHAPES = ("normal", "wide", "narrow", "exponential")
JUDGED_SHAPES = ("normal", "wider", "heavy", "rounded")


def draw_odds(
    generator: np.random.Generator, shape: str, rows: int, sizes: tuple[int, int], area: float
) -> tuple[Floats, Floats]:
    """Log-odds of the items of both labels, so that the area under the ROC curve is ``area``."""
    first, other = (generator.standard_normal((rows, size)) for size in sizes)
    if shape == "exponential":
        return generator.exponential(area / (1 - area), first.shape), generator.exponential(1.0, other.shape)
    if shape == "heavy":
        # Differences of Laplace variables; where the shift gives the area is found on a large sample.
        first, other = generator.laplace(size=first.shape), generator.laplace(size=other.shape)
        apart = np.sort(generator.laplace(size=400_000) - generator.laplace(size=400_000))
        return first + float(np.quantile(apart, area)), other
    spread = {"wide": 1.5, "narrow": 1 / 1.5, "wider": 1.3}.get(shape, 1.0)
    shift = float(np.sqrt(1 + spread**2) * special.ndtri(area))
    first = spread * first + shift
    return (np.round(first, 1), np.round(other, 1)) if shape == "rounded" else (first, other)


def few(rows: int = 1000) -> None:
    """Share of intervals of an area that hold the truth, with few items of a label; before, DeLong's on its log-odds.

    Areas from .5 to .97, either label the rare one. Then paired changes between two checkpoints of normal log-odds.
    """
    generator = np.random.default_rng(0)
    for words, all_sizes, shapes in (("tuned", TUNED_SIZES, SHAPES), ("judged", JUDGED_SIZES, JUDGED_SHAPES)):
        for sizes in all_sizes:
            for shape in shapes:
                now, before = [], []
                for area in (0.5, 0.6, 0.75, 0.85, 0.92, 0.97):
                    for flip in (False, True):
                        first, other = draw_odds(generator, shape, rows, sizes[::-1] if flip else sizes, area)
                        value, variances = area_parts(first, other)
                        counts = np.tile(np.array([first.shape[1], other.shape[1]], dtype=np.float64), (rows, 1))
                        low, high = area_interval(value, variances, counts)
                        now.append(float(np.mean((low <= area) & (area <= high))))
                        before.append(former_coverage(area, value, variances, min(sizes)))
                print(
                    f"{words}, {sizes[0]} and {sizes[1]} items, {shape}: {min(now):.3f} to {max(now):.3f}; "
                    f"before {min(before):.3f} to {max(before):.3f}",
                    flush=True,
                )
    for sizes in ((5, 200), (10, 200), (20, 200), (20, 20), (25, 100), (40, 40)):
        held = [
            paired_coverage(generator, rows, one, start, end)
            for start, end in ((0.5, 0.5), (0.7, 0.7), (0.6, 0.8), (0.8, 0.95), (0.9, 0.9))
            for one in (sizes, sizes[::-1])
        ]
        print(f"paired change, {sizes[0]} and {sizes[1]} items: {min(held):.3f} to {max(held):.3f}", flush=True)


def former_coverage(area: float, value: Floats, variances: Floats, rare: int) -> float:
    """Share of the intervals used before that hold the area: DeLong's on its log-odds, Wilson's where it is 0 or 1."""
    ranked = (np.minimum(value, 1 - value) < 1e-9) | (variances.sum(axis=1) <= 0)
    inside = np.where(ranked, 0.5, value)
    error = np.sqrt(variances.sum(axis=1)) / (inside * (1 - inside))
    apart = np.abs(special.logit(inside) - special.logit(area))
    low, high = wilson_interval(value, np.full(len(value), float(rare)))
    return float(np.mean(np.where(ranked, (low <= area) & (area <= high), apart <= 1.96 * error)))


def area_parts(first: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Areas, and the variance of the mean placement of either label."""
    above, below = placements_of(first, other)
    variances = [values.var(axis=1, ddof=1) / values.shape[1] for values in (above, below)]
    return above.mean(axis=1), np.stack(variances, axis=1)


def placements_of(first: Floats, other: Floats) -> tuple[Floats, Floats]:
    """DeLong's placements by comparing every two items."""
    wins = (first[:, :, None] > other[:, None, :]) + 0.5 * (first[:, :, None] == other[:, None, :])
    return wins.mean(axis=2), wins.mean(axis=1)


def paired_coverage(
    generator: np.random.Generator, rows: int, sizes: tuple[int, int], start: float, end: float, alike: float = 0.5
) -> float:
    """Share of intervals of a change of area that hold it, checkpoints correlating ``alike`` over items."""
    shared = [generator.standard_normal((rows, size)) for size in sizes]
    placed = []
    for area in (start, end):
        odds = [np.sqrt(alike) * each + np.sqrt(1 - alike) * generator.standard_normal(each.shape) for each in shared]
        placed.append(placements_of(odds[0] + float(np.sqrt(2) * special.ndtri(area)), odds[1]))
    # The means of the values of the two labels add up to the change, as those of ``item_values`` do.
    values = np.concatenate([placed[1][k] - placed[0][k] for k in (0, 1)], axis=1)
    values -= (placed[1][0] - placed[0][0]).mean(axis=1, keepdims=True) / 2
    group = np.repeat([0, 1], sizes)
    means = [crossed_mean(row[None], "gain", group) for row in values]
    return float(np.mean([mean["ci_low"] <= end - start <= mean["ci_high"] for mean in means]))


def carry_over() -> None:
    """Share of pairs of test sets whose mean correlation is called positive."""
    options = {"accuracy": {}, "auc": {"score": "auc"}, "dprime": {"score": "dprime"}, "bias": {"control": "bias"}}
    for bias, together in ((3.0, 0.0), (1.5, 0.8)):
        for seed in (21, 22, 23):
            with tempfile.TemporaryDirectory() as folder:
                sizes = {"runs": 6, "checkpoints": 41, "testsets": SETS, "items": 120, "models": ("m",)}
                simulate_study(f"{folder}/s", answer_bias=bias, together=together, seed=seed, **sizes)
                study = breadth.open(f"{folder}/s")
                for adjust in ("gam", "linear"):
                    shares = {}
                    for name, option in options.items():
                        means = breadth.correlate(study, adjust=adjust, **option).heterogeneity
                        shares[name] = (round((means["ci_low"] > 0).mean(), 2), round(means["r_mean"].median(), 2))
                    print(f"bias {bias}, together {together}, seed {seed}, {adjust}: {shares}", flush=True)


def speed() -> None:
    """Seconds for all subjects and test sets: scores alone, with ten split halves, with intervals."""
    for subjects, testsets, items in ((70, 12, 200), (2000, 10, 1000), (2000, 1, 10_000)):
        study = simulated(subjects, items, 1.0, 0.3, testsets)
        for measure in ("auc", "dprime"):
            times = [time.perf_counter()]
            for work in (
                lambda measure=measure, study=study: scored(study, measure),
                lambda measure=measure, study=study: scored(study, measure, 10),
                lambda measure=measure, study=study: [score_intervals(study, measure, k) for k in study.testsets],
            ):
                work()
                times.append(time.perf_counter())
            print(f"{subjects} x {testsets} x {items:,} {measure}: " + " ".join(f"{t:.2f}" for t in np.diff(times)))


if __name__ == "__main__":
    {"coverage": coverage, "few": few, "carry_over": carry_over, "speed": speed}[sys.argv[1]]()
