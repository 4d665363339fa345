"""From paths to logs: which files hold answers, by their content, and what they hold."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import xxhash

from breadth.boundary import reading
from breadth.errors import InputError, NothingFoundError, did_you_mean, listed
from breadth.sources.logs.log import MOST_LOGS, Log, Options, SkipFile
from breadth.sources.logs.worker_processes import FileJob, results_in_order
from breadth.sources.paths import files_below, path_text
from breadth.sources.registry import (
    Detection,
    Part,
    Source,
    detect,
    each_source,
    experimental_note,
    is_built_in,
    plugin_fault,
    what_sources_read,
)
from breadth.sources.source_files import SourceFile

#: Bytes of logs above which they are read in several processes.
PARALLEL = 50_000_000

#: First bytes of what gzip, zstd, bzip2 and xz write.
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")

#: Why a file that no source knows is left out.
UNKNOWN_FORMAT = "not a log of a known format"

#: Told how many files are done, and how many there are.
ProgressCallback = Callable[[int, int], None]


class KnownFile(NamedTuple):
    """A file that was read before. Files of two models may have the same content: the results beside them differ."""

    path: str
    checksum: str

    @classmethod
    def of(cls, path: Path | str, checksum: str) -> KnownFile:
        """A file, wherever the process was started that read it."""
        return cls(path_text(os.path.abspath(path)), checksum)


class LogFile(NamedTuple):
    """What one file gave: its logs, or why it has none, and its checksum."""

    path: str
    checksum: str
    logs: Sequence[Log] = ()
    left_out: str = ""
    problem: str = ""


@dataclass
class LogFiles:
    """What some paths gave: files of answers, and why other files were left out."""

    files: list[LogFile] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def read_log_files(
    paths: Sequence[Path],
    options: Options,
    format: str = "auto",
    known: Collection[KnownFile] = (),
    but: Path | None = None,
    progress: ProgressCallback | None = None,
) -> LogFiles:
    """Sort out files by their content and read those that hold answers.

    ``known`` files are not read again; ``but`` is a directory to leave alone. All files that cannot be read are named
    in one message.
    """
    _check_format(format)
    found = LogFiles()
    work: list[tuple[Source, SourceFile]] = []
    for path in files_below(paths, but):
        file = SourceFile.look(path)
        detected = detect(file, format)
        if detected is None:
            found.left_out[path_text(path)] = _why_unknown(file)
            continue
        source, detection = detected
        if detection.part is Part.ANSWERS:
            work.append((source, file))
        elif detection.part is Part.SCORES:
            found.left_out[path_text(path)] = _why_no_answers(source, detection)
    if not work:
        raise no_logs_error(paths, found.left_out)
    problems: list[str] = []
    for file_read in _read_files(work, options, frozenset(known), progress):
        found.files.append(file_read)
        if file_read.left_out:
            found.left_out[file_read.path] = file_read.left_out
        if file_read.problem:
            problems.append(file_read.problem)
    if problems:
        raise InputError("\n".join(problems))
    return found


def no_logs_error(paths: Sequence[Path], left_out: Mapping[str, str]) -> NothingFoundError:
    """What to say where there is no log: what is there, and what was looked for."""
    where = listed(map(path_text, paths), MOST_LOGS)
    looked_for = what_sources_read(source for source in each_source() if source.holds_answers())
    if not left_out:
        return NothingFoundError(f"{where}: no files. Looked for {looked_for}")
    reasons = []
    for path, reason in list(left_out.items())[:MOST_LOGS]:
        reasons.append(f"{path}: {reason}")
    if len(left_out) > MOST_LOGS:
        reasons.append(f"and {len(left_out) - MOST_LOGS} more")
    return NothingFoundError(
        f"{where}: no log with answers to single items. {'; '.join(reasons)}. Looked for {looked_for}"
    )


def file_checksum(path: Path) -> str:
    """Checksum of a file (xxh3, 128 bits): it tells files apart, and is much faster than a cryptographic one."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
                return xxhash.xxh3_128_hexdigest(b"")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return xxhash.xxh3_128_hexdigest(content)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def _check_format(format: str) -> None:
    if format == "auto":  # then sources are loaded only as far as they are asked
        return
    names = [source.name for source in each_source() if source.holds_answers()]
    if format not in names:
        fault = plugin_fault(format)
        if fault:
            raise InputError(f"--format is {format!r}: {fault}")
        hint = did_you_mean([format], names)
        raise InputError(f"--format is {format!r}; choose auto, {listed(names, 30)}.{hint}")


def _why_unknown(file: SourceFile) -> str:
    """Why a file that no source takes is left out."""
    if not file.size:
        return "empty"
    if {*file.path.suffixes} & {".csv", ".tsv", ".parquet"}:
        return f"{UNKNOWN_FORMAT}; tables of answers or scores need no import (`breadth report FILE`)"
    if file.head.startswith(COMPRESSED):
        return "compressed; unpack it"
    return UNKNOWN_FORMAT


def _why_no_answers(source: Source, detection: Detection) -> str:
    """Why a file of scores is left out, and what to do with it."""
    reason = f"scores of whole test sets, no single answers ({source.name}: {detection.reason})"
    if detection.has_scores:
        return f"{reason}; `breadth import-scores` reads such files"
    return f"{reason}; put them into a table for `breadth correlate`"


def _read_files(
    work: Sequence[tuple[Source, SourceFile]],
    options: Options,
    known: frozenset[KnownFile],
    progress: ProgressCallback | None,
) -> Iterator[LogFile]:
    """Read files in order; in several processes if they are large and their sources come with breadth."""
    jobs = []
    size = 0
    may_be_elsewhere = True
    for source, file in work:
        jobs.append(FileJob(file.path, read_file, (source, file.path, options, known)))
        size += file.size
        may_be_elsewhere &= is_built_in(source)
    workers = min(_usable_cores(), len(jobs))
    if workers > 1 and size >= PARALLEL and may_be_elsewhere:
        results = results_in_order(jobs, workers)
    else:
        results = (job.function(*job.arguments) for job in jobs)
    for done, file_read in enumerate(results, 1):
        yield file_read
        if progress is not None:
            progress(done, len(jobs))


def _usable_cores() -> int:
    """Cores that this process may use, where the system says so; else all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_file(source: Source, path: Path, options: Options, known: frozenset[KnownFile]) -> LogFile:
    """Read one file of answers, unless it is known."""
    name = path_text(path)
    try:
        checksum = file_checksum(path)
        if KnownFile.of(path, checksum) in known:
            return LogFile(name, checksum)
        with reading(path):
            logs = list(source.read_answers(SourceFile.look(path), options))
    except SkipFile as reason:
        return LogFile(name, checksum, left_out=str(reason))
    except InputError as error:
        return LogFile(name, "", problem=str(error))
    if not logs:
        return LogFile(name, checksum, left_out="holds no answers")
    if source.experimental:
        for place, log in enumerate(logs):
            logs[place] = replace(log, notes=[*log.notes, experimental_note(log.tool)])
    return LogFile(name, checksum, logs)
