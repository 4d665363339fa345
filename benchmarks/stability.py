"""Does ``stability`` tell fluctuation from the noise of items, one model from another, and is its interval right?

    python benchmarks/stability.py [runs | models | verdicts | pairs] [--studies 200] [--judge]

- runs: single runs without item noise; how often the interval of a run covers its standard deviation.
- models: runs of one model, with and without differences between them; how often the interval for another run covers
  what a typical run does.
- verdicts: studies with answers question by question (fixed items, as everybody evaluates) or accuracies with item
  counts; false "fluctuates", and coverage per model and test set.
- pairs: two models with seeds, some of them OPT-like (5 points) and OLMo-like (1 point): how often they are told apart,
  how often equal ones are, and how often the interval of the ratio covers.

``--judge`` uses the settings that played no part in the choice of the method. Fluctuations are autoregressions around a
learning curve. What is covered is the part that local contrasts see, sd sqrt(1 - 4/3 p + 1/3 p^2).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

import breadth
from breadth.fluctuation import mean_squares, spread_of_runs, typical_run
from breadth.inference import LEVEL
from breadth.sources.score_tables import ScoreTable

Floats = npt.NDArray[np.float64]

SPLITS = 10


def seen_share(rho: float) -> float:
    """Share of the variance of an autoregression that contrasts of neighbours see."""
    return 1 - 4 / 3 * rho + rho**2 / 3


def draw_series(generator: np.random.Generator, shape: tuple[int, ...], rho: float, tails: float = np.inf) -> Floats:
    """Autoregressions of variance 1 along the second axis; shocks are t with ``tails`` degrees of freedom."""
    shocks = generator.standard_normal(shape)
    if np.isfinite(tails):
        shocks = generator.standard_t(tails, shape) / np.sqrt(tails / (tails - 2))
    series = np.empty(shape)
    series[:, 0] = shocks[:, 0]
    for step in range(1, shape[1]):
        series[:, step] = rho * series[:, step - 1] + np.sqrt(1 - rho**2) * shocks[:, step]
    return series


def cover_runs(steps: int, rho: float, tails: float, runs: int, seed: int = 0) -> float:
    """Share of single runs whose interval covers the true standard deviation."""
    generator = np.random.default_rng((seed, steps))
    squares = mean_squares(draw_series(generator, (runs, steps, 1), rho, tails))
    spread = spread_of_runs(*squares[:5], at_most=False)
    truth = seen_share(rho)
    return float(((spread.low <= truth) & (truth <= spread.high)).mean())


def cover_models(seeds: int, apart: float, steps: int, rho: float, tails: float, studies: int, seed: int = 0) -> float:
    """Share of models whose interval covers what a typical run does; runs differ by ``apart`` (sd of the log sd)."""
    generator = np.random.default_rng((seed, seeds, steps))
    scale = np.exp(apart * generator.standard_normal((studies * seeds, 1, 1)))
    squares = mean_squares(scale * draw_series(generator, (studies * seeds, steps, 1), rho, tails))
    covered = []
    for index in range(studies):
        own = slice(index * seeds, (index + 1) * seeds)
        usual = typical_run(squares.total[own, 0], squares.df[own, 0], squares.noise[own, 0])
        assert usual is not None
        low, high = usual.ends(float(special.stdtrit(usual.runs - 1, (1 + LEVEL) / 2)))
        covered.append(low <= seen_share(rho) <= high)
    return float(np.mean(covered))


class Setting(NamedTuple):
    """A study to simulate: fluctuation in points of every model, seeds, items per test set."""

    points: tuple[float, ...]
    seeds: int
    items: tuple[int, ...]
    steps: int = 41
    rho: float = 0.5
    apart: float = 0.0
    together: float = 0.3
    curve: str = "learning"
    answers: bool = True
    fresh: bool = False


def learning_curve(kind: str, steps: int, generator: np.random.Generator) -> Floats:
    """Share of what is learnt, from 0 to 1: slowly, within a few checkpoints, from one to the next, or not at all."""
    place = np.linspace(0, 1, steps)
    if kind == "learning":
        return 1 - np.exp(-3 * place)
    if kind == "sudden":
        centre = generator.uniform(0.2, 0.8)
        return special.expit((place - centre) * steps / 1.0)
    if kind == "jump":
        return (place > generator.uniform(0.2, 0.8)).astype(np.float64)
    return np.zeros(steps)


def simulate_study(generator: np.random.Generator, setting: Setting) -> ScoreTable:
    """Scores of every run with the split halves of their answers.

    An item is answered correctly if the ability of the checkpoint, its own easiness (most of the variance) and chance
    add up to more than 0, such that the accuracy on unlimited items is the learning curve plus the fluctuation.
    """
    frames, halves = [], []
    sets = len(setting.items)
    easiness = [generator.standard_normal(items) * np.sqrt(0.8) for items in setting.items]
    signs = []
    for items in setting.items:
        balanced = np.where(np.arange(items) % 2 == 0, 1.0, -1.0)
        signs.append(np.stack([generator.permutation(balanced) for _ in range(SPLITS)], axis=1))
    for model, points in enumerate(setting.points):
        shared = draw_series(generator, (setting.seeds, setting.steps, 1), setting.rho)
        alone = draw_series(generator, (setting.seeds, setting.steps, sets), setting.rho)
        moves = np.sqrt(setting.together) * shared + np.sqrt(1 - setting.together) * alone
        moves *= points / 100 * np.exp(setting.apart * generator.standard_normal((setting.seeds, 1, 1)))
        for run in range(setting.seeds):
            scores, differences = np.empty((setting.steps, sets)), np.empty((setting.steps, sets, SPLITS))
            for index, items in enumerate(setting.items):
                curve = 0.55 + 0.25 * learning_curve(setting.curve, setting.steps, generator)
                ability = special.ndtri(np.clip(curve + moves[run, :, index], 0.01, 0.99))
                own = easiness[index]
                chance = np.sqrt(0.2) * generator.standard_normal((setting.steps, items))
                if setting.fresh:
                    own = np.sqrt(0.8) * generator.standard_normal((setting.steps, items))
                right = (ability[:, None] + own + chance > 0).astype(np.float64)
                scores[:, index] = right.mean(axis=1)
                differences[:, index] = right @ signs[index] / items
            frames.append(
                pl.DataFrame(
                    {"run": f"model-{model}-{run}", "model": f"model-{model}", "step": 16 * np.arange(setting.steps)}
                ).with_columns(pl.Series(f"set-{index}", scores[:, index]) for index in range(sets))
            )
            halves.append(differences)
    frame = pl.concat(frames)
    names = tuple(f"set-{index}" for index in range(sets))
    return ScoreTable(
        frame.drop("model"),
        "simulated",
        ("run",),
        "step",
        (),
        names,
        np.concatenate(halves) if setting.answers else None,
        about=frame.select("model"),
        sizes=dict(zip(names, setting.items, strict=True)),
    )


def measure(generator: np.random.Generator, setting: Setting) -> breadth.Stability:
    """What ``stability`` says of a simulated study."""
    trajectories = simulate_study(generator, setting)
    counts = None if setting.answers else dict(trajectories.sizes)
    return breadth.stability(trajectories, item_counts=counts)


def verdicts(setting: Setting, studies: int, seed: int = 0) -> dict[str, float]:
    """Shares of studies: any test set called fluctuating, each answer; coverage per model and test set."""
    generator = np.random.default_rng((seed, setting.steps, setting.seeds, *setting.items))
    anything, rate, covered, these, answers = [], [], [], [], []
    truth = np.array(setting.points) * np.sqrt(seen_share(setting.rho))
    for _ in range(studies):
        result = measure(generator, setting)
        cells = result.models.filter(pl.col("testset").is_not_null())
        true = truth[cells["model"].str.split("-").list.last().cast(pl.Int64).to_numpy()]
        found = (cells["q"] < 0.05).to_numpy()
        anything.append(bool(found.any()))
        rate.append(found.mean())
        for low, high, cover in (("ci_low", "ci_high", covered), ("least", "most", these)):
            known = cells[low].is_not_null().to_numpy()
            inside = (cells[low].to_numpy() <= true + 1e-9) & (true <= cells[high].to_numpy())
            cover.extend(inside[known].tolist())
        answers.append(result.verdict().answer.value)
    return {
        "any": float(np.mean(anything)),
        "found": float(np.mean(rate)),
        "covered": float(np.mean(covered or [np.nan])),
        "these": float(np.mean(these)),
        "yes": answers.count("Yes") / studies,
        "no": answers.count("No") / studies,
        "open": answers.count("Not enough data") / studies,
    }


def pairs(setting: Setting, studies: int, seed: int = 0) -> dict[str, float]:
    """Shares of studies in which two models are told apart, over all test sets and on single ones, and coverage."""
    generator = np.random.default_rng((seed, 7, setting.steps, setting.seeds, *setting.items))
    apart, single, covered, wrong = [], [], [], []
    truth = setting.points[0] / setting.points[1] if setting.points[1] else np.inf
    for _ in range(studies):
        frame = measure(generator, setting).comparisons
        whole, each = frame.filter(pl.col("testset").is_null()), frame.filter(pl.col("testset").is_not_null())
        apart.append(bool(whole["q"][0] < 0.05))
        wrong.append(apart[-1] and (whole["ratio"][0] is not None) and (whole["ratio"][0] < 1) == (truth > 1))
        single += (each["q"] < 0.05).to_list()
        low, high = whole["ci_low"].fill_null(0)[0], whole["ci_high"].fill_null(np.inf)[0]
        covered.append(low <= truth <= high)
    return {
        "apart": float(np.mean(apart)),
        "single": float(np.mean(single)),
        "covered": float(np.mean(covered)),
        "wrong": float(np.mean(wrong)),
    }


#: Sizes of the test sets of the study on which OPT was seen to fluctuate, but at most 2,000.
PUBLISHED = (2000, 2000, 2000, 635, 2000, 2000, 798)

INFINITE = float("inf")

#: Checkpoints, autocorrelation and tails: what the rule was chosen on, and what it was judged on.
RUNS = {
    False: [(20, 0.0, INFINITE), (41, 0.5, INFINITE), (100, 0.9, INFINITE), (41, 0.5, 5.0), (41, 0.5, 3.0)],
    True: [(15, 0.3, INFINITE), (30, 0.7, INFINITE), (60, 0.2, INFINITE), (60, 0.8, 6.0), (30, 0.3, 4.0)],
}
MODELS = {
    False: [
        (2, 0.0, 41, 0.5, INFINITE),
        (3, 0.3, 41, 0.5, INFINITE),
        (6, 0.3, 41, 0.0, INFINITE),
        (12, 0.7, 41, 0.5, 5.0),
    ],
    True: [
        (2, 0.4, 30, 0.3, INFINITE),
        (3, 0.0, 60, 0.7, 6.0),
        (5, 0.2, 25, 0.8, INFINITE),
        (8, 0.5, 30, 0.3, INFINITE),
    ],
}
VERDICTS = {
    False: [
        Setting((0, 0), 3, (500, 1000, 2000, 200)),
        Setting((0,), 1, (500, 1000, 2000, 200), curve="flat"),
        Setting((0, 0), 3, (500, 1000, 2000, 200), answers=False),
        Setting((2, 2), 3, (500, 1000, 2000, 200)),
        Setting((2, 2), 3, (500, 1000, 2000, 200), answers=False),
        Setting((2, 2), 3, (500, 1000, 2000, 200), answers=False, fresh=True),
    ],
    True: [
        Setting((0, 0, 0), 2, (300, 3000, 800), steps=30, curve="sudden"),
        Setting((0, 0), 3, (300, 3000, 800), steps=60, curve="jump"),
        Setting((0,), 1, (100, 3000, 800), steps=25),
        Setting((0,), 6, (300, 1500, 800), steps=30, answers=False, fresh=True),
        Setting((1.5, 4), 4, (300, 1500, 800), steps=30, rho=0.3, together=0.6),
        Setting((1.5, 4), 3, (300, 1500, 800), steps=60, rho=0.7, curve="sudden"),
        Setting((3,), 5, (300, 1500, 800), steps=30, rho=0.3, answers=False, fresh=True),
    ],
}
PAIRS = {
    False: [
        Setting((5, 1), 3, PUBLISHED, apart=0.2),
        Setting((5, 1), 2, PUBLISHED, apart=0.2),
        Setting((3, 1), 3, PUBLISHED, apart=0.2),
        Setting((2, 2), 3, PUBLISHED, apart=0.2),
        Setting((1, 1), 3, PUBLISHED),
    ],
    True: [
        Setting((4, 0.5), 3, (300, 1500, 800, 800), steps=30, rho=0.3, apart=0.3, together=0.6),
        Setting((4, 2), 5, (300, 1500, 800, 800), steps=30, rho=0.3, apart=0.1),
        Setting((2, 2), 4, (300, 1500, 800, 800), steps=30, rho=0.7, apart=0.3, together=0.6),
        Setting((5, 1), 3, (635, 2000, 798), apart=0.2, answers=False),
        Setting((2, 2), 3, (635, 2000, 798), apart=0.2, answers=False, fresh=True),
    ],
}


def print_runs(studies: int, judge: bool) -> None:
    print("| checkpoints | AR | tails (t) | covered |\n|---|---|---|---|")
    for steps, rho, tails in RUNS[judge]:
        print(f"| {steps} | {rho:g} | {tails:g} | {cover_runs(steps, rho, tails, 20 * studies):.3f} |", flush=True)


def print_models(studies: int, judge: bool) -> None:
    print("| runs | spread between runs | checkpoints | AR | tails (t) | covered |\n|---|---|---|---|---|---|")
    for setting in MODELS[judge]:
        covered = cover_models(*setting, studies=10 * studies)
        print("| " + " | ".join(f"{value:g}" for value in setting) + f" | {covered:.3f} |", flush=True)


def print_verdicts(studies: int, judge: bool) -> None:
    print("| setting | any found | cells found | covered: another run; these runs | Yes | No | open |")
    print("|---|---|---|---|---|---|---|")
    for setting in VERDICTS[judge]:
        found = verdicts(setting, studies)
        print(
            f"| {describe(setting)} | {found['any']:.3f} | {found['found']:.3f} | {found['covered']:.3f}; "
            f"{found['these']:.3f} | {found['yes']:.2f} | {found['no']:.2f} | {found['open']:.2f} |",
            flush=True,
        )


def print_pairs(studies: int, judge: bool) -> None:
    print("| setting | told apart | on single test sets | wrong way round | ratio covered |\n|---|---|---|---|---|")
    for setting in PAIRS[judge]:
        found = pairs(setting, studies)
        print(
            f"| {describe(setting)} | {found['apart']:.3f} | {found['single']:.3f} | {found['wrong']:.3f} | "
            f"{found['covered']:.3f} |",
            flush=True,
        )


def describe(setting: Setting) -> str:
    """A setting in a few words."""
    points = " and ".join(f"{value:g}" for value in setting.points)
    noise = "answers" if setting.answers else "item counts"
    items = ", ".join(f"{number:,}" for number in setting.items)
    return (
        f"{points} points, {setting.seeds} runs each, {setting.steps} checkpoints, AR {setting.rho:g}, items {items}, "
        f"{noise}{', other items every time' if setting.fresh else ''}, {setting.curve}, runs apart {setting.apart:g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {"runs": print_runs, "models": print_models, "verdicts": print_verdicts, "pairs": print_pairs}
    parser.add_argument("what", nargs="?", choices=tables)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--judge", action="store_true", help="settings that played no part in the choice")
    options = parser.parse_args()
    for name, show in tables.items():
        if options.what in (None, name):
            print(f"\n{name}, {options.studies} studies{', judged' if options.judge else ''}")
            show(options.studies, options.judge)


if __name__ == "__main__":
    main()
