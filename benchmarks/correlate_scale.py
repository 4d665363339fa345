"""How time and memory grow with the number of runs.

    python benchmarks/correlate_scale.py [--runs 10000]

41 checkpoints x 30 test sets (435 pairs a run), GAM, effective-sample-size intervals. Each size runs in a process of
its own so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time


def measure(runs: int) -> None:
    import breadth
    from breadth.datasets import simulate_scores

    frame = simulate_scores(runs=runs, testsets=[f"set_{j:02d}" for j in range(30)])
    start = time.perf_counter()
    result = breadth.correlate(frame, control="in_domain", by="run", order="step")
    pairs = time.perf_counter() - start
    assert result.heterogeneity.height == 435
    total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {runs:,} | {result.pairs.height:,} | {pairs:.1f} | {total:.1f} | {peak:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one)
        return
    print("| runs | correlations | pairs, s | with heterogeneity, s | peak GB |\n|---|---|---|---|---|", flush=True)
    for runs in (options.runs // 100, options.runs // 10, options.runs):
        subprocess.run([sys.executable, __file__, "--one", str(max(runs, 10))], check=True)


if __name__ == "__main__":
    main()
