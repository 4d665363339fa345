"""Where a run stopped: saved states to resume from, and what is left to do. No torch.

None of this is part of the results: without a state, training begins again and ends with the same numbers. A state is
one file of named tensors (safetensors, never a pickle) that is whole or not there; its name carries its checksum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from safetensors import SafetensorError, deserialize

from breadth.execute.data import StudyData
from breadth.execute.events import Work
from breadth.records import RunStore, Store, checksum
from breadth.study import RunSpec, start_key

#: Digits of the key in the name of a start's directory.
START_DIGITS = 16

_STATE = re.compile(r"^state-(\d+)\.([0-9a-f]+)\.safetensors$")


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
            try:
                deserialize(content)  # type: ignore[no-untyped-call]
                return content
            except SafetensorError:
                pass
        moved = self.store.set_aside(key)
        self.warnings.append(
            f"{self.store.name}/{key}: is damaged; moved to {moved}. Training resumes from before step {step}"
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
    items = sum(testset.frame.height for testset in study_data.testsets.values())
    every, saved = len(run.checkpoints()), run_states(store).saved()
    begin = max((step for step in saved if step <= missing[0]), default=0)
    last = missing[-1] if run.is_trained else 0
    return Work(last, items * every, begin, items * (every - len(missing)), resumed)
