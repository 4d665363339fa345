"""Scores from margins: do intervals cover, does what only bias carries over disappear, and how long does it take?

python benchmarks/answer_bias.py coverage
python benchmarks/answer_bias.py carry_over
python benchmarks/answer_bias.py speed
"""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np
import polars as pl
from scipy import special

import breadth
from breadth.datasets import simulate_study
from breadth.records import Study, score_intervals
from breadth.records.sensitivity import scored

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
    {"coverage": coverage, "carry_over": carry_over, "speed": speed}[sys.argv[1]]()
