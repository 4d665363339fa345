"""How often do 95 % intervals for difficulty hold the truth?

    python benchmarks/irt_coverage.py [--answers 2000000]

Answers are simulated again and again; an interval is the estimate plus and minus 1.96 standard errors. Difficulty is in
standard deviations of ability, so a 1PL estimate is compared with the true difficulty as it stands.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

from breadth.datasets import simulate_answers
from breadth.irt import MODELS, Answers

SIZES = ((300, 30), (1000, 60), (500, 200), (1000, 1000))


def coverage(model: Literal["1pl", "2pl"], subjects: int, items: int, missing: float, repeats: int) -> float:
    """Share of items, over repeats, whose interval holds the true difficulty."""
    held = []
    for seed in range(repeats):
        truth = simulate_answers(subjects, items, seed, model, missing)
        estimates = MODELS[model].fit(Answers.of(truth.matrix))
        held.append(np.abs(estimates.difficulty - truth.difficulty) <= 1.959964 * estimates.difficulty_se)
    return float(np.mean(held))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000_000, help="about so many answers per cell")
    total = parser.parse_args().answers
    print("| model | missing | " + " | ".join(f"{n} x {j}" for n, j in SIZES) + " |\n|---|---|" + "---|" * len(SIZES))
    for model in ("1pl", "2pl"):
        for missing in (0.0, 0.3):
            repeats = [max(4, total // (n * j)) for n, j in SIZES]
            cells = [coverage(model, n, j, missing, k) for (n, j), k in zip(SIZES, repeats, strict=True)]  # type: ignore[arg-type]
            print(f"| {model} | {missing:.0%} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
