"""How often do 95 % intervals hold the truth when checkpoints depend on each other?

    python benchmarks/interval_coverage.py [--runs 4000] [--block]

Two test sets follow the in-domain score along a curve, plus fluctuations that are autocorrelated over 41
checkpoints (first-order autoregression) and correlated with each other by a known amount. Every cell of the
printed table is the share of simulated runs whose interval holds that amount.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

from breadth.datasets import autoregressive, control_series
from breadth.stats import Inference, Panel, Regressor, Settings, partial_correlations

STEPS = 41
RHOS = (0.0, 0.3, 0.6, 0.8, 0.9)
TRUTHS = (0.0, 0.5)
KINDS: tuple[Literal["learning", "drifting", "independent"], ...] = ("learning", "drifting", "independent")


def simulated_panel(kind: str, regressor: Regressor, rho: float, truth: float, runs: int, seed: int) -> Panel:
    """Runs of two test sets and a control; the relation to the control is curved unless the regressor is linear."""
    generator = np.random.default_rng(seed)
    control = control_series(generator, runs, STEPS, kind, rho)  # type: ignore[arg-type]
    curve = np.sin(2 * control) if regressor == "gam" else control
    correlation = np.array([[1.0, truth], [truth, 1.0]])
    scores = autoregressive(generator, runs, STEPS, correlation, rho) + curve[:, :, None] * np.array([1.0, 1.5])
    return Panel(scores, control[:, :, None])


def coverage(
    kind: str,
    regressor: Regressor,
    inference: Inference,
    rho: float,
    truth: float,
    runs: int,
    seed: int = 0,
    resamples: int = 500,
) -> float:
    """Share of runs whose interval holds the true correlation."""
    panel = simulated_panel(kind, regressor, rho, truth, runs, seed)
    found = partial_correlations(panel, Settings(regressor, inference=inference, resamples=resamples))
    return float(np.mean((found.low <= truth) & (truth <= found.high)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--block", action="store_true", help="also the block bootstrap, on 300 runs a cell")
    options = parser.parse_args()
    methods: list[Inference] = ["iid", "ar", *(["block"] if options.block else [])]  # type: ignore[list-item]
    print("| control | regressor | true r | interval | " + " | ".join(f"AR {rho:g}" for rho in RHOS) + " |")
    print("|---|---|---|---|" + "---|" * len(RHOS))
    for kind in KINDS:
        for regressor in ("linear", "gam"):
            for truth in TRUTHS:
                for method in methods:
                    runs = 300 if method == "block" else options.runs
                    cells = [coverage(kind, regressor, method, rho, truth, runs) for rho in RHOS]  # type: ignore[arg-type]
                    shown = " | ".join(f"{cell:.3f}" for cell in cells)
                    print(f"| {kind} | {regressor} | {truth:g} | {method} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
