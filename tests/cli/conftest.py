import subprocess
import sys

import numpy as np
import pytest

from breadth.datasets import simulate_answers


@pytest.fixture(scope="session")
def breadth():
    """Run the command line as a user does, in its own process."""

    def run(*arguments, ok=True):
        command = [sys.executable, "-m", "breadth", *map(str, arguments)]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if ok:
            assert out.returncode == 0, out.stderr
        return out

    return run


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "answers.npz"
    simulated = simulate_answers(300, 40)
    np.savez(path, R=simulated.matrix, models=[f"m{i}" for i in range(300)], items=[f"q{j}" for j in range(40)])
    return path


@pytest.fixture(scope="session")
def calibration(breadth, answers):
    breadth("calibrate", answers, "--model", "2pl", "--out", answers.with_name("cal.parquet"))
    return answers.with_name("cal.parquet")
