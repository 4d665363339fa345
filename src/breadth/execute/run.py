"""One run: load, adapt, train and evaluate at every checkpoint; what is there already is not done again."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from breadth.execute.materials import Materials
from breadth.execute.watching import Watcher, Work
from breadth.lm.adapters import attach_lora, unfreeze
from breadth.lm.body import Body
from breadth.lm.examination import Paper, examine, keep_trunk, prepare
from breadth.lm.lessons import Lesson, make_lesson
from breadth.lm.loading import LanguageModel, load_model
from breadth.lm.memory import available_memory, trunk_bytes
from breadth.lm.prompts import examples_text
from breadth.lm.states import read_state, saved_states, write_state
from breadth.lm.tuning import Tuner, stream
from breadth.records import RunStore
from breadth.study import RunSpec, start_key

#: Share of the free memory that kept trunk states may take.
TRUNK_SHARE = 0.4


@dataclass
class Kept:
    """What one run leaves for the next of the same model: test sets with their trunk states."""

    key: str = ""
    papers: list[Paper] = field(default_factory=list)


@dataclass
class Session:
    """A model made ready for one run."""

    language_model: LanguageModel
    body: Body
    papers: list[Paper]
    tuner: Tuner | None
    notes: tuple[str, ...] = ()


def missing_checkpoints(run: RunSpec, store: RunStore) -> list[int]:
    """Checkpoints that have no sound answers yet."""
    done = store.sound_parts()
    return [step for step in run.checkpoints() if step not in done]


def open_session(run: RunSpec, materials: Materials, kept: Kept, watcher: Watcher) -> Session:
    """Load the model, attach what is trained, encode what is asked; say what was chosen and why."""
    recipe = run.recipe
    loaded = load_model(
        run.model, dtype=recipe.dtype, device=recipe.device, quantise=recipe.quantise, progress=watcher.fetching
    )
    notes = list(loaded.notes)
    if recipe.method == "lora":
        seed = stream(run.seed or 0, 2)
        model = attach_lora(
            loaded.model, rank=recipe.rank, alpha=recipe.alpha, dropout=recipe.dropout, targets=recipe.targets,
            layers=recipe.layers, seed=seed,
        )  # fmt: skip
        loaded = replace(loaded, model=model)
    elif recipe.method == "full":
        unfreeze(loaded.model, recipe.layers)
    trained = recipe.method in ("lora", "full")
    top = recipe.layers if trained and isinstance(recipe.layers, int) and recipe.trunk != "off" else None
    body = Body(loaded.model, top)
    before = ""
    if recipe.method == "few-shot":
        examples = materials.training(run)
        before = examples_text(examples.task, examples.frame)
    key = f"{start_key(run)} {top} {before}"
    if kept.key != key:
        testsets = [materials.testsets[name] for name in run.evaluate.on]
        kept.papers = [prepare(loaded, testset, context=recipe.context, before=before) for testset in testsets]
        kept.key = key
        notes += [note for paper in kept.papers for note in paper.notes]
    if kept.papers and kept.papers[0].prompts and not body.agrees(kept.papers[0].prompts[0]):
        raise AssertionError(f"{run.model}: hidden states times head do not give the model's own logits")
    lesson = make_lesson(loaded, materials.training(run), recipe.loss, context=recipe.context) if trained else None
    if body.cut and lesson is not None:
        notes.append(_keep_or_not(run, body, kept.papers, lesson, watcher))
    tuner = None
    if lesson is not None:
        tuner = Tuner(body, lesson, recipe, run.seed or 0, run.total_steps(), materials.keeps_order(run))
    return Session(loaded, body, kept.papers, tuner, tuple(notes))


def carry_out(run: RunSpec, materials: Materials, store: RunStore, kept: Kept, watcher: Watcher) -> Session:
    """Do what is left of a run; every checkpoint is on disk before the next begins."""
    missing = missing_checkpoints(run, store)
    session = open_session(run, materials, kept, watcher)
    for note in session.notes:
        watcher.note(note)
    log = _Log(store.folder / "log.jsonl")
    if session.tuner is not None:
        _go_on(session.tuner, store, missing[0])
    for step in run.checkpoints():
        if session.tuner is not None and step < session.tuner.step:
            continue
        started, loss = time.perf_counter(), None
        while session.tuner is not None and session.tuner.step < step:
            loss = session.tuner.advance()
            watcher.trained(session.tuner.step, loss)
        trained = time.perf_counter()
        if step in missing:
            answers = examine(session.language_model, session.body, session.papers, watcher.answered)
            asked = time.perf_counter()
            store.write_part(step, answers)
            watcher.checkpoint(run, step, answers)
            rate = answers.height / max(asked - trained, 1e-9)
            log.add(
                step=step, loss=loss, train_seconds=trained - started, seconds=asked - trained, items_per_second=rate
            )
        if session.tuner is not None and 0 < step < run.checkpoints()[-1]:
            write_state(store.folder, step, session.tuner.state())
    for path in saved_states(store.folder).values():
        path.unlink(missing_ok=True)
    watcher.ended(run)
    return session


def work_of(run: RunSpec, materials: Materials, missing: list[int]) -> Work:
    """How much a run has to do, and has done."""
    items = sum(testset.frame.height for testset in materials.testsets.values())
    every = run.checkpoints()
    start = max([step for step in every if step < min(missing, default=every[-1] + 1)], default=0)
    return Work(run.total_steps(), items * len(every), start, items * (len(every) - len(missing)))


def _keep_or_not(run: RunSpec, body: Body, papers: list[Paper], lesson: Lesson, watcher: Watcher) -> str:
    """Keep the trunk's states where they fit, and say so."""
    size = trunk_bytes(body, sum(paper.tokens for paper in papers) + lesson.count_tokens())
    room = TRUNK_SHARE * available_memory()
    amount = f"{size / 2**20:,.0f} MB"
    fixed = run.recipe.trunk == "on"
    held = any(batch.states is not None for paper in papers for batch in paper.batches)
    if size > room and not fixed and not held:
        return f"trunk computed anew at every checkpoint: its states would take {amount}, more than memory allows"
    keep_trunk(body, papers, watcher.prepared)
    lesson.keep_trunk(body)
    return f"trunk below the top {run.recipe.layers} layers computed once and kept ({amount})"


def _go_on(tuner: Tuner, store: RunStore, first_missing: int) -> None:
    """Restore the latest state that lies before the first checkpoint to be evaluated; without one, start anew."""
    aside = store.folder.parents[1] / "aside"
    for step, path in reversed(saved_states(store.folder).items()):
        if step <= first_missing:
            state = read_state(path, aside)
            if state is not None:
                tuner.restore(state)
                return


@dataclass
class _Log:
    """A line of JSON per checkpoint: how long it took. Not part of the results; a torn last line harms nobody."""

    path: Path

    def add(self, **values: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**values, "time": time.time()}) + "\n")
