"""The runs of a study: models x training sets x examples x seeds x levels or strategies.

A run's name ends in a hash of everything that determines its responses: the same specification is the same run on every
machine, and a run whose specification changed is another run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadth.boundary import is_file, reading
from breadth.datasets import REGISTRY, Task
from breadth.difficulty import Strategy
from breadth.endpoints import Endpoint
from breadth.lm import BFLOAT16, PURE_BFLOAT16, ChatSettings, Weights
from breadth.records import TRAINING, LocalStore, RunRecord, label_variants, set_of_testset
from breadth.study.mixture import normalised_shares, share_out
from breadth.study.model_places import CheckpointSource, chat_settings, find_directory, listed_source
from breadth.study.own_sets import resolve_task, used_sets
from breadth.study.schema import Evaluate, ModelEntry, Recipe, Resources, Start, StudySpec, Train

if TYPE_CHECKING:
    from breadth.study.read import StudyFile

#: Methods that train.
TRAINED = ("lora", "ia3", "bitfit", "full")

#: The method of checkpoints that are there already.
EVALUATE = "evaluate"

#: Keys of a recipe that determine the responses of an untrained model, and those that only lora uses.
_EVALUATION = ("context", "dtype", "quantise", "trained_in")
ADAPTERS = ("rank", "alpha", "dropout", "targets")

#: Keys of ``evaluate`` that are not in the records of earlier versions.
_LATER_KEYS = ("split_by", "training", "predict")

#: Hexadecimal digits of the hash in a run's name, and the maximum length of a model's name in it.
DIGITS, MAX_MODEL = 8, 60


def merge_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """A recipe with some keys changed.

    ``steps`` replaces the ``epochs`` of the recipe, and the reverse; a method that trains nothing needs neither.
    """
    values = recipe.model_dump(exclude_unset=True)
    if changes.get("method", "lora") not in TRAINED:
        values |= {"steps": None, "epochs": None}
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if changes.get(one) is not None and other not in changes:
            values.pop(other, None)
    return Recipe.model_validate({**values, **changes})


def total_steps(recipe: Recipe, examples: int | None) -> int:
    """Optimiser steps of a run: as given, or as many as the epochs need; an incomplete last batch counts.

    >>> total_steps(Recipe(epochs=4, batch=16), 256), total_steps(Recipe(epochs=1.5, batch=32), 32)
    (64, 2)
    """
    if recipe.method not in TRAINED:
        return 0
    if recipe.steps is not None:
        return recipe.steps
    # Rounding first: 0.1 epochs of 320 in batches of 32 are one step, not the 1.0000000000000002 of the arithmetic.
    return max(1, math.ceil(round((recipe.epochs or 0) * (examples or 0) / recipe.batch, 9)))


def checkpoints(recipe: Recipe, evaluate: Evaluate, examples: int | None) -> list[int]:
    """Steps at which a run is evaluated: 0, every ``evaluate.every`` steps, and always the last.

    >>> checkpoints(Recipe(steps=10), Evaluate(on=["plain"], every=4), 16)
    [0, 4, 8, 10]
    """
    last = total_steps(recipe, examples)
    return sorted({*range(0, last + 1, evaluate.every or last or 1), last})


def _recorded_values(recipe: Recipe) -> dict[str, Any]:
    """All keys of a recipe as plain values, with what they mean where that has changed.

    Until trained weights became float32, ``dtype: bfloat16`` trained in bfloat16. ``trained_in`` makes that another
    run, so that a study from then is not continued with other arithmetic. All other runs keep their names.
    """
    values = recipe.model_dump(mode="json")
    is_trained = recipe.method in TRAINED
    if is_trained and recipe.dtype == BFLOAT16:
        values["trained_in"] = "float32"
    if not is_trained and recipe.dtype == PURE_BFLOAT16:
        values["dtype"] = BFLOAT16
    return values


def _determining_keys(recipe: Recipe, here: bool = True) -> dict[str, Any]:
    """The keys of a recipe that determine a run's responses.

    Left out are the device and the cache of the trunk, which change rounding at most, which weights are kept, and keys
    that the method does not use. So is the size of micro-batches, since the gradient is the same sum. Only with dropout
    does it count, because the masks are drawn for each micro-batch. How a model is loaded only counts ``here``, not
    behind an endpoint.
    """
    values = _recorded_values(recipe)
    if isinstance(recipe.targets, list):
        values["targets"] = sorted(set(recipe.targets))
    if recipe.method not in TRAINED:
        used = {"method", *(_EVALUATION if here else ()), *(["num_fewshot"] if recipe.method == "few-shot" else [])}
        return {key: value for key, value in values.items() if key in used}
    dropped = recipe.method == "lora" and recipe.dropout > 0
    unused = {"device", "trunk", "keep", "num_fewshot", *([] if dropped else ["micro_batch"])}
    unused |= set() if recipe.method == "lora" else set(ADAPTERS)
    unused |= set() if recipe.optimiser == "adamw" else {"betas"}
    return {key: value for key, value in values.items() if key not in unused}


def _evaluation_keys(evaluate: Evaluate) -> dict[str, Any]:
    """The keys of ``evaluate`` that determine a run's responses.

    Keys that came later are left out at their default, so that runs from before keep their names.
    """
    values = evaluate.model_dump(mode="json")
    for key in _LATER_KEYS:
        if values[key] == Evaluate.model_fields[key].get_default(call_default_factory=True):
            del values[key]
    return values


@dataclass(frozen=True)
class RunSpec:
    """One run: what is trained and how, and what it is evaluated on.

    ``tasks`` says how each set is prompted and scored; ``own_sets`` describes the user's own sets, with the SHA-256 of
    their files in place of paths, and ``difficulty`` the source of difficulty likewise. ``examples`` counts training
    examples, or those in the prompt of a few-shot run. ``start`` is what the model learns before step 0, ``source``
    where the checkpoints are, if they are there already, and ``endpoint`` where a model is that is not on this machine.
    ``chat`` says how prompts become conversations; None for plain text. With a ``mix``, the shares of several sets,
    ``train_set`` is the name of the mixture.

    No part of what the run is: ``directory``, where the model is, if the study file names it by a path; ``label``, what
    the model is called where the study has it with several recipes; ``resources``, those of its workers in a cluster;
    ``weights``, the form in which the model's weights are read.
    """

    model: str
    train_set: str | None
    examples: int | None
    seed: int | None
    train_level: int | None
    strategy: Strategy | None
    recipe: Recipe
    evaluate: Evaluate
    tasks: dict[str, Task]
    own_sets: dict[str, dict[str, Any]]
    difficulty: dict[str, Any] | None = None
    start: Start | None = None
    source: CheckpointSource | None = None
    endpoint: Endpoint | None = None
    chat: ChatSettings | None = None
    directory: str | None = None
    label: str = ""
    resources: Resources | None = None
    mix: dict[str, float] | None = None
    weights: Weights = "safetensors"

    @property
    def train_sets(self) -> dict[str, int]:
        """The data sets that the examples come from, with how many of each; several only in a mixture."""
        if self.mix is not None:
            return share_out(self.examples or 0, self.mix)
        return {} if self.train_set is None else {self.train_set: self.examples or 0}

    @property
    def method(self) -> str:
        """How the model is adapted."""
        return self.recipe.method

    @property
    def loads(self) -> str:
        """The model that is loaded first: by its name, or where it is."""
        if self.source is not None:
            return self.source.model()
        return self.directory or self.model

    @property
    def is_trained(self) -> bool:
        """Whether the run trains anything."""
        return self.method in TRAINED

    @cached_property
    def name(self) -> str:
        """Readable words and the first digits of a hash of the specification; safe as the name of a directory."""
        words = [re.sub(r"[^A-Za-z0-9._-]+", "-", self.model).strip("-._")[-MAX_MODEL:].strip("-._") or "model"]
        words += [] if self.train_set is None else [self.train_set.replace("+", "-")]
        words += [] if self.is_trained else [self.method]
        words += [] if self.examples is None else [str(self.examples)]
        words += [] if self.seed is None else [f"s{self.seed}"]
        words += [] if self.train_level is None else [f"level{self.train_level}"]
        words += [] if self.strategy is None else [self.strategy]
        return "-".join([*words, _value_digest(self.record().specification())[:DIGITS]])

    def record(self) -> RunRecord:
        """Everything that determines the run's responses, as plain values, and its checkpoints."""
        # Checkpoints may be added to a run, so they are no part of what it is.
        base = {} if self.source is None else {"base": self.source.base}
        chat = {} if self.chat is None else {"chat": self.chat.identity()}
        plain: dict[str, Any] = {
            "recipe": {**_determining_keys(self.recipe, here=self.endpoint is None), **base, **chat},
            # The order of test sets does not change a response.
            "evaluate": {**_evaluation_keys(self.evaluate), "on": sorted(self.evaluate.on)},
            "tasks": {name: task.spec() for name, task in self.tasks.items()},
            "own_sets": self.own_sets,
            "difficulty": self.difficulty,
            "start": None if self.start is None else self.start.model_dump(mode="json"),
            "endpoint": None if self.endpoint is None else self.endpoint.identity(),
            "mix": None if self.mix is None else normalised_shares(self.mix),
        }
        return RunRecord(
            self.model, self.train_set, self.examples, self.seed, self.train_level, self.strategy, self.method,
            **json.loads(_canonical(plain)), checkpoints=tuple(self.checkpoints()),
        )  # fmt: skip

    def checkpoints(self) -> list[int]:
        """Steps at which the run is evaluated."""
        if self.source is not None:
            return [each.step for each in self.source.checkpoints]
        return checkpoints(self.recipe, self.evaluate, self.examples)

    def training_sizes(self) -> dict[str, int]:
        """Test sets of the run's own training examples by name, with about how many items; often there are none."""
        if not self.evaluate.training or not self.is_trained:
            return {}
        return {training_testset(name): examples for name, examples in self.train_sets.items()}

    def set_of(self, testset: str) -> str:
        """The data set that a test set is, or is a part of."""
        return set_of_testset(testset, self.tasks)

    def total_steps(self) -> int:
        """Optimiser steps of the run; 0 if nothing is trained."""
        return total_steps(self.recipe, self.examples)

    def start_recipe(self) -> Recipe:
        """How the start is trained: as the run, except for the keys that the start sets itself."""
        assert self.start is not None
        changes = self.start.model_dump(exclude={"examples"}, exclude_none=True)
        return merge_recipe(self.recipe, changes)

    def start_steps(self) -> int:
        """Optimiser steps before step 0."""
        return 0 if self.start is None else total_steps(self.start_recipe(), self.start.examples)


def expand(file: StudyFile) -> list[RunSpec]:
    """All runs of a study in the order of the file, those of one model together."""
    return expand_study(file.study, file.base)


def expand_study(study: StudySpec, base: Path) -> list[RunSpec]:
    """The same of a study whose paths are relative to ``base``."""
    tasks = {name: resolve_task(name, study, REGISTRY) for name in used_sets(study)}
    own_sets = {name: _own_spec(study, name, base) for name in used_sets(study) if name in study.own_sets}
    difficulty = _difficulty_spec(study.train, base)
    runs = []
    for entry, recipe, label in _expand_models(study, base):
        trained = recipe.method in TRAINED
        if recipe.method == EVALUATE:
            on = {name: task for name, task in tasks.items() if name in study.evaluate.on}
            own = {name: each for name, each in own_sets.items() if name in on}
            runs.append(
                RunSpec(
                    entry.name, entry.trained_on, None, None, None, None, recipe, study.evaluate, on, own,
                    source=listed_source(entry, base), chat=chat_settings(study, entry, base),
                    weights=entry.weights,
                    label=label,
                )
            )  # fmt: skip
            continue
        for train_set, examples, seed, level, strategy in _grid(study, recipe):
            mix = study.train.mix if study.train and train_set is not None else None
            used = {*study.evaluate.on, *(mix or [train_set])}
            runs.append(
                RunSpec(
                    entry.name, train_set, examples, seed, level, strategy, recipe, study.evaluate,
                    {name: task for name, task in tasks.items() if name in used},
                    {name: each for name, each in own_sets.items() if name in used},
                    difficulty if trained or level is not None or strategy is not None else None,
                    study.train.start if study.train and trained else None,
                    endpoint=entry.behind(), chat=chat_settings(study, entry, base),
                    directory=None if entry.endpoint is not None else find_directory(entry.name, base),
                    label=label,
                    resources=entry.resources,
                    mix=mix,
                    weights=entry.weights,
                )
            )  # fmt: skip
    return runs


def training_testset(train_set: str) -> str:
    """The name of the test set that a run's training examples make."""
    return f"{train_set}.{TRAINING}"


def step0_key(run: RunSpec) -> str:
    """A hash of what determines the responses at step 0, those to the run's own training examples included."""
    if not run.training_sizes():
        return start_key(run)
    record = run.record()
    drawn = {
        **{key: getattr(record, key) for key in ("train_set", "examples", "seed", "train_level", "strategy")},
        "tasks": record.tasks,
        "own_sets": record.own_sets,
        "difficulty": record.difficulty,
        "mix": record.mix,
    }
    return _value_digest({"start": start_key(run), "training": drawn})


def start_key(run: RunSpec) -> str:
    """A hash of what determines the responses to test sets at step 0: equal for runs that begin with the same model.

    Neither the training data nor the learning rate matters at step 0, with three exceptions: the examples in the prompt
    of a few-shot run, levels of difficulty (they hold items out of the training set), and what a start is trained on.
    """
    record, recipe = run.record(), _recorded_values(run.recipe)
    key: dict[str, Any] = {
        "model": run.model,
        "evaluate": {key: value for key, value in record.evaluate.items() if key != "every"},
        "recipe": {key: recipe[key] for key in _EVALUATION if key in recipe},
        "tasks": {name: task for name, task in record.tasks.items() if name in run.evaluate.on},
        "own_sets": {name: own for name, own in record.own_sets.items() if name in run.evaluate.on},
    }
    if run.chat is not None:
        key["chat"] = run.chat.identity()
    if run.difficulty is not None:
        key["held_out"] = {"train_set": run.train_set, "difficulty": record.difficulty}
    if run.start is not None:
        own = {name: value for name, value in record.own_sets.items() if name in run.train_sets}
        how = {"examples": run.start.examples, "recipe": _determining_keys(run.start_recipe())}
        if run.mix is None:
            how["task"] = record.tasks[run.train_set or ""]
        else:
            how |= {"mix": record.mix, "tasks": {name: record.tasks[name] for name in run.train_sets}}
        key["start"] = {"train_set": run.train_set, "own_sets": own, **how}
    if run.endpoint is not None:
        key["endpoint"] = record.endpoint
    if run.method == EVALUATE:
        key["run"] = run.name
    if run.method == "few-shot":
        prompt: dict[str, Any] = {"train_set": run.train_set, "examples": run.examples, "seed": run.seed}
        # Only where they are given, so that the keys of studies without them stay as they are.
        chosen = {"mix": record.mix, "train_level": run.train_level, "strategy": run.strategy}
        prompt |= {name: value for name, value in chosen.items() if value is not None}
        key["prompt"] = {**prompt, "tasks": record.tasks}
    return _value_digest(key)


def _expand_models(study: StudySpec, base: Path) -> Iterator[tuple[ModelEntry, Recipe, str]]:
    """Models with their recipes and labels; where runs begin with a start, the untrained model is evaluated as well."""
    recipes = [merge_recipe(study.recipe, entry.recipe) for entry in study.models]
    chats = [chat_settings(study, entry, base) for entry in study.models]
    variants = []
    for entry, recipe, chat in zip(study.models, recipes, chats, strict=True):
        variants.append((entry.name, _variant(entry, recipe, chat)))
    labels = label_variants(variants)
    has_start = study.train is not None and study.train.start is not None
    for entry, recipe, label, chat in zip(study.models, recipes, labels, chats, strict=True):
        yield entry, recipe, label
        if recipe.method in TRAINED and has_start:
            untrained = merge_recipe(recipe, {"method": "zero-shot"})
            key = (entry.name, _variant(entry, untrained, chat))
            # Two recipes of one model begin with the same untrained model, which may also be in the file itself.
            if key not in variants:
                variants.append(key)
                yield entry, untrained, label


def _variant(entry: ModelEntry, recipe: Recipe, chat: ChatSettings | None) -> dict[str, Any]:
    """What tells entries of one name apart, as the records of their runs have it."""
    endpoint = entry.behind()
    values = _determining_keys(recipe, here=endpoint is None)
    if entry.has_checkpoints:
        values["base"] = entry.base
    if chat is not None:
        values["chat"] = chat.identity()
    return {**values, **({} if endpoint is None else endpoint.identity())}


#: Training set, examples, seed, level, strategy.
_Cell = tuple[str | None, int | None, int | None, int | None, Strategy | None]


def _grid(study: StudySpec, recipe: Recipe) -> Iterator[_Cell]:
    train = study.train
    if recipe.method == "zero-shot" or train is None:
        yield (None, None, None, None, None)
    elif recipe.method == "few-shot":
        for name in train.names:
            for seed in train.seeds:
                for level, strategy in variants_of(train):
                    yield (name, recipe.num_fewshot, seed, level, strategy)
    else:
        for name in train.names:
            for examples in train.examples:
                for seed in train.seeds:
                    yield from ((name, examples, seed, level, strategy) for level, strategy in variants_of(train))


def variants_of(train: Train) -> list[tuple[int | None, Strategy | None]]:
    """Levels, then strategies; one plain run if there is neither."""
    wanted = range(train.levels or 0) if train.train_levels is None else train.train_levels
    levels: list[tuple[int | None, Strategy | None]] = [(level, None) for level in wanted]
    return [*levels, *((None, strategy) for strategy in train.strategies)] or [(None, None)]


def _own_spec(study: StudySpec, name: str, base: Path) -> dict[str, Any]:
    """What an own set adds to its task: columns, labels and the content of its files."""
    own = study.own_sets[name]
    values = own.data_spec()
    files = {key: getattr(own, key) for key in ("file", "train_file")}
    return {**values, **{key: None if path is None else _file_sum(base, path) for key, path in files.items()}}


def _difficulty_spec(train: Train | None, base: Path) -> dict[str, Any] | None:
    if train is None or train.difficulty is None:
        return None
    source, spec = train.difficulty, {"levels": train.levels, "order": train.order}
    if source.column is not None:
        return {**spec, "column": source.column, "hard_is": source.hard_is}
    if source.calibration is not None:
        return {**spec, "calibration": _file_sum(base, source.calibration)}
    return {**spec, "study": _study_sum(base, source.study or "")}


def _file_sum(base: Path, name: str) -> str:
    """SHA-256 of a file; the name of one that does not exist yet, so that the run's name changes once it does."""
    path = base / os.path.expanduser(name)
    if not is_file(path):
        return f"missing: {name}"
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _study_sum(base: Path, name: str) -> str:
    """A hash of a study's responses so far: the names of its parts contain their checksums."""
    # Through the store: a pattern leaves out what the system refuses, and the run would get another name.
    store = LocalStore(base / os.path.expanduser(name))
    parts = []
    for run in store.names("runs"):
        for part in store.names(f"runs/{run}"):
            if part.startswith("step-") and part.endswith(".parquet"):
                parts.append(f"{run}/{part}")
    parts.sort()
    return _value_digest(parts) if parts else f"missing: {name}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _value_digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()
