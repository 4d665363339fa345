import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def breadth():
    """Run the command line as a user does, in a process of its own."""

    def run(*arguments, ok=True):
        command = [sys.executable, "-m", "breadth", *map(str, arguments)]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if ok:
            assert out.returncode == 0, out.stderr
        return out

    return run
