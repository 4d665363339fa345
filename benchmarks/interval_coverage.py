"""How often do 95 % intervals cover the truth when checkpoints depend on each other?

    python benchmarks/interval_coverage.py [--runs 4000] [--block]

Two test sets follow the in-domain score along a curve, plus fluctuations that are autocorrelated over 41
checkpoints (first-order autoregression) and correlated with each other by a known amount. Every cell of the
printed table is the share of simulated runs whose interval covers that amount.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

from breadth.correlation import Adjust, IntervalMethod, Panel, Settings, partial_correlations
from breadth.datasets import autoregressive, control_series

STEPS = 41
RHOS = (0.0, 0.3, 0.6, 0.8, 0.9)
TRUTHS = (0.0, 0.5)
KINDS: tuple[Literal["learning", "drifting", "independent"], ...] = ("learning", "drifting", "independent")


def simulated_panel(kind: str, adjust: Adjust, rho: float, truth: float, runs: int, seed: int) -> Panel:
    """Runs of two test sets and a control; the relation to the control is curved unless the adjustment is linear."""
    generator = np.random.default_rng(seed)
    control = control_series(generator, runs, STEPS, kind, rho)  # type: ignore[arg-type]
    curve = np.sin(2 * control) if adjust == "gam" else control
    correlation = np.array([[1.0, truth], [truth, 1.0]])
    scores = autoregressive(generator, runs, STEPS, correlation, rho) + curve[:, :, None] * np.array([1.0, 1.5])
    return Panel(scores, control[:, :, None])


def coverage(
    kind: str,
    adjust: Adjust,
    ci: IntervalMethod,
    rho: float,
    truth: float,
    runs: int,
    seed: int = 0,
    resamples: int = 500,
) -> float:
    """Share of runs whose interval covers the true correlation."""
    panel = simulated_panel(kind, adjust, rho, truth, runs, seed)
    result = partial_correlations(panel, Settings(adjust, ci=ci, resamples=resamples))
    return float(np.mean((result.ci_low <= truth) & (truth <= result.ci_high)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--block", action="store_true", help="also the block bootstrap, on 300 runs a cell")
    options = parser.parse_args()
    methods: list[IntervalMethod] = ["iid", "ar", *(["block"] if options.block else [])]  # type: ignore[list-item]
    print("| control | adjust | true r | interval | " + " | ".join(f"AR {rho:g}" for rho in RHOS) + " |")
    print("|---|---|---|---|" + "---|" * len(RHOS))
    for kind in KINDS:
        for adjust in ("linear", "gam"):
            for truth in TRUTHS:
                for method in methods:
                    runs = 300 if method == "block" else options.runs
                    cells = [coverage(kind, adjust, method, rho, truth, runs) for rho in RHOS]  # type: ignore[arg-type]
                    shown = " | ".join(f"{cell:.3f}" for cell in cells)
                    print(f"| {kind} | {adjust} | {truth:g} | {method} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
