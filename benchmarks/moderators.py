"""Are properties of models called moderators of correlations when they are none, and do intervals of slopes cover?

    python benchmarks/moderators.py [size | kind | unmeasured | real] [--studies 400] [--judge]

- size: models of different sizes, seeds within models; the mean correlation depends on the size by a known slope (on
  Fisher's scale, per tenfold), and models differ besides. How often the slope is called different from 0 (p < .05, and
  by permutation), and how often its interval covers. Also a number of examples that varies within models.
- kind: pairs of test sets of one kind agree more by a known amount, or kinds mean nothing but pairs differ.
- unmeasured: pairs whose correlation was never measured; how often the predicted interval covers.
- real: Pythia, HANS subcases, base models (needs the tables).

Settings of tuning are shown by default, those of judging, looked at once, with --judge.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import breadth
from breadth.correlation import moderator_words
from breadth.correlation.moderators import Evidence, collect_evidence, kind_row, moderate, run_effects
from breadth.correlation.units import Units
from breadth.correlation.unmeasured import FEWEST_PAIRS, MEAN, Pairs, predict_pairs
from units import PAIRS, SETS, Floats, analyse, simulate_table

#: Where public tables are, beside the project.
DATA = Path(__file__).parents[2] / "shared" / "data"


def matrices_of(z: Floats) -> Floats:
    """Correlation matrices [models, sets, sets] of z [models, pairs]; the nearest valid ones."""
    matrix = np.zeros((len(z), SETS, SETS))
    matrix[:, PAIRS[0], PAIRS[1]] = np.tanh(z)
    matrix = matrix + matrix.transpose(0, 2, 1) + np.eye(SETS)
    values, vectors = np.linalg.eigh(matrix)
    matrix = vectors @ (np.maximum(values, 0.02)[:, :, None] * vectors.transpose(0, 2, 1))
    length = np.sqrt(np.diagonal(matrix, axis1=1, axis2=2))
    valid: Floats = matrix / length[:, :, None] / length[:, None, :]
    return valid


def simulate_models(
    generator: np.random.Generator, models: int, seeds: int, slope: float, mean: float, spread: float, *,
    within: bool = False, uneven: bool = False, steps: int = 41, control_items: float = np.inf,
    set_items: float = np.inf, points: float = 0.02, growing: float = 0.0,
) -> pl.DataFrame:  # fmt: skip
    """Runs of models of sizes from 100M to 10B (or of 64 to 4,096 examples within models).

    Models differ in the level of all correlations and in every pair by ``spread`` each; pairs differ by .15. With
    ``growing``, larger models fluctuate more, so that their scores have more signal.
    """
    base = mean + 0.15 * generator.standard_normal(len(PAIRS[0]))
    x = np.linspace(-1, 1, models)
    if uneven:
        # Most models are small, one is large.
        x = np.concatenate([np.linspace(-1, -0.6, models - 1), [1.0]])
    apart = spread * generator.standard_normal((models, 1)) + spread * generator.standard_normal((models, len(base)))
    examples = np.geomspace(64, 4096, seeds)
    frames = []
    if within:
        steeper = slope + spread / 2 * generator.standard_normal(models)
        for index, number in enumerate(examples):
            z = base + apart + (steeper * np.log10(number / 512))[:, None]
            table = simulate_table(
                generator, matrices_of(z), 1, control_items, set_items, spread_points=points, steps=steps
            )
            run = pl.format("{}-{}", pl.col("model"), pl.lit(index))
            frames.append(table.with_columns(run=run, examples=pl.lit(round(number))))
    else:
        z = base + apart + slope * x[:, None]
        for index in range(models):
            table = simulate_table(
                generator, matrices_of(z[[index]]), seeds, control_items, set_items,
                spread_points=points * np.exp(growing * x[index]), steps=steps,
            )  # fmt: skip
            name = pl.lit(f"model-{index}")
            run = pl.format("{}-{}", name, pl.col("run"))
            frames.append(table.with_columns(model=name, run=run, size=pl.lit(1e9 * 10 ** x[index])))
    return pl.concat(frames)


def slopes(
    studies: int, name: str, truth: float, models: int, seeds: int, *, control_items: float = np.inf,
    set_items: float = np.inf, seed: int = 0, **settings: object,
) -> dict[str, float]:  # fmt: skip
    """Shares of studies with p < .05 and with the true slope inside the interval; mean slope; how many had one."""
    generator = np.random.default_rng((seed, models, seeds, int(1000 * abs(truth))))
    found, shuffled, covered, estimates = [], [], [], []
    for _ in range(studies):
        table = simulate_models(
            generator, models, seeds, truth, control_items=control_items, set_items=set_items,
            within=name == "examples", **settings,  # type: ignore[arg-type]
        )  # fmt: skip
        result = analyse(table, control_items, set_items)
        row = moderate(result, [name]).frame.row(0, named=True)
        if row["p"] is None or row["flag"] is not None:
            continue
        found.append(row["p"] < 0.05)
        shuffled.append(row["p_permutation"] <= 0.05)
        covered.append(row["ci_low"] <= truth <= row["ci_high"])
        estimates.append(row["estimate"])
    return {
        "p < .05": float(np.mean(found)) if found else np.nan,
        "permutation": float(np.mean(shuffled)) if found else np.nan,
        "covered": float(np.mean(covered)) if found else np.nan,
        "mean": float(np.mean(estimates)) if found else np.nan,
        "answered": len(found) / studies,
    }


INFINITE = float("inf")

#: moderator, slope, mean z, spread, models, seeds, items of control and sets, further settings.
TUNING = (
    ("size", 0.0, 0.2, 0.15, 4, 1, INFINITE, INFINITE, {}),
    ("size", 0.0, 0.2, 0.15, 8, 3, INFINITE, INFINITE, {}),
    ("size", 0.2, 0.2, 0.15, 8, 3, INFINITE, INFINITE, {}),
    ("size", 0.0, 0.2, 0.15, 16, 1, INFINITE, INFINITE, {}),
    ("size", 0.0, 0.4, 0.15, 8, 3, 2000, 2000, {"growing": 0.3}),
    ("size", 0.2, 0.4, 0.15, 8, 3, 2000, 2000, {}),
    ("examples", 0.0, 0.2, 0.15, 4, 4, INFINITE, INFINITE, {}),
    ("examples", 0.2, 0.2, 0.15, 8, 4, INFINITE, INFINITE, {}),
)
JUDGING = (
    ("size", 0.0, 0.4, 0.2, 4, 5, INFINITE, INFINITE, {}),
    ("size", 0.0, 0.0, 0.0, 8, 1, INFINITE, INFINITE, {}),
    ("size", 0.0, 0.3, 0.2, 8, 1, INFINITE, INFINITE, {"uneven": True, "steps": 27}),
    ("size", 0.15, 0.3, 0.2, 16, 2, INFINITE, INFINITE, {"steps": 25}),
    ("size", 0.0, 0.5, 0.1, 4, 6, 1000, 3000, {}),
    ("size", 0.0, 0.5, 0.1, 16, 2, 1000, 3000, {"growing": -0.3}),
    ("size", 0.2, 0.3, 0.1, 16, 2, 4000, 1500, {}),
    ("examples", 0.0, 0.4, 0.2, 8, 3, INFINITE, INFINITE, {"steps": 27}),
    ("examples", 0.15, 0.3, 0.1, 16, 3, 3000, 3000, {}),
)


def print_slopes(studies: int, judge: bool) -> None:
    print("| moderator | slope | models x runs | items | further | p < .05 | shuffled | covered | mean | done |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, slope, mean, spread, models, seeds, control, sets, settings in JUDGING if judge else TUNING:
        figures = slopes(
            studies, name, slope, models, seeds, mean=mean, spread=spread, control_items=control, set_items=sets,
            seed=int(judge), **settings,
        )  # fmt: skip
        words = ", ".join(f"{key} {value}" for key, value in {"mean z": mean, "spread": spread, **settings}.items())
        shares = " | ".join(f"{value:.3f}" for value in figures.values())
        print(f"| {name} | {slope:g} | {models} x {seeds} | {control:g}, {sets:g} | {words} | {shares} |", flush=True)


def kinds(
    studies: int, runs: int, testsets: int, number: int, effect: float, *, pair_sd: float, set_sd: float, run_sd: float,
    seed: int = 0,
) -> dict[str, float]:  # fmt: skip
    """The same for pairs of one kind: shares of p < .05, by t and shuffled, and covered.

    Pairs, test sets and runs differ at random, and runs also in how much kinds matter; correlations have sampling
    errors of 30 rows. Fitted on z directly, which is what one kind adds to.
    """
    generator = np.random.default_rng((seed, runs, testsets, number))
    a, b = np.triu_indices(testsets, 1)
    codes = np.arange(testsets) % number
    same = (codes[a] == codes[b]).astype(float)
    names = tuple(f"set_{index}" for index in range(testsets))
    found, shuffled, covered = [], [], []
    for _ in range(studies):
        like = set_sd * generator.standard_normal(testsets)
        z = 0.3 + like[a] + like[b] + pair_sd * generator.standard_normal(len(a)) + effect * same
        z = z + run_sd * (generator.standard_normal((runs, 1)) + 0.5 * generator.standard_normal((runs, 1)) * same)
        z = z + generator.standard_normal(z.shape) / np.sqrt(30)
        groups = pl.DataFrame({"run": [f"run-{index}" for index in range(runs)]})
        units = Units(None, "run", tuple(groups["run"]), np.arange(runs))
        evidence = Evidence(z, z, np.full(z.shape, 1 / 30), None, False, names, groups, units, None)  # type: ignore[arg-type]
        row = kind_row(evidence, dict(zip(names, map(str, codes), strict=True)), generator)
        found.append(row["p"] < 0.05)  # type: ignore[operator]
        shuffled.append(row["p_permutation"] <= 0.05)  # type: ignore[operator]
        covered.append(row["ci_low"] <= effect <= row["ci_high"])  # type: ignore[operator]
    shares = {"p < .05": found, "shuffled": shuffled, "covered": covered}
    return {name: float(np.mean(values)) for name, values in shares.items()}


def unmeasured(
    studies: int, testsets: int, truth: str, *, missing: float = 0.2, rows: int = 300, seed: int = 0
) -> dict[str, float]:
    """How often predicted intervals cover what would be measured; how often something better than the mean is claimed.

    ``truth``: factors (two of them), sets (each has a level), kinds (one kind agrees more), or chance (pairs differ and
    nothing tells how). Pairs are hidden at random; for kinds, a test set that was never measured.
    """
    generator = np.random.default_rng((seed, testsets, rows))
    a, b = np.triu_indices(testsets, 1)
    covered, claimed, errors, of_mean = [], [], [], []
    for _ in range(studies):
        codes = np.arange(testsets) % 3
        same = (codes[a] == codes[b]).astype(float)
        if truth == "factors":
            loadings = generator.standard_normal((testsets, 2)) * (0.9, 0.5)
            matrix = loadings @ loadings.T + np.diag(generator.uniform(0.2, 0.6, testsets))
            size = np.sqrt(np.diag(matrix))
            z = np.arctanh((matrix / size[:, None] / size)[a, b])
        elif truth == "sets":
            level = 0.25 * generator.standard_normal(testsets)
            z = 0.3 + level[a] + level[b] + 0.1 * generator.standard_normal(len(a))
        elif truth == "kinds":
            z = 0.2 + 0.5 * same + 0.15 * generator.standard_normal(len(a))
        else:
            z = 0.3 + 0.25 * generator.standard_normal(len(a))
        seen = z + generator.standard_normal(len(z)) / np.sqrt(rows - 3)
        hidden = generator.random(len(z)) < missing
        if truth == "kinds":
            hidden = (a == 0) | (b == 0)
        if not hidden.any() or hidden.sum() > len(z) - FEWEST_PAIRS:
            continue
        pairs = Pairs(seen[~hidden], a[~hidden], b[~hidden], testsets, same[~hidden])
        predicted = predict_pairs(pairs, a[hidden], b[hidden], same[hidden], new=truth == "kinds")
        assert predicted is not None
        left = seen[hidden] - predicted.z
        covered += (np.abs(left) <= predicted.half).tolist()
        claimed.append(predicted.basis != MEAN.basis)
        errors += (left**2).tolist()
        of_mean += ((seen[hidden] - pairs.z.mean()) ** 2).tolist()
    return {
        "covered": float(np.mean(covered)), "better than the mean claimed": float(np.mean(claimed)),
        "error": float(np.sqrt(np.mean(errors))), "of the mean": float(np.sqrt(np.mean(of_mean))),
    }  # fmt: skip


def print_kinds(studies: int, judge: bool) -> None:
    print("| runs | test sets, kinds | effect | sd of pairs, sets, runs | p < .05 | shuffled | covered |")
    print("|---|---|---|---|---|---|---|")
    tuning = ((6, 8, 3, 0.0, 0.15, 0.1, 0.1), (12, 8, 3, 0.2, 0.15, 0.1, 0.1), (4, 12, 4, 0.0, 0.05, 0.2, 0.2))
    judging = (
        (16, 6, 2, 0.0, 0.2, 0.1, 0.05), (3, 9, 3, 0.0, 0.1, 0.1, 0.2), (8, 12, 3, 0.0, 0.0, 0.0, 0.0),
        (8, 10, 2, 0.15, 0.1, 0.2, 0.3), (1, 8, 2, 0.0, 0.2, 0.2, 0.0),
    )  # fmt: skip
    for runs, testsets, number, effect, pair_sd, set_sd, run_sd in judging if judge else tuning:
        figures = kinds(
            studies, runs, testsets, number, effect, pair_sd=pair_sd, set_sd=set_sd, run_sd=run_sd, seed=int(judge)
        )
        shares = " | ".join(f"{value:.3f}" for value in figures.values())
        print(
            f"| {runs} | {testsets}, {number} | {effect:g} | {pair_sd:g}, {set_sd:g}, {run_sd:g} | {shares} |",
            flush=True,
        )


def print_unmeasured(studies: int, judge: bool) -> None:
    print("| truth | test sets | hidden | rows | covered | better claimed | error | of the mean |")
    print("|---|---|---|---|---|---|---|---|")
    tuning = (("factors", 8, 0.2, 300), ("sets", 8, 0.2, 300), ("chance", 8, 0.2, 300), ("kinds", 9, 0.0, 300))
    judging = (
        ("factors", 12, 0.4, 100), ("factors", 6, 0.1, 1000), ("sets", 14, 0.3, 100), ("chance", 6, 0.2, 100),
        ("chance", 12, 0.3, 1000), ("kinds", 12, 0.0, 100), ("kinds", 6, 0.0, 300),
    )  # fmt: skip
    for truth, testsets, missing, rows in judging if judge else tuning:
        figures = unmeasured(studies, testsets, truth, missing=missing, rows=rows, seed=int(judge))
        shares = " | ".join(f"{value:.3f}" for value in figures.values())
        print(f"| {truth} | {testsets} | {missing:g} | {rows} | {shares} |", flush=True)


def print_real() -> None:
    """What correlations depend on in public tables, and what hidden pairs of them are like."""
    pythia = DATA / "trajectories" / "pythia_zero_shot.csv"
    hans = pl.read_csv(DATA / "trajectories" / "berts_of_a_feather.csv")
    base = pl.read_csv(DATA / "scores" / "base_models_observational.csv")
    for counts in ("none", None):
        result = breadth.correlate(pythia, control="lambada_openai", item_counts=counts, moderators="size")
        print("Pythia, 16 models:", moderator_words(result.moderators, result.moderator_means))
    columns = [name for name in hans.columns if name[:3] in {"ln_", "le_", "sn_", "se_", "cn_", "ce_"}]
    names = {"l": "lexical", "s": "subsequence", "c": "constituent"}
    results = {
        "Pythia": breadth.correlate(pythia, control="lambada_openai", item_counts="none"),
        "HANS, 30 subcases of 3 heuristics": breadth.correlate(
            hans, control="MNLI dev acc.", testsets=columns, by="none", order="none", adjust="linear",
            item_counts="none", kinds={name: names[name[0]] for name in columns},
        ),
        "148 base models": breadth.correlate(
            base, control="mmlu", testsets="arc_c,hellaswag,winograd,truthfulqa,gsm8k,xwinograd,humaneval", by="none",
            order="none", adjust="linear", item_counts="none",
        ),
    }  # fmt: skip
    for name, result in results.items():
        evidence = collect_evidence(result)
        z = run_effects(evidence).pairs
        a, b = np.triu_indices(len(evidence.testsets), 1)
        known = ~np.isnan(z)
        of_set = [result.kinds.get(each, each) for each in evidence.testsets]
        same = np.array([of_set[x] == of_set[y] for x, y in zip(a, b, strict=True)], dtype=float)
        covered, claims, errors, of_mean = [], [], [], []
        generator = np.random.default_rng(0)
        for _ in range(20):
            hidden = known & (generator.random(len(z)) < 0.2)
            rest = known & ~hidden
            pairs = Pairs(z[rest], a[rest], b[rest], len(evidence.testsets), same[rest])
            predicted = predict_pairs(pairs, a[hidden], b[hidden], same[hidden])
            if predicted is None:
                continue
            left = z[hidden] - predicted.z
            covered += (np.abs(left) <= predicted.half).tolist()
            claims.append(predicted.basis)
            errors += (left**2).tolist()
            of_mean += ((z[hidden] - z[rest].mean()) ** 2).tolist()
        basis = max(set(claims), key=claims.count)
        error, usual = np.sqrt(np.mean(errors)), np.sqrt(np.mean(of_mean))
        print(
            f"{name}: a fifth of {int(known.sum())} pairs hidden, 20 times: by {basis}, "
            f"covered {np.mean(covered):.3f}, error {error:.3f}, of the mean {usual:.3f} (z)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("size", "kind", "unmeasured", "real"))
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    if options.what in (None, "size"):
        print_slopes(options.studies, options.judge)
    if options.what in (None, "kind"):
        print_kinds(options.studies, options.judge)
    if options.what in (None, "unmeasured"):
        print_unmeasured(options.studies, options.judge)
    if options.what == "real":
        print_real()


if __name__ == "__main__":
    main()
