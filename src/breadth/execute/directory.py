"""The directory of a study: refused if it holds something else; its first files; the environment of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadth.errors import InputError, listed
from breadth.execute.data import StudyData, all_training_items
from breadth.lm import BFLOAT16, PURE_BFLOAT16
from breadth.records import DamagedError, RunStore, StudyStore, is_imported, sealed
from breadth.study import EVALUATE, RunSpec, StudyFile, differences, expand, parse_study, resolved_study, resolved_yaml

if TYPE_CHECKING:
    from breadth.execute.plan import StudyPlan

#: Packages whose versions are recorded with every run.
PACKAGES = ("torch", "transformers", "peft", "accelerate", "numpy", "polars", "tokenizers", "safetensors")


def check_directory(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> None:
    """Refuse a directory that holds other files, or a study whose runs would be orphaned. Changes nothing.

    Models, seeds and sizes may be added; a change to runs that have begun makes another study.
    """
    folder = store.folder
    names = _names_in(folder, "choose a directory with --into")
    # The lock is the first thing that a study writes.
    if names and not names & {"study.yaml", ".lock"}:
        raise InputError(f"{folder}: contains other files; choose an empty or a new directory with --into")
    known = {run.name for run in runs}
    orphaned = [run.name for run in store.runs() if run.name not in known] if names & {"study.yaml", "runs"} else []
    if orphaned:
        more = "models and checkpoints" if file.study.recipe.method == EVALUATE else "models, seeds and sizes"
        raise InputError(
            f"{folder}: holds another study, and {file.path} would orphan {len(orphaned)} of its runs. Changed: "
            f"{_changes(file, runs, store)}. Undo the change, or choose another directory with --into; {more} can be "
            "added at any time"
        )


def check_recording(store: StudyStore) -> None:
    """Refuse a directory that cannot be written, or holds anything but what a recorder wrote. Changes nothing."""
    folder, remedy = store.folder, "choose an empty or a new directory"
    names = _names_in(folder, remedy)
    if "study.yaml" in names or is_imported(folder):
        raise InputError(f"{folder}: holds a study that `breadth run` or `breadth import` made; {remedy}")
    if names and ".lock" not in names:
        raise InputError(f"{folder}: contains other files; {remedy}")
    check_writable(folder)


def _names_in(folder: Path, remedy: str) -> set[str]:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; {remedy}")
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error


def check_writable(folder: Path) -> None:
    """Refuse a directory that cannot be written before anything is computed for it."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(f"{folder}: cannot be written; choose another directory")


def announce_study(plan: StudyPlan, waiting: Callable[[str], None]) -> None:
    """Write the resolved study alone, before models are loaded and timed: ``breadth view`` then says what is going on.

    Items come with ``open_directory``, because a study whose model cannot be loaded may still be changed. ``breadth
    evaluate`` does not announce: it would go on with the checkpoints of an earlier call that could not be loaded.
    """
    store = StudyStore(plan.folder)
    with store.store.lock("", wait=True, waiting=waiting):
        check_directory(plan.file, expand(plan.file), store)
        store.write_study(resolved_yaml(plan.file.study))


def open_directory(
    file: StudyFile, runs: list[RunSpec], study_data: StudyData, store: StudyStore, waiting: Callable[[str], None]
) -> None:
    """Write the items and the resolved study; ``waiting`` is told about another process that keeps it from doing so."""
    testsets = study_data.testsets
    with store.store.lock("", wait=True, waiting=waiting):
        check_directory(file, runs, store)
        store.store.clean("")
        store.store.clean("items")
        for name, testset in testsets.items():
            store.write_items(name, testset.frame)
        for name, items in all_training_items(runs, study_data).items():
            store.write_items(name, items, may_grow=True)
        store.write_study(resolved_yaml(file.study))


def begin_run(run: RunSpec, own: RunStore, file: StudyFile, store: StudyStore) -> None:
    """Write the record of a run. Under the study's lock, so that runs of two studies never meet in one directory.

    Until the first run has begun, another study may take the directory over; then this one is refused here.
    """
    with store.store.lock("", wait=True):
        text = None
        with suppress(DamagedError):
            text = store.read_study()
        if text not in (None, resolved_yaml(file.study)):
            there = parse_study(text or "", store.folder / "study.yaml", file.base)
            if run.name not in {each.name for each in expand(there)}:
                raise InputError(
                    f"{store.folder}: another study was started in this directory at the same time, and has it now; "
                    "choose another directory with --into"
                )
        record = run.record()
        if run.source is not None:  # checkpoints that were evaluated and deleted since then still belong to the run
            record = replace(record, checkpoints=tuple(sorted({*record.checkpoints, *own.sound_steps()})))
        own.write_record(record)


def write_environment(run: RunStore, found: dict[str, Any] | None = None) -> None:
    """Write versions and hardware of what computes a run (by default this machine) to its ``environment.json``."""
    run.store.write(f"{run.key}/environment.json", sealed(environment() if found is None else found))


def environment(*, computes: bool = True) -> dict[str, Any]:
    """Versions and hardware of this machine; only versions if it does not compute a run but asks an endpoint."""
    versions = {
        "breadth": _version("breadth"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }
    if not computes:
        return {**versions, "packages": {name: _version(name) for name in ("urllib3", "numpy", "polars")}}
    import torch

    return {
        **versions,
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _changes(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> str:
    path = store.folder / "study.yaml"
    try:
        before = parse_study(store.read_study() or "", path, file.base)
    except InputError:
        store.runs()[0].record()  # says so if breadth 0.1 wrote the directory
        if not path.exists():
            return "everything, because the runs were recorded by breadth.Recorder"
        return f"unknown, because {path} cannot be read"
    changed = differences(resolved_study(before.study), resolved_study(file.study))
    if not changed and any(map(_trained_in_bfloat16, store.runs())):
        changed = [
            f"what dtype: {BFLOAT16} means: it trained in bfloat16 then, and trains float32 weights now "
            f"({PURE_BFLOAT16} is what it was)"
        ]
    return "; ".join(changed) or f"the content of {_changed_files(file, runs, store)}"


def _trained_in_bfloat16(run: RunStore) -> bool:
    """Whether a run was recorded when ``dtype: bfloat16`` still trained in bfloat16."""
    try:
        recipe = run.record().recipe
    except InputError:
        return False
    return recipe.get("dtype") == BFLOAT16 and "lr" in recipe and "trained_in" not in recipe


def _changed_files(file: StudyFile, runs: list[RunSpec], store: StudyStore) -> str:
    """Names of the data files whose checksums differ from those in the records of the runs."""
    now: dict[tuple[str, str], Any] = {
        (name, key): own[key] for run in runs for name, own in run.own_sets.items() for key in ("file", "train_file")
    }
    changed = set()
    for run in store.runs():
        try:
            own_sets = run.record().own_sets
        except InputError:
            continue
        for (name, key), total in now.items():
            if name in own_sets and own_sets[name].get(key) != total:
                changed.add(str(getattr(file.study.own_sets[name], key)))
    return listed(sorted(changed)) or "a file it names"
