"""One run: load, adapt, train and evaluate at every checkpoint; what is there already is not done again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from breadth.execute.materials import START_SEED, Materials
from breadth.execute.standing import Standing, clear_states, latest_states
from breadth.execute.starts import bring_to_start
from breadth.execute.watching import Watcher, Work
from breadth.lm.adapters import attach_lora, unfreeze
from breadth.lm.body import Body
from breadth.lm.examination import Paper, examine, keep_trunk, prepare
from breadth.lm.lessons import Lesson, make_lesson
from breadth.lm.loading import LanguageModel, load_model
from breadth.lm.memory import available_memory
from breadth.lm.prompts import examples_text
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


def load_adapted(run: RunSpec, watcher: Watcher) -> tuple[LanguageModel, Body]:
    """Load a run's model and attach what is trained; the body is cut where the trunk ends."""
    recipe = run.recipe
    loaded = load_model(
        run.model, dtype=recipe.dtype, device=recipe.device, quantise=recipe.quantise, progress=watcher.fetching
    )
    if recipe.method == "lora":
        model = attach_lora(
            loaded.model, rank=recipe.rank, alpha=recipe.alpha, dropout=recipe.dropout, targets=recipe.targets,
            layers=recipe.layers, seed=stream(START_SEED if run.start else run.seed or 0, 2),
        )  # fmt: skip
        loaded = replace(loaded, model=model)
    elif recipe.method == "full":
        unfreeze(loaded.model, recipe.layers)
    cut = is_trained(run) and isinstance(recipe.layers, int) and recipe.trunk != "off"
    return loaded, Body(loaded.model, recipe.layers if cut and isinstance(recipe.layers, int) else None)


def is_trained(run: RunSpec) -> bool:
    """Whether a run trains anything."""
    return run.recipe.method in ("lora", "full")


def text_before(run: RunSpec, materials: Materials) -> str:
    """The examples that stand before every prompt of a few-shot run."""
    if run.recipe.method != "few-shot":
        return ""
    examples = materials.training(run)
    return examples_text(examples.task, examples.frame)


def open_session(run: RunSpec, materials: Materials, kept: Kept, watcher: Watcher) -> Session:
    """Load the model, attach what is trained, encode what is asked; say what was chosen and why."""
    recipe, before = run.recipe, text_before(run, materials)
    loaded, body = load_adapted(run, watcher)
    notes = list(loaded.notes)
    key = f"{start_key(run)} {body.top} {before}"
    if kept.key != key:
        kept.papers = []  # the states of another model go before new ones come
        testsets = [materials.testsets[name] for name in run.evaluate.on]
        kept.papers = [prepare(loaded, testset, context=recipe.context, before=before) for testset in testsets]
        kept.key = key
        notes += [note for paper in kept.papers for note in paper.notes]
    if kept.papers and kept.papers[0].prompts and not body.agrees(kept.papers[0].prompts[0]):
        raise AssertionError(f"{run.model}: hidden states times head do not give the model's own logits")
    if not is_trained(run):
        return Session(loaded, body, kept.papers, None, tuple(notes))
    lesson = make_lesson(loaded, materials.training(run), recipe.loss, context=recipe.context)
    if body.cut:
        notes.append(_keep_or_not(run, body, kept.papers, lesson, watcher))
    tuner = Tuner(body, lesson, recipe, run.seed or 0, run.total_steps(), materials.keeps_order(run))
    return Session(loaded, body, kept.papers, tuner, tuple(notes))


def carry_out(
    run: RunSpec, materials: Materials, store: RunStore, missing: list[int], kept: Kept, watcher: Watcher
) -> None:
    """Do what is left of a run: answers at the checkpoints in ``missing``, each on disk before training goes on."""
    session = open_session(run, materials, kept, watcher)
    for note in session.notes:
        watcher.note(note)
    tuner, standing = session.tuner, Standing(store)
    if tuner is not None:
        standing.restore(tuner, missing[0])
        if run.start and tuner.step == 0:
            bring_to_start(run, materials, store.folder.parents[1], session.language_model, tuner, watcher)
    watcher.ready(run)
    for step in missing:
        started, loss = time.perf_counter(), None
        while tuner is not None and tuner.step < step:
            loss = tuner.advance()
            watcher.trained(tuner.step, loss)
        trained = time.perf_counter()
        answers = examine(session.language_model, session.body, session.papers, watcher.answered)
        asked = time.perf_counter()
        store.write_part(step, answers)
        watcher.checkpoint(run, step, answers)
        rate = answers.height / max(asked - trained, 1e-9)
        standing.log(
            step=step, loss=loss, train_seconds=trained - started, seconds=asked - trained, items_per_second=rate
        )
        if tuner is not None and 0 < step < missing[-1]:
            standing.save(tuner)
    clear_states(store.folder)
    watcher.ended(run)


def work_of(run: RunSpec, materials: Materials, missing: list[int], store: RunStore, resumed: bool = False) -> Work:
    """How much a run has to do, and has done: training goes on from the latest state, and ends with what is missing."""
    items = sum(testset.frame.height for testset in materials.testsets.values())
    every = run.checkpoints()
    start = max(latest_states(store.folder, missing[0]), default=0)
    return Work(missing[-1], items * len(every), start, items * (len(every) - len(missing)), resumed)


def trunk_fits(run: RunSpec, body: Body, tokens: int) -> bool:
    """Whether the trunk's states of so many tokens are kept: always where the recipe says so, else if memory allows."""
    return run.recipe.trunk == "on" or body.trunk_bytes(tokens) <= TRUNK_SHARE * available_memory()


def _keep_or_not(run: RunSpec, body: Body, papers: list[Paper], lesson: Lesson, watcher: Watcher) -> str:
    """Keep the trunk's states where they fit, and say so."""
    tokens = sum(paper.tokens for paper in papers) + lesson.count_tokens()
    amount = f"{body.trunk_bytes(tokens) / 2**20:,.0f} MB"
    held = any(batch.states is not None for paper in papers for batch in paper.batches)
    if not held and not trunk_fits(run, body, tokens):
        return f"trunk computed anew at every checkpoint: its states would take {amount}, more than memory allows"
    keep_trunk(body, papers, watcher.prepared)
    lesson.keep_trunk(body)
    return f"trunk below the top {run.recipe.layers} layers computed once and kept ({amount})"
