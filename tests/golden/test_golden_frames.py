"""What breadth reads and computes is what it was when ``freeze.py`` was last run: frames, not sentences."""

import json
from pathlib import Path

import pytest

from .cases import CASES, Room, run_case
from .digests import differences

FRAMES = Path(__file__).with_name("frames")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


@pytest.fixture
def room(request, folder):
    """Where a case reads and writes; a case that needs the shared data is skipped where there is none."""
    needed = CASES[request.node.callspec.params["name"]].needs_shared
    shared = request.getfixturevalue("shared_data") if needed else None
    return Room(folder, shared)


# Only numbers are looked at here: a warning of numpy in breadth is for the tests of what computes them.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_frames_are_as_they_were(name, room):
    old = json.loads((FRAMES / f"{name}.json").read_text())
    new = json.loads(json.dumps(run_case(name, room)))
    changed = differences(old, new)
    assert not changed, f"{name}: {len(changed)} differences\n" + "\n".join(changed)


def test_every_file_belongs_to_a_case():
    assert {path.stem for path in FRAMES.glob("*.json")} == set(CASES)
