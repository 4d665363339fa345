"""Killed at any instant and started again, a study ends with the same bytes."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from .conftest import FULL, LORA, START, parts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("text", [LORA, FULL], ids=["lora", "full"])
def test_killed_at_random_instants(forks, study, tmp_path, text):
    path, kills = study(text), 0
    whole = forks.run(path, tmp_path / "whole")
    assert whole["code"] == 0, whole["said"]
    chance, attempt = random.Random(7), 0
    while kills < 4:
        attempt += 1
        into = tmp_path / f"torn{attempt}"
        while True:
            # Not so early each time that nothing is ever finished, nor so late that it always is.
            result = forks.run(path, into, kill_after=chance.uniform(0.1, 1.0) * whole["seconds"])
            if result["code"] == 0:
                break
            assert result["code"] == -signal.SIGKILL, result["said"]
            kills += 1
        assert parts(into) == parts(tmp_path / "whole")


@pytest.mark.parametrize("text", [LORA, FULL, START], ids=["lora", "full", "start"])
def test_killed_before_and_after_every_file(forks, study, tmp_path, text):
    """Every file comes into being by a rename: amid the items, between part and state, after the last part."""
    path, into = study(text), tmp_path / "torn"
    forks.run(path, tmp_path / "whole")
    kills = 0
    for kills in range(60):
        # Each time before the next file is there, or just when one or two more are.
        result = forks.run(path, into, kill_at=("before 2", "after 1", "after 2", "after 3")[kills % 4])
        if result["code"] == 0:
            break
        assert result["code"] == -signal.SIGKILL, result["said"]
    assert kills >= 6
    assert parts(into) == parts(tmp_path / "whole")
    # Nothing half-written stays behind.
    assert {name.name for name in into.rglob(".*")} == {".lock"}
    assert not list(into.glob("runs/*/state-*"))


def test_the_command_itself_killed_and_interrupted(command, forks, study, tmp_path):
    path, into = study(LORA, [("steps: 8", "steps: 40")]), tmp_path / "torn"
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        before = len(parts(into))
        process = command("run", path, "--into", into, wait=False)
        wait_for_part(process, into, before)
        process.send_signal(number)
        out, err = process.communicate()
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), err
    assert out.splitlines()[-1] == "Stopped. The same command resumes where it stopped."
    assert "Traceback" not in err
    assert "(resumed)" in err
    assert forks.run(path, into)["code"] == 0
    assert forks.run(path, tmp_path / "whole")["code"] == 0
    assert parts(into) == parts(tmp_path / "whole")


def wait_for_part(process, into, before, seconds=120):
    until = time.monotonic() + seconds
    while len(parts(into)) <= before:
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_full_disk(command, forks, study, tmp_path):
    """A file may have so many bytes and no more: the write fails half-way."""
    path, into = study(FULL, [("steps: 6", "steps: 16")]), tmp_path / "full"
    forks.run(path, tmp_path / "whole")
    there = 0
    for limit in (1_500, 6_000, 40_000):
        result = forks.run(path, into, file_limit=limit)
        assert result["code"] == 2, result["said"]
        assert result["said"].count("\n") == 1
        assert "cannot be written (File too large)" in result["said"]
        assert len(parts(into)) >= there
        there = len(parts(into))
    assert there  # answers are small enough, the state of all weights is not
    out = subprocess.run(
        ["sh", "-c", 'ulimit -f 80; exec "$@"', "sh", *command_words("run", path, "--into", into)],
        capture_output=True, text=True, check=False, env=unmeasured() | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert out.returncode == 1
    assert "cannot be written" in out.stderr.splitlines()[-1]
    assert "Traceback" not in out.stderr
    assert forks.run(path, into)["code"] == 0
    assert parts(into) == parts(tmp_path / "whole")


def unmeasured():
    """The environment without coverage, whose own file would not fit on the disk either."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}


def command_words(*arguments):
    return [sys.executable, "-m", "breadth", *map(str, arguments)]
