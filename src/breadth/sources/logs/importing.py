"""``breadth.read_logs`` and ``breadth.import_logs``: logs of other tools as a study, in memory or in a directory.

The way of a file: ``log_files`` finds it and reads what it holds; ``subjects`` says whose answers these are;
``stored_logs`` adds what was imported before; ``assembly`` puts logs together into the tables of a study, with a metric
for every test set (``scoring``), items that are the same (``items``) and one answer for each (``repeats``); ``summary``
says what came of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breadth.errors import InputError, listed
from breadth.records import (
    LocalStore,
    Study,
    foreign_files,
    imported_study,
    is_imported,
    is_study,
    read_imported,
    write_imported,
)
from breadth.sources.logs.assembly import Assembly, assemble
from breadth.sources.logs.log import Epochs, Options
from breadth.sources.logs.log_files import LogFiles, ProgressCallback, no_logs_error, read_log_files
from breadth.sources.logs.repeats import KeepLogs
from breadth.sources.logs.stored_logs import add_new_logs, read_stored_logs, replace_read_again
from breadth.sources.logs.subjects import SubjectLog, find_subject, shared_folder, stage_notes
from breadth.sources.paths import Paths, expand_paths, path_text
from breadth.sources.source_files import garbage_kept
from breadth.sources.training_steps import parse_step_pattern

if TYPE_CHECKING:
    from breadth.sources.logs.summary import Import


@garbage_kept()
def read_logs(
    paths: Paths,
    *,
    format: str = "auto",
    metric: str | None = None,
    scorer: str | None = None,
    epochs: Epochs = "mean",
    split: str | None = None,
    subject: Mapping[str, str | os.PathLike[str]] | None = None,
    step_from: str | None = None,
    keep: KeepLogs | None = None,
    texts: bool = True,
    progress: ProgressCallback | None = None,
) -> Study:
    """Read the logs of other evaluation tools as a :class:`breadth.Study`.

    Question: what did these models answer, item by item? Files and directories of any mixture of tools, versions and
    models are sorted out by their content.

    Parameters
    ----------
    paths
        Files, directories and patterns (``logs/*.eval``), one or several.
    format
        One tool's format (``lm-eval``, ``inspect``, ``helm``, ...); ``auto`` recognises all.
    metric, scorer
        How answers are scored, where a log has several metrics, or scorers (in Inspect; filters in lm-eval). By default
        the first of each tool's documented order that all logs of a test set have. Values outside [0, 1] are refused.
    epochs
        Answers to an item that was asked repeatedly: their ``mean``, or ``each`` epoch as a subject of its own.
    split
        Split of a test set, where a log has several. Default: test.
    subject
        Names of subjects with the path of their logs, where logs do not name the model.
    step_from
        Regular expression with one group of digits: the training step in a revision, model name or path.
    keep
        Of two logs with different answers of one subject to the same items, the ``newest``, or ``all`` as subjects of
        their own. By default they are refused.
    texts
        Whether to read questions, options and targets.
    progress
        Called with (files done, files in total).

    Returns
    -------
    Study
        Subjects are models with everything that makes their answers differ; ``warnings`` say what was noticed.

    Examples
    --------
    >>> import breadth
    >>> study = breadth.read_logs("logs/", metric="acc_norm")  # doctest: +SKIP
    """
    options = _check_options(metric, scorer, epochs, split, texts)
    request = _Request.check(paths, format, options, subject, step_from, keep, progress)
    _, assembly = _read_and_assemble(request, None)
    return imported_study(assembly.imported, request.name, notes=assembly.notes)


@garbage_kept()
def import_logs(
    paths: Paths,
    *,
    into: str | os.PathLike[str] | None = None,
    format: str = "auto",
    metric: str | None = None,
    scorer: str | None = None,
    epochs: Epochs = "mean",
    split: str | None = None,
    subject: Mapping[str, str | os.PathLike[str]] | None = None,
    step_from: str | None = None,
    keep: KeepLogs | None = None,
    texts: bool = True,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> Import:
    """Import the logs of other evaluation tools into a directory that every verb takes as a study.

    The options are those of :func:`breadth.read_logs`. Logs that were imported before are recognised by their checksum
    and not read again unless a metric, a split or epochs are asked for; new ones are added. ``dry_run`` reads and
    reports but writes nothing. An interrupted import leaves the directory as it was.
    """
    from breadth.sources.logs.summary import describe_import

    if into is None and not dry_run:
        raise InputError("name a directory for the answers with --into DIR (or try --dry-run)")
    folder = None if into is None else Path(into)
    if folder is not None:
        _check_target(folder)
    options = _check_options(metric, scorer, epochs, split, texts)
    request = _Request.check(paths, format, options, subject, step_from, keep, progress)
    if dry_run or folder is None:
        files, assembly = _read_and_assemble(request, folder)
        return describe_import(request.name, files, assembly, folder, changed=False)
    is_new = not folder.exists()
    store = LocalStore(folder)
    try:
        with store.lock("", wait=False) as is_held:
            if not is_held:
                raise InputError(f"--into {folder}: another import is writing there; wait until it has ended")
            files, assembly = _read_and_assemble(request, folder)
            changed = write_imported(store, assembly.imported)
    except BaseException:
        if is_new:  # nothing of what failed is left behind
            store.discard()
        raise
    return describe_import(request.name, files, assembly, folder, changed=changed)


@dataclass(frozen=True)
class _Request:
    """What is to be read, and how: the user's options after checking. ``subjects`` are names by path."""

    name: str
    paths: list[Path]
    format: str
    options: Options
    subjects: Mapping[str, str]
    step_pattern: re.Pattern[str] | None
    keep: KeepLogs | None
    progress: ProgressCallback | None

    @classmethod
    def check(
        cls,
        paths: Paths,
        format: str,
        options: Options,
        subject: Mapping[str, str | os.PathLike[str]] | None,
        step_from: str | None,
        keep: KeepLogs | None,
        progress: ProgressCallback | None,
    ) -> _Request:
        """Refuse what cannot be meant, and paths where nothing is."""
        if keep not in (None, "newest", "all"):
            raise InputError(f"--keep is {keep!r}; choose newest or all")
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        study_name = ", ".join(path_text(Path(path)) for path in given)
        subjects = {path_text(Path(path)): name for name, path in (subject or {}).items()}
        pattern = parse_step_pattern(step_from)
        return cls(study_name, expand_paths(given, "of logs"), format, options, subjects, pattern, keep, progress)

    @property
    def changes_reading(self) -> bool:
        """Whether files must be read again that were imported before: one metric only was kept of each."""
        by_default = Options(texts=self.options.texts)
        return self.options != by_default or bool(self.subjects) or self.step_pattern is not None


def _check_target(folder: Path) -> None:
    """Refuse a directory that holds anything but an import, or the remains of an interrupted one."""
    if not folder.exists() or is_imported(folder):
        return
    if not folder.is_dir():
        raise InputError(f"--into {folder}: is a file; name a directory")
    if is_study(folder):
        raise InputError(f"--into {folder}: is the directory of a study that breadth ran; choose another")
    foreign = foreign_files(folder)
    if foreign:
        raise InputError(f"--into {folder}: holds other files ({listed(foreign, 3)}); name a new or empty directory")


def _check_options(metric: str | None, scorer: str | None, epochs: Epochs, split: str | None, texts: bool) -> Options:
    if epochs not in ("mean", "each"):
        raise InputError(f"--epochs is {epochs!r}; choose mean or each")
    return Options(metric, scorer, epochs, split, texts)


def _read_and_assemble(request: _Request, folder: Path | None) -> tuple[LogFiles, Assembly]:
    """Read logs and put them together with what a directory holds already."""
    before = read_imported(folder) if folder is not None and is_imported(folder) else None
    stored = [] if before is None else read_stored_logs(before)
    known = set()
    for log in stored:
        has_all_texts = log.texts or not request.options.texts
        if has_all_texts and not request.changes_reading:
            known.add(log.file)
    found = read_log_files(request.paths, request.options, request.format, known, folder, request.progress)
    new = _find_subjects(found, stored, request)
    if request.changes_reading:
        logs = replace_read_again(stored, new)
    else:
        logs = add_new_logs(stored, new, found.left_out)
    for path, name in request.subjects.items():
        if not any(Path(log.path).is_relative_to(path) for log in logs):
            raise InputError(f"--subject {name}={path}: no log was read there")
    if not logs:
        raise no_logs_error(request.paths, found.left_out)
    assembly = assemble(logs, request.options, request.keep, before)
    assembly.notes += stage_notes(new)
    return found, assembly


def _find_subjects(found: LogFiles, stored: list[SubjectLog], request: _Request) -> list[SubjectLog]:
    """The logs that were read, each with its subject."""
    read = [log for file in found.files for log in file.logs]
    shared = shared_folder([*read, *(log.content for log in stored)])
    subject_logs = []
    for file in found.files:
        for log in file.logs:
            one = find_subject(log, file.checksum, request.subjects, request.step_pattern, shared)
            one.texts = request.options.texts
            subject_logs.append(one)
    return subject_logs
