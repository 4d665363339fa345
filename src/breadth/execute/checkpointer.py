"""Where a run stopped: saved states to resume from, the start that runs share, and a log of timings. Needs torch.

None of this is part of the results: without a state, training begins again and ends with the same numbers. A state is
one file of named tensors (safetensors, never a pickle) that is whole or not there; its name carries its checksum.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from breadth.execute.data import START_SEED, RunData, StudyData
from breadth.execute.events import Events
from breadth.lm import LanguageModel, Trainer, encode_train_set
from breadth.records import RunStore, Store, checksum
from breadth.study import RunSpec, start_key

Tensors = dict[str, torch.Tensor]

#: A state is saved once training has taken this many times as long as the last save: 2 % of the time goes into saving.
SAVE_RATIO = 50

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

    def latest(self, last: int) -> Tensors | None:
        """The latest undamaged state up to step ``last``."""
        content = self.latest_bytes(last)
        return None if content is None else load(content[1])

    def latest_bytes(self, last: int) -> tuple[int, bytes] | None:
        """The latest undamaged state up to step ``last`` as it is in its file, and its step."""
        for step, name in reversed(self.saved().items()):
            content = self._read(step, name) if step <= last else None
            if content is not None:
                return step, content
        return None

    def write(self, step: int, tensors: Tensors) -> None:
        """Write a state, then delete the older ones, so that there is a whole one at any time."""
        self.write_bytes(step, save(tensors))

    def write_bytes(self, step: int, content: bytes) -> None:
        """Write a state that is serialised already."""
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
                load(content)
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


@dataclass
class Checkpointer:
    """Saves and restores the training of one run, and logs it."""

    run: RunStore
    cost: float = 0.0
    since: float = field(default_factory=time.perf_counter)

    @property
    def states(self) -> States:
        """The run's states."""
        return States(self.run.store, self.run.key, self.run.warnings)

    def restore(self, trainer: Trainer, first_missing: int) -> None:
        """Restore the latest state that is not after the first checkpoint to evaluate, if there is one."""
        state = self.states.latest(first_missing)
        if state is not None:
            trainer.restore(state)

    def save(self, trainer: Trainer) -> None:
        """Save the state of training, unless that would take too much of the time."""
        started = time.perf_counter()
        if started - self.since < SAVE_RATIO * self.cost:
            return
        self.states.write(trainer.step, trainer.state())
        self.since = time.perf_counter()
        self.cost = self.since - started

    def log(self, **values: Any) -> None:
        """Add a line of JSON to the run's log."""
        self.run.store.append(f"{self.run.key}/log.jsonl", json.dumps({**values, "time": time.time()}).encode())


def start_states(run: RunSpec, store: RunStore) -> States:
    """Where the weights of a run's start are kept."""
    return States(store.store, f"starts/{start_key(run)[:START_DIGITS]}", store.warnings)


def load_start(
    run: RunSpec,
    study_data: StudyData,
    store: RunStore,
    language_model: LanguageModel,
    trainer: Trainer,
    events: Events,
) -> None:
    """Give a model the weights of its start. The first run that needs them trains them while other processes wait.

    So all runs of a study begin with exactly the same weights, whichever process executes them.
    """
    states = start_states(run, store)
    with store.store.lock(states.key, wait=True, waiting=events.note):
        store.store.clean(states.key)
        weights = states.latest(run.start_steps())
        if weights is None:
            weights = train_start(run, study_data, language_model, trainer, events)
            states.write(run.start_steps(), weights)
    trainer.load_weights(weights)


def train_start(
    run: RunSpec, study_data: RunData, language_model: LanguageModel, trainer: Trainer, events: Events
) -> Tensors:
    """Train the start of a run and return its weights; the trainer's own step and moments stay as they are."""
    recipe, steps = run.start_recipe(), run.start_steps()
    train_set = encode_train_set(language_model, study_data.start(run), recipe.loss, context=recipe.context)
    if trainer.train_set.states:
        train_set.keep_frozen_states(trainer.model)
    starter = Trainer(trainer.model, train_set, recipe, START_SEED, steps)
    while starter.step < steps:
        events.starting(starter.step + 1, steps, starter.advance())
    return {name: weight.detach().cpu().contiguous() for name, weight in starter.weights.items()}
