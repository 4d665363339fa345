import os
from pathlib import Path

import hypothesis
import pytest

# A busy machine is no reason to fail; and a gate that must be repeatable searches the same examples every time.
hypothesis.settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("steady")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data sets kept beside the repository; tests that need them are skipped elsewhere."""
    folder = Path(os.environ.get("BREADTH_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("needs the shared data (set BREADTH_SHARED_DATA to its directory)")
    return folder


@pytest.fixture(scope="session")
def trajectory_data(shared_data: Path) -> Path:
    return shared_data / "trajectories"


@pytest.fixture(scope="session")
def simulated_study(tmp_path_factory):
    """A small study of two models with 24 checkpoints a run, and which of its labels are wrong."""
    from breadth.datasets import simulate_study

    return simulate_study(tmp_path_factory.mktemp("studies") / "plain-study", runs=4, checkpoints=24, items=50)


@pytest.fixture(scope="session")
def levels_study(tmp_path_factory):
    """A small study whose runs train on one of three levels of difficulty, two seeds each."""
    from breadth.datasets import simulate_study

    folder = tmp_path_factory.mktemp("studies") / "levels-study"
    return simulate_study(
        folder, runs=12, checkpoints=8, items=60, testsets=("plain", "science", "chains"), train_levels=3
    )
