"""A whole study: its runs one after another, each by one process at a time.

Resuming is the same command again. Runs that are complete are not touched; a run that another process is doing is
left to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breadth.errors import InputError
from breadth.execute.directory import open_directory
from breadth.execute.environment import environment
from breadth.execute.materials import Materials
from breadth.execute.run import Kept, carry_out, missing_checkpoints, work_of
from breadth.execute.standing import clear_states
from breadth.execute.watching import Watcher
from breadth.records import RunStore, StudyStore, write_whole
from breadth.records.locks import locked
from breadth.study import RunSpec, StudyFile, expand, start_key


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
    if n < 1 or not 1 <= i <= n:
        raise InputError(f"--shard {shard!r}: parts are counted from 1, so the first is 1/{max(n, 1)}")
    return list(runs)[i - 1 :: n]


def run_study(
    file: StudyFile,
    into: Path,
    *,
    data: Path | None = None,
    shard: str | None = None,
    watcher: Watcher | None = None,
    materials: Materials | None = None,
) -> Outcome:
    """Do what is left of a study in the directory ``into``; ``materials`` saves loading its data again."""
    watcher = watcher or Watcher()
    materials = materials or Materials(file, data)
    runs = expand(file)
    chosen = shard_of(runs, shard)
    store, outcome, kept = StudyStore(into), Outcome(into), Kept()
    open_directory(file, runs, materials, store)
    _warn(store.warnings, outcome, watcher)
    for note in materials.notes:
        watcher.note(note)
    starts = shared_starts(runs)
    for number, run in enumerate(chosen, 1):
        own = store.run(run.name)
        with locked(own.folder, wait=False) as mine:
            if not mine:
                outcome.elsewhere.append(run.name)
                watcher.passed(run)
                continue
            own.mend()
            own.write_spec({**run.spec(), "checkpoints": run.checkpoints()})
            begun = bool(own.sound_parts())
            _borrow_start(own, starts[run.name], store)
            missing = missing_checkpoints(run, own)
            _warn(own.warnings, outcome, watcher)
            if not missing:
                clear_states(own.folder)
                outcome.done_before.append(run.name)
                watcher.passed(run)
                continue
            _write_json(own.folder / "environment.json", environment())
            watcher.begun(run, work_of(run, materials, missing, own, begun), number, len(chosen))
            try:
                carry_out(run, materials, own, missing, kept, watcher)
            finally:
                _warn(own.warnings, outcome, watcher)
            outcome.complete.append(run.name)
    return outcome


def shared_starts(runs: Sequence[RunSpec]) -> dict[str, list[str]]:
    """For every run, those that begin with the same untrained model, cut at the same layer: step 0 is the same."""
    keys = {run.name: (start_key(run), run.recipe.layers, run.method) for run in runs}
    groups: dict[object, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return {name: groups[key] for name, key in keys.items()}


def _borrow_start(own: RunStore, siblings: list[str], store: StudyStore) -> None:
    """Copy step 0 from a run that began with the same untrained model."""
    if own.sound_part(0) is not None:
        return
    for name in siblings:
        content = store.run(name).sound_part(0) if name != own.name else None
        if content is not None:
            own.write_part_bytes(0, content)
            return


def _warn(warnings: list[str], outcome: Outcome, watcher: Watcher) -> None:
    """Say warnings as soon as they are known, and keep them for the end."""
    for warning in warnings:
        watcher.warn(warning)
        outcome.warnings.append(warning)
    warnings.clear()


def _write_json(path: Path, content: object) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
