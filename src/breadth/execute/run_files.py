"""What a run keeps beside its answers: states to resume from, and which weights its checkpoints had. No torch.

A saved state is no part of the results: without it, training begins again and ends with the same numbers. It is one
file of named tensors (safetensors, never a pickle) that is whole or not there; its name carries its checksum.

``weights.json`` is there if the checkpoints are not breadth's own. A checkpoint is known by checksums of its layers and
of its settings; an adapter also by those of its base model, a whole model by that of its tokenizer. They tell which
layers all checkpoints share, and that a checkpoint was replaced by another one of the same step. A file of the same
size and time as before is not read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.execute.data import StudyData
from breadth.execute.progress import Work
from breadth.lm import (
    Checkpoint,
    check_alike,
    computing_settings,
    config_path,
    group_sums,
    has_safetensors,
    locate,
    pickled_digest,
    pickled_paths,
    refuse_damaged_weights,
    tokenizer_paths,
    tokenizer_sum,
    weight_paths,
)
from breadth.records import MISSING_FILE, RunStore, Store, checksum, sealed, unsealed
from breadth.study import RunSpec, start_key

#: Digits of the key in the name of a start's directory.
START_DIGITS = 16

_STATE = re.compile(r"^state-(\d+)\.([0-9a-f]+)\.safetensors$")

#: The file of a run with checksums of weights.
WEIGHTS = "weights.json"

#: The names of what is known beside the layers: settings, the base model of an adapter, and a model's own tokenizer.
SETTINGS, BASE, TOKENIZER = "settings", "base", "tokenizer"

Sums = dict[str, str]


@dataclass(frozen=True)
class States:
    """Saved states in one directory of a store; damaged ones are set aside, which adds to ``warnings``."""

    store: Store
    key: str
    warnings: list[str] = field(default_factory=list)

    def saved(self) -> dict[int, str]:
        """Names of the states by step, in order, without looking into them."""
        matches = [(name, _STATE.match(name)) for name in self.store.names(self.key)]
        return dict(sorted((int(match[1]), name) for name, match in matches if match))

    def latest(self, last: int) -> tuple[int, bytes] | None:
        """The latest undamaged state up to step ``last``: its step, and the tensors as they are in the file."""
        for step, name in reversed(self.saved().items()):
            content = self._read(step, name) if step <= last else None
            if content is not None:
                return step, content
        return None

    def write(self, step: int, content: bytes) -> None:
        """Write a state, then delete the older ones, so that there is a whole one at any time."""
        older = self.saved()
        name = f"state-{step:06d}.{checksum(content)}.safetensors"
        self.store.write(f"{self.key}/{name}", content)
        self._delete(other for other in older.values() if other != name)

    def clear(self) -> None:
        """Delete all states."""
        self._delete(self.saved().values())

    def _read(self, step: int, name: str) -> bytes | None:
        key, match = f"{self.key}/{name}", _STATE.match(name)
        content = self.store.read(key)
        if content is not None and match and checksum(content) == match[2]:
            from safetensors import SafetensorError, deserialize

            try:
                deserialize(content)  # type: ignore[no-untyped-call]
                return content
            except SafetensorError:
                pass
        fault = self.store.fault(key) or "is damaged"
        moved = self.store.set_aside(key) if fault != MISSING_FILE else ""
        if moved:
            self.warnings.append(
                f"{self.store.name}/{key}: {fault}; moved to {moved}. Training resumes from before step {step}"
            )
        return None

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.store.delete(f"{self.key}/{name}")


def run_states(store: RunStore) -> States:
    """The states of a run's training."""
    return States(store.store, store.key, store.warnings)


def start_states(run: RunSpec, store: RunStore) -> States:
    """Where the weights of a run's start are kept."""
    return States(store.store, f"starts/{start_key(run)[:START_DIGITS]}", store.warnings)


def remaining_work(
    run: RunSpec, study_data: StudyData, missing: Sequence[int], store: RunStore, resumed: bool = False
) -> Work:
    """How much a run has to do: training resumes from the latest state and ends with the last missing checkpoint."""
    items = sum(testset.frame.height for testset in study_data.testsets_of(run).values())
    every, saved = len(run.checkpoints()), run_states(store).saved()
    begin = max((step for step in saved if step <= missing[0]), default=0)
    last = missing[-1] if run.is_trained else 0
    return Work(last, items * every, begin, items * (every - len(missing)), resumed)


@dataclass
class KnownWeights:
    """Checksums of layers by step: those that were recorded, and those of the checkpoints that are there."""

    store: RunStore
    base: Path | None = None
    own_tokenizer: bool = False
    is_pickled: bool = False
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, store: RunStore, run: RunSpec) -> KnownWeights:
        """What is recorded so far; a damaged file counts as none."""
        assert run.source is not None
        first = run.source.checkpoints[0]
        base = Path(run.source.model()) if first.is_local and first.is_adapter else None
        values = unsealed(store.store.read(f"{store.key}/{WEIGHTS}")) or {}
        sound = all(isinstance(each, dict) and {*each} == {"files", "sums"} for each in values.values())
        base = base if base is not None and base.is_dir() else None
        is_pickled = base is not None and run.weights == "bin" and not has_safetensors(base)
        return cls(store, base, run.source.has_own_tokenizer, is_pickled, values if sound else {})

    def sums(self, checkpoint: Checkpoint, folder: Path) -> Sums:
        """The checksums of a checkpoint, from the record if its files are as they were."""
        files = _files([*weight_paths(folder), config_path(checkpoint)])
        if checkpoint.is_adapter and self.base is not None:
            files += _files(pickled_paths(self.base) if self.is_pickled else weight_paths(self.base))
        if self.own_tokenizer:
            files += _files(tokenizer_paths(checkpoint))
        known = self.entries.get(str(checkpoint.step))
        if known is not None and known["files"] == files:
            return dict(known["sums"])
        sums = group_sums(weight_paths(folder))
        sums[SETTINGS] = _checksum_of_values(computing_settings(checkpoint))
        if checkpoint.is_adapter and self.base is not None:
            sums[BASE] = self._base_sum
        if self.own_tokenizer:
            sums[TOKENIZER] = tokenizer_sum(checkpoint)
        self.entries[str(checkpoint.step)] = {"files": files, "sums": sums}
        return dict(sums)

    @cached_property
    def _base_sum(self) -> str:
        if self.base is None:
            return ""
        # Pickled weights of a base are known by the files themselves, which are not loaded for this.
        if self.is_pickled:
            return pickled_digest(self.base)
        return _checksum_of_values(group_sums(weight_paths(self.base)))

    def all_sums(self) -> list[Sums]:
        """The checksums of what every known checkpoint computes with, deleted ones included."""
        return [{key: each["sums"][key] for key in each["sums"].keys() - {TOKENIZER}} for each in self.entries.values()]

    def check_unchanged(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Refuse checkpoints whose weights are not those that were evaluated."""
        done = set(self.store.sound_steps())
        for each in checkpoints:
            before = self.entries.get(str(each.step))
            if each.step not in done or not each.is_local or before is None:
                continue
            now = self.sums(each, Path(each.place))
            known = {TOKENIZER: now.get(TOKENIZER), **before["sums"]}
            differ = {key for key in {*known, *now} if known.get(key) != now.get(key)}
            if differ:
                place = self.base if differ == {BASE} else each.place
                what = (
                    "tokenizer is not the one that was" if differ == {TOKENIZER} else "weights are not those that were"
                )
                raise InputError(
                    f"{place}: its {what} evaluated as step {each.step:,}; choose "
                    f"another directory with --into, or delete {self.store.part_path(each.step)} to evaluate it again"
                )

    def write(self) -> None:
        """Record the checksums."""
        self.store.store.write(f"{self.store.key}/{WEIGHTS}", sealed(self.entries))


def check_source(run: RunSpec, store: RunStore) -> tuple[str, ...]:
    """Refuse checkpoints that cannot be evaluated together; returns what was left out. Changes nothing."""
    source = run.source
    if source is None or not source.checkpoints:
        return ()
    done = set(store.sound_steps())
    for each in source.checkpoints:
        if each.is_local and each.step not in done:
            refuse_damaged_weights(Path(each.place))
    check_alike(source.checkpoints, own_tokenizer=source.has_own_tokenizer)
    locate(source.model())
    KnownWeights.read(store, run).check_unchanged(source.checkpoints)
    return source.left_out


def _files(paths: Iterable[Path]) -> list[list[Any]]:
    """Sizes and times of the files that are there."""
    stats = [(path.name, path.stat()) for path in paths if path.is_file()]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _checksum_of_values(values: Mapping[str, Any]) -> str:
    return checksum(json.dumps(values, sort_keys=True).encode())
