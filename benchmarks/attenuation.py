"""Does the correction for sampling noise find the correlation of the true accuracies?

    python benchmarks/attenuation.py [--runs 1500]

Accuracies of finite test sets (binomial, fresh items at every checkpoint) are drawn around true accuracies whose
partial correlation is known. The table shows the plain and the corrected estimate and how often the corrected interval
covers the truth.
"""

from __future__ import annotations

import argparse

import numpy as np

from breadth.correlation import Adjust, Panel, Partial, Settings, partial_correlations
from breadth.datasets import autoregressive, control_series


def noisy_panel(adjust: Adjust, truth: float, items: int, runs: int, rho: float, seed: int = 0) -> Panel:
    """Runs of two finite test sets and a finite in-domain set over 41 checkpoints."""
    generator = np.random.default_rng(seed)
    control = control_series(generator, runs, 41, "learning", rho)
    curve = np.sin(2 * control) if adjust == "gam" else control
    moves = autoregressive(generator, runs, 41, np.array([[1, truth], [truth, 1]]), rho)
    accuracy = np.clip(0.5 + 0.15 * curve[:, :, None] * np.array([1, 1.3]) + 0.03 * moves, 0, 1)
    in_domain = np.clip(0.5 + 0.4 * control, 0, 1)
    return Panel(
        generator.binomial(items, accuracy) / items, (generator.binomial(items, in_domain) / items)[:, :, None]
    )


def corrected(panel: Panel, adjust: Adjust, items: int) -> Partial:
    """Analyse with known item counts."""
    settings = Settings(adjust, ci="ar", counts=np.full(3, float(items)), scale=np.ones(3))
    return partial_correlations(panel, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1500)
    runs = parser.parse_args().runs
    print("| adjust | AR | items | true r | plain r | corrected r | decided | coverage | reliability |")
    print("|---|---|---|---|---|---|---|---|---|")
    for adjust in ("linear", "gam"):
        for rho in (0.0, 0.6, 0.9):
            for items in (500, 2000):
                for truth in (0.0, 0.5):
                    result = corrected(noisy_panel(adjust, truth, items, runs, rho), adjust, items)  # type: ignore[arg-type]
                    right = result.correction
                    assert right is not None
                    known = ~np.isnan(right.r)
                    covered = ((right.ci_low <= truth) & (truth <= right.ci_high))[known].mean()
                    print(
                        f"| {adjust} | {rho:g} | {items} | {truth:g} | {np.median(result.r):.2f} "
                        f"| {np.median(right.r[known]):.2f} | {known.mean():.0%} | {covered:.3f} "
                        f"| {np.median(right.reliability_a):.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
