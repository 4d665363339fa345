import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from breadth.errors import InputError
from breadth.sources.logs.worker_processes import FileJob, results_in_order

from ..conftest import write_lm_eval


def double(number, seconds=0.0):
    time.sleep(seconds)
    return 2 * number, os.getpid()


def fail(number):
    raise ValueError(f"no {number}")


def end_elsewhere(process):
    """End a worker, but not the process of the tests."""
    if os.getpid() != process:
        os._exit(9)
    time.sleep(0.5)


def jobs(function, *arguments):
    return [FileJob(Path(f"{number}.json"), function, (number, *arguments)) for number in range(10)]


def test_results_are_in_order_whoever_works():
    several = [FileJob(Path("x"), double, (number, 0.05 * (number % 3))) for number in range(12)]
    results = list(results_in_order(several, 3))
    assert [result for result, _ in results] == list(range(0, 24, 2))
    assert 1 < len({process for _, process in results}) <= 3


def test_few_results_wait_at_a_time():
    begun = []

    def given():
        for job in jobs(double):
            begun.append(job)
            yield job

    results = results_in_order(given(), 2)
    next(results)
    time.sleep(0.2)
    assert len(begun) <= 5
    results.close()


def test_a_mistake_of_our_own_stays_what_it_is():
    with pytest.raises(ValueError, match="no 0"):
        list(results_in_order(jobs(fail), 2))


def test_a_worker_that_ends_is_one_message_with_the_file():
    work = [FileJob(Path(f"{number}.json"), end_elsewhere, (os.getpid(),)) for number in range(4)]
    with pytest.raises(InputError, match=r"^\d.json: the process that read it ended"):
        list(results_in_order(work, 2))


def test_a_script_without_a_main_guard_reads_in_several_processes(tmp_path):
    for model in "ab":
        write_lm_eval(tmp_path / "logs", model, {"home": [1, 0], "away": [0, 1]})
    script = tmp_path / "script.py"
    script.write_text(
        "import os, breadth\n"
        "from breadth.sources.logs import log_files\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "log_files.PARALLEL = 0\n"
        "print('once', breadth.read_logs('logs').subject_names)\n"
    )
    out = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert out.stdout == "once ('a', 'b')\n"
