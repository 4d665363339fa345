"""Does the test of early against late training find changes that are there, and none that are not?

    python benchmarks/windows.py [--studies 500] [--judge]

Runs of 41 checkpoints or more, cut into parts; three test sets whose fluctuations are autoregressions, with a true
correlation in the first and the last part, around curves of the in-domain score. The last column but one says how
often a pair is called different at p < 0.05, the last how often the 95 % interval covers the true difference. With
items, every score has binomial noise, new at every checkpoint; the fluctuations can be smaller in the first part, so
that scores are less reliable there. Units are runs, or models with seeds, between which correlations and their change
vary. ``--judge`` uses the settings that played no part in the choice of the method.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.correlation import Panel, Settings, change_of_run, change_over_units, partial_correlations
from breadth.correlation.result import select_groups

Floats = npt.NDArray[np.float64]

SETS = 3

#: Standard deviation of the fluctuations, in shares.
POINTS = 0.02


class Setting(NamedTuple):
    """What to simulate: units, seeds in each, checkpoints, parts, autocorrelation, true correlations, noise."""

    units: int
    seeds: int = 1
    steps: int = 41
    parts: int = 2
    rho: float = 0.5
    early: float = 0.0
    late: float = 0.0
    spread: float = 0.0
    control_items: float = float("inf")
    set_items: float = float("inf")
    calm: float = 1.0
    adjust: str = "gam"


def correlated(r: Floats) -> Floats:
    """A matrix per run in which every two sets correlate by the same r."""
    eye = np.eye(SETS)
    matrix: Floats = r[:, None, None] * (1 - eye) + eye
    return matrix


def simulate(generator: np.random.Generator, setting: Setting, studies: int) -> tuple[Panel, Panel]:
    """Scores of the first and the last part of all runs of all studies."""
    runs, steps = studies * setting.units * setting.seeds, setting.steps

    def of_run(truth: float) -> Floats:
        apart = setting.spread * generator.standard_normal(studies * setting.units)
        # All pairs of three sets cannot correlate below -0.5.
        r = np.clip(np.tanh(np.arctanh(truth) + apart), -0.45, 0.98)
        return np.repeat(r, setting.seeds)

    # One series whose correlation changes in the middle: innovations of both halves have their own.
    first, second = (np.linalg.cholesky(correlated(of_run(truth))) for truth in (setting.early, setting.late))
    shocks = generator.standard_normal((runs, steps, SETS))
    early_place = np.arange(steps) < steps / 2
    mixed = np.where(
        early_place[None, :, None],
        shocks @ first.transpose(0, 2, 1),
        shocks @ second.transpose(0, 2, 1),
    )
    moves = np.empty_like(mixed)
    moves[:, 0] = mixed[:, 0]
    for step in range(1, steps):
        moves[:, step] = setting.rho * moves[:, step - 1] + np.sqrt(1 - setting.rho**2) * mixed[:, step]
    moves *= POINTS * np.where(early_place, setting.calm, 1.0)[None, :, None]
    learnt = 1 - np.exp(-3 * np.linspace(0, 1, steps)) + 0.03 * generator.standard_normal((runs, steps))
    height = generator.uniform(0.1, 0.35, (runs, 1, SETS))
    accuracy = np.clip(0.5 + height * np.clip(learnt, 0, None)[:, :, None] + moves, 0.02, 0.98)
    in_domain = np.clip(0.5 + 0.4 * learnt, 0.02, 0.98)[:, :, None]

    def observe(share: Floats, items: float) -> Floats:
        if not np.isfinite(items):
            return share
        seen: Floats = generator.binomial(int(items), share) / items
        return seen

    scores, control = observe(accuracy, setting.set_items), observe(in_domain, setting.control_items)
    part = np.arange(steps) * setting.parts // steps
    return tuple(Panel(scores[:, part == at], control[:, part == at]) for at in (0, setting.parts - 1))  # type: ignore[return-value]


def judge(setting: Setting, studies: int, seed: int = 0) -> tuple[float, float, float]:
    """Share of pairs with p < 0.05, of pairs that can be judged, and of these whose interval covers the difference."""
    generator = np.random.default_rng((seed, setting.units, setting.seeds, setting.steps))
    counts = scale = None
    if np.isfinite([setting.control_items, setting.set_items]).any():
        items = np.array([setting.set_items] * SETS + [setting.control_items])
        counts, scale = np.where(np.isfinite(items), items, np.nan), np.ones(SETS + 1)
    settings = Settings(setting.adjust, ci="ar", counts=counts, scale=scale)  # type: ignore[arg-type]
    sides = [partial_correlations(panel, settings) for panel in simulate(generator, setting, studies)]
    of_unit = np.repeat(np.arange(setting.units), setting.seeds)
    each = setting.units * setting.seeds
    truth = np.arctanh(setting.late) - np.arctanh(setting.early)
    found, known, covered = [], [], []
    for study in range(studies):
        own = np.arange(study * each, (study + 1) * each)
        early, late = (select_groups(side, own) for side in sides)
        result = change_over_units(early, late, of_unit) if setting.units > 2 else change_of_run(early, late)
        there = ~np.isnan(result.p)
        known += there.tolist()
        found += (result.p[there] < 0.05).tolist()
        covered += ((result.ci_low <= truth) & (truth <= result.ci_high))[there].tolist()
    return float(np.mean(found or [np.nan])), float(np.mean(known)), float(np.mean(covered or [np.nan]))


TUNED = [
    Setting(1), Setting(1, rho=0.9), Setting(3), Setting(3, rho=0.9), Setting(12), Setting(12, rho=0.9),
    Setting(12, rho=0.9, parts=3), Setting(6, early=0.5, late=0.5), Setting(4, seeds=6, spread=0.3),
    Setting(12, control_items=500, set_items=2000), Setting(12, early=0.5, late=0.5, set_items=1000, calm=0.5),
    Setting(1, early=0.5, late=0.5, set_items=2000, calm=0.7),
    Setting(12, early=0.6, late=0.0), Setting(12, early=0.0, late=0.6, set_items=2000, control_items=5000),
    Setting(3, early=0.6, late=0.0), Setting(1, early=0.8, late=0.0, steps=100),
]  # fmt: skip
JUDGED = [
    Setting(1, rho=0.7, steps=60), Setting(1, rho=0.3, adjust="linear", parts=3), Setting(2, rho=0.9, steps=60),
    Setting(4, rho=0.7, steps=30), Setting(8, rho=0.8, steps=60, parts=3, early=0.4, late=0.4),
    Setting(24, rho=0.9), Setting(48, set_items=2000, control_items=500), Setting(6, seeds=2, spread=0.2, rho=0.7),
    Setting(8, set_items=800, control_items=1500),
    Setting(8, early=0.6, late=0.6, set_items=3000, control_items=3000, calm=0.6),
    Setting(3, seeds=4, early=0.3, late=0.3, spread=0.2, set_items=1000),
    Setting(8, early=0.5, late=0.0, rho=0.7), Setting(6, early=0.2, late=0.7, set_items=1500),
]  # fmt: skip


def describe(setting: Setting) -> str:
    """A setting as cells of a table."""
    noise = "none"
    if np.isfinite(setting.set_items):
        noise = f"{setting.control_items:g}, {setting.set_items:g}"
    units = f"{setting.units}" if setting.seeds == 1 else f"{setting.units} x {setting.seeds}"
    return (
        f"{units} | {setting.steps} / {setting.parts} | {setting.adjust} | {setting.rho:g} | {setting.early:g} to "
        f"{setting.late:g} | {setting.spread:g} | {noise} | {setting.calm:g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--judge", action="store_true", help="settings that played no part in the choice")
    options = parser.parse_args()
    columns = ("units", "checkpoints / parts", "adjust", "AR", "true r", "spread", "items: control, sets", "early sd")
    print("| " + " | ".join([*columns, "judged", "p < .05", "covered"]) + " |\n" + "|---" * 11 + "|")
    for setting in JUDGED if options.judge else TUNED:
        found, known, covered = judge(setting, options.studies)
        print(f"| {describe(setting)} | {known:.2f} | {found:.3f} | {covered:.3f} |", flush=True)


if __name__ == "__main__":
    main()
