"""What determines a run, as ``run.json`` holds it: one class writes the file and reads it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from breadth.errors import InputError
from breadth.records.files import SEAL, sealed, unsealed

#: What of a run's record describes every one of its subjects.
SUBJECT_KEYS = ("model", "train_set", "examples", "seed", "train_level", "strategy", "method")

_AGAIN = "`breadth run` writes it again"


@dataclass(frozen=True)
class RunRecord:
    """What determines a run, and the steps at which it is evaluated.

    ``examples`` counts training examples, or those in the prompt of a few-shot run; ``start`` is what the model learns
    before step 0. ``endpoint`` has the address of a model that was asked over HTTP, and its name there.
    """

    model: str
    train_set: str | None = None
    examples: int | None = None
    seed: int | None = None
    train_level: int | None = None
    strategy: str | None = None
    method: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    evaluate: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Any] = field(default_factory=dict)
    own_sets: Mapping[str, Any] = field(default_factory=dict)
    difficulty: Mapping[str, Any] | None = None
    start: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None
    checkpoints: tuple[int, ...] = ()

    @property
    def start_examples(self) -> int:
        """Examples that the model learns before step 0."""
        return int((self.start or {}).get("examples", 0))

    def specification(self) -> dict[str, Any]:
        """What the run's name is a hash of: everything but the checkpoints, an absent start and an absent endpoint."""
        values = dataclasses.asdict(self)
        absent = {"checkpoints", *(key for key in ("start", "endpoint") if values[key] is None)}
        return {key: value for key, value in values.items() if key not in absent}

    def to_json(self) -> bytes:
        """The content of ``run.json``."""
        values = {**self.specification(), "checkpoints": list(self.checkpoints)}
        return sealed(values)

    @classmethod
    def parse(cls, content: bytes | None, where: str) -> RunRecord:
        """Read the content of ``run.json``; ``where`` is what messages call the file."""
        if content is None:
            raise InputError(f"{where}: cannot be read; {_AGAIN}")
        try:
            values = json.loads(content)
            json.dumps(values, ensure_ascii=False).encode()  # half a character is no text
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: is not JSON ({error}); {_AGAIN}") from error
        if not isinstance(values, dict):
            raise InputError(f"{where}: does not describe a run; {_AGAIN}")
        if "shots" in values:
            raise InputError(
                f"{where}: was written by breadth 0.1, which this version does not read; run the study again into a "
                "new directory"
            )
        values.pop(SEAL, None)
        problems = [f"{key!r} is not a key of a run" for key in values if key not in _TYPES]
        for key, value in values.items():
            fits = type(value) in _TYPES.get(key, (type(value),))  # so true and false are not numbers
            steps = value if key == "checkpoints" and fits else ()
            fits &= not isinstance(value, int) or abs(value) < LARGEST
            if not fits or not all(type(step) is int and 0 <= step < LARGEST for step in steps):
                problems.append(f"{key} is {value!r}"[:80])
        problems += ["model is missing"] if "model" not in values else []
        if problems:
            raise InputError(f"{where}: does not describe a run ({'; '.join(problems)}); {_AGAIN}")
        if unsealed(content) is None:
            raise InputError(f"{where}: is damaged or was changed (its checksum is wrong); {_AGAIN}")
        return cls(**{**values, "checkpoints": tuple(values.get("checkpoints") or ())})


#: Whole numbers of a table are below this.
LARGEST = 1 << 63

_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("examples", "seed", "train_level"), (int, type(None))),
    **dict.fromkeys(("train_set", "strategy", "method"), (str, type(None))),
    **dict.fromkeys(("recipe", "evaluate", "tasks", "own_sets"), (dict,)),
    **dict.fromkeys(("difficulty", "start", "endpoint"), (dict, type(None))),
    "model": (str,),
    "checkpoints": (list,),
}
