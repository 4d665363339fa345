"""A worker of a cluster: keeps a model loaded, trains runs of it and evaluates their checkpoints. Knows nothing of Ray.

It computes exactly what :mod:`breadth.execute.session` computes: the same batches, the same order of operations, the
same number of threads. Weights and states travel as safetensors.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch
from safetensors.torch import load, save

from breadth.execute.cluster.shipping import (
    ModelFiles,
    Origin,
    Pieces,
    Sealed,
    ShippedData,
    answers_origin,
    has_files,
    pack_answers,
    pack_pieces,
    seal,
    start_origin,
    unseal,
    write_chunks,
)
from breadth.execute.cluster.tasks import Cell, Measured
from breadth.execute.data import fewshot_prefix
from breadth.execute.directory import environment
from breadth.execute.kept_weights import Rank, is_best, rank_checkpoint
from breadth.execute.progress import Events
from breadth.execute.session import SAVE_RATIO, Tensors, adapt, load_adapted, train_start, trunk_fits
from breadth.lm import (
    EncodedTestSet,
    LanguageModel,
    Outputs,
    SplitModel,
    Trainer,
    compute_outputs,
    encode_testset,
    encode_train_set,
    keep_batches,
    save_weights,
    score_outputs,
    trainable,
)
from breadth.study import RunSpec

#: Items per test set whose tokens are counted to decide whether states of the frozen layers fit.
COUNTED = 50


class Report(NamedTuple):
    """What a task gave: timings, the step that training reached with the losses on the way, pieces, notes."""

    measured: Measured
    reached: int | None = None
    losses: tuple[tuple[int, float], ...] = ()
    pieces: Sealed | None = None
    has_state: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class _Loaded:
    """A model in memory, and everything that is kept as long as it is there.

    ``adapted`` is the run whose adapters it was given. ``version`` says which weights it has: (run, step), or None for
    those it began with. While it evaluates others, ``kept`` are those of the run in training.
    """

    group: str
    adapted: str
    language_model: LanguageModel
    model: SplitModel
    notes: tuple[str, ...]
    cache_trunk: bool = False
    testsets: dict[tuple[str, str], EncodedTestSet] = field(default_factory=dict)
    training: dict[tuple[str, str], EncodedTestSet] = field(default_factory=dict)
    version: tuple[str, int] | None = None
    initial: Tensors = field(default_factory=dict)
    trainer: Trainer | None = None
    run: str = ""
    kept: Tensors = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, Any]:
        """The weights that training changes."""
        return trainable(self.model.model)

    def drop_trainer(self) -> None:
        """Forget a run that is trained no further here."""
        self.trainer, self.run, self.kept = None, "", {}

    def use(self, weights: Mapping[str, torch.Tensor], version: tuple[str, int] | None) -> None:
        """Put in the weights to evaluate, and keep those of a run in training."""
        if self.trainer is not None and not self.kept:
            self.kept = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.put(weights, version)

    def put(self, weights: Mapping[str, torch.Tensor], version: tuple[str, int] | None) -> None:
        """Replace the trained weights."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])
        self.version = version


class Worker:
    """Does one task after the other; ``groups`` says what must be loaded for each run."""

    def __init__(
        self,
        data: ShippedData,
        groups: Mapping[str, str],
        threads: int | None = None,
        models: Mapping[str, ModelFiles] | None = None,
        fetch: Callable[[str], Any] | None = None,
        share: float = 1.0,
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.data, self.groups, self.models, self.fetch = data, groups, models or {}, fetch
        self.share = share
        self.loaded: _Loaded | None = None
        self._saved, self._cost = time.perf_counter(), 0.0

    def environment(self) -> dict[str, Any]:
        """Versions and hardware here, and the process."""
        return {**environment(), "pid": os.getpid()}

    def train_start(self, run: str) -> tuple[Report, Sealed]:
        """Train the start that a run shares with others: its weights."""
        loaded, seconds = self._load(run)
        spec, began = self.data.runs[run], time.perf_counter()
        loaded.drop_trainer()
        loaded = self._fresh(loaded, spec)
        trainer = self._trainer(loaded, spec)
        weights = train_start(spec, self.data, loaded.language_model, trainer, Events())
        loaded.version = (run, 0)
        measured = Measured(load=seconds, train=time.perf_counter() - began, steps=spec.start_steps())
        return Report(measured, notes=loaded.notes), seal(save(weights), start_origin(spec))

    def train(
        self, run: str, step: int, resume: bool, state: Sealed | None, start: Sealed | None, limit: float
    ) -> tuple[Report, Sealed, Sealed]:
        """Train a run up to a checkpoint, or for ``limit`` seconds; returns weights and, now and then, the state.

        With ``resume``, training begins with ``state``, or at step 0 if there is none. Without weights (empty bytes),
        the checkpoint has not been reached; then there always is a state.
        """
        loaded, seconds = self._load(run)
        spec = self.data.runs[run]
        if resume or loaded.trainer is None or loaded.run != run:
            loaded, trainer = self._resumed(loaded, spec, step, state, start)
        else:
            trainer = loaded.trainer
            if loaded.kept:
                loaded.put(loaded.kept, (run, trainer.step))
                loaded.kept = {}
        began, first, losses = time.perf_counter(), trainer.step, []
        while trainer.step < step and (time.perf_counter() - began < limit or trainer.step == first):
            losses.append((trainer.step + 1, trainer.advance()))
        loaded.version = (run, trainer.step)
        measured = Measured(load=seconds, train=time.perf_counter() - began, steps=trainer.step - first)
        there = trainer.step >= step
        weights = {name: weight.detach().cpu().contiguous() for name, weight in trainer.weights.items()}
        saved = self._state(trainer, spec, there)
        report = Report(measured, trainer.step, tuple(losses), has_state=bool(saved), notes=loaded.notes)
        published = save(weights) if there else b""
        reached = trainer.step
        return (
            report,
            seal(published, Origin("the weights", run, reached)),
            seal(saved, Origin("the weights in training", run, reached)),
        )

    def evaluate(self, run: str, step: int, cells: tuple[Cell, ...], weights: Sealed | None) -> Report:
        """Compute the outputs of some cells of a checkpoint. Without ``weights``, they are those of the model."""
        loaded, seconds = self._load(run)
        spec = self.data.runs[run]
        version = None if weights is None else (run, step)
        if spec.is_trained and loaded.version != version:
            loaded.use(loaded.initial if weights is None else _load_weights(weights, spec, step), version)
        began = time.perf_counter()
        parts = []
        for cell in cells:
            testset = self._encoded(loaded, spec, cell.testset)
            parts.append((testset, testset.part(cell.index, cell.of)))
        encoded = time.perf_counter()
        cold = 0
        if loaded.cache_trunk:
            batches = [testset.batches[k] for testset, part in parts if testset.batches for k in part]
            new = [batch for batch in batches if batch.states is None]
            keep_batches(loaded.model, new, more=True)
            cold = sum(len(batch.index) for batch in new)
        kept = time.perf_counter()
        outputs = compute_outputs(loaded.language_model, loaded.model, parts)
        pieces: Pieces = dict(zip(cells, outputs, strict=True))
        items = sum(cell.items for cell in cells)
        measured = Measured(
            load=seconds + encoded - began, trunk=kept - encoded, trunk_items=items if cold else 0,
            answers=time.perf_counter() - kept, items=items,
        )  # fmt: skip
        sealed = seal(pack_pieces(pieces), Origin("the outputs", run, step, cells))
        return Report(measured, pieces=sealed, notes=loaded.notes)

    def score(self, run: str, step: int, pieces: Pieces) -> tuple[Report, Sealed]:
        """Score a checkpoint from the outputs of all its cells, test set by test set in the order of the study."""
        report, answers = self._score(run, pieces)
        return report, pack_answers(answers, answers_origin(run, step, pieces))

    def score_and_keep(
        self, run: str, step: int, pieces: Pieces, weights: Sealed, base: str, best: Rank | None
    ) -> tuple[tuple[Report, Sealed], dict[str, Sealed]]:
        """Score a checkpoint, and make the files of its weights: those that a local run writes.

        If only the best checkpoint is kept and this one is not better than ``best``, no files are made or sent.
        """
        report, answers = self._score(run, pieces)
        packed = pack_answers(answers, answers_origin(run, step, pieces))
        spec = self.data.runs[run]
        if spec.recipe.keep == "best" and not is_best(rank_checkpoint(spec, step, answers), best):
            return (report, packed), {}
        loaded, _ = self._load(run)
        if loaded.version != (run, step):
            loaded.use(_load_weights(weights, spec, step), (run, step))
        files: dict[str, Sealed] = {}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            save_weights(loaded.language_model, folder, base)
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    name = path.relative_to(folder).as_posix()
                    files[name] = seal(path.read_bytes(), Origin(f"the weights in {name}", run, step))
        return (report, packed), files

    def _score(self, run: str, pieces: Pieces) -> tuple[Report, pl.DataFrame]:
        loaded, seconds = self._load(run)
        spec = self.data.runs[run]
        names = self.data.testsets_of(spec)
        by_set: dict[str, list[Outputs]] = {}
        for cell, outputs in pieces.items():
            by_set.setdefault(cell.testset, []).append(outputs)
        frames = [score_outputs(self._encoded(loaded, spec, name), by_set[name]) for name in names]
        return Report(Measured(load=seconds)), pl.concat(frames)

    def _load(self, run: str) -> tuple[_Loaded, float]:
        """The model of a run, loaded if it is another than the last one, and the seconds that this took."""
        group, spec = self.groups[run], self.data.runs[run]
        if self.loaded is not None and self.loaded.group == group:
            return self.loaded, 0.0
        began, self.loaded = time.perf_counter(), None
        loaded = self._adapted(spec, *load_adapted(spec, Events(), self._source(spec.model)))
        tokens = self._tokens(spec, loaded) / self.share
        loaded.cache_trunk = loaded.model.is_split and trunk_fits(spec, loaded.model, int(tokens))
        self.loaded = loaded
        return loaded, time.perf_counter() - began

    def _adapted(self, spec: RunSpec, language_model: LanguageModel, model: SplitModel) -> _Loaded:
        """A model with the adapters of a run, tested as a local run tests it."""
        name = spec.evaluate.on[0]
        first = replace(self.data.testsets[name], frame=self.data.testsets[name].frame.head(1))
        prefix = fewshot_prefix(spec, self.data)
        prompts = encode_testset(language_model, first, context=spec.recipe.context, before=prefix).prompts
        if prompts:
            model.require_agreement(prompts[0], spec.model)
        loaded = _Loaded(self.groups[spec.name], spec.name, language_model, model, language_model.notes)
        if spec.is_trained and spec.method != "full":
            loaded.initial = {name: weight.detach().clone() for name, weight in loaded.weights.items()}
        return loaded

    def _fresh(self, loaded: _Loaded, spec: RunSpec) -> _Loaded:
        """The model as it is before a run's first step; what is known of the test sets is kept."""
        if loaded.version is None and (spec.method != "lora" or loaded.adapted == spec.name):
            return loaded
        if spec.method in ("ia3", "bitfit"):
            # They begin with the same weights whatever the seed.
            loaded.put(loaded.initial, None)
            return loaded
        self.loaded = None
        if spec.method == "lora":
            bare = replace(loaded.language_model, model=loaded.language_model.model.unload())
            fresh = self._adapted(spec, *adapt(spec, bare))
        else:
            fresh = self._adapted(spec, *load_adapted(spec, Events(), self._source(spec.model)))
        fresh.cache_trunk, fresh.testsets, fresh.notes = loaded.cache_trunk, loaded.testsets, loaded.notes
        fresh.training = loaded.training
        self.loaded = fresh
        return fresh

    def _source(self, model: str) -> str | None:
        """Where this node has a model: where the driver has it, or where it was sent."""
        files = self.models.get(model)
        if files is None:
            return None
        if has_files(files, Path(files.folder)):
            return files.folder
        assert self.fetch is not None
        return str(write_chunks(files, self.fetch(model)))

    def _tokens(self, spec: RunSpec, loaded: _Loaded) -> float:
        """Tokens of all test sets and the training set, from a few items of each."""
        total, prefix = 0.0, fewshot_prefix(spec, self.data)
        for testset in self.data.testsets_of(spec).values():
            height = testset.frame.height
            few = replace(testset, frame=testset.frame[:: max(1, height // COUNTED)])
            sample = encode_testset(loaded.language_model, few, context=spec.recipe.context, before=prefix)
            total += sample.tokens * height / max(few.frame.height, 1)
        if not spec.is_trained:
            return total
        examples = self.data.training(spec)
        recipe = spec.recipe
        return total + encode_train_set(loaded.language_model, examples, recipe.loss, context=recipe.context).tokens

    def _encoded(self, loaded: _Loaded, spec: RunSpec, name: str) -> EncodedTestSet:
        if name in spec.training_sizes():
            return self._encoded_training(loaded, spec, name)
        prefix = fewshot_prefix(spec, self.data)
        if (prefix, name) not in loaded.testsets:
            if any(known[0] != prefix for known in loaded.testsets):
                loaded.testsets.clear()  # the examples in the prompts of another few-shot run
            testset = self.data.testsets[name]
            encoded = encode_testset(loaded.language_model, testset, context=spec.recipe.context, before=prefix)
            loaded.testsets[prefix, name] = encoded
            loaded.notes = tuple(dict.fromkeys((*loaded.notes, *encoded.notes)))
        return loaded.testsets[prefix, name]

    def _encoded_training(self, loaded: _Loaded, spec: RunSpec, name: str) -> EncodedTestSet:
        """The training examples of a run as a test set; those of other runs are dropped, or they would pile up."""
        key = (spec.name, name)
        if key not in loaded.training:
            loaded.training = {known: each for known, each in loaded.training.items() if known[0] == spec.name}
            examples = self.data.testsets_of(spec)[name]
            loaded.training[key] = encode_testset(loaded.language_model, examples, context=spec.recipe.context)
        return loaded.training[key]

    def _trainer(self, loaded: _Loaded, spec: RunSpec) -> Trainer:
        recipe = spec.recipe
        train_set = encode_train_set(
            loaded.language_model, self.data.training(spec), recipe.loss, context=recipe.context
        )
        if loaded.cache_trunk:
            train_set.keep_frozen_states(loaded.model)
        return Trainer(loaded.model, train_set, recipe, spec.seed or 0, spec.total_steps(), self.data.keeps_order(spec))

    def _resumed(
        self, loaded: _Loaded, spec: RunSpec, step: int, state: Sealed | None, start: Sealed | None
    ) -> tuple[_Loaded, Trainer]:
        """A trainer of a run that will train up to a step, from one of the states before it."""
        loaded.drop_trainer()
        if state is None and start is None:
            loaded = self._fresh(loaded, spec)
        loaded.version = (spec.name, -1)
        trainer = self._trainer(loaded, spec)
        if state is not None:
            states = [Origin("the weights in training", spec.name, known) for known in range(step + 1)]
            trainer.restore(load(unseal(state, *states)))
        elif start is not None:
            trainer.load_weights(_load_weights(start, spec, 0))
        loaded.trainer, loaded.run = trainer, spec.name
        return loaded, trainer

    def _state(self, trainer: Trainer, spec: RunSpec, there: bool) -> bytes:
        """The state to resume from, unless it would take too much of the time."""
        began = time.perf_counter()
        if trainer.step in (0, spec.total_steps()) or (there and began - self._saved < SAVE_RATIO * self._cost):
            return b""
        state = save(trainer.state())
        self._saved = time.perf_counter()
        self._cost = self._saved - began
        return state


def _load_weights(sealed: Sealed, spec: RunSpec, step: int) -> Tensors:
    """Weights that another worker, or the driver, has sent; those of a start are weights at step 0."""
    expected = [Origin("the weights", spec.name, step)]
    if step == 0 and spec.start:
        expected.append(start_origin(spec))
    return load(unseal(sealed, *expected))
