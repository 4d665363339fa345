"""How often do 95 % intervals for difficulty hold the truth?

    python benchmarks/irt_coverage.py [--answers 2000000] [--slopes | --guessing]

Answers are simulated again and again; an interval is the estimate plus and minus 1.96 standard errors. Difficulty is in
standard deviations of ability, so a 1PL estimate is compared with the true difficulty as it stands. ``--slopes`` runs
the 2PL with slopes around 0.5, 1, 2 and 3 and items of mean difficulty 0.3 instead. ``--guessing`` simulates subjects
that guess, and tells `calibrate` with which chance: its intervals, beside those of the same model without a floor.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import MODELS, Answers

SIZES = ((300, 30), (1000, 60), (500, 200), (1000, 1000))
SLOPE_SIZES = ((300, 1000), (500, 200), (1000, 1000))

#: Chances of guessing and mean difficulties. The floor was built with chances of .25 and .5 and a mean of 0.
GUESSING = ((0.25, 0.0), (0.5, 0.0), (0.2, 0.5), (0.333, 1.0), (0.25, -0.5))


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


def coverage_with_guessing(
    model: Literal["1pl", "2pl"], chance: float, mean: float, subjects: int, items: int, repeats: int
) -> tuple[float, float, float]:
    """Coverage of `calibrate` where the chance is given, the share of repeats with a floor, and coverage without one.

    Items without a difficulty count in neither coverage.
    """
    held, bare, floors = [], [], []
    for seed in range(repeats):
        rng = np.random.default_rng(1000 + seed)
        slope = np.ones(items) if model == "1pl" else rng.lognormal(0, 0.3, items)
        difficulty = rng.normal(mean, 1, items)
        known = 1 / (1 + np.exp(-slope * (rng.normal(0, 1, (subjects, 1)) - difficulty)))
        answers = (rng.random(known.shape) < chance + (1 - chance) * known).astype(np.int8)
        for given, into in ((chance, held), (0.0, bare)):
            found = breadth.calibrate(answers, model=model, chance=given)
            estimate, error = (found.items[name].to_numpy() for name in ("difficulty", "difficulty_se"))
            placed = np.isfinite(estimate) & np.isfinite(error)
            into.append((np.abs(estimate - difficulty) <= 1.959964 * error)[placed])
            if given:
                floors.append(found.fit["floor"].item() is not None)
    return float(np.mean(np.concatenate(held))), float(np.mean(floors)), float(np.mean(np.concatenate(bare)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000_000, help="about so many answers per cell")
    parser.add_argument("--slopes", action="store_true", help="the 2PL with other typical slopes")
    parser.add_argument("--guessing", action="store_true", help="subjects that guess with a known chance")
    options = parser.parse_args()
    total = options.answers
    if options.guessing:
        print("| model | chance | mean difficulty | " + " | ".join(f"{n} x {j}" for n, j in SIZES), end=" |\n")
        print("|---|---|---|" + "---|" * len(SIZES))
        for model in ("1pl", "2pl"):
            for chance, mean in GUESSING:
                cells = []
                for n, j in SIZES:
                    figures = coverage_with_guessing(model, chance, mean, n, j, max(4, total // (n * j)))  # type: ignore[arg-type]
                    cells.append("{:.3f} (floor in {:.0%}; without {:.3f})".format(*figures))
                print(f"| {model} | {chance:g} | {mean:g} | " + " | ".join(cells) + " |", flush=True)
        return
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
