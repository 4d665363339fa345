"""Files are read on all cores: a worker is a plain interpreter that gets files through a pipe and answers through one.

Libraries for this were measured (1 GB of samples of lm-evaluation-harness, two idle cores). This takes 0.86 s and 1.7
CPU seconds of all processes, one process alone 1.03 s and 1.3. ``loky`` would save 60 lines, but takes 1.08 to 1.23 s
and 1.9 to 2.4 CPU seconds, brings two packages, and does not know which file ended a worker. ``multiprocessing`` runs
the main module of a script again in every process that it spawns, which breaks a script without ``if __name__ ==
"__main__"``; a fork of a process with threads can hang.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from breadth.errors import InputError
from breadth.sources.source_files import garbage_kept

#: What a worker runs; ``-P`` keeps files in the current directory from being imported.
COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from breadth.sources.logs.worker_processes import serve_jobs; serve_jobs()",
)

#: Jobs under way for every worker: few results wait at a time, to save memory.
AHEAD = 2


class FileJob(NamedTuple):
    """What is to be done with a file."""

    path: Path
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def results_in_order(jobs: Iterable[FileJob], workers: int) -> Iterator[Any]:
    """The results of jobs in their order; ``workers`` of them are done at a time, one of them in this process."""
    idle: SimpleQueue[ReadingProcess | None] = SimpleQueue()
    idle.put(None)  # this process, which has loaded everything already

    def do(job: FileJob) -> Any:
        worker = idle.get()
        try:
            return job.function(*job.arguments) if worker is None else worker.do(job)
        finally:
            idle.put(worker)

    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        # Entered after the threads, so ended before them: a thread that waits for a worker goes on when that ends.
        for _ in range(workers - 1):
            idle.put(stack.enter_context(ReadingProcess()))
        waiting = iter(jobs)
        futures = deque(threads.submit(do, job) for job in islice(waiting, AHEAD * workers))
        while futures:
            yield futures.popleft().result()
            for job in islice(waiting, 1):
                futures.append(threads.submit(do, job))


class ReadingProcess:
    """Another process, which does one job at a time."""

    def __enter__(self) -> ReadingProcess:
        """Start the process; it imports what this one can import."""
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._send(sys.path)
        return self

    def __exit__(self, *error: object) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        with suppress(BrokenPipeError):  # half a job that it did not take before it ended
            self._process.stdin.close()

    def do(self, job: FileJob) -> Any:
        """Do a job there."""
        assert self._process.stdout is not None
        try:
            self._send((job.function, job.arguments))
            is_done, result = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            message = f"{job.path}: the process that read it ended; it may need more memory"
            raise InputError(message) from None
        if not is_done:
            raise result
        return result

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(value, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()


def serve_jobs() -> None:
    """What a worker does: the jobs that come in on standard input, until there are no more."""
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not get between the results
    while True:
        try:
            function, arguments = pickle.load(jobs)
        except EOFError:
            return
        try:
            with garbage_kept():
                answer = True, function(*arguments)
        except BaseException as error:
            answer = False, error
        pickle.dump(answer, results, protocol=pickle.HIGHEST_PROTOCOL)
        results.flush()
