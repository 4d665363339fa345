"""What a command says when the machine refuses: full devices, closed streams, few open files, little memory."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from breadth.cli.failures import failure_message
from breadth.datasets import simulate_scores


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "scores.parquet"
    simulate_scores(runs=2).write_parquet(path)
    return path


def start(*arguments, **options):
    """Run the command in a process of its own, with the limits and streams that are asked for."""
    command = [sys.executable, "-m", "breadth", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, check=False, timeout=100, **options)


def limited(kind, most):
    return lambda: resource.setrlimit(kind, (most, most))


def message(out):
    """The one message on standard error."""
    assert out.returncode == 2, out.stderr
    assert "Traceback" not in out.stderr
    assert "panicked" not in out.stderr
    said = [line for line in out.stderr.splitlines() if line.startswith("breadth: ")]
    assert len(said) == 1, out.stderr
    return said[0]


@pytest.mark.parametrize("words", [["correlate"], ["report", "--out"], ["--help"], ["ls", "datasets"], ["--version"]])
def test_output_to_a_full_device(scores, tmp_path, words):
    match words:
        case ["correlate"]:
            words = ["correlate", scores]
        case ["report", "--out"]:
            words = ["report", scores, "--out", tmp_path / "report.md"]
    with open("/dev/full", "w") as full:
        assert "No space left" in message(start(*words, stdout=full))


def test_messages_to_a_full_device(scores):
    with open("/dev/full", "w") as full:
        assert start("correlate", scores.with_name("gone.csv"), stderr=full).returncode == 2


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_closed_stream(scores, tmp_path, number):
    table = tmp_path / "pairs.csv"
    out = start("correlate", scores, "--out", table, preexec_fn=lambda: os.close(number))
    assert out.returncode == 0, out.stderr
    assert table.stat().st_size > 100
    assert "Traceback" not in out.stderr


@pytest.mark.parametrize("words", [["--help"], ["correlate"]])
def test_a_reader_that_has_seen_enough(scores, words):
    read, write = os.pipe()
    os.close(read)
    out = start(*words, *([scores] if words == ["correlate"] else []), stdout=write)
    os.close(write)
    assert out.returncode == 1
    assert "Traceback" not in out.stderr
    assert "breadth:" not in out.stderr
    assert "Exception ignored" not in out.stderr


def test_too_few_open_files(scores, tmp_path):
    limit = limited(resource.RLIMIT_NOFILE, 12)
    out = start("report", scores, "--out", tmp_path / "report.html", preexec_fn=limit)
    assert "ulimit -n" in message(out)
    assert list(tmp_path.iterdir()) == []
    assert start("report", scores, "--out", tmp_path / "report.md", preexec_fn=limit).returncode == 0


def test_a_call_that_fails_names_the_reason():
    """The error of a read names no file, nor does that of a working directory that is gone."""
    for number in (errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT):
        assert os.strerror(number) in failure_message(OSError(number, os.strerror(number)))
    assert failure_message(OSError(errno.EBADF, os.strerror(errno.EBADF))) == "", "a mistake of our own"


@pytest.mark.parametrize("most", [12, 16, 40])
def test_a_figure_with_few_open_files_is_drawn_or_refused(scores, tmp_path, most):
    figure = tmp_path / "pairs.svg"
    limit = limited(resource.RLIMIT_NOFILE, most)
    out = start("correlate", scores, "--figure", figure, preexec_fn=limit)
    if not figure.exists():
        assert "ulimit" in message(out)
    assert "panicked" not in out.stderr


@pytest.mark.parametrize("words", [["correlate"], ["calibrate"], ["report"]])
def test_too_little_memory_to_load_libraries(scores, words):
    out = start(*words, scores, preexec_fn=limited(resource.RLIMIT_AS, 300_000 * 1024))
    assert "ulimit -v 300000" in message(out)
    assert start("--version", preexec_fn=limited(resource.RLIMIT_AS, 300_000 * 1024)).returncode == 0


def test_a_library_that_cannot_be_loaded(scores, tmp_path):
    out = start(
        *("report", scores, "--out", tmp_path / "report.html"),
        preexec_fn=limited(resource.RLIMIT_AS, 1_500_000 * 1024),
    )
    assert "not enough memory" in message(out)
    assert list(tmp_path.iterdir()) == []
