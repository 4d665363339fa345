import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from breadth.datasets import simulate_answers


@pytest.fixture(scope="session")
def breadth(forks):
    """Run the command line as a user does, in a process of its own; ``fresh`` loads the libraries anew as well."""

    def run(*arguments, ok=True, fresh=False):
        command = [sys.executable, "-m", "breadth", *map(str, arguments)]
        afresh = partial(subprocess.run, command, capture_output=True, text=True, check=False)
        out = afresh() if fresh else forks.command(*arguments)
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
