"""Where a run stands, on disk: states to go on from, and a log of how long everything took.

None of it is part of the results. Without a state, training starts anew and ends with the same numbers.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadth.errors import InputError
from breadth.records import RunStore
from breadth.records.soundness import reject

if TYPE_CHECKING:
    from breadth.lm.tuning import Tuner

#: A state is saved when training since the last one took this many times as long as saving it did: 2 % of the time.
WORTH = 50


@dataclass
class Standing:
    """States and log of one run."""

    store: RunStore
    cost: float = 0.0
    since: float = field(default_factory=time.perf_counter)

    def restore(self, tuner: Tuner, first_missing: int) -> None:
        """Restore the latest state that lies not after the first checkpoint to be evaluated; without one, stay."""
        from breadth.lm.states import read_state

        for step, path in reversed(latest_states(self.store.folder, first_missing).items()):
            state = read_state(path, self._aside) if path.is_file() else None
            if state is not None:
                tuner.restore(state)
                return
            remedy = f"Training goes on from before step {step}"
            if path.exists():
                self.store.warnings.append(reject(path, self._aside, "is no state of this run", remedy))
            else:
                self.store.warnings.append(f"{path}: is torn or was changed; moved to {self._aside}. {remedy}")

    def save(self, tuner: Tuner) -> None:
        """Save where training stands, unless that would take too much of the time."""
        from breadth.lm.states import write_state

        started = time.perf_counter()
        if started - self.since < WORTH * self.cost:
            return
        write_state(self.store.folder, tuner.step, tuner.state())
        self.since = time.perf_counter()
        self.cost = self.since - started

    def log(self, **values: Any) -> None:
        """Add a line of JSON. A torn last line of before stays alone on its line and harms nobody."""
        path = self.store.folder / "log.jsonl"
        try:
            with path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, 2)
                    file.write(b"" if file.read(1) == b"\n" else b"\n")
                file.write(json.dumps({**values, "time": time.time()}).encode() + b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from error

    @property
    def _aside(self) -> Path:
        return self.store.folder.parents[1] / "aside"


def latest_states(folder: Path, most: int) -> dict[int, Path]:
    """Saved states of steps up to ``most``, in order."""
    from breadth.lm.states import saved_states

    return {step: path for step, path in saved_states(folder).items() if step <= most}


def clear_states(folder: Path) -> None:
    """Delete the states of a run that is complete."""
    from breadth.lm.states import saved_states

    for path in saved_states(folder).values():
        if path.is_file():
            path.unlink(missing_ok=True)
