"""How often do 95 % intervals for difficulty hold the truth?

    python benchmarks/irt_coverage.py [--answers 2000000] [--slopes]

Answers are simulated again and again; an interval is the estimate plus and minus 1.96 standard errors. Difficulty is in
standard deviations of ability, so a 1PL estimate is compared with the true difficulty as it stands. ``--slopes`` runs
the 2PL with slopes around 0.5, 1, 2 and 3 and items of mean difficulty 0.3 instead.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

from breadth.datasets import simulate_answers
from breadth.irt import MODELS, Answers

SIZES = ((300, 30), (1000, 60), (500, 200), (1000, 1000))
SLOPE_SIZES = ((300, 1000), (500, 200), (1000, 1000))


def coverage(model: Literal["1pl", "2pl"], subjects: int, items: int, missing: float, repeats: int) -> float:
    """Share of items, over repeats, whose interval holds the true difficulty."""
    held = []
    for seed in range(repeats):
        truth = simulate_answers(subjects, items, seed, model, missing)
        estimates = MODELS[model].fit(Answers.of(truth.matrix))
        held.append(np.abs(estimates.difficulty - truth.difficulty) <= 1.959964 * estimates.difficulty_se)
    return float(np.mean(held))


def coverage_by_slope(typical: float, subjects: int, items: int, repeats: int) -> float:
    """The same for the 2PL with slopes log-normal around a typical one."""
    held = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        slope, difficulty = typical * rng.lognormal(0, 0.3, items), rng.normal(0.3, 1, items)
        chance = 1 / (1 + np.exp(-slope * (rng.normal(0, 1, (subjects, 1)) - difficulty)))
        estimates = MODELS["2pl"].fit(Answers.of((rng.random(chance.shape) < chance).astype(np.int8)))
        held.append(np.abs(estimates.difficulty - difficulty) <= 1.959964 * estimates.difficulty_se)
    return float(np.mean(held))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000_000, help="about so many answers per cell")
    parser.add_argument("--slopes", action="store_true", help="the 2PL with other typical slopes")
    options = parser.parse_args()
    total = options.answers
    if options.slopes:
        print("| typical slope | " + " | ".join(f"{n} x {j}" for n, j in SLOPE_SIZES) + " |\n|---|" + "---|" * 3)
        for typical in (0.5, 1.0, 2.0, 3.0):
            shares = (coverage_by_slope(typical, n, j, max(4, total // (n * j))) for n, j in SLOPE_SIZES)
            print(f"| {typical:g} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)
        return
    print("| model | missing | " + " | ".join(f"{n} x {j}" for n, j in SIZES) + " |\n|---|---|" + "---|" * len(SIZES))
    for model in ("1pl", "2pl"):
        for missing in (0.0, 0.3):
            repeats = [max(4, total // (n * j)) for n, j in SIZES]
            cells = [coverage(model, n, j, missing, k) for (n, j), k in zip(SIZES, repeats, strict=True)]  # type: ignore[arg-type]
            print(f"| {model} | {missing:.0%} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
