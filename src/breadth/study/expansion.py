"""The runs that a study stands for: models x training sets x shots x seeds x levels or strategies.

A run's name ends in a hash of everything that determines its answers, so the same specification is the same run on
every machine, and a run whose specification changed is another run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from breadth.datasets.tasks import Task
from breadth.study.known import known_sets
from breadth.study.read import StudyFile
from breadth.study.recipes import (
    TRAINED,
    asking_keys,
    checkpoints,
    determining_keys,
    merge_recipe,
    model_recipe,
    start_recipe,
    total_steps,
)
from breadth.study.schema import Difficulty, Evaluate, Recipe, Start, Study, Train
from breadth.study.scoring import resolve_task, task_spec, used_sets

__all__ = ["RunSpec", "checkpoints", "expand", "start_key", "total_steps"]

#: Hexadecimal digits of the hash in a run's name, and most characters of a model in it.
DIGITS, MOST_MODEL = 8, 60


@dataclass(frozen=True)
class RunSpec:
    """One run: what is trained how, and on what it is evaluated.

    ``tasks`` says how each set is asked and scored; ``own`` describes the user's own sets, with the SHA-256 of their
    files in place of paths; ``difficulty`` does so for where difficulty comes from. ``shots`` is None for zero-shot
    and the number of examples in the prompt for few-shot. ``start`` is what the model learns before step 0.
    """

    model: str
    train_set: str | None
    shots: int | None
    seed: int | None
    train_level: int | None
    strategy: str | None
    recipe: Recipe
    evaluate: Evaluate
    tasks: dict[str, Task]
    own: dict[str, dict[str, Any]]
    difficulty: dict[str, Any] | None = None
    start: Start | None = None

    @property
    def method(self) -> str:
        """How the model is adapted."""
        return self.recipe.method

    @cached_property
    def name(self) -> str:
        """Readable words and the first digits of the hash of ``spec``; safe as the name of a directory."""
        words = [re.sub(r"[^A-Za-z0-9._-]+", "-", self.model).strip("-._")[-MOST_MODEL:].strip("-._") or "model"]
        words += [] if self.train_set is None else [self.train_set]
        words += [self.method] if self.method not in TRAINED else []
        words += [] if self.shots is None else [str(self.shots)]
        words += [] if self.seed is None else [f"s{self.seed}"]
        words += [] if self.train_level is None else [f"level{self.train_level}"]
        words += [] if self.strategy is None else [self.strategy]
        return "-".join([*words, _digest(self.spec())[:DIGITS]])

    def spec(self) -> dict[str, Any]:
        """Everything that determines what the run answers, as plain values, and nothing else."""
        evaluate = self.evaluate.model_dump(mode="json")
        spec = {
            **{key: getattr(self, key) for key in ("model", "train_set", "shots", "seed", "train_level", "strategy")},
            "method": self.method,
            "recipe": determining_keys(self.recipe),
            # The order of test sets changes no answer.
            "evaluate": {**evaluate, "on": sorted(self.evaluate.on)},
            "tasks": {name: task_spec(task) for name, task in self.tasks.items()},
            "own_sets": self.own,
            "difficulty": self.difficulty,
            **({} if self.start is None else {"start": self.start.model_dump(mode="json")}),
        }
        plain: dict[str, Any] = json.loads(_canonical(spec))
        return plain

    def checkpoints(self) -> list[int]:
        """Steps at which the run is evaluated."""
        return checkpoints(self.recipe, self.evaluate, self.shots)

    def total_steps(self) -> int:
        """Optimiser steps of the run; 0 where nothing is trained."""
        return total_steps(self.recipe, self.shots)

    def start_recipe(self) -> Recipe:
        """How its start is trained."""
        assert self.start is not None
        return start_recipe(self.recipe, self.start)

    def start_steps(self) -> int:
        """Optimiser steps before step 0."""
        return 0 if self.start is None else total_steps(self.start_recipe(), self.start.shots)


def expand(file: StudyFile) -> list[RunSpec]:
    """All runs of a study, those of one model together, in the order of the file."""
    study, known = file.study, known_sets()
    tasks = {name: resolve_task(name, study, known) for name in used_sets(study)}
    own = {name: _own_spec(study, name, file.base) for name in used_sets(study) if name in study.sets}
    difficulty = _difficulty_spec(study.train, file.base)
    runs = []
    for entry, recipe in _models(study):
        trained = recipe.method in TRAINED
        for train_set, shots, seed, level, strategy in _grid(study, recipe):
            asked = set(study.evaluate.on) | ({train_set} if train_set else set())
            runs.append(
                RunSpec(
                    entry, train_set, shots, seed, level, strategy, recipe, study.evaluate,
                    {name: task for name, task in tasks.items() if name in asked},
                    {name: each for name, each in own.items() if name in asked},
                    difficulty if trained else None,
                    study.train.start if study.train and trained else None,
                )
            )  # fmt: skip
    return runs


def start_key(run: RunSpec) -> str:
    """A hash of what determines the answers at step 0: equal for runs that begin from the same model.

    Neither the training data nor the learning rate matters then. Three exceptions: the examples in the prompt of a
    few-shot run, levels of difficulty, for which items are held out of the training set, and what a start is made of.
    """
    spec = run.spec()
    evaluate = {key: value for key, value in spec["evaluate"].items() if key != "every"}
    key: dict[str, Any] = {"model": run.model, "evaluate": evaluate, "recipe": asking_keys(run.recipe)}
    key["tasks"] = {name: task for name, task in spec["tasks"].items() if name in run.evaluate.on}
    key["own_sets"] = {name: own for name, own in spec["own_sets"].items() if name in run.evaluate.on}
    if run.difficulty is not None:
        key["held_out"] = {"train_set": run.train_set, "difficulty": spec["difficulty"]}
    if run.start is not None:
        own = {name: value for name, value in spec["own_sets"].items() if name == run.train_set}
        how = {"shots": run.start.shots, "recipe": determining_keys(run.start_recipe())}
        key["start"] = {"train_set": run.train_set, "task": spec["tasks"][run.train_set], "own_sets": own, **how}
    if run.method == "few-shot":
        key["prompt"] = {"train_set": run.train_set, "shots": run.shots, "seed": run.seed, "tasks": spec["tasks"]}
    return _digest(key)


def _models(study: Study) -> Iterator[tuple[str, Recipe]]:
    """Models with their recipes; where runs begin with a start, the untrained model is asked as well."""
    for entry in study.models:
        recipe = model_recipe(study, entry)
        yield entry.name, recipe
        if recipe.method in TRAINED and study.train and study.train.start:
            yield entry.name, merge_recipe(recipe, {"method": "zero-shot"})


_Cell = tuple[str | None, int | None, int | None, int | None, str | None]


def _grid(study: Study, recipe: Recipe) -> Iterator[_Cell]:
    train = study.train
    if recipe.method == "zero-shot" or train is None:
        yield (None, None, None, None, None)
    elif recipe.method == "few-shot":
        yield from ((name, recipe.examples, seed, None, None) for name in train.set for seed in train.seeds)
    else:
        for name in train.set:
            for shots in train.shots:
                for seed in train.seeds:
                    yield from ((name, shots, seed, level, strategy) for level, strategy in _variants(train))


def _variants(train: Train) -> list[tuple[int | None, str | None]]:
    """Levels, then strategies; neither is one plain run."""
    wanted = range(train.levels or 0) if train.train_levels is None else train.train_levels
    levels: list[tuple[int | None, str | None]] = [(level, None) for level in wanted]
    return [*levels, *((None, strategy) for strategy in train.strategies)] or [(None, None)]


def _own_spec(study: Study, name: str, base: Path) -> dict[str, Any]:
    """What an own set adds to its task: which columns and labels, and the content of its files."""
    own = study.sets[name]
    values = own.model_dump(mode="json", include={"fields", "label", "labels", "item", "options"})
    files = {key: getattr(own, key) for key in ("file", "train_file")}
    return {**values, **{key: None if path is None else _sum(base, path) for key, path in files.items()}}


def _difficulty_spec(train: Train | None, base: Path) -> dict[str, Any] | None:
    if train is None or train.difficulty is None:
        return None
    source: Difficulty = train.difficulty
    found: dict[str, Any] = {"levels": train.levels, "order": train.order}
    if source.column is not None:
        return {**found, "column": source.column, "hard_is": source.hard_is}
    if source.calibration is not None:
        return {**found, "calibration": _sum(base, source.calibration)}
    return {**found, "study": _study_sum(base, source.study or "")}


def _sum(base: Path, name: str) -> str:
    """SHA-256 of a file; of one that is not there yet, its name, so that the run's name changes when it comes."""
    path = base / Path(name).expanduser()
    if not path.is_file():
        return f"missing: {name}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _study_sum(base: Path, name: str) -> str:
    """A hash of a study's answers so far: the names of its parts carry their sums."""
    folder = base / Path(name).expanduser() / "runs"
    parts = sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("*/step-*.parquet"))
    return _digest(parts) if parts else f"missing: {name}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()
