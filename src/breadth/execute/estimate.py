"""How long a study should take, measured on a few batches of each model before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from breadth.execute.materials import Materials
from breadth.execute.plan import Plan, PlannedRun
from breadth.execute.run import Kept, Session, open_session
from breadth.execute.watching import Watcher
from breadth.lm.examination import examine
from breadth.lm.loading import locate
from breadth.lm.models import EMBEDDED, fault_of

#: Items per test set that are measured.
FEW = 6

#: Weights above this many bytes are not loaded just for an estimate.
LARGE = 4 * 2**30


@dataclass(frozen=True)
class Pace:
    """Measured seconds: to load a model, per item that goes through the trunk once, per answer, per training step."""

    load: float
    trunk: float
    answer: float
    step: float


def measure_pace(each: PlannedRun, materials: Materials, watcher: Watcher) -> Pace:
    """Load a run's model and time a few items of every set and two training steps."""
    few = _Few(materials)
    started = time.perf_counter()
    session = open_session(each.run, few, Kept(), watcher)
    opened = time.perf_counter() - started
    items = sum(paper.items.height for paper in session.papers)
    answer = _timed(lambda: examine(session.language_model, session.body, session.papers)) / max(items, 1)
    step = _time_of_step(session)
    layers = len(session.body.layers)
    cut = session.body.cut and session.body.top is not None
    # The trunk's share of a layer's work, from that of the top, which was measured without noise from loading.
    trunk = answer * (layers / (session.body.top or layers) - 1) if cut else 0.0
    return Pace(max(opened - trunk * items, 0.0), trunk, answer, step)


def estimated_seconds(plan: Plan, paces: dict[str, Pace]) -> float | None:
    """Seconds that the rest of a plan should take; None where no model was measured."""
    total, known = 0.0, False
    seen: set[str] = set()
    for each in plan.runs:
        pace = paces.get(each.run.model)
        if pace is None or each.done == each.checkpoints:
            continue
        known = True
        left = plan.items * (each.checkpoints - each.done)
        share = (each.checkpoints - each.done) / each.checkpoints
        examples = (each.run.shots or 0) + (0 if each.run.model in seen else plan.items)
        seen.add(each.run.model)
        total += pace.load + left * pace.answer + each.run.total_steps() * share * pace.step + examples * pace.trunk
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


class _Few(Materials):
    """The first few items of every set."""

    def __init__(self, whole: Materials) -> None:
        super().__init__(whole.file, whole.data)
        few = {name: replace(each, frame=each.frame.head(FEW)) for name, each in whole.testsets.items()}
        object.__setattr__(self, "testsets", few)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _time_of_step(session: Session) -> float:
    tuner = session.tuner
    if tuner is None:
        return 0.0
    tuner.advance()
    return _timed(tuner.advance)
