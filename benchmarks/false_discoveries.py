"""How often does a call report any discovery when there is none?

    python benchmarks/false_discoveries.py [--calls 400]

A call has 48 runs x 21 pairs, as in the first study, and no two test sets are related after controlling for the
in-domain score. A call is wrong if any pair has q < 0.05.
"""

from __future__ import annotations

import argparse

import numpy as np

from breadth.correlation import Adjust, Panel, Settings, partial_correlations
from breadth.datasets import autoregressive, control_series
from breadth.inference import benjamini_hochberg


def wrong_calls(adjust: Adjust, rho: float, calls: int, seed: int = 0, runs: int = 48, testsets: int = 7) -> float:
    """Share of calls under the global null that report any q < 0.05, with the default interval (ar)."""
    generator = np.random.default_rng(seed)
    control = control_series(generator, calls * runs, 41, "learning", rho)
    noise = autoregressive(generator, calls * runs, 41, np.eye(testsets), rho)
    curve = np.sin(2 * control) if adjust == "gam" else control
    result = partial_correlations(Panel(noise + curve[:, :, None], control[:, :, None]), Settings(adjust, ci="ar"))
    p = result.p.reshape(calls, -1)
    return float(np.mean([bool((benjamini_hochberg(row) < 0.05).any()) for row in p]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=400)
    calls = parser.parse_args().calls
    error = np.sqrt(0.05 * 0.95 / calls)
    print(f"share of {calls} calls with any q < 0.05 under the global null (bar: 0.05, simulation error {error:.3f})")
    print("| adjust | AR 0 | AR 0.3 | AR 0.6 | AR 0.9 |\n|---|---|---|---|---|")
    for adjust in ("linear", "gam"):
        cells = [wrong_calls(adjust, rho, calls) for rho in (0.0, 0.3, 0.6, 0.9)]  # type: ignore[arg-type]
        print(f"| {adjust} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
