"""Published data for the tests of item response theory; skipped where they are absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture
def published(shared_data: Path) -> dict[str, Any]:
    parameters: dict[str, Any] = json.loads((shared_data / "classic" / "reference_parameters.json").read_text())
    return parameters


@pytest.fixture
def classic(shared_data: Path) -> Callable[[str], NDArray[np.int8]]:
    def load(name: str) -> NDArray[np.int8]:
        return np.loadtxt(shared_data / "classic" / f"{name}.csv", delimiter=",", skiprows=1).astype(np.int8)

    return load


@pytest.fixture
def leaderboard(shared_data: Path) -> NDArray[np.int8]:
    with np.load(shared_data / "responses" / "gsm8k_leaderboard.npz", allow_pickle=False) as stored:
        matrix: NDArray[np.int8] = stored["R"]
    return matrix
