"""Scores of runs that never happened, with a truth that is known: for the demo, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

TESTSETS = ("negation", "word_order", "numbers", "formal_style", "science", "coreference")


def autoregressive(
    generator: np.random.Generator,
    runs: int,
    steps: int,
    correlation: npt.NDArray[np.float64],
    rho: float,
) -> npt.NDArray[np.float64]:
    """Draw first-order autoregressive series [runs, steps, m] of variance 1 with the given correlation.

    ``correlation`` is one matrix [m, m] or one per run [runs, m, m].
    """
    root = np.linalg.cholesky(np.broadcast_to(correlation, (runs, *correlation.shape[-2:])))
    shocks = generator.standard_normal((runs, steps, root.shape[1])) @ root.transpose(0, 2, 1)
    series = np.empty_like(shocks)
    series[:, 0] = shocks[:, 0]
    for t in range(1, steps):
        series[:, t] = rho * series[:, t - 1] + np.sqrt(1 - rho**2) * shocks[:, t]
    return series


def control_series(
    generator: np.random.Generator,
    runs: int,
    steps: int,
    kind: Literal["learning", "drifting", "independent"],
    rho: float,
) -> npt.NDArray[np.float64]:
    """Draw an in-domain series [runs, steps]: a learning curve with noise, an autoregression, or plain noise."""
    if kind == "independent":
        return generator.standard_normal((runs, steps))
    if kind == "drifting":
        return autoregressive(generator, runs, steps, np.eye(1), rho)[:, :, 0]
    curve = 1 - np.exp(-3 * np.linspace(0, 1, steps))
    return curve + 0.03 * generator.standard_normal((runs, steps))


def simulate_scores(
    runs: int = 4, steps: int = 41, testsets: Sequence[str] = TESTSETS, rho: float = 0.5, seed: int = 0
) -> pl.DataFrame:
    """Make a wide table of accuracies: ``run, step, in_domain`` and a column per test set.

    In-domain accuracy follows a learning curve; every test set follows it along a curve of its own, plus
    fluctuations that are autocorrelated over checkpoints. Within a run, test sets of the same half of the list
    fluctuate together (correlation 0.6). Between the halves it depends on the run: 0.4 in even runs, -0.4 in odd
    ones. So the truth has no overarching trend, as the first study found for real models.
    """
    generator = np.random.default_rng(seed)
    m = len(testsets)
    half = np.arange(m) < m / 2
    sign = np.where(np.arange(runs) % 2 == 0, 0.4, -0.4)
    correlation = np.where(half[:, None] == half[None, :], 0.6, sign[:, None, None])
    correlation[:, np.arange(m), np.arange(m)] = 1.0
    fluctuation = autoregressive(generator, runs, steps, correlation, rho)
    control = control_series(generator, runs, steps, "learning", rho)
    height = generator.uniform(0.05, 0.3, (runs, 1, m))
    bend = generator.uniform(1.0, 3.0, (runs, 1, m))
    rise = height * np.clip(control[:, :, None], 0, None) ** bend
    scores = np.clip(0.5 + rise + 0.015 * fluctuation, 0, 1).reshape(-1, m)
    return pl.DataFrame(
        {
            "run": np.repeat([f"run-{i:02d}" for i in range(runs)], steps),
            "step": np.tile(16 * np.arange(steps), runs),
            "in_domain": np.clip(0.5 + 0.4 * control, 0, 1).reshape(-1),
            **{name: scores[:, j] for j, name in enumerate(testsets)},
        }
    )


class AnswerTruth(NamedTuple):
    """Simulated answers [subjects x items] (-1 is missing) and the truth behind them."""

    matrix: npt.NDArray[np.int8]
    ability: npt.NDArray[np.float64]
    discrimination: npt.NDArray[np.float64]
    difficulty: npt.NDArray[np.float64]
    guessing: npt.NDArray[np.float64]


def simulate_answers(
    subjects: int, items: int, seed: int = 0, model: Literal["1pl", "2pl", "3pl"] = "2pl", missing: float = 0.0
) -> AnswerTruth:
    """Draw answers of subjects N(0, 1) to items N(0, 1), with log-normal slopes (2pl, 3pl) and guessing (3pl).

    Rows are drawn in blocks, so that tens of millions of cells need little more room than their own bytes.
    """
    generator = np.random.default_rng(seed)
    ability, difficulty = generator.standard_normal(subjects), generator.standard_normal(items)
    slope = np.ones(items) if model == "1pl" else np.exp(0.3 * generator.standard_normal(items))
    floor = generator.beta(5, 20, items) if model == "3pl" else np.zeros(items)
    matrix = np.empty((subjects, items), dtype=np.int8)
    for start in range(0, subjects, 500):
        rows = slice(start, start + 500)
        chance = floor + (1 - floor) / (1 + np.exp(-slope * (ability[rows, None] - difficulty)))
        matrix[rows] = generator.random(chance.shape) < chance
        if missing:
            matrix[rows][generator.random(chance.shape) < missing] = -1
    return AnswerTruth(matrix, ability, slope, difficulty, floor)
