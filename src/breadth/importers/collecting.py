"""From paths to logs: which files are logs of which tool, and reading them, on all cores where they are large."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import xxhash

from breadth.errors import InputError, NothingFoundError, did_you_mean, listed
from breadth.importers.logs import BUILT_IN, Importer, LeftOut, Log, Options, Part, each_importer
from breadth.importers.reading import LogFile
from breadth.importers.score_files import is_trainer_state
from breadth.importers.workers import in_processes
from breadth.records import reading

#: Bytes of logs above which they are read in several processes.
PARALLEL = 50_000_000

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
    _check_format(format)
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


def _check_format(format: str) -> None:
    if format != "auto" and format not in (names := [importer.name for importer in each_importer()]):
        hint = did_you_mean([format], names)
        raise InputError(f"--format is {format!r}; choose auto, {listed(names, 30)}.{hint}")


def log_files(paths: Sequence[Path], but: Path | None) -> Iterator[Path]:
    """Every regular file at or below the paths, once, in order; hidden ones and links out of a directory are not."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or directory")
        below: Iterator[Path] = iter([path])
        if path.is_dir():
            below = (
                Path(folder) / name
                for folder, folders, names in os.walk(path)
                if _descend(Path(folder), folders, but)
                for name in sorted(names)
                if name[0] != "." and not (Path(folder) / name).is_symlink()
            )
        for file in below:
            if (resolved := file.resolve()) not in seen and file.is_file():
                seen.add(resolved)
                yield file


def _descend(folder: Path, folders: list[str], but: Path | None) -> bool:
    folders[:] = sorted(name for name in folders if name[0] != ".")
    if but is not None and folder.resolve() == but.resolve():
        folders.clear()
        return False
    return True


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
    if workers == 1 or size < PARALLEL or any(type(importer).__name__ not in own for importer, _ in work):
        for done, (importer, file) in enumerate(work, 1):
            yield read_file(importer, file.path, options, known)
            if progress is not None:
                progress(done, len(work))
        return
    jobs = ((read_file, (importer, file.path, options, known)) for importer, file in work)
    for done, read in enumerate(in_processes(jobs, workers), 1):
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
