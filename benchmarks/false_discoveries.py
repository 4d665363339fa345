"""How often does a call report any discovery when there is none?

    python benchmarks/false_discoveries.py [--calls 400]

A call has 48 runs x 21 pairs, as in the first study, and no two test sets are related once the in-domain score is
taken out. A call is wrong if any pair has q < 0.05.
"""

from __future__ import annotations

import argparse

import numpy as np

from breadth.datasets import autoregressive, control_series
from breadth.stats import Panel, Regressor, Settings, benjamini_hochberg, partial_correlations


def wrong_calls(regressor: Regressor, rho: float, calls: int, seed: int = 0, runs: int = 48, facets: int = 7) -> float:
    """Share of calls under the global null that report any q < 0.05, with the default (ar) inference."""
    generator = np.random.default_rng(seed)
    control = control_series(generator, calls * runs, 41, "learning", rho)
    noise = autoregressive(generator, calls * runs, 41, np.eye(facets), rho)
    curve = np.sin(2 * control) if regressor == "gam" else control
    found = partial_correlations(
        Panel(noise + curve[:, :, None], control[:, :, None]), Settings(regressor, inference="ar")
    )
    p = found.p.reshape(calls, -1)
    return float(np.mean([bool((benjamini_hochberg(row) < 0.05).any()) for row in p]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=400)
    calls = parser.parse_args().calls
    error = np.sqrt(0.05 * 0.95 / calls)
    print(f"share of {calls} calls with any q < 0.05 under the global null (bar: 0.05, simulation error {error:.3f})")
    print("| regressor | AR 0 | AR 0.3 | AR 0.6 | AR 0.9 |\n|---|---|---|---|---|")
    for regressor in ("linear", "gam"):
        cells = [wrong_calls(regressor, rho, calls) for rho in (0.0, 0.3, 0.6, 0.9)]  # type: ignore[arg-type]
        print(f"| {regressor} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
