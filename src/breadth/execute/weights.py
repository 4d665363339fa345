"""Which weights a run's checkpoints had when they were evaluated, in ``weights.json`` beside its answers. No torch.

A checkpoint is known by checksums of its layers. They tell which layers all checkpoints share, and that a checkpoint
was replaced by another one of the same step. A file of the same size and time as before is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.lm import Checkpoint, adapter_settings, check_alike, group_sums, locate, weight_paths
from breadth.records import RunStore, checksum, sealed, unsealed
from breadth.study import RunSpec

#: The file of a run.
WEIGHTS = "weights.json"

#: The name of an adapter's settings among the sums of its layers.
SETTINGS = "adapter settings"

Sums = dict[str, str]


@dataclass
class KnownWeights:
    """Checksums of layers by step: those that were recorded, and those of the checkpoints that are there."""

    store: RunStore
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, store: RunStore) -> KnownWeights:
        """What is recorded so far; a damaged file counts as none."""
        values = unsealed(store.store.read(f"{store.key}/{WEIGHTS}")) or {}
        sound = all(isinstance(each, dict) and {*each} == {"files", "sums"} for each in values.values())
        return cls(store, values if sound else {})

    def sums(self, checkpoint: Checkpoint, folder: Path) -> Sums:
        """The checksums of a checkpoint, from the record if its files are as they were."""
        files = _files(folder)
        known = self.entries.get(str(checkpoint.step))
        if known is not None and known["files"] == files:
            return dict(known["sums"])
        sums = group_sums(weight_paths(folder))
        if checkpoint.is_adapter:
            sums[SETTINGS] = checksum(json.dumps(adapter_settings(folder), sort_keys=True).encode())
        self.entries[str(checkpoint.step)] = {"files": files, "sums": sums}
        return dict(sums)

    def all_sums(self) -> list[Sums]:
        """The checksums of every checkpoint that is known, deleted ones included."""
        return [dict(each["sums"]) for each in self.entries.values()]

    def check_unchanged(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Refuse checkpoints whose weights are not those that were evaluated."""
        done = set(self.store.sound_steps())
        for each in checkpoints:
            before = self.entries.get(str(each.step))
            if each.step not in done or not each.is_local or before is None:
                continue
            if self.sums(each, Path(each.place)) != before["sums"]:
                raise InputError(
                    f"{each.place}: its weights are not those that were evaluated as step {each.step:,}; choose "
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
    check_alike(source.checkpoints)
    locate(source.model())
    KnownWeights.read(store).check_unchanged(source.checkpoints)
    return source.left_out


def _files(folder: Path) -> list[list[Any]]:
    """Sizes and times of the files with the weights."""
    stats = [(path.name, path.stat()) for path in weight_paths(folder)]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
