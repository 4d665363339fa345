"""Is the answer in large type right, with noisy test sets, seeds of few models, and models of few families?

    python benchmarks/units.py [verdicts | models | new | families] [--studies 100]

- verdicts: studies of one model with several runs; the share of each answer, for item counts from 50 to 5,000.
- models: runs are seeds of few models that differ; how often a mean of 0 is called a finding, and how often the
  interval for a new model covers its correlation.
- new: how often the interval for a new group covers, without noise.
- families: rows are models of families that are alike; how often the interval of a correlation covers.

Item counts are given, and items are drawn anew at every checkpoint.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
import numpy.typing as npt
import polars as pl

import breadth
from breadth.correlation import Panel, Settings, partial_correlations
from breadth.datasets import autoregressive

Floats = npt.NDArray[np.float64]

STEPS, SETS = 41, 4
PAIRS = np.triu_indices(SETS, 1)


def model_correlations(generator: np.random.Generator, models: int, truth: float, spread: float) -> Floats:
    """A correlation matrix [models, sets, sets] per model: every pair is apart from the truth by ``spread`` (z)."""
    apart = np.triu(spread * generator.standard_normal((models, SETS, SETS)), 1)
    upper = np.triu(np.tanh(np.arctanh(truth) + apart), 1)
    matrix = upper + upper.transpose(0, 2, 1) + np.eye(SETS)
    # The nearest valid matrix, by raising the lowest eigenvalues.
    values, vectors = np.linalg.eigh(matrix)
    matrix = vectors @ (np.maximum(values, 0.05)[:, :, None] * vectors.transpose(0, 2, 1))
    size = np.sqrt(np.diagonal(matrix, axis1=1, axis2=2))
    valid: Floats = matrix / size[:, :, None] / size[:, None, :]
    return valid


def simulate_table(
    generator: np.random.Generator,
    matrices: Floats,
    seeds: int,
    control_items: float,
    set_items: float,
    *,
    rho: float = 0.5,
    spread_points: float = 0.02,
    steps: int = STEPS,
) -> pl.DataFrame:
    """Accuracies of every model's seeds over checkpoints; infinitely many items have no noise."""
    models = len(matrices)
    runs = models * seeds
    moves = autoregressive(generator, runs, steps, np.repeat(matrices, seeds, axis=0), rho)
    learnt = 1 - np.exp(-3 * np.linspace(0, 1, steps)) + 0.03 * generator.standard_normal((runs, steps))
    height, bend = generator.uniform(0.1, 0.35, (runs, 1, SETS)), generator.uniform(0.7, 2, (runs, 1, SETS))
    curve = height * np.clip(learnt, 0, None)[:, :, None] ** bend
    accuracy = np.clip(0.5 + curve + spread_points * moves, 0.02, 0.98)
    in_domain = np.clip(0.5 + 0.4 * learnt, 0.02, 0.98)

    def observe(share: Floats, items: float) -> Floats:
        if not np.isfinite(items):
            return share
        seen: Floats = generator.binomial(int(items), share) / items
        return seen

    scores = observe(accuracy, set_items).reshape(-1, SETS)
    return pl.DataFrame(
        {
            "model": np.repeat([f"model-{index}" for index in range(models)], seeds * steps),
            "run": np.repeat([f"run-{index:03d}" for index in range(runs)], steps),
            "step": np.tile(16 * np.arange(steps), runs),
            "in_domain": observe(in_domain, control_items).reshape(-1),
            **{f"set_{index}": scores[:, index] for index in range(SETS)},
        }
    )


def analyse(table: pl.DataFrame, control_items: float, set_items: float) -> breadth.Correlation:
    """What ``correlate`` gives, with the true item counts."""
    counts = {"in_domain": control_items, **{f"set_{index}": set_items for index in range(SETS)}}
    known = {name: int(items) for name, items in counts.items() if np.isfinite(items)}
    return breadth.correlate(table, control="in_domain", by="run", order="step", item_counts=known or "none")


def answers(
    runs: int, truth: float, control_items: float, set_items: float, studies: int, seed: int = 0
) -> tuple[Counter[str], float]:
    """How often each answer is given to studies of one model, and the mean correlation."""
    generator = np.random.default_rng((seed, runs, int(control_items), int(set_items)))
    given: Counter[str] = Counter()
    means = []
    for _ in range(studies):
        matrices = model_correlations(generator, 1, truth, 0.0)
        result = analyse(simulate_table(generator, matrices, runs, control_items, set_items), control_items, set_items)
        given[str(result.verdict().answer.value)] += 1
        means.append(result.heterogeneity["r_mean"].mean())
    known = [float(mean) for mean in means if mean is not None]  # type: ignore[arg-type]
    return given, float(np.mean(known)) if known else float("nan")


def nested(
    models: int,
    seeds: int,
    truth: float,
    spread: float,
    control_items: float,
    set_items: float,
    studies: int,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Share of pairs with p < 0.05, with q < 0.05, and of new models whose correlation the interval covers."""
    generator = np.random.default_rng((seed, models, seeds))
    significant, found, covered = [], [], []
    for _ in range(studies):
        matrices = model_correlations(generator, models, truth, spread)
        table = simulate_table(generator, matrices, seeds, control_items, set_items)
        frame = analyse(table, control_items, set_items).heterogeneity
        significant += (frame["p"] < 0.05).to_list()
        found += (frame["q"] < 0.05).to_list()
        new = model_correlations(generator, 1, truth, spread)[0][PAIRS]
        inside = (frame["predict_low"].to_numpy() <= new) & (new <= frame["predict_high"].to_numpy())
        covered += inside[frame["predict_low"].is_not_null().to_numpy()].tolist()
    known = [value for value in significant if value is not None]
    return (
        float(np.mean(known)),
        float(np.mean([value or False for value in found])),
        float(np.mean(covered or [np.nan])),
    )


def new_group(
    groups: int, rows: int, rho: float, tau: float, truth: float, studies: int, seed: int = 0, kinds: bool = False
) -> float:
    """Share of studies whose interval for a new group covers a new group's correlation (two sets, gam).

    With ``kinds``, groups are of two kinds, ``tau`` above and below the mean, instead of normally distributed.
    """
    from breadth.correlation.units import pool_units

    generator = np.random.default_rng((seed, groups, rows))

    def apart(size: int) -> Floats:
        if kinds:
            return generator.choice([-tau, tau], size)
        return tau * generator.standard_normal(size)

    z = np.arctanh(truth) + apart(studies * groups)
    matrices = np.empty((studies * groups, 2, 2))
    matrices[:, 0, 0] = matrices[:, 1, 1] = 1
    matrices[:, 0, 1] = matrices[:, 1, 0] = np.tanh(z)
    moves = autoregressive(generator, studies * groups, rows, matrices, rho)
    learnt = 1 - np.exp(-3 * np.linspace(0, 1, rows)) + 0.03 * generator.standard_normal((studies * groups, rows))
    panel = Panel(moves + 2 * np.sin(2 * learnt)[:, :, None], learnt[:, :, None])
    partial = partial_correlations(panel, Settings("gam", ci="ar"))
    new, covered = np.tanh(np.arctanh(truth) + apart(studies)), []
    for index in range(studies):
        own = slice(index * groups, (index + 1) * groups)
        part = partial._replace(**{name: getattr(partial, name)[own] for name in partial._fields[:-2]})
        summary = pool_units(part, np.arange(groups)).summary
        covered.append(summary.predict_low[0] <= new[index] <= summary.predict_high[0])
    return float(np.mean(covered))


def families(
    number: int,
    rows: int,
    alike: float,
    truth: float,
    adjust: str,
    studies: int,
    seed: int = 0,
    cluster: str = "family",
) -> float:
    """Share of tables of models, in families of unequal size, whose interval covers the correlation of two sets."""
    generator = np.random.default_rng((seed, number, rows))
    chances = np.arange(1, number + 1) ** -0.7
    root = np.linalg.cholesky(np.array([[1, truth], [truth, 1]]))
    covered = []
    for _ in range(studies):
        family = generator.choice(number, rows, p=chances / chances.sum())
        own, shared = generator.standard_normal((rows, 2)) @ root.T, generator.standard_normal((number, 2)) @ root.T
        control = np.sqrt(alike) * generator.standard_normal(number)[family]
        control += np.sqrt(1 - alike) * generator.standard_normal(rows)
        scores = np.sqrt(alike) * shared[family] + np.sqrt(1 - alike) * own + control[:, None]
        frame = pl.DataFrame({"c": control, "a": scores[:, 0], "b": scores[:, 1], "family": family.astype(str)})
        pairs = breadth.correlate(
            frame,
            control="c",
            testsets="a,b",
            by="none",
            order="none",
            adjust=adjust,
            cluster=cluster,  # type: ignore[arg-type]
        ).pairs
        covered.append(pairs["ci_low"][0] <= truth <= pairs["ci_high"][0])
    return float(np.mean(covered))


def print_verdicts(studies: int) -> None:
    print("| runs | true r | items: control, sets | Yes | No | It depends | Not enough data | mean r |")
    print("|---|---|---|---|---|---|---|---|")
    sizes = ((50, 5000), (100, 5000), (200, 200), (200, 1000), (500, 2000), (1000, 1000), (5000, 50), (5000, 5000))
    settings = [(runs, 0.0, *size) for runs in (3, 12, 48) for size in sizes]
    settings += [
        (12, 0.6, 1000, 1000),
        (12, 0.6, 1000, 100),
        (12, 0.6, 500, 2000),
        (48, 0.6, 200, 200),
        (3, 0.6, 1000, 1000),
    ]
    for runs, truth, control, sets in settings:
        given, mean = answers(runs, truth, control, sets, studies)
        shares = " | ".join(f"{given[name] / studies:.2f}" for name in ("Yes", "No", "It depends", "Not enough data"))
        print(f"| {runs} | {truth:g} | {control:,}, {sets:,} | {shares} | {mean:+.2f} |", flush=True)


def print_models(studies: int) -> None:
    print("| models x seeds | true mean, spread (z) | items: control, sets | p < .05 | q < .05 | new model covered |")
    print("|---|---|---|---|---|---|")
    infinite = float("inf")
    for models, seeds, truth, spread, control, sets in (
        (2, 6, 0.0, 0.3, infinite, infinite), (3, 3, 0.0, 0.3, 500, 1000), (4, 6, 0.0, 0.3, 500, 2000),
        (4, 6, 0.0, 0.3, 2000, 2000), (4, 12, 0.0, 0.3, infinite, infinite), (8, 3, 0.0, 0.3, 500, 1000),
        (8, 12, 0.0, 0.5, infinite, infinite), (4, 6, 0.6, 0.1, 500, 1000), (4, 6, 0.6, 0.1, 500, 300),
    ):  # fmt: skip
        p, q, covered = nested(models, seeds, truth, spread, control, sets, studies)
        setting = f"{models} x {seeds} | {truth:g}, {spread:g} | {control:g}, {sets:g}"
        print(f"| {setting} | {p:.3f} | {q:.3f} | {covered:.3f} |", flush=True)


def print_new(studies: int) -> None:
    print("| groups | rows | AR | groups are | true r | covered |")
    print("|---|---|---|---|---|---|")
    for groups, rows, rho, tau, truth, kinds in (
        (12, 20, 0.5, 0.3, 0.0, False), (24, 25, 0.5, 0.3, 0.0, False), (24, 25, 0.8, 0.3, 0.0, False),
        (24, 41, 0.5, 0.3, 0.6, False), (6, 41, 0.5, 0.3, 0.0, False), (3, 41, 0.5, 0.3, 0.0, False),
        (12, 41, 0.0, 0.0, 0.3, False), (48, 25, 0.5, 0.2, 0.6, False), (3, 41, 0.5, 1.0, 0.0, True),
        (3, 100, 0.3, 0.8, 0.3, True), (4, 41, 0.0, 0.8, 0.0, True), (6, 41, 0.5, 0.8, 0.0, True),
    ):  # fmt: skip
        covered = new_group(groups, rows, rho, tau, truth, 5 * studies, kinds=kinds)
        words = f"of two kinds, z {tau:g} above and below" if kinds else f"normal, sd of z {tau:g}"
        print(f"| {groups} | {rows} | {rho:g} | {words} | {truth:g} | {covered:.3f} |", flush=True)


def print_families(studies: int) -> None:
    print("| families | models | intraclass r | true r | adjust | by family | as independent |")
    print("|---|---|---|---|---|---|---|")
    for number, rows, alike, truth, adjust in (
        (8, 60, 0.3, 0.0, "linear"), (8, 100, 0.6, 0.6, "linear"), (20, 100, 0.3, 0.0, "gam"),
        (20, 100, 0.6, 0.0, "linear"), (20, 100, 0.6, 0.6, "gam"), (50, 150, 0.3, 0.6, "linear"),
        (50, 150, 0.6, 0.0, "gam"), (50, 100, 0.0, 0.5, "linear"),
    ):  # fmt: skip
        shares = [
            families(number, rows, alike, truth, adjust, 3 * studies, cluster=name) for name in ("family", "none")
        ]
        print(
            f"| {number} | {rows} | {alike:g} | {truth:g} | {adjust} | {shares[0]:.3f} | {shares[1]:.3f} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("verdicts", "models", "new", "families"))
    parser.add_argument("--studies", type=int, default=100)
    options = parser.parse_args()
    tables = {"verdicts": print_verdicts, "models": print_models, "new": print_new, "families": print_families}
    for name, show in tables.items():
        if options.what in (None, name):
            print(f"\n{name}, {options.studies} studies")
            show(options.studies)


if __name__ == "__main__":
    main()
