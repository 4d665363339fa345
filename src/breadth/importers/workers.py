"""Reading files in several processes, started so that a caller's own script is never run again in them.

``multiprocessing`` runs the main module of a script again in every process it spawns, and a fork of a process with
threads can hang. A worker here is a plain interpreter that gets jobs through its pipe and answers with their results.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import Any

from breadth.errors import InputError
from breadth.importers.reading import garbage_kept

#: What a worker runs; ``-P`` keeps files in the current directory from being imported.
COMMAND = [sys.executable, "-P", "-c", "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
           "from breadth.importers.workers import serve; serve()"]  # fmt: skip

#: Jobs under way for every worker: few results wait at a time, to save memory.
AHEAD = 2

Job = tuple[Callable[..., Any], tuple[Any, ...]]


def serve() -> None:
    """Do the jobs that come in on standard input, until there are no more."""
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
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


def in_processes(jobs: Iterable[Job], workers: int) -> Iterator[Any]:
    """The results of jobs in their order; ``workers`` of them are done at a time, one of them in this process."""
    idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
    idle.put(None)  # this process, which has loaded everything already
    processes = [subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(workers - 1)]
    try:
        for process in processes:
            _send(process, sys.path)
            idle.put(process)

        def do(job: Job) -> Any:
            process = idle.get()
            try:
                if process is None:
                    return job[0](*job[1])
                _send(process, job)
                done, result = pickle.load(process.stdout)  # type: ignore[arg-type]
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                name = next((str(argument) for argument in job[1] if hasattr(argument, "suffix")), "a file")
                raise InputError(f"{name}: the process that read it ended; it may need more memory") from None
            finally:
                idle.put(process)
            if not done:
                raise result
            return result

        with ThreadPoolExecutor(workers) as threads:
            waiting = iter(jobs)
            futures = deque(threads.submit(do, job) for job in islice(waiting, AHEAD * workers))
            while futures:
                yield futures.popleft().result()
                futures.extend(threads.submit(do, job) for job in islice(waiting, 1))
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _send(process: subprocess.Popen[bytes], value: object) -> None:
    assert process.stdin is not None
    pickle.dump(value, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
