"""When does `calibrate` say that answers do not measure one ability, and when should it?

    python benchmarks/irt_one_ability.py [--repeats 40] [--data ../shared/data/responses]

Simulated answers of 20 to 300 subjects. The first kinds have one ability (plain, weak slopes, steep slopes, guessing,
too hard, 5 % wrong keys): the share of repeats in which the headline appears should be small. The others have none or
several: a preference for one of two answers, pure guessing, two independent abilities. Then real matrices; for the 1PL
the figures are those of the first principal component, where there is one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

import breadth

SIZES = ((20, 60), (40, 100), (80, 50), (150, 150), (300, 60))
ONE = ("plain", "weak", "steep", "guessing", "too hard", "wrong keys")
OTHER = ("preference", "chance", "two abilities")


def simulate(kind: str, subjects: int, items: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Answers of one kind."""
    ability, second = generator.standard_normal((2, subjects, 1))
    difficulty, slope = generator.normal(0, 1, items), np.exp(generator.normal(0, 0.4, items))
    half = np.arange(items) % 2 == 0
    logit = slope * (ability - difficulty)
    floor = 0.25 if kind == "guessing" else 0.0
    if kind == "weak":
        logit = 0.4 * logit
    elif kind == "steep":
        logit = 2.5 * logit
    elif kind == "too hard":
        logit = logit - 2.5 * slope
    elif kind == "wrong keys":
        logit = np.where(generator.random(items) < 0.05, -logit, logit)
    elif kind == "preference":
        logit = 0.3 * logit + np.where(half, 1.2, -1.2) * second
    elif kind == "chance":
        logit = np.zeros_like(logit) - 1.1
    elif kind == "two abilities":
        logit = slope * (np.where(half, ability, second) - difficulty)
    chance = floor + (1 - floor) / (1 + np.exp(-logit))
    return (generator.random(chance.shape) < chance).astype(np.int8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--data", type=Path, help="directory of NPZ matrices")
    given = parser.parse_args()
    generator = np.random.default_rng(2026)
    print("| headline appears | model | " + " | ".join(f"{n} x {j}" for n, j in SIZES) + " |\n|---|---|" + "---|" * 5)
    for kind in (*ONE, *OTHER):
        for model in ("1pl", "2pl"):
            cells = []
            for subjects, items in SIZES:
                raised = []
                for _ in range(given.repeats):
                    result = breadth.calibrate(simulate(kind, subjects, items, generator), model=model)
                    raised.append("one ability" in (result.scale_warning or ""))
                cells.append(float(np.mean(raised)))
            print(f"| {kind} | {model} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)
    if given.data is None:
        return
    print(
        "\n| matrix | model | against the scale or component | rank correlation | headline | without difficulty |\n"
        "|---|---|---|---|---|---|"
    )
    for path in sorted(given.data.glob("*.npz")):
        for model in ("1pl", "2pl"):
            result = breadth.calibrate(path, model=model)
            fit = result.fit.row(0, named=True)
            headline = "one ability" in (result.scale_warning or "")
            without = f"{result.items['difficulty'].null_count()} of {result.items.height}"
            names = ("against_scale", "score_correlation")
            if fit["main_correlation"] is not None:
                names = ("against_main", "main_correlation")
            numbers = f"{fit[names[0]]:.3f} | {fit[names[1]]:.3f}"
            print(f"| {path.stem} | {model} | {numbers} | {headline} | {without} |", flush=True)


if __name__ == "__main__":
    main()
