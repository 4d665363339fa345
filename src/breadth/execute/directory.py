"""The directory of a study: refused where it holds something else, opened by one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

from breadth.errors import InputError, listed
from breadth.execute.materials import Materials
from breadth.records import StudyStore, write_whole
from breadth.records.locks import locked
from breadth.records.soundness import remove_leftovers
from breadth.study import RunSpec, StudyFile, differences, parse_study, resolved_study, resolved_yaml


def check_directory(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> None:
    """Refuse a directory that holds other files, or a study whose runs would be orphaned. Changes nothing."""
    folder = store.folder
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; choose a directory with --into")
    try:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
    # The lock is the first thing that a study writes.
    if names and not names & {"study.yaml", ".lock"}:
        raise InputError(f"{folder}: holds other files; choose an empty or a new directory with --into")
    if "study.yaml" in names:
        _refuse_other_study(file, runs, store)


def check_writable(folder: Path) -> None:
    """Refuse a directory that could not be written, before anything is computed for it."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(f"{folder}: cannot be written; choose another directory with --into")


def open_directory(file: StudyFile, runs: list[RunSpec], materials: Materials, store: StudyStore) -> None:
    """Store the items and the resolved study."""
    check_directory(file, runs, store)
    testsets = materials.testsets
    with locked(store.folder, wait=True):
        check_directory(file, runs, store)
        remove_leftovers(store.folder)
        remove_leftovers(store.folder / "items")
        for name, testset in testsets.items():
            store.write_items(name, testset.frame)
        path, content = store.folder / "study.yaml", resolved_yaml(file.study).encode()
        if not path.exists() or path.read_bytes() != content:
            write_whole(path, lambda temporary: temporary.write_bytes(content))


def _refuse_other_study(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> None:
    """More models, seeds or sizes may be added; a change to runs that have begun is another study."""
    names = {run.name for run in runs}
    lost = [run.name for run in store.runs() if run.name not in names]
    if not lost:
        return
    raise InputError(
        f"{file.path}: is not the study that {store.folder} holds, and {len(lost)} of its runs would be orphaned. "
        f"Changed: {_changes(file, runs, store)}. Change it back, or choose another directory with --into; models, "
        "seeds and sizes may be added at any time"
    )


def _changes(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> str:
    path = store.folder / "study.yaml"
    try:
        before = parse_study(path.read_text(encoding="utf-8"), path, file.base)
    except (InputError, ValueError, OSError):
        return f"what exactly is unknown, because {path} cannot be read"
    found = differences(resolved_study(before.study), resolved_study(file.study))
    return "; ".join(found) or f"the content of {_changed_files(file, runs, store)}"


def _changed_files(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> str:
    """Names of the data files whose sums are not those in the descriptions of the runs."""
    now = {(name, key): own[key] for run in runs for name, own in run.own.items() for key in ("file", "train_file")}
    changed = set()
    for run in store.runs():
        try:
            own_sets = run.spec().get("own_sets", {})
        except InputError:
            continue
        for (name, key), total in now.items():
            if name in own_sets and own_sets[name].get(key) != total:
                changed.add(str(getattr(file.study.sets[name], key)))
    return listed(sorted(changed)) or "a file it names"
