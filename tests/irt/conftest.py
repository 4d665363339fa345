"""Published data for the tests of item response theory. LSAT6 and LSAT7 come with the tests, larger sets do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import breadth
from breadth.irt import Calibration
from breadth.records.study import Study


@pytest.fixture(scope="session")
def lsat() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "lsat.json").read_text())
    return content


@pytest.fixture(scope="session")
def patterns(lsat: dict[str, Any]) -> Callable[[str], tuple[NDArray[np.int8], NDArray[np.int64]]]:
    """Distinct response patterns of LSAT6 or LSAT7, and how often each occurred."""

    def load(name: str) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        counted = lsat[name]["patterns"]
        return np.array([list(pattern) for pattern in counted], dtype=np.int8), np.array(list(counted.values()))

    return load


@pytest.fixture(scope="session")
def sat12(shared_data: Path) -> tuple[NDArray[np.int8], dict[str, Any]]:
    """Scored answers to SAT12 and its published parameters."""
    folder = shared_data / "classic"
    matrix = np.loadtxt(folder / "SAT12_scored_key5.csv", delimiter=",", skiprows=1).astype(np.int8)
    return matrix, json.loads((folder / "reference_parameters.json").read_text())


@pytest.fixture(scope="session")
def leaderboard(shared_data: Path) -> NDArray[np.int8]:
    with np.load(shared_data / "responses" / "gsm8k_leaderboard.npz", allow_pickle=False) as stored:
        matrix: NDArray[np.int8] = stored["R"]
    return matrix


@pytest.fixture(scope="session")
def as_study() -> Callable[..., Study]:
    """A study of named subjects and items."""

    def build(matrix: NDArray[Any], subjects: Any, items: Any) -> Study:
        frames = pl.DataFrame({"subject": list(subjects)}), pl.DataFrame({"testset": "t", "item": list(items)})
        return Study("answers", *frames, matrix)

    return build


@pytest.fixture(scope="session")
def simulate(as_study: Callable[..., Study]) -> Callable[..., Any]:
    """Answers as a study, and the abilities, difficulties and slopes behind them."""

    def draw(subjects: int = 400, items: int = 40, seed: int = 0, slopes: bool = True) -> tuple[Study, Any, Any, Any]:
        generator = np.random.default_rng(seed)
        ability, difficulty = generator.standard_normal(subjects), np.sort(generator.standard_normal(items))
        slope = np.exp(0.3 * generator.standard_normal(items)) if slopes else np.ones(items)
        chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
        matrix = (generator.random(chance.shape) < chance).astype(np.int8)
        names = [f"s{i}" for i in range(subjects)], [f"q{j:02d}" for j in range(items)]
        return as_study(matrix, *names), ability, difficulty, slope

    return draw


@pytest.fixture(scope="session")
def adapted() -> Callable[..., tuple[NDArray[np.int8], NDArray[np.float64]]]:
    """Answers of subjects to the items nearest to their ability, -1 for the others; and the abilities."""

    def draw(subjects: int = 400, items: int = 60, each: int = 30, seed: int = 0) -> Any:
        generator = np.random.default_rng(seed)
        ability, difficulty = generator.standard_normal(subjects), generator.standard_normal(items)
        slope = 1.5 * np.exp(0.3 * generator.standard_normal(items))
        chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
        right = generator.random(chance.shape) < chance
        seen = np.zeros(right.shape, dtype=np.bool_)
        nearest = np.argsort(np.abs(ability[:, None] - difficulty), axis=1)[:, :each]
        np.put_along_axis(seen, nearest, True, axis=1)
        return np.where(seen, right, -1).astype(np.int8), ability

    return draw


@pytest.fixture(scope="session")
def adaptive_test() -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Answers of 400 subjects to 15 of 60 items, each chosen by the answers before it; and the abilities."""
    generator = np.random.default_rng(3)
    ability, difficulty = generator.standard_normal(400), generator.standard_normal(60)
    slope = 1.8 * np.exp(0.3 * generator.standard_normal(60))
    points = np.linspace(-4, 4, 41)

    def chance(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-slope * (theta[:, None] - difficulty))))

    right = generator.random((400, 60)) < chance(ability)
    density, curves = np.tile(np.exp(-(points**2) / 2), (400, 1)), chance(points)
    seen, every = np.zeros((400, 60), dtype=np.bool_), np.arange(400)
    for _ in range(15):
        p = chance(density @ points / density.sum(axis=1))
        chosen = np.where(seen, -1, slope**2 * p * (1 - p)).argmax(axis=1)
        seen[every, chosen] = True
        density *= np.where(right[every, chosen, None], curves[:, chosen].T, 1 - curves[:, chosen].T)
    return np.where(seen, right, -1).astype(np.int8), ability


@pytest.fixture(scope="session")
def truth(simulate: Callable[..., Any]) -> Any:
    return simulate()


@pytest.fixture(scope="session")
def result(truth: Any) -> Calibration:
    return breadth.calibrate(truth[0], model="2pl")
