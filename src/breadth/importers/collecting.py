"""From paths to logs: which files are logs of which tool, and reading them, on all cores where they are large.

``multiprocessing`` runs the main module of a script again in every process it spawns, and a fork of a process with
threads can hang. A worker here is a plain interpreter that gets jobs through its pipe and answers with their results.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, starmap
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import xxhash

from breadth.errors import InputError, NothingFoundError, did_you_mean, listed
from breadth.importers.logs import BUILT_IN, Importer, LeftOut, Log, Options, Part, each_importer
from breadth.importers.reading import LogFile, garbage_kept
from breadth.importers.score_files import is_trainer_state
from breadth.records import reading

#: Bytes of logs above which they are read in several processes.
PARALLEL = 50_000_000

#: What a worker runs; ``-P`` keeps files in the current directory from being imported.
COMMAND = [sys.executable, "-P", "-c", "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
           "from breadth.importers.collecting import serve; serve()"]  # fmt: skip

#: Jobs under way for every worker: few results wait at a time, to save memory.
AHEAD = 2

Job = tuple[Callable[..., Any], tuple[Any, ...]]

#: What logs of other tools look like, for a message that says what was looked for.
LOOKED_FOR = (
    "lm-evaluation-harness samples_*.jsonl, Inspect .eval and .json, HELM run directories, lighteval "
    "details_*.parquet, EvalPlus and BigCodeBench *_eval_results.json, SWE-bench results, OLMES and OpenCompass "
    "predictions, every_eval_ever *_samples.jsonl, AlpacaEval annotations.json, OpenAI Evals logs, matrices (NPZ, or "
    "tables with columns item and correct)"
)

#: First bytes of what gzip, zstd, bzip2 and xz write.
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")

#: What to do with files that hold no answers. Of formats whose answers are read, trajectories takes one only.
SCORES_ONLY = "scores of whole test sets, no single answers"
TRAJECTORIES = "`breadth import trajectories` reads such files"
TABLE = "put them into a table for `breadth correlate`"
NO_LOG = "not a log of a known format; tables of answers or scores need no import (`breadth report FILE`)"

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[int, int], None]


class Known(NamedTuple):
    """A file that was read before. Files of two models may have the same content: the results beside them differ."""

    path: str
    checksum: str

    @classmethod
    def of(cls, path: Path | str, checksum: str) -> Known:
        """A file, wherever the process was started that read it."""
        return cls(os.path.abspath(path), checksum)


class Read(NamedTuple):
    """What one file gave: its logs, or why it has none, and its checksum."""

    path: str
    checksum: str
    logs: Sequence[Log] = ()
    left_out: str = ""
    problem: str = ""


@dataclass
class Collected:
    """Everything that some paths gave."""

    read: list[Read] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    companions: int = 0


def collect(
    paths: Sequence[Path],
    options: Options,
    format: str = "auto",
    known: Collection[Known] = (),
    but: Path | None = None,
    progress: Progress | None = None,
) -> Collected:
    """Sort out files by their content and read those that hold answers.

    ``known`` files are not read again; ``but`` is a directory to leave alone. All files that cannot be read are named
    in one message.
    """
    if format != "auto" and format not in (names := [importer.name for importer in each_importer()]):
        hint = did_you_mean([format], names)
        raise InputError(f"--format is {format!r}; choose auto, {listed(names, 30)}.{hint}")
    collected = Collected()
    work: list[tuple[Importer, LogFile]] = []
    for path in log_files(paths, but):
        file = LogFile.look(path)
        asked = (one for one in each_importer() if format in ("auto", one.name))
        importer, part = next(((one, part) for one in asked if (part := one.part(file)) is not None), (None, None))
        if importer is not None and part is Part.ANSWERS:
            work.append((importer, file))
        elif part is Part.COMPANION:
            collected.companions += 1
        elif part is Part.SCORES:
            harness = importer is not None and importer.name == "lm-eval"
            collected.left_out[str(path)] = f"{SCORES_ONLY}; {TRAJECTORIES if harness else TABLE}"
        else:
            collected.left_out[str(path)] = _unknown(file)
    if not work:
        raise NothingFoundError(nothing_found(paths, collected.left_out))
    for read in _read_all(work, options, frozenset(known), progress):
        collected.read.append(read)
        if read.left_out:
            collected.left_out[read.path] = read.left_out
    problems = [read.problem for read in collected.read if read.problem]
    if problems:
        raise InputError("\n".join(problems))
    return collected


def _unknown(file: LogFile) -> str:
    """Why a file that no importer takes is left out."""
    if not file.size:
        return "empty"
    if is_trainer_state(file):
        return f"scores of checkpoints, no single answers; {TRAJECTORIES}"
    if {*file.path.suffixes} & {".csv", ".tsv", ".parquet"}:
        return NO_LOG
    return "compressed; unpack it" if file.head.startswith(COMPRESSED) else "not a log of a known format"


def path_list(paths: Paths, what: str) -> list[Path]:
    """One or several paths as a list, which must not be empty; ``what`` is looked for there."""
    given = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    if not given:
        raise InputError(f"name files or directories {what}")
    return given


def log_files(paths: Sequence[Path], but: Path | None) -> Iterator[Path]:
    """Every regular file at or below the paths, once, in order; hidden ones and links out of a directory are not."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or directory")
        for file in _below(path, but) if path.is_dir() else [path]:
            if (resolved := file.resolve()) not in seen and file.is_file():
                seen.add(resolved)
                yield file


def _below(top: Path, but: Path | None) -> Iterator[Path]:
    for at, folders, names in os.walk(top):
        folder = Path(at)
        if but is not None and folder.resolve() == but.resolve():
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name[0] != ".")
        yield from (folder / name for name in sorted(names) if name[0] != "." and not (folder / name).is_symlink())


def nothing_found(paths: Sequence[Path], left_out: Mapping[str, str]) -> str:
    """What to say where there is no log: what is there, and what was looked for."""
    where = listed(map(str, paths), 3)
    if not left_out:
        return f"{where}: no files. Looked for {LOOKED_FOR}"
    shown = "; ".join(f"{path}: {reason}" for path, reason in list(left_out.items())[:3])
    more = f"; and {len(left_out) - 3} more" if len(left_out) > 3 else ""
    return f"{where}: no log with answers to single items. {shown}{more}. Looked for {LOOKED_FOR}"


def _read_all(
    work: Sequence[tuple[Importer, LogFile]], options: Options, known: frozenset[Known], progress: Progress | None
) -> Iterator[Read]:
    """Read files in order; in several processes if they are large and their importers come with breadth."""
    own = {name for _, name in BUILT_IN}
    size = sum(file.size for _, file in work)
    workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, len(work))
    jobs = ((importer, file.path, options, known) for importer, file in work)
    if workers == 1 or size < PARALLEL or any(type(importer).__name__ not in own for importer, _ in work):
        results: Iterator[Read] = starmap(read_file, jobs)
    else:
        results = in_processes(((read_file, job) for job in jobs), workers)
    for done, read in enumerate(results, 1):
        yield read
        if progress is not None:
            progress(done, len(work))


def read_file(importer: Importer, path: Path, options: Options, known: frozenset[Known]) -> Read:
    """Read one file of answers, unless it is known."""
    try:
        summed = file_checksum(path)
        if Known.of(path, summed) in known:
            return Read(str(path), summed)
        with reading(path):
            logs = tuple(importer.read(LogFile.look(path), options))
    except LeftOut as reason:
        return Read(str(path), summed, left_out=str(reason))
    except InputError as error:
        return Read(str(path), "", problem=str(error))
    return Read(str(path), summed, logs, "" if logs else "holds no answers")


def file_checksum(path: Path) -> str:
    """Checksum of a file (xxh3, 128 bits): it tells files apart, and is much faster than a cryptographic one."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return xxhash.xxh3_128_hexdigest(b"")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return xxhash.xxh3_128_hexdigest(content)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def step_pattern(text: str | None) -> re.Pattern[str] | None:
    """The user's pattern for steps: one group of digits."""
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"--step-from {text!r}: is not a regular expression ({error})") from error
    if pattern.groups != 1:
        raise InputError(f"--step-from {text!r}: needs one group for the digits, such as 'step_(\\d+)'")
    return pattern


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
