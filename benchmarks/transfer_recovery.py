"""Does ``transfer`` recover a known fading and a known asymmetry of gains, without false alarms where both are 0?

    python benchmarks/transfer_recovery.py [--studies 2000]

A simulated study trains on each of five levels with a few seeds and tests on all five. Items differ in difficulty,
trained models differ by seed, and the gain on level j after training on level k is g - fade |k - j| + asymmetry (+1/2
if k is the easier one, -1/2 if the harder). The table shows how often 95 % intervals contain the true value, and how
often p < 0.05.
"""

from __future__ import annotations

import argparse

import numpy as np

from breadth.level_transfer.gains import Contrast, Gains, cell_weights, contrast, distance_weights

LEVELS = 5


def simulated_study(
    generator: np.random.Generator, fade: float, asymmetry: float, seeds: int, items: int, spread: float = 0.02
) -> tuple[Gains, np.ndarray]:
    """Answers of a study, and its true gains [train level, test level].

    A trained model's chance of a right answer is the untrained model's plus the gain, an item effect that all trained
    models share, and an effect of its seed; answers are coupled to the untrained model's so that few of them change.
    """
    k, j = np.indices((LEVELS, LEVELS))
    gain = 0.12 - fade * np.abs(k - j) + asymmetry * np.sign(j - k) / 2
    level = np.repeat(np.arange(LEVELS), items)
    chance = np.clip(
        np.repeat(np.linspace(0.7, 0.35, LEVELS), items) + generator.normal(0, 0.1, LEVELS * items), 0.2, 0.75
    )
    luck = generator.random(LEVELS * items)
    baseline = (luck < chance).astype(float)
    liking = generator.normal(0, 0.05, LEVELS * items)
    trained = []
    for row in gain:
        shift = generator.normal(0, spread, (seeds, 1)) + row[level] + liking
        own = np.where(generator.random((seeds, len(level))) < 0.6, luck, generator.random((seeds, len(level))))
        trained.append((own < chance + shift).astype(float))
    return Gains(tuple(trained), baseline, level), gain


def summaries(gains: Gains) -> tuple[Contrast, Contrast, Contrast]:
    """Slope against distance, asymmetry, and one cell (trained on level 1, tested on level 3)."""
    slope, asymmetry = distance_weights(LEVELS)
    return contrast(gains, slope), contrast(gains, asymmetry), contrast(gains, cell_weights(LEVELS, LEVELS, 1, 3))


def recovery(
    fade: float, asymmetry: float, seeds: int, items: int, studies: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Share of studies whose interval contains the true value, and with p < 0.05: for slope, asymmetry, cell."""
    generator = np.random.default_rng(seed)
    held, alarms = np.zeros(3), np.zeros(3)
    for _ in range(studies):
        gains, truth = simulated_study(generator, fade, asymmetry, seeds, items)
        for index, (ours, target) in enumerate(zip(summaries(gains), (-fade, asymmetry, truth[1, 3]), strict=True)):
            held[index] += ours.low <= target <= ours.high
            alarms[index] += ours.p < 0.05
    return held / studies, alarms / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    columns = ["fade", "asymmetry", "seeds", "items a level", "slope held", "asymmetry held", "cell held"]
    columns += ["slope p < .05", "asymmetry p < .05"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for fade, asymmetry in ((0.0, 0.0), (0.02, 0.03)):
        for seeds in (1, 2, 3, 5):
            for items in (60, 200):
                held, alarms = recovery(fade, asymmetry, seeds, items, studies)
                shown = " | ".join(f"{value:.3f}" for value in (*held, *alarms[:2]))
                print(f"| {fade:g} | {asymmetry:g} | {seeds} | {items} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
