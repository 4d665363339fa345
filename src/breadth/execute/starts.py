"""What the runs of a model have in common: its start, learnt once per study and kept in the study's directory."""

from __future__ import annotations

from pathlib import Path

import torch

from breadth.execute.materials import START_SEED, Materials
from breadth.execute.watching import Watcher
from breadth.lm.body import Body
from breadth.lm.lessons import make_lesson
from breadth.lm.loading import LanguageModel
from breadth.lm.states import read_state, saved_states, write_state
from breadth.lm.tuning import Tuner
from breadth.records.locks import locked
from breadth.records.soundness import remove_leftovers
from breadth.study import RunSpec, start_key

#: Digits of the key in the name of a start's directory.
DIGITS = 16


def bring_to_start(
    run: RunSpec, materials: Materials, study: Path, language_model: LanguageModel, tuner: Tuner, watcher: Watcher
) -> None:
    """Give a model the weights of its start; the first run that needs them makes them, and other processes wait.

    So all runs of a study begin with the very same weights, whoever carries them out.
    """
    folder = study / "starts" / start_key(run)[:DIGITS]
    with locked(folder, wait=True):
        remove_leftovers(folder)
        weights = None
        for path in saved_states(folder).values():
            weights = read_state(path, study / "aside")
        if weights is None:
            weights = _learn(run, materials, language_model, tuner.body, bool(tuner.lesson.states), watcher)
            write_state(folder, run.start_steps(), weights)
    tuner.begin_with(weights)


def _learn(
    run: RunSpec, materials: Materials, language_model: LanguageModel, body: Body, trunk_kept: bool, watcher: Watcher
) -> dict[str, torch.Tensor]:
    recipe, steps = run.start_recipe(), run.start_steps()
    lesson = make_lesson(language_model, materials.start(run), recipe.loss, context=recipe.context)
    if trunk_kept:
        lesson.keep_trunk(body)
    tuner = Tuner(body, lesson, recipe, START_SEED, steps)
    while tuner.step < steps:
        watcher.starting(tuner.step + 1, steps, tuner.advance())
    return {name: weight.detach().cpu().contiguous() for name, weight in tuner.weights.items()}
