"""``breadth.read_logs`` and ``breadth.import_logs``: logs of other tools as a study, in memory or in a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from breadth.errors import InputError, NothingFoundError, listed
from breadth.importers.assembly import Assembly, Keep, assemble
from breadth.importers.collecting import (
    Collected,
    Known,
    Paths,
    Progress,
    collect,
    nothing_found,
    path_list,
    step_pattern,
)
from breadth.importers.logs import Epochs, Log, Metric, Options
from breadth.importers.reading import garbage_kept
from breadth.importers.subjects import Entry, make_entry, shared_folder, stage_notes
from breadth.records import (
    LOCK,
    Imported,
    LocalStore,
    Study,
    foreign_files,
    imported_study,
    is_imported,
    is_study,
    read_imported,
    write_imported,
)

if TYPE_CHECKING:
    from breadth.importers.summary import Import


@garbage_kept()
def read_logs(
    paths: Paths,
    *,
    format: str = "auto",
    metric: str | None = None,
    filter: str | None = None,
    scorer: str | None = None,
    epochs: Epochs = "mean",
    split: str | None = None,
    subject: Mapping[str, str | os.PathLike[str]] | None = None,
    step_from: str | None = None,
    keep: Keep | None = None,
    texts: bool = True,
    progress: Progress | None = None,
) -> Study:
    """Read the logs of other evaluation tools as a :class:`breadth.Study`.

    Question: what did these models answer, item by item? Files and directories of any mixture of tools, versions and
    models are sorted out by their content.

    Parameters
    ----------
    paths
        Files and directories, one or several.
    format
        One tool's format (``lm-eval``, ``inspect``, ``helm``, ...); ``auto`` recognises all.
    metric, filter, scorer
        How answers are scored, where a log has several metrics, filters (lm-eval) or scorers (Inspect). Default: the
        first of each tool's documented order that all logs of a test set have. Values outside [0, 1] are refused.
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
    options = _options(metric, filter, scorer, epochs, split, texts)
    where, _, assembly = _assembled(paths, format, options, subject, step_from, keep, None, progress)
    return imported_study(assembly.imported, where, notes=assembly.notes)


@garbage_kept()
def import_logs(
    paths: Paths,
    *,
    into: str | os.PathLike[str] | None = None,
    format: str = "auto",
    metric: str | None = None,
    filter: str | None = None,
    scorer: str | None = None,
    epochs: Epochs = "mean",
    split: str | None = None,
    subject: Mapping[str, str | os.PathLike[str]] | None = None,
    step_from: str | None = None,
    keep: Keep | None = None,
    texts: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Import:
    """Import the logs of other evaluation tools into a directory that every verb takes as a study.

    The options are those of :func:`breadth.read_logs`. Logs that were imported before are recognised by their checksum
    and not read again unless a metric, a split or epochs are asked for; new ones are added. ``dry_run`` reads and
    reports but writes nothing. An interrupted import leaves the directory as it was.
    """
    from breadth.importers.summary import summarise  # loads rich, which takes as long as reading thousands of answers

    if into is None and not dry_run:
        raise InputError("name a directory for the answers with --into DIR (or try --dry-run)")
    folder = None if into is None else Path(into)
    _check_target(folder)
    options = _options(metric, filter, scorer, epochs, split, texts)
    arguments = (paths, format, options, subject, step_from, keep, folder, progress)
    if dry_run or folder is None:
        return summarise(*_assembled(*arguments), folder, changed=False)
    new = not folder.exists()
    try:
        with LocalStore(folder).lock("", wait=False) as held:
            if not held:
                raise InputError(f"--into {folder}: another import is writing there; wait until it has ended")
            result = _assembled(*arguments)
            changed = write_imported(folder, result[2].imported)
    except BaseException:
        if new:  # nothing of what failed is left behind
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()
        raise
    return summarise(*result, folder, changed=changed)


def _check_target(folder: Path | None) -> None:
    """Refuse a directory that holds anything but an import, or the remains of an interrupted one."""
    if folder is None or not folder.exists() or is_imported(folder):
        return
    if not folder.is_dir():
        raise InputError(f"--into {folder}: is a file; name a directory")
    if is_study(folder):
        raise InputError(f"--into {folder}: is the directory of a study that breadth ran; choose another")
    if foreign := foreign_files(folder):
        raise InputError(f"--into {folder}: holds other files ({listed(foreign, 3)}); name a new or empty directory")


def _options(
    metric: str | None, filter: str | None, scorer: str | None, epochs: Epochs, split: str | None, texts: bool
) -> Options:
    if filter is not None and scorer is not None:
        raise InputError("--filter is lm-evaluation-harness's and --scorer Inspect's word for it; give one of the two")
    if epochs not in ("mean", "each"):
        raise InputError(f"--epochs is {epochs!r}; choose mean or each")
    return Options(metric, filter if filter is not None else scorer, epochs, split, texts)


def _assembled(
    paths: Paths,
    format: str,
    options: Options,
    subject: Mapping[str, str | os.PathLike[str]] | None,
    step_from: str | None,
    keep: Keep | None,
    folder: Path | None,
    progress: Progress | None,
) -> tuple[str, Collected, Assembly]:
    """Collect and assemble, together with what a directory holds already."""
    if keep not in (None, "newest", "all"):
        raise InputError(f"--keep is {keep!r}; choose newest or all")
    given = path_list(paths, "of logs")
    names = {str(Path(path)): name for name, path in (subject or {}).items()}
    pattern = step_pattern(step_from)
    before = read_imported(folder) if folder is not None and is_imported(folder) else None
    stored = [] if before is None else _stored(before)
    # One metric is kept of every log; to give another one, files must be read again. So must they for their texts.
    plain = options == Options(texts=options.texts) and not names and pattern is None
    whole = [entry for entry in stored if plain and (entry.texts or not options.texts)]
    known = {_file(entry) for entry in whole}
    collected = collect(given, options, format, known, folder, progress)
    logs = [log for read in collected.read for log in read.logs]
    shared = shared_folder([*logs, *(entry.log for entry in stored)])
    new = [make_entry(log, read.checksum, names, pattern, shared) for read in collected.read for log in read.logs]
    for entry in new:
        entry.texts = options.texts
    entries = _joined(stored, new, collected.left_out if plain else None)
    unused = [path for path in names if not any(Path(entry.log.path).is_relative_to(path) for entry in entries)]
    if unused:
        raise InputError(f"--subject {names[unused[0]]}={unused[0]}: no log was read there")
    if not entries:
        raise NothingFoundError(nothing_found(given, collected.left_out))
    assembly = assemble(entries, options, keep, before)
    assembly.notes += stage_notes(new)
    return ", ".join(map(str, given)), collected, assembly


def _joined(stored: Sequence[Entry], new: Sequence[Entry], left_out: dict[str, str] | None) -> list[Entry]:
    """Logs of an earlier import and new ones, each once.

    A copy of a file that was imported is left out; it may bring texts that were not imported. Without ``left_out``,
    files were read again on purpose: then they take the place of what was imported.
    """
    known = {_source(entry): entry for entry in stored}
    copies = [(entry, known[_source(entry)]) for entry in new if _source(entry) in known]
    if left_out is None:
        for entry, copied in copies:
            entry.older = copied.older
        files = {_file(entry) for entry in new}
        replaced = {id(copied) for _, copied in copies}
        own = [entry for entry in stored if _file(entry) not in files and id(entry) not in replaced]
        place = {_file(entry): k for k, entry in enumerate(stored)}
        return sorted([*own, *new], key=lambda entry: place.get(_file(entry), len(stored)))
    for entry, copied in copies:
        if entry.texts and not copied.texts:
            copied.log, copied.texts = _with_texts(copied.log, entry.log), True
        else:
            left_out[entry.log.path] = f"a copy of {copied.log.path}"
    return [*stored, *(entry for entry in new if _source(entry) not in known)]


def _with_texts(stored: Log, read: Log) -> Log:
    """A log of an earlier import with the texts of its file, which was read again."""
    rows = {item: k for k, item in enumerate(read.items)}
    # An item that shares its name with another question was renamed: its name ends in a hash.
    places = [rows.get(item, rows.get(item.rpartition("~")[0])) for item in stored.items]
    columns = {name: list(column) for name, column in read.texts.items()}
    texts = {name: [None if k is None else column[k] for k in places] for name, column in columns.items()}
    return replace(stored, texts=texts)


def _file(entry: Entry) -> Known:
    return Known.of(entry.log.path, entry.checksum)


def _source(entry: Entry) -> tuple[Hashable, ...]:
    return (entry.checksum, entry.asked, entry.log.testset)


def _stored(before: Imported) -> list[Entry]:
    """The logs of an earlier import, with the one metric that was kept of each."""
    responses, entries = before.responses.partition_by("log", as_dict=True), []
    names = before.items["item"].to_numpy()
    for number, row in enumerate(before.logs.iter_rows(named=True)):
        part = responses.get((number,), before.responses.clear())
        metric = Metric(row["metric"], row["variant"])
        log = Log(
            path=row["path"], tool=row["tool"], version=row["version"], testset=row["testset"], model=row["model"],
            items=list(names[part["item"].to_numpy()]), values={metric: part["correct"].to_numpy()},
            margins={metric: part["margin"].fill_null(np.nan).to_numpy()}, answers=part["answer"].to_list(),
            settings=json.loads(row["settings"]), step=row["step"], stamp=row["stamp"], notes=row["notes"],
            stated={} if row["stated"] is None else {metric: row["stated"]},
        )  # fmt: skip
        own = json.loads(row["identity"])
        entries.append(
            Entry(
                log, row["checksum"], row["model"], row["step"], own, total=row["rows"], texts=row["texts"],
                older=[(path, checksum) for path, checksum in json.loads(row["older"])],
            )
        )  # fmt: skip
    return entries
