"""Do the intervals and tests of ``transfer`` hold on simulated studies whose truth is known?

    python benchmarks/transfer_recovery.py [cells|effects|breaks] [--studies 1000] [--judge]

A simulated study trains on each level with a few seeds and tests on all levels. Items differ in difficulty, trained
models differ by seed, and the gain on level j after training on level k is g - fade |k - j| + asymmetry (+1/2 if k is
the easier one, -1/2 if the harder) + quality of the data of level k. One training level may be unstable, items may come
in clusters, and accuracy may decline steadily or in a step.

- ``cells``: how often 95 % intervals of cells contain the truth, for the unstable training level and for the others.
- ``effects``: how often fading and asymmetry are held, and called where there is none.
- ``breaks``: how many studies name a level at which accuracy breaks off where it declines steadily, and how many name
  the right one where there is a step.

Without ``--judge``, the settings on which the rules were chosen. With it, those that were looked at once, afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from breadth.inference import Floats, benjamini_hochberg
from breadth.level_transfer.breaks import breaking_point
from breadth.level_transfer.gains import Gains, Moments, cell_weights, distance_weights, estimate_contrast

#: The training level that is unstable, where one is.
UNSTABLE = 1


@dataclass(frozen=True)
class Setting:
    """How studies are simulated.

    ``spread`` is the standard deviation of what a seed adds to all levels, ``own_spread`` of what it adds to every
    level by itself; the unstable training level has ``unstable`` times as much of both. ``cluster`` is the mean number
    of items in a cluster, whose gains share a deviation of ``cluster_spread``; ``unequal`` clusters differ in size.
    ``quality`` is what the data of a training level add to its gains on every test level. ``steep`` is the loss of
    accuracy from level to level before training, ``step`` a drop at the middle instead.
    """

    fade: float = 0.02
    asymmetry: float = 0.0
    seeds: int = 3
    items: int = 100
    levels: int = 5
    spread: float = 0.03
    own_spread: float = 0.0
    unstable: float = 1.0
    cluster: int = 1
    cluster_spread: float = 0.15
    unequal: bool = False
    across: bool = False
    quality: tuple[float, ...] | None = None
    steep: float = 0.06
    step: float = 0.0
    heavy: bool = False


def simulated_study(generator: np.random.Generator, setting: Setting) -> tuple[Gains, Floats]:
    """Answers of a study, and its true gains [train level, test level].

    A trained model's chance of a right answer is the untrained model's plus the gain, an item effect that all trained
    models share, and an effect of its seed; answers are coupled to the untrained model's so that few of them change.
    """
    levels, items = setting.levels, setting.items
    k, j = np.indices((levels, levels))
    gain = 0.12 - setting.fade * np.abs(k - j) + setting.asymmetry * np.sign(j - k) / 2
    if setting.quality is not None:
        gain = gain + np.array(setting.quality)[:, None]
    number = levels * items
    level = np.repeat(np.arange(levels), items)
    mean = 0.52 + setting.steep * ((levels - 1) / 2 - np.arange(levels))
    if setting.step:
        mean = 0.52 + setting.step / 2 - setting.step * (np.arange(levels) >= levels // 2)
    chance = mean[level] + generator.uniform(-0.17, 0.17, number)
    luck = generator.random(number)
    baseline = (luck < chance).astype(float)
    liking = generator.normal(0, 0.05, number)
    cluster = None
    if setting.cluster > 1:
        cluster = _clusters(generator, setting, number)
        liking += generator.normal(0, setting.cluster_spread, number)[cluster]
    trained = []
    for condition, row in enumerate(gain):
        factor = setting.unstable if condition == UNSTABLE else 1.0
        shift = row[level] + liking + factor * _seed_effects(generator, setting)[:, level]
        fresh = generator.random((setting.seeds, number))
        own = np.where(generator.random((setting.seeds, number)) < 0.6, luck, fresh)
        trained.append((own < chance + shift).astype(float))
    return Gains(tuple(trained), baseline, level, 0, cluster), gain


def _seed_effects(generator: np.random.Generator, setting: Setting) -> Floats:
    """What every seed adds to every test level [seeds, levels]."""
    size = (setting.seeds, 1)
    common = generator.normal(size=size)
    if setting.heavy:
        # Training that fails now and then: t with 4 degrees of freedom, scaled to the same variance.
        common = generator.standard_t(4, size=size) / np.sqrt(2)
    own = generator.normal(size=(setting.seeds, setting.levels))
    return setting.spread * common + setting.own_spread * own


def _clusters(generator: np.random.Generator, setting: Setting, number: int) -> np.ndarray:
    """Cluster of every item: neighbours, so that a cluster lies in one level, or spread over all levels."""
    size = setting.cluster
    if setting.unequal:
        edges = generator.random(number) < 1 / size
        neighbours = np.cumsum(edges)
    else:
        neighbours = np.arange(number) // size
    if setting.across:
        neighbours = neighbours.reshape(setting.items, setting.levels).T.ravel()
    return neighbours.astype(np.intp)


def studies_of(setting: Setting, studies: int, seed: int = 0) -> Iterator[tuple[Gains, Floats]]:
    """Simulated studies, one after the other."""
    generator = np.random.default_rng(seed)
    for _ in range(studies):
        yield simulated_study(generator, setting)


def cell_coverage(setting: Setting, studies: int, seed: int = 0) -> tuple[float, float, float]:
    """Share of cells held: of the training level that may be unstable, of the others; median half-width of these."""
    held: list[list[bool]] = [[], []]
    widths = []
    for gains, truth in studies_of(setting, studies, seed):
        moments = Moments(gains)
        for k in range(setting.levels):
            for j in range(setting.levels):
                one = estimate_contrast(moments, cell_weights(setting.levels, setting.levels, k, j))
                if np.isnan(one.low):
                    continue  # a level whose items are all of one cluster has no interval
                held[k != UNSTABLE].append(one.low <= truth[k, j] <= one.high)
                if k != UNSTABLE:
                    widths.append((one.high - one.low) / 2)
    return float(np.mean(held[0])), float(np.mean(held[1])), float(np.median(widths))


def effect_coverage(setting: Setting, studies: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Share of studies that hold the true slope and asymmetry, and share with p < 0.05."""
    held, called = np.zeros(2), np.zeros(2)
    truth = (-setting.fade, setting.asymmetry)
    for gains, _ in studies_of(setting, studies, seed):
        moments = Moments(gains)
        for index, weights in enumerate(distance_weights(setting.levels)):
            one = estimate_contrast(moments, weights)
            held[index] += one.low <= truth[index] <= one.high
            called[index] += one.p < 0.05
    return held / studies, called / studies


def boundaries(setting: Setting, studies: int, seed: int = 0) -> tuple[float, float, float]:
    """Share of studies that name any boundary, share of curves that do, and share of curves with p < 0.05."""
    named, curves, p_below = [], [], []
    for gains, _ in studies_of(setting, studies, seed):
        plain = gains._replace(baseline=np.zeros(len(gains.level)))
        before = breaking_point(plain._replace(trained=(gains.baseline[None],)), 0, trained=False)
        found = [before, *(breaking_point(plain, k) for k in range(setting.levels))]
        p = np.array([one.p for one in found])
        drops = np.array([one.drop > 0 for one in found])
        own = (benjamini_hochberg(p) < 0.05) & drops
        named.append(own.any())
        curves.append(own.mean())
        p_below.append((p < 0.05).mean())
    return float(np.mean(named)), float(np.mean(curves)), float(np.mean(p_below))


def _described(setting: Setting) -> str:
    """What differs from the usual study."""
    usual = Setting()
    different = []
    for name, value in vars(setting).items():
        if value != getattr(usual, name) or name in ("seeds", "items"):
            different.append(f"{name} {value}")
    return ", ".join(different)


def cell_settings(judge: bool) -> list[Setting]:
    """Homogeneous seeds, one unstable training level, clusters."""
    if judge:
        kinds = [
            Setting(levels=4, spread=0.025, own_spread=0.02),
            Setting(levels=6, spread=0.02, unstable=5.0),
            Setting(levels=4, spread=0.03, own_spread=0.01, unstable=3.0, heavy=True),
            Setting(levels=4, cluster=10, cluster_spread=0.12, unequal=True),
            Setting(levels=4, cluster=10, cluster_spread=0.12, unstable=3.0, across=True),
        ]
        # The degrees of freedom over levels were changed after these were seen; the next two were looked at after that.
        three = Setting(levels=3, spread=0.03, own_spread=0.015)
        kinds += [replace(three, cluster=5, cluster_spread=0.1), replace(three, unstable=4.0)]
        sizes: Sequence[int] = (40, 400)
    else:
        kinds = [Setting(), Setting(unstable=4.0), Setting(cluster=10), Setting(cluster=10, unstable=4.0)]
        sizes = (60, 200)
    return _crossed(kinds, (2, 3, 5, 10), sizes)


def _crossed(kinds: Sequence[Setting], seeds: Sequence[int], items: Sequence[int]) -> list[Setting]:
    """Every kind of study with every number of seeds and of items a level."""
    return [replace(kind, seeds=number, items=size) for kind in kinds for number in seeds for size in items]


def effect_settings(judge: bool) -> list[Setting]:
    """Levels whose training data differ in quality, without and with an asymmetry."""
    usual = Setting(quality=(0.08, 0.04, 0.0, -0.04, -0.08))
    step = replace(usual, asymmetry=0.08)
    seeds: Sequence[int] = (2, 3, 5)
    sizes: Sequence[int] = (60, 200)
    if judge:
        usual = Setting(levels=4, fade=0.0, quality=(0.1, -0.05, 0.06, -0.04), spread=0.02, own_spread=0.015)
        step = Setting(levels=6, asymmetry=0.06, quality=(0.0, 0.1, 0.1, 0.0, -0.05, 0.05), spread=0.02)
        seeds, sizes = (2, 3, 4, 5), (80, 300)
    kinds = [usual, replace(usual, unstable=3.0), step]
    if judge:
        # Looked at last, as the cells of three levels.
        quality = (0.06, -0.06, 0.06, -0.06, 0.06, -0.06, 0.06)
        seven = Setting(levels=7, fade=0.01, steep=0.04, spread=0.04, own_spread=0.01, quality=quality)
        kinds += [seven, replace(seven, unstable=4.0)]
    return _crossed(kinds, seeds, sizes)


def break_settings(judge: bool) -> list[Setting]:
    """Accuracy that declines steadily, and a step."""
    if judge:
        kinds = [
            Setting(levels=4, steep=0.1), Setting(levels=6, steep=0.05, own_spread=0.03), Setting(levels=8, steep=0.0),
            Setting(levels=5, steep=0.08, cluster=10, cluster_spread=0.12), Setting(levels=6, step=0.25),
        ]  # fmt: skip
        sizes: Sequence[int] = (40, 400)
    else:
        kinds = [Setting(), Setting(own_spread=0.02), Setting(steep=0.0), Setting(cluster=10), Setting(step=0.3)]
        sizes = (60, 200)
    return _crossed(kinds, (1, 2, 5), sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cells", "effects", "breaks"))
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--judge", action="store_true")
    arguments = parser.parse_args()
    columns = {
        "cells": ("level 1 held", "others held", "half-width of others"),
        "effects": ("slope held", "asymmetry held", "slope p < .05", "asymmetry p < .05"),
        "breaks": ("studies that name one", "curves", "curves with p < .05"),
    }[arguments.what]
    print("| setting | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    settings = {"cells": cell_settings, "effects": effect_settings, "breaks": break_settings}[arguments.what]
    for setting in settings(arguments.judge):
        if arguments.what == "cells":
            numbers = cell_coverage(setting, arguments.studies)
        elif arguments.what == "breaks":
            numbers = boundaries(setting, arguments.studies)
        else:
            numbers = tuple(np.concatenate(effect_coverage(setting, arguments.studies)))
        shown = " | ".join(f"{value:.3f}" for value in numbers)
        print(f"| {_described(setting)} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
