"""The analysis of the first study against the same analysis written as a loop over pyGAM with scipy.

    python benchmarks/correlate_speed.py [--resamples 2000] [--subset 40]

48 runs x 41 checkpoints x 7 test sets, GAM, block bootstrap that refits every smooth in every resample. The loop is
timed on a subset of its fits in the same process and scaled to all of them.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
import polars as pl
from pygam import LinearGAM, s
from scipy import stats

import breadth
from breadth.datasets import simulate_scores

TESTSETS = [f"set_{j}" for j in range(7)]


def loop_seconds(frame: pl.DataFrame, fits: int) -> tuple[float, float]:
    """Seconds per smooth (pyGAM with its own grid search) and per correlation (scipy), timed on a few."""
    run = frame.filter(pl.col("run") == "run-00")
    z, scores = run["in_domain"].to_numpy()[:, None], run.select(TESTSETS).to_numpy()
    generator = np.random.default_rng(0)
    residuals = []
    start = time.perf_counter()
    for i in range(fits):
        rows = (generator.integers(0, 41, 9)[:, None] + np.arange(5)).reshape(-1)[:41] % 41
        y = scores[rows, i % 7]
        residuals.append(y - LinearGAM(s(0)).gridsearch(z[rows], y, progress=False).predict(z[rows]))
    smooth = (time.perf_counter() - start) / fits
    start = time.perf_counter()
    for left, right in pairwise(residuals):
        stats.pearsonr(left, right)
    return smooth, (time.perf_counter() - start) / max(fits - 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--subset", type=int, default=40)
    options = parser.parse_args()
    frame = simulate_scores(runs=48, testsets=TESTSETS)
    start = time.perf_counter()
    result = breadth.correlate(
        frame, control="in_domain", by="run", order="step", ci="block", resamples=options.resamples
    )
    ours = time.perf_counter() - start
    smooth, correlation = loop_seconds(frame, options.subset)
    series = 48 * (options.resamples + 1)
    loop = series * (7 * smooth + 21 * correlation)
    print(f"breadth: {ours:.1f} s for {result.pairs.height} pairs, {options.resamples} resamples")
    print(f"loop over pyGAM: {smooth * 1e3:.1f} ms a smooth, {loop / 3600:.1f} h in all (scaled from {options.subset})")
    print(f"ratio: {loop / ours:,.0f} times faster")


if __name__ == "__main__":
    main()
