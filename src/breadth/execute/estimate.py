"""The pace of a study's models, measured on a few batches of each before it starts. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from breadth.datasets import Mixture
from breadth.execute.data import StudyData, fewshot_prefix
from breadth.execute.kept_weights import steps_to_keep
from breadth.execute.plan import StudyPlan, Unit
from breadth.execute.progress import Events, Pace
from breadth.execute.session import load_adapted, trunk_fits
from breadth.execute.swapped import load_sample
from breadth.lm import (
    BUILT_IN,
    MIXED,
    EncodedTestSet,
    LanguageModel,
    SplitModel,
    Trainer,
    Weights,
    encode_testset,
    encode_train_set,
    estimate_kept_bytes,
    evaluate_model,
    fault_of,
    lane_count,
    locate,
    map_in_lanes,
    weight_size,
)
from breadth.study import RunSpec

#: Batches to time, items per set whose tokens are counted, and items per set whose answers are generated.
BATCHES, COUNTED, GENERATED = 4, 200, 2

#: A model that loads in fewer seconds is loaded a second time, because the first also imports libraries.
QUICK = 20.0

#: Share of the items that ``dtype: mixed`` typically scores a second time.
TWICE = 0.1

#: Larger weights, in bytes, are not loaded just for an estimate.
LARGE = 4 * 2**30


def measure_pace(unit: Unit, study_data: StudyData, events: Events) -> Pace:
    """Load a run's model, time whole batches of its test sets and a training step, and scale by tokens."""
    run = unit.run

    def load_run() -> tuple[LanguageModel, SplitModel]:
        return load_adapted(run, events) if run.source is None else load_sample(run, unit.missing, events)

    (loaded, model), load = _timed(load_run)
    if load < QUICK:
        (loaded, model), load = _timed(load_run)
    testsets, sizes = _encoded_testsets(run, study_data, loaded)
    if testsets and testsets[0].prompts:
        model.agrees(testsets[0].prompts[0])  # finds out what the run will find out: packed weights, trees
    tokens = sum(
        testset.tokens * size / max(testset.items.height, 1) for testset, size in zip(testsets, sizes, strict=True)
    )
    cached = model.is_split and trunk_fits(run, model, int(tokens))
    mixed = loaded.dtype == MIXED and all(testset.can_be_mixed for testset in testsets)
    trunk, answers = _per_token(model, testsets, cached, mixed)
    example, step = _per_step(run, study_data, loaded, model, cached)
    generated = sum(
        _timed(partial(evaluate_model, loaded, model, [testset]))[1] * size / testset.items.height
        for testset, size in zip(testsets, sizes, strict=True)
        if testset.requests is None
    )
    return Pace(load, trunk * tokens, answers * tokens + generated, step, example)


@dataclass(frozen=True)
class KeptDisk:
    """What kept weights will take of the disk: directories and bytes, and models whose size is not known."""

    folders: int
    size: int
    unknown: tuple[str, ...] = ()


def estimate_kept(plan: StudyPlan) -> KeptDisk | None:
    """The disk that ``recipe.keep`` will take for what is left of a study; None if it keeps nothing more."""
    folders, size, unknown = 0, 0, []
    known: dict[str, int | None] = {}
    for unit in plan.units:
        steps = len([step for step in steps_to_keep(unit.run) if step in unit.missing])
        if not steps:
            continue
        recipe = unit.run.recipe
        count = steps if recipe.keep == "all" else 1
        key = f"{unit.run.model} {recipe.model_dump_json()}"
        if key not in known:
            known[key] = estimate_kept_bytes(unit.run.model, recipe)
        folders += count
        each = known[key]
        if each is None:
            unknown.append(unit.run.model)
        else:
            size += count * each
    return KeptDisk(folders, size, tuple(dict.fromkeys(unknown))) if folders else None


def measurable(model: str, weights: Weights = "safetensors") -> str | None:
    """Why a model cannot be timed before a study; None if it can be."""
    source, _ = locate(model)
    if model in BUILT_IN:
        return None if fault_of(Path(source)) is None else "not fetched yet"
    if not Path(source).is_dir():
        return "on the Hugging Face Hub"
    return "too large to load for an estimate" if weight_size(Path(source), weights) > LARGE else None


def _encoded_testsets(
    run: RunSpec, study_data: StudyData, loaded: LanguageModel
) -> tuple[list[EncodedTestSet], list[int]]:
    """Every set with a sample of items from all over it, and how many items it really has."""
    prefix = fewshot_prefix(run, study_data)
    testsets, sizes = [], []
    for testset in study_data.testsets_of(run).values():
        height = testset.frame.height
        count = min(GENERATED if testset.task.generates else COUNTED, height)
        sample = replace(testset, frame=testset.frame[[k * height // count for k in range(count)]])
        testsets.append(encode_testset(loaded, sample, context=run.recipe.context, before=prefix))
        sizes.append(height)
    return testsets, sizes


def _per_token(model: SplitModel, testsets: list[EncodedTestSet], cached: bool, mixed: bool) -> tuple[float, float]:
    """Seconds per token: in the frozen layers, if their states are cached, and in the rest of the model."""
    import torch

    every = [(testset, batch) for testset in testsets for batch in testset.batches]
    every.sort(key=lambda pair: pair[1].ids.shape[1])
    chosen = (
        every if len(every) <= BATCHES else [every[(2 * k + 1) * len(every) // (2 * BATCHES)] for k in range(BATCHES)]
    )
    if not chosen:
        return 0.0, 0.0

    def frozen(model: SplitModel, work: tuple[EncodedTestSet, Any]) -> float:
        work[1].states, seconds = _timed(partial(model.frozen_states, work[1]))
        return seconds

    def score(model: SplitModel, work: tuple[EncodedTestSet, Any]) -> float:
        testset, batch = work
        assert testset.requests is not None
        with torch.inference_mode():
            return _timed(partial(testset.requests.forward, model, batch))[1]

    model.model.eval()
    lanes = lane_count(model)
    map_in_lanes(model, score, chosen[:1])  # the very first call is slower, and packs the weights
    trunk = sum(map_in_lanes(model, frozen, chosen)) / lanes if cached else 0.0
    answers = sum(map_in_lanes(model, score, chosen)) / lanes
    if mixed:
        with model.packed.rounded():
            answers = TWICE * answers + sum(map_in_lanes(model, score, chosen)) / lanes
    tokens = sum(batch.ids.numel() for _, batch in chosen)
    return trunk / tokens, answers / tokens


def _per_step(
    run: RunSpec, study_data: StudyData, loaded: LanguageModel, model: SplitModel, cached: bool
) -> tuple[float, float]:
    """Seconds per example in the frozen layers, and per training step; with as many examples as two steps take."""
    if not run.is_trained:
        return 0.0, 0.0
    examples = study_data.training(run)
    few = [replace(part, frame=part.frame.head(2 * run.recipe.batch)) for part in examples.parts]
    train_set = encode_train_set(
        loaded, Mixture(examples.name, tuple(few)), run.recipe.loss, context=run.recipe.context
    )
    example = _timed(lambda: train_set.keep_frozen_states(model))[1] / len(train_set) if cached else 0.0
    trainer = Trainer(model, train_set, run.recipe, run.seed or 0, run.total_steps())
    trainer.advance()
    return example, _timed(trainer.advance)[1]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
