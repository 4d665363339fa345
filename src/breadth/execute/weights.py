"""Which weights a run's checkpoints had when they were evaluated, in ``weights.json`` beside its answers. No torch.

A checkpoint is known by checksums of its layers and of its settings; an adapter also by those of its base model. They
tell which layers all checkpoints share, and that a checkpoint was replaced by another one of the same step. A file of
the same size and time as before is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.lm import (
    Checkpoint,
    check_alike,
    computing_settings,
    config_path,
    group_sums,
    locate,
    weight_paths,
)
from breadth.records import RunStore, checksum, sealed, unsealed
from breadth.study import RunSpec

#: The file of a run.
WEIGHTS = "weights.json"

#: The names of what is known beside the layers: settings, and the base model of an adapter.
SETTINGS, BASE = "settings", "base"

Sums = dict[str, str]


@dataclass
class KnownWeights:
    """Checksums of layers by step: those that were recorded, and those of the checkpoints that are there."""

    store: RunStore
    base: Path | None = None
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, store: RunStore, run: RunSpec) -> KnownWeights:
        """What is recorded so far; a damaged file counts as none."""
        assert run.source is not None
        first = run.source.checkpoints[0]
        base = Path(run.source.model()) if first.is_local and first.is_adapter else None
        values = unsealed(store.store.read(f"{store.key}/{WEIGHTS}")) or {}
        sound = all(isinstance(each, dict) and {*each} == {"files", "sums"} for each in values.values())
        return cls(store, base if base is not None and base.is_dir() else None, values if sound else {})

    def sums(self, checkpoint: Checkpoint, folder: Path) -> Sums:
        """The checksums of a checkpoint, from the record if its files are as they were."""
        files = _files([*weight_paths(folder), config_path(checkpoint)])
        if checkpoint.is_adapter and self.base is not None:
            files += _files(weight_paths(self.base))
        known = self.entries.get(str(checkpoint.step))
        if known is not None and known["files"] == files:
            return dict(known["sums"])
        sums = group_sums(weight_paths(folder))
        sums[SETTINGS] = _sum(computing_settings(checkpoint))
        if checkpoint.is_adapter and self.base is not None:
            sums[BASE] = self._base_sum
        self.entries[str(checkpoint.step)] = {"files": files, "sums": sums}
        return dict(sums)

    @cached_property
    def _base_sum(self) -> str:
        return "" if self.base is None else _sum(group_sums(weight_paths(self.base)))

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
            now = self.sums(each, Path(each.place))
            if now != before["sums"]:
                what = self.base if now | {BASE: ""} == before["sums"] | {BASE: ""} else each.place
                raise InputError(
                    f"{what}: its weights are not those that were evaluated as step {each.step:,}; choose "
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
    KnownWeights.read(store, run).check_unchanged(source.checkpoints)
    return source.left_out


def _files(paths: Iterable[Path]) -> list[list[Any]]:
    """Sizes and times of the files that are there."""
    stats = [(path.name, path.stat()) for path in paths if path.is_file()]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _sum(values: Mapping[str, Any]) -> str:
    return checksum(json.dumps(values, sort_keys=True).encode())
