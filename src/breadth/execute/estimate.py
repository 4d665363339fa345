"""How long a study should take, measured on a few batches of each model before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from breadth.datasets import Loaded
from breadth.datasets.tasks import Generate
from breadth.execute.materials import Materials
from breadth.execute.plan import Plan, PlannedRun
from breadth.execute.run import is_trained, load_adapted, text_before, trunk_fits
from breadth.execute.watching import Watcher
from breadth.lm.body import Body
from breadth.lm.examination import Paper, examine, prepare
from breadth.lm.lessons import Lesson, make_lesson
from breadth.lm.loading import LanguageModel, locate
from breadth.lm.models import EMBEDDED, fault_of
from breadth.lm.tuning import Tuner
from breadth.study import RunSpec

#: Batches that are measured, and items per set whose tokens are counted (a few more are written where a set asks so).
BATCHES, COUNTED, WRITTEN = 4, 200, 2

#: Seconds below which a model is loaded once more, because the first time says little.
QUICK = 20.0

#: Weights above this many bytes are not loaded just for an estimate.
LARGE = 4 * 2**30


@dataclass(frozen=True)
class Pace:
    """Measured seconds: to load a model; for all items to pass the trunk once, and to be answered once; per training
    step; and per training example that passes the trunk."""

    load: float
    trunk: float
    answers: float
    step: float
    example: float


def measure_pace(each: PlannedRun, materials: Materials, watcher: Watcher) -> Pace:
    """Load a run's model; time whole batches of its test sets and a training step, and scale by tokens."""
    run = each.run
    (loaded, body), load = _timed(lambda: load_adapted(run, watcher))
    if load < QUICK:  # then the time went into importing libraries, which happens once
        (loaded, body), load = _timed(lambda: load_adapted(run, watcher))
    papers, sizes = _papers(run, materials, loaded)
    tokens = sum(paper.tokens * size / max(paper.items.height, 1) for paper, size in zip(papers, sizes, strict=True))
    lesson = _lesson(run, materials, loaded)
    kept = body.cut and trunk_fits(run, body, int(tokens))
    trunk, answers = _per_token(body, papers, kept)
    example, step = _per_step(run, body, lesson, kept)
    written = _written(loaded, body, papers, sizes)
    return Pace(load, trunk * tokens, answers * tokens + written, step, example)


def estimated_seconds(plan: Plan, paces: dict[str, Pace]) -> float | None:
    """Seconds that the rest of a plan should take; None where no model was measured."""
    total, known = 0.0, False
    seen: set[str] = set()
    for each in plan.runs:
        pace = paces.get(each.run.model)
        if pace is None or each.done == each.checkpoints:
            continue
        known = True
        total += pace.load + each.to_answer * pace.answers + each.steps_left * pace.step
        total += (each.run.shots or 0) * pace.example
        if each.run.model not in seen:
            total += pace.trunk + each.run.start_steps() * pace.step
            total += (each.run.start.shots if each.run.start else 0) * pace.example
        seen.add(each.run.model)
    return total if known else None


def measurable(model: str) -> str | None:
    """Why a model is not measured for an estimate; None if it can be."""
    source, found = locate(model)
    if model in EMBEDDED:
        fault = fault_of(Path(source))
        return None if fault is None else f"{model}: not fetched yet, so it was not timed (breadth get {model})"
    if not Path(source).is_dir():
        return f"{found}, so it was not timed"
    size = sum(path.stat().st_size for path in Path(source).glob("*.safetensors"))
    return f"{model}: too large to load for an estimate" if size > LARGE else None


def _papers(run: RunSpec, materials: Materials, loaded: LanguageModel) -> tuple[list[Paper], list[int]]:
    """Every set with items from all over it, and how many items it really has."""
    before = text_before(run, materials)
    papers, sizes = [], []
    for name in run.evaluate.on:
        testset = materials.testsets[name]
        most = WRITTEN if isinstance(testset.task, Generate) else COUNTED
        sizes.append(testset.frame.height)
        papers.append(prepare(loaded, _spread(testset, most), context=run.recipe.context, before=before))
    return papers, sizes


def _spread(testset: Loaded, most: int) -> Loaded:
    height = testset.frame.height
    rows = [k * height // min(most, height) for k in range(min(most, height))]
    return replace(testset, frame=testset.frame[rows])


def _per_token(body: Body, papers: list[Paper], kept: bool) -> tuple[float, float]:
    """Seconds per token: in the trunk, if its states are kept, and to an answer."""
    import torch

    every = [(paper, batch) for paper in papers for batch in paper.batches]
    every.sort(key=lambda pair: pair[1].ids.shape[1])
    chosen = (
        every if len(every) <= BATCHES else [every[(2 * k + 1) * len(every) // (2 * BATCHES)] for k in range(BATCHES)]
    )
    if not chosen:
        return 0.0, 0.0

    def ask(paper: Paper, batch: Any) -> None:
        assert paper.query is not None
        paper.query.ask(body, batch)

    body.model.eval()
    trunk = answers = 0.0
    with torch.inference_mode():
        ask(*chosen[0])  # the first call of all is slower
        for paper, batch in chosen:
            if kept:
                batch.states, seconds = _timed(partial(body.trunk, batch))
                trunk += seconds
            answers += _timed(partial(ask, paper, batch))[1]
    tokens = sum(batch.ids.numel() for _, batch in chosen)
    return trunk / tokens, answers / tokens


def _lesson(run: RunSpec, materials: Materials, loaded: LanguageModel) -> Lesson | None:
    """As many training examples as two steps take."""
    if not is_trained(run):
        return None
    examples = materials.training(run)
    few = replace(examples, frame=examples.frame.head(2 * run.recipe.batch))
    return make_lesson(loaded, few, run.recipe.loss, context=run.recipe.context)


def _per_step(run: RunSpec, body: Body, lesson: Lesson | None, kept: bool) -> tuple[float, float]:
    """Seconds per example in the trunk, and per training step."""
    if lesson is None:
        return 0.0, 0.0
    example = _timed(lambda: lesson.keep_trunk(body))[1] / len(lesson) if kept else 0.0
    tuner = Tuner(body, lesson, run.recipe, run.seed or 0, run.total_steps())
    tuner.advance()
    return example, _timed(tuner.advance)[1]


def _written(loaded: LanguageModel, body: Body, papers: list[Paper], sizes: list[int]) -> float:
    """Seconds to write the answers of all sets that are answered by writing."""
    total = 0.0
    for paper, size in zip(papers, sizes, strict=True):
        if isinstance(paper.task, Generate):
            total += _timed(partial(examine, loaded, body, [paper]))[1] * size / paper.items.height
    return total


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    found = work()
    return found, time.perf_counter() - started
