"""One run on this machine: load, adapt, train, evaluate at every checkpoint that is missing. Needs torch.

The state of training is saved on the way, and so is the start that runs share.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load, save

from breadth.execute.data import START_SEED, RunData, StudyData, fewshot_prefix
from breadth.execute.kept_weights import KeptWeights, steps_to_keep
from breadth.execute.neither import neither_log, neither_note, neither_shares
from breadth.execute.progress import Events, Work
from breadth.execute.run_files import remaining_work, run_states, start_states
from breadth.lm import (
    EncodedTestSet,
    LanguageModel,
    SplitModel,
    Trainer,
    TrainSet,
    attach_ia3,
    attach_lora,
    available_memory,
    derived_seed,
    encode_testset,
    encode_train_set,
    evaluate_model,
    keep_frozen_states,
    kept_bytes,
    load_model,
    prepare_training,
    save_weights,
    unfreeze,
    unfreeze_biases,
    with_chat,
)
from breadth.records import RunStore
from breadth.study import RunSpec, start_key

if TYPE_CHECKING:
    from breadth.execute.swapped import Swapped

#: Share of the free memory that cached states of the frozen layers (the trunk) may take.
TRUNK_SHARE = 0.4

#: A state is saved once training has taken this many times as long as the last save: 2 % of the time goes into saving.
SAVE_RATIO = 50

Tensors = dict[str, torch.Tensor]


@dataclass
class ModelCache:
    """What one run leaves for the next of the same model: encoded test sets with the states of their frozen layers.

    ``own`` are the training examples of the run as a test set, which the next run has no use for.
    """

    key: str = ""
    testsets: list[EncodedTestSet] = field(default_factory=list)
    own: list[EncodedTestSet] = field(default_factory=list)
    swapped: Swapped | None = None

    @property
    def every(self) -> list[EncodedTestSet]:
        """All that the run is evaluated on."""
        return [*self.testsets, *self.own]


class LocalRunner:
    """Runs models on this machine; the cache carries encoded test sets from one run to the next."""

    def __init__(self) -> None:
        self.cache = ModelCache()

    def remaining(
        self, run: RunSpec, study_data: StudyData, missing: Sequence[int], store: RunStore, resumed: bool
    ) -> Work:
        """Steps and responses to go."""
        return remaining_work(run, study_data, missing, store, resumed)

    def finish(
        self, run: RunSpec, study_data: StudyData, store: RunStore, missing: Sequence[int], events: Events
    ) -> None:
        """Train and evaluate, or evaluate checkpoints that are there already."""
        from breadth.execute.swapped import evaluate_run

        work = finish_run if run.source is None else evaluate_run
        work(run, study_data, store, missing, self.cache, events)

    def forget(self, store: RunStore) -> None:
        """Delete saved states."""
        run_states(store).clear()


def finish_run(
    run: RunSpec, study_data: StudyData, store: RunStore, missing: Sequence[int], cache: ModelCache, events: Events
) -> None:
    """Train, and evaluate at the ``missing`` checkpoints; each is written before training continues."""
    language_model, model, trainer = open_session(run, study_data, cache, events)
    checkpointer, kept = Checkpointer(store), KeptWeights(run, store)
    if steps_to_keep(run):
        kept.check_space(kept_bytes(language_model))  # now, rather than after hours of training
    if trainer is not None:
        checkpointer.restore(trainer, missing[0])
        if run.start and trainer.step == 0:
            load_start(run, study_data, store, language_model, trainer, events)
    events.ready(run)
    for step in missing:
        started, loss = time.perf_counter(), None
        while trainer is not None and trainer.step < step:
            loss = trainer.advance()
            events.trained(trainer.step, loss)
        trained = time.perf_counter()
        answers = evaluate_model(language_model, model, cache.every, events.answered)
        seconds = time.perf_counter() - trained
        if kept.wants(step, answers):
            kept.check_space(kept_bytes(language_model))
            kept.write(step, lambda folder: save_weights(language_model, folder, kept.base))
        store.write_part(step, answers)
        kept.written(step, answers)
        events.checkpoint(run, step, answers)
        rate, neither = answers.height / max(seconds, 1e-9), neither_shares(run, answers)
        store.log(
            step=step, loss=loss, train_seconds=trained - started, seconds=seconds, items_per_second=rate,
            **neither_log(neither),
        )  # fmt: skip
        if note := neither_note(run, step, neither):
            events.note(note)
        if trainer is not None and 0 < step < missing[-1]:
            checkpointer.save(trainer)
    run_states(store).clear()
    events.ended(run)


def open_session(
    run: RunSpec, study_data: StudyData, cache: ModelCache, events: Events
) -> tuple[LanguageModel, SplitModel, Trainer | None]:
    """Load the model, attach what is trained, encode the data; notes say what was chosen and why."""
    recipe, prefix = run.recipe, fewshot_prefix(run, study_data)
    loaded, model = load_adapted(run, events)
    notes = list(loaded.notes)
    key = f"{start_key(run)} {model.top} {prefix}"
    cache.own = []
    if cache.key != key:
        # Free the states of the last model before new ones are made; if that fails, the cache holds nothing.
        cache.key, cache.testsets = "", []
        testsets = [study_data.testsets[name] for name in run.evaluate.on]
        cache.testsets = [
            encode_testset(loaded, testset, context=recipe.context, before=prefix) for testset in testsets
        ]
        cache.key = key
        notes += [note for testset in cache.testsets for note in testset.notes]
    every = study_data.testsets_of(run)
    cache.own = [encode_testset(loaded, every[name], context=recipe.context) for name in run.training_sizes()]
    if cache.testsets and cache.testsets[0].prompts:
        model.require_agreement(cache.testsets[0].prompts[0], run.model)
    trainer = None
    if run.is_trained:
        train_set = encode_train_set(loaded, study_data.training(run), recipe.loss, context=recipe.context)
        if model.is_split:
            notes.append(_cache_trunk(run, model, cache.every, train_set, events))
        trainer = Trainer(model, train_set, recipe, run.seed or 0, run.total_steps(), study_data.keeps_order(run))
    for note in notes:
        events.note(note)
    return loaded, model, trainer


def load_adapted(run: RunSpec, events: Events, source: str | None = None) -> tuple[LanguageModel, SplitModel]:
    """Load a run's model and attach what is trained; it is split above the frozen layers.

    ``source`` is where the model is, if not where the run says; pickled weights are converted there.
    """
    recipe = run.recipe
    loaded = load_model(
        source or run.loads, dtype=recipe.dtype, device=recipe.device, quantise=recipe.quantise,
        weights=run.weights if source is None else "safetensors",
        train_all=recipe.method == "full" and recipe.layers == "all", progress=events.fetching, warn=events.warn,
    )  # fmt: skip
    return adapt(run, with_chat(loaded, run.chat))


def adapt(run: RunSpec, loaded: LanguageModel) -> tuple[LanguageModel, SplitModel]:
    """Attach what is trained to a model that was loaded."""
    recipe = run.recipe
    if recipe.method == "lora":
        adapted = attach_lora(
            loaded.model, rank=recipe.rank, alpha=recipe.alpha, dropout=recipe.dropout, targets=recipe.targets,
            layers=recipe.layers, seed=derived_seed(START_SEED if run.start else run.seed or 0, 2),
        )  # fmt: skip
        loaded = replace(loaded, model=adapted)
    elif recipe.method == "ia3":
        loaded = replace(loaded, model=attach_ia3(loaded.model, recipe.layers))
    elif recipe.method == "bitfit":
        unfreeze_biases(loaded.model, recipe.layers)
    elif recipe.method == "full":
        unfreeze(loaded.model, recipe.layers)
    if run.is_trained:
        loaded = prepare_training(loaded)
    top = recipe.layers if run.is_trained and recipe.trunk != "off" and recipe.layers != "all" else None
    return loaded, SplitModel(loaded.model, top, compute=loaded.compute)


def trunk_fits(run: RunSpec, model: SplitModel, tokens: int) -> bool:
    """Whether to cache the frozen layers' states of so many tokens: if the recipe says so, or if memory allows."""
    return run.recipe.trunk == "on" or model.frozen_bytes(tokens) <= TRUNK_SHARE * available_memory()


def _cache_trunk(
    run: RunSpec, model: SplitModel, testsets: list[EncodedTestSet], train_set: TrainSet, events: Events
) -> str:
    """Cache the states of the frozen layers if they fit; returns a note about it."""
    tokens = sum(testset.tokens for testset in testsets) + train_set.tokens
    amount = f"{model.frozen_bytes(tokens) / 2**20:,.0f} MB"
    cached = any(batch.states is not None for testset in testsets for batch in testset.batches)
    if not cached and not trunk_fits(run, model, tokens):
        return f"the frozen layers are computed at every checkpoint, because their states would take {amount} of memory"
    keep_frozen_states(model, testsets, events.prepared)
    train_set.keep_frozen_states(model)
    return f"the frozen layers below the top {run.recipe.layers} are computed once and cached ({amount})"


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
