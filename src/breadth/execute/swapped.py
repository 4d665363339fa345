"""One run of checkpoints that are there already: load once, then swap weights and evaluate. Needs torch.

Layers whose weights are the same in all checkpoints are computed once, as the frozen layers of a training run are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breadth.execute.data import RunData
from breadth.execute.neither import neither_log, neither_note, neither_shares
from breadth.execute.progress import Events
from breadth.execute.run_files import KnownWeights, Sums
from breadth.execute.session import ModelCache, trunk_fits
from breadth.lm import (
    Checkpoint,
    EncodedTestSet,
    LanguageModel,
    LoraAdapters,
    SplitModel,
    SwappableModel,
    WholeWeights,
    base_of,
    changed_top,
    encode_testset,
    evaluate_model,
    group_sums,
    keep_frozen_states,
    weight_paths,
    with_chat,
)
from breadth.records import RunStore
from breadth.study import RunSpec


@dataclass
class Swapped:
    """What a run has loaded: its model, test sets, and the model split above the layers that checkpoints share."""

    run: RunSpec
    weights: SwappableModel
    testsets: list[EncodedTestSet] = field(default_factory=list)
    model: SplitModel | None = None
    unsplit: int = 0

    def encode(self, study_data: RunData, events: Events) -> None:
        """Encode the test sets, and say what was chosen."""
        self.weights.language_model = with_chat(self.weights.language_model, self.run.chat)
        loaded, context = self.weights.language_model, self.run.recipe.context
        testsets = study_data.testsets_of(self.run).values()
        self.testsets = [encode_testset(loaded, testset, context=context) for testset in testsets]
        for note in (*loaded.notes, *(note for testset in self.testsets for note in testset.notes)):
            events.note(note)

    def split(self, sums: Sequence[Sums], events: Events) -> SplitModel:
        """The model split above the layers that these checkpoints share; their states are kept if they fit.

        If a checkpoint differs in a layer that the ones before it shared, the model is split below that layer.
        """
        model = self.weights.language_model.model
        top = changed_top(model, sums) if len(sums) > 1 and self.run.recipe.trunk != "off" else None
        if self.model is not None and top in (self.model.top, self.unsplit):
            return self.model
        for batch in (batch for testset in self.testsets for batch in testset.batches):
            batch.states = None
        tokens = sum(testset.tokens for testset in self.testsets)
        split = SplitModel(model, top)
        if split.is_split and not trunk_fits(self.run, split, tokens):
            events.note("layers that all checkpoints share are computed every time, because their states do not fit")
            self.unsplit, split = top or 0, SplitModel(model)
        self.weights.unpack(split.top)
        prompts = self.testsets[0].prompts if self.testsets else []
        if prompts:
            split.require_agreement(prompts[0], self.run.model)
        if split.is_split:
            keep_frozen_states(split, self.testsets, events.prepared)
            events.note(
                f"the checkpoints differ in the top {split.top} of {len(split.layers)} layers at most; the others are "
                f"computed once and cached ({split.frozen_bytes(tokens) / 2**20:,.0f} MB)"
            )
        self.model = split
        return split


def evaluate_run(
    run: RunSpec, study_data: RunData, store: RunStore, missing: Sequence[int], cache: ModelCache, events: Events
) -> None:
    """Evaluate the ``missing`` checkpoints one after the other; each is written before the next is loaded."""
    source = run.source
    assert source is not None
    known = KnownWeights.read(store, run)
    known.check_unchanged(source.checkpoints)
    compared = all(each.is_local for each in source.checkpoints)  # fetching all revisions first could fill the disk
    if compared and len(source.checkpoints) > 1:
        events.note(f"comparing the weights of {len(source.checkpoints)} checkpoints")
    for each in source.checkpoints if compared else ():
        if Path(each.place).is_dir():
            known.sums(each, Path(each.place))
    ready = False
    for step in missing:
        checkpoint = source.at(step)
        if checkpoint.is_local and not Path(checkpoint.place).is_dir():
            events.warn(f"{checkpoint.place}: was deleted before it was evaluated")
            continue
        started, folder = time.perf_counter(), checkpoint.folder()
        sums = known.sums(checkpoint, folder)
        swapped = cache.swapped
        if swapped is None or swapped.run.name != run.name:
            cache.swapped = None  # frees the last model before another one is loaded
            swapped = cache.swapped = Swapped(run, open_weights(run, checkpoint, sums, events))
            swapped.encode(study_data, events)
        swapped.weights.load(folder, sums)
        model = swapped.split(known.all_sums() if compared else [], events)
        known.write()
        if not ready:
            events.ready(run)
            ready = True
        loaded = time.perf_counter()
        answers = evaluate_model(swapped.weights.language_model, model, swapped.testsets, events.answered)
        seconds = time.perf_counter() - loaded
        store.write_part(step, answers)
        events.checkpoint(run, step, answers)
        rate, neither = answers.height / max(seconds, 1e-9), neither_shares(run, answers)
        store.log(
            step=step, load_seconds=loaded - started, seconds=seconds, items_per_second=rate, **neither_log(neither)
        )
        if note := neither_note(run, step, neither):
            events.note(note)
    events.ended(run)


def open_weights(run: RunSpec, checkpoint: Checkpoint, sums: Sums, events: Events) -> SwappableModel:
    """Load the model of a run with the weights of one checkpoint."""
    recipe, source = run.recipe, run.source
    assert source is not None
    options = {"dtype": recipe.dtype, "device": recipe.device, "progress": events.fetching, "warn": events.warn}
    if checkpoint.is_adapter:
        base = base_of(checkpoint, source.base, source.beside)
        return LoraAdapters(checkpoint.folder(), base, quantise=recipe.quantise, weights=run.weights, **options)
    tokenizer = None if source.base is None else base_of(checkpoint, source.base, source.beside)
    return WholeWeights(checkpoint.folder(), sums, tokenizer, **options)


def load_sample(run: RunSpec, missing: Sequence[int], events: Events) -> tuple[LanguageModel, SplitModel]:
    """The model of a run with one of its checkpoints, split as its first and last suggest; for an estimate."""
    assert run.source is not None
    checkpoint = run.source.at(missing[0])
    folders = [run.source.at(step).folder() for step in dict.fromkeys((missing[0], missing[-1]))]
    sums = [group_sums(weight_paths(folder)) for folder in folders]
    weights = open_weights(run, checkpoint, sums[0], events)
    weights.load(folders[0], sums[0])
    loaded = with_chat(weights.language_model, run.chat)
    split = len(sums) > 1 and run.recipe.trunk != "off"
    return loaded, SplitModel(loaded.model, changed_top(loaded.model, sums) if split else None)
