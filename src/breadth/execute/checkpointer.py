"""Saving and restoring the training of a run, and the start that runs share. Needs torch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from safetensors.torch import load, save

from breadth.execute.data import START_SEED, RunData, StudyData
from breadth.execute.events import Events
from breadth.execute.states import run_states, start_states
from breadth.lm import LanguageModel, Trainer, encode_train_set
from breadth.records import RunStore
from breadth.study import RunSpec

Tensors = dict[str, torch.Tensor]

#: A state is saved once training has taken this many times as long as the last save: 2 % of the time goes into saving.
SAVE_RATIO = 50


@dataclass
class Checkpointer:
    """Saves and restores the training of one run."""

    run: RunStore
    cost: float = 0.0
    since: float = field(default_factory=time.perf_counter)

    def restore(self, trainer: Trainer, first_missing: int) -> None:
        """Restore the latest state that is not after the first checkpoint to evaluate, if there is one."""
        state = run_states(self.run).latest(first_missing)
        if state is not None:
            trainer.restore(load(state[1]))

    def save(self, trainer: Trainer) -> None:
        """Save the state of training, unless that would take too much of the time."""
        started = time.perf_counter()
        if started - self.since < SAVE_RATIO * self.cost:
            return
        run_states(self.run).write(trainer.step, save(trainer.state()))
        self.since = time.perf_counter()
        self.cost = self.since - started


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
        state = states.latest(run.start_steps())
        weights = train_start(run, study_data, language_model, trainer, events) if state is None else load(state[1])
        if state is None:
            states.write(run.start_steps(), save(weights))
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
