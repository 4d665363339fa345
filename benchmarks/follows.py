"""How often does a test set falsely "follow" the in-domain gain, and how often is a true gain seen?

Runs of one recipe, from the same first checkpoint to a last fifth of nine checkpoints. Items have difficulties that all
checkpoints share; a run's checkpoints fluctuate around its level, as an autoregression, partly in all test sets at
once; levels may differ from run to run (seeds). A study has seven shifted test sets and an in-domain one that gains 30
points. Three rules are compared: "last": the last checkpoint with the interval used before (runs pooled with items by
Satterthwaite's degrees of freedom), "runs": the last checkpoint with ``add_runs``, "late": what ``breadth`` does, the
mean over the last fifth with ``add_runs``; from one run it says nothing.

python benchmarks/follows.py tune    # the settings on which the rule was chosen
python benchmarks/follows.py judge   # others, run once
python benchmarks/follows.py one     # the interval of a single run: does it hold the level of this run?
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.reporting.accuracy import GAINS, TESTED, behind, crossed_mean, settled_mean, with_findings

Floats = npt.NDArray[np.float64]

#: Density of the margins at 0, by which a change of ability becomes one of accuracy.
DIFFICULTY, PERSISTENT, TRANSIENT = 0.9, 0.6, 0.5
DENSITY = 1 / np.sqrt(2 * np.pi * (DIFFICULTY**2 + PERSISTENT**2 + TRANSIENT**2))

SETS = 7


@dataclass(frozen=True)
class Setting:
    """Fluctuation of a checkpoint and difference of seeds (sd, accuracy), what is shared by sets, items a set."""

    checkpoint: float = 0.05
    seed: float = 0.0
    shared: float = 0.5
    items: int = 500
    follows_itself: float = 0.5
    uneven: float = 0.0
    heavy: bool = False


TUNE = {
    "sd 5, half shared": Setting(),
    "sd 5, none shared": Setting(shared=0.0),
    "sd 2": Setting(checkpoint=0.02),
    "sd 2, seeds 2": Setting(checkpoint=0.02, seed=0.02),
    "sd 5, sets uneven, 200 items": Setting(uneven=0.5, items=200),
}
JUDGE = {
    "sd 8, all shared": Setting(checkpoint=0.08, shared=1.0),
    "sd 3, seeds 5": Setting(checkpoint=0.03, seed=0.05),
    "no fluctuation, 1,000 items": Setting(checkpoint=0.0, items=1000),
    "sd 5, autocorrelation .9": Setting(follows_itself=0.9),
    "sd 5, heavy tails, 100 items": Setting(heavy=True, items=100),
    "sd 4, sets very uneven": Setting(checkpoint=0.04, uneven=1.0),
}

#: True gains of the seven sets where some gain.
SOME = (0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3)


def checkpoint_changes(
    generator: np.random.Generator, setting: Setting, runs: int, gains: tuple[float, ...], checkpoints: int = 9
) -> list[Floats]:
    """Changes of answers [runs, checkpoints, items] from the first checkpoint to the late ones, of every set."""

    def series(*shape: int) -> Floats:
        values = generator.standard_t(3, shape) / np.sqrt(3) if setting.heavy else generator.standard_normal(shape)
        for k in range(1, shape[-1]):
            rest = np.sqrt(1 - setting.follows_itself**2)
            values[..., k] = setting.follows_itself * values[..., k - 1] + rest * values[..., k]
        return values

    common, common_seed = series(runs, checkpoints), generator.standard_normal(runs)
    changes = []
    for gain in gains:
        size = np.exp(setting.uneven * generator.standard_normal() - setting.uneven**2 / 2)
        own, own_seed = series(runs, checkpoints), generator.standard_normal(runs)
        moved = np.sqrt(setting.shared) * common + np.sqrt(1 - setting.shared) * own
        level = np.sqrt(setting.shared) * common_seed + np.sqrt(1 - setting.shared) * own_seed
        shift = gain + size * (setting.checkpoint * moved + setting.seed * level[:, None])
        difficulty = DIFFICULTY * generator.standard_normal(setting.items)
        noise = [scale * generator.standard_normal(setting.items) for scale in (PERSISTENT, TRANSIENT)]
        before = -difficulty + noise[0] + noise[1] > 0
        margin = shift[:, :, None] / DENSITY - difficulty
        margin += PERSISTENT * generator.standard_normal((runs, 1, setting.items))
        margin += TRANSIENT * generator.standard_normal(margin.shape)
        changes.append((margin > 0).astype(np.float64) - before)
    return changes


def true_gain(gain: float) -> float:
    """The change of accuracy that belongs to a gain on the scale of the margins, which is exact for small gains."""
    return float(special.ndtr(gain * np.sqrt(2 * np.pi)) - 0.5)


def former_mean(values: Floats, group: npt.NDArray[np.intp]) -> dict[str, float]:
    """The mean of changes [runs, items] as it was computed before: Satterthwaite's df for items and runs together."""
    counts = np.bincount(group)
    average = values.mean(axis=0)
    center = np.bincount(group, average) / counts
    by_group = np.bincount(group, (average - center[group]) ** 2) / ((counts - 1) * counts)
    items, wobble = float(by_group.sum()), float((by_group**2 / (counts - 1)).sum())
    runs = noise = 0.0
    if len(values) > 1:
        means = np.stack([np.bincount(group, row) / counts for row in values])
        left = values - average - (means - means.mean(axis=0))[:, group]
        squares = np.bincount(group, (left**2).sum(axis=0))
        noise = float((squares / ((len(values) - 1) * (counts - 1) * counts)).sum()) / len(values)
        runs = float(means.sum(axis=1).var(ddof=1)) / len(values)
        wobble += runs**2 / (len(values) - 1)
    total = max(items + runs - noise, items / 2)
    df, se, estimate = max(total**2 / wobble, 1.0), np.sqrt(total), float(center.sum())
    half = float(special.stdtrit(df, 0.975)) * se
    p = float(2 * special.stdtr(df, -abs(estimate) / se))
    return {"gain": estimate, "p": p, "ci_low": estimate - half, "ci_high": estimate + half}


def follow(away: list[Floats], home: Floats, former: bool = False) -> list[str | None]:
    """Which sets follow, from changes [runs, items]."""
    rows: list[dict[str, Any]] = []
    group = np.zeros(home.shape[1], dtype=np.intp)
    both = np.repeat([0, 1], len(group))
    for values in away:
        if former:
            late, lag = former_mean(values, group), former_mean(np.concatenate([values, -home / 2], axis=1), both)
        else:
            late, lag = crossed_mean(values, "gain"), behind((values, group), (home, group))
        row = {"late": late["gain"], "p_late": late["p"], "behind": lag["gain"], "p_behind": lag["p"]}
        rows.append({"in_domain": False} | row)
    frame = pl.DataFrame([dict.fromkeys(GAINS | TESTED) | row for row in rows], schema=GAINS | TESTED)
    return with_findings(frame)["follows"].to_list()


def rates(setting: Setting, runs: int, gains: tuple[float, ...], studies: int, seed: int = 0) -> dict[str, Any]:
    """Share of studies with any false "follows", false ones among those said to follow, power, coverage of the mean."""
    generator = np.random.default_rng(seed)
    nothing = np.array(gains) == 0
    # From one run, what breadth does is to say nothing.
    counts = {name: np.zeros(5) for name in (("last", "runs", "late") if runs > 1 else ("last",))}
    for _ in range(studies):
        *sets, inside = checkpoint_changes(generator, setting, runs, (*gains, 0.3))
        for name, total in counts.items():
            pick = [each.mean(axis=1) if name == "late" else each[:, -1] for each in (*sets, inside)]
            said = follow(pick[:-1], pick[-1], former=name == "last")
            yes = np.array([word in ("yes", "in part") for word in said])
            held = []
            for values, gain in zip(pick[:-1], gains, strict=True):
                group = np.zeros(values.shape[1], dtype=np.intp)
                row = former_mean(values, group) if name == "last" else crossed_mean(values, "gain")
                held.append(row["ci_low"] <= true_gain(gain) <= row["ci_high"])
            false = (yes & nothing).sum()
            total += [false > 0, false / max(yes.sum(), 1), (yes & ~nothing).sum(), np.mean(held), (~nothing).sum()]
    result = {}
    for name, (any_false, share_false, seen, held, real) in counts.items():
        result[name] = {"any": any_false / studies, "fdr": share_false / studies, "cover": held / studies}
        if real:
            result[name]["power"] = seen / real
    return result


def table(settings: dict[str, Setting], studies: int) -> None:
    """Print the rates of all rules, for all settings and numbers of runs."""
    for name, setting in settings.items():
        for runs in (1, 2, 3, 5):
            none = rates(setting, runs, (0.0,) * SETS, studies)
            some = rates(setting, runs, SOME, studies // 4, seed=1)
            words = [
                f"{rule}: any false {none[rule]['any']:.3f} coverage {none[rule]['cover']:.3f}; some gain: any "
                f"{some[rule]['any']:.3f} fdr {some[rule]['fdr']:.3f} power {some[rule]['power']:.2f}"
                for rule in none
            ]
            print(f"{name}, {runs} runs | " + " | ".join(words), flush=True)


def one(studies: int) -> None:
    """Share of intervals of a single run that hold its own level, with and without the checkpoints' fluctuation."""
    for checkpoints in (4, 6, 9, 17):
        for name, setting in {**TUNE, **JUDGE}.items():
            if setting.seed:
                continue  # the level of a run is its own, and not known to be 0
            generator = np.random.default_rng(3)
            held, items = [], []
            for _ in range(studies):
                for changes in checkpoint_changes(generator, setting, 1, (0.0, 0.0), checkpoints):
                    group = np.zeros(changes.shape[2], dtype=np.intp)
                    row = settled_mean(changes[0], "gain", group, 2)
                    held.append(row["ci_low"] <= 0 <= row["ci_high"])
                    row = crossed_mean(changes.mean(axis=1), "gain")
                    items.append(row["ci_low"] <= 0 <= row["ci_high"])
            print(
                f"{checkpoints} checkpoints, {name}: {np.mean(held):.3f}, items alone {np.mean(items):.3f}", flush=True
            )


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one(500)
    else:
        table({"tune": TUNE, "judge": JUDGE}[sys.argv[1]], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
