"""A whole study: its directory, its runs one after another, each by one process at a time.

Resuming is the same command again. Runs that are complete are not touched; a run that another process is doing is
left to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breadth.errors import InputError
from breadth.execute.environment import environment
from breadth.execute.materials import Materials
from breadth.execute.run import Kept, carry_out, missing_checkpoints, work_of
from breadth.execute.watching import Watcher
from breadth.lm.states import saved_states
from breadth.records import RunStore, StudyStore, write_whole
from breadth.records.locks import locked
from breadth.study import RunSpec, StudyFile, differences, expand, parse_study, resolved_study, resolved_yaml, start_key


@dataclass
class Outcome:
    """What became of the runs of a study."""

    folder: Path
    complete: list[str] = field(default_factory=list)
    done_before: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def shard_of(runs: Sequence[RunSpec], shard: str | None) -> list[RunSpec]:
    """Every n-th run, for ``shard`` i/n counted from 1; all of them without one."""
    if shard is None:
        return list(runs)
    try:
        i, n = (int(part) for part in shard.split("/"))
    except ValueError as error:
        raise InputError(f"--shard {shard!r}: write which part of how many, such as 3/16") from error
    if not 1 <= i <= n:
        raise InputError(f"--shard {shard!r}: the first number is from 1 to {n}")
    return list(runs)[i - 1 :: n]


def run_study(
    file: StudyFile,
    into: Path,
    *,
    data: Path | None = None,
    shard: str | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Do what is left of a study in the directory ``into``."""
    watcher = watcher or Watcher()
    materials = Materials(file, data)
    runs = expand(file)
    store = StudyStore(into)
    _open_directory(file, runs, materials, store)
    outcome, kept = Outcome(into), Kept()
    chosen = shard_of(runs, shard)
    for note in materials.notes:
        watcher.note(note)
    for number, run in enumerate(chosen, 1):
        own = store.run(run.name)
        with locked(own.folder, wait=False) as mine:
            if not mine:
                outcome.elsewhere.append(run.name)
                continue
            own.write_spec({**run.spec(), "checkpoints": run.checkpoints()})
            missing = missing_checkpoints(run, own)
            if 0 in missing and _borrow_start(run, runs, store):
                missing = missing_checkpoints(run, own)
            outcome.warnings += own.warnings
            if not missing:
                _clear_states(own)
                outcome.done_before.append(run.name)
                continue
            _write_json(own.folder / "environment.json", environment())
            watcher.begun(run, work_of(run, materials, missing), number, len(chosen))
            carry_out(run, materials, own, kept, watcher)
            outcome.complete.append(run.name)
    return outcome


def _open_directory(file: StudyFile, runs: list[RunSpec], materials: Materials, store: StudyStore) -> None:
    """Store the items and the resolved study; refuse a study that would make other runs of those already there."""
    folder = store.folder
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; choose a directory with --into")
    if (
        folder.is_dir()
        and any(folder.iterdir())
        and not (folder / "study.yaml").exists()
        and not (folder / ".lock").exists()
    ):
        raise InputError(f"{folder}: holds other files; choose an empty or a new directory with --into")
    with locked(folder, wait=True):
        path = folder / "study.yaml"
        text = resolved_yaml(file.study)
        if path.exists():
            _refuse_other_study(path, file, runs, store)
        for name, testset in materials.testsets.items():
            store.write_items(name, testset.frame)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _refuse_other_study(path: Path, file: StudyFile, runs: list[RunSpec], store: StudyStore) -> None:
    """More models, seeds or sizes may be added; a change to runs that have begun is another study."""
    begun = {run.name for run in store.runs()}
    lost = sorted(begun - {run.name for run in runs})
    if not lost:
        return
    before = parse_study(path.read_text(encoding="utf-8"), path, file.base)
    changes = differences(resolved_study(before.study), resolved_study(file.study)) or [
        "the content of a file it names"
    ]
    raise InputError(
        f"{file.path}: is not the study that {path.parent} holds, and {len(lost)} of its runs would be orphaned. "
        f"Changed: {'; '.join(changes)}. Change it back, or choose another directory with --into; models, seeds and "
        "sizes may be added at any time"
    )


def _borrow_start(run: RunSpec, runs: list[RunSpec], store: StudyStore) -> bool:
    """Copy step 0 from a run that began with the same untrained model, cut at the same layer."""
    key = (start_key(run), run.recipe.layers, run.method)
    for other in runs:
        if other.name != run.name and (start_key(other), other.recipe.layers, other.method) == key:
            theirs = store.run(other.name)
            path = theirs.sound_parts().get(0)
            if path is not None:
                store.run(run.name).write_part_bytes(0, path.read_bytes())
                return True
    return False


def _clear_states(store: RunStore) -> None:
    for path in saved_states(store.folder).values():
        path.unlink(missing_ok=True)


def _write_json(path: Path, content: object) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
