"""Recipes: what a model's own keys change, how many steps a recipe means, and at which of them to evaluate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from breadth.study.schema import Evaluate, ModelEntry, Recipe, Start, Study

#: Ways that train; the others only ask.
TRAINED = ("lora", "full")

#: Keys that never change an answer beyond rounding: where to compute, and what to keep instead of recomputing it.
_PLACES = ("device", "trunk")
_ASKING = ("method", "context", "dtype", "quantise")
_ADAPTERS = ("rank", "alpha", "dropout", "targets")


def merge_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """A recipe with a model's own keys in it.

    A model's ``steps`` replaces the study's ``epochs``, and the reverse; a method that trains nothing needs neither.
    """
    values = recipe.model_dump(exclude_unset=True)
    if changes.get("method", "lora") not in TRAINED:
        values |= {"steps": None, "epochs": None}
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if changes.get(one) is not None and other not in changes:
            values.pop(other, None)
    return Recipe.model_validate({**values, **changes})


def model_recipe(study: Study, entry: ModelEntry) -> Recipe:
    """The recipe of one of a study's models."""
    return merge_recipe(study.recipe, entry.recipe)


def start_recipe(recipe: Recipe, start: Start) -> Recipe:
    """How the start of a recipe's runs is trained: the same way, but for what the start says itself."""
    own = {key: value for key, value in start.model_dump(exclude={"shots"}).items() if value is not None}
    return merge_recipe(recipe, own)


def total_steps(recipe: Recipe, shots: int | None) -> int:
    """Optimiser steps of a run: as asked, or as many as the epochs need; a last batch that is not full counts.

    >>> total_steps(Recipe(epochs=4, batch=16), 256), total_steps(Recipe(epochs=1.5, batch=32), 32)
    (64, 2)
    """
    if recipe.method not in TRAINED:
        return 0
    if recipe.steps is not None:
        return recipe.steps
    # Rounding first: 0.1 epochs of 320 in batches of 32 are one step, not the 1.0000000000000002 of the arithmetic.
    return max(1, math.ceil(round((recipe.epochs or 0) * (shots or 0) / recipe.batch, 9)))


def checkpoints(recipe: Recipe, evaluate: Evaluate, shots: int | None) -> list[int]:
    """Steps at which a run is evaluated: 0, every so many, and always the last.

    >>> checkpoints(Recipe(steps=10), Evaluate(on=["plain"], every=4), 16)
    [0, 4, 8, 10]
    """
    last = total_steps(recipe, shots)
    return sorted({*range(0, last + 1, evaluate.every or last or 1), last})


def determining_keys(recipe: Recipe) -> dict[str, Any]:
    """The keys of a recipe that determine what a run answers.

    Left out are the device and the trunk cache, which change rounding at most, and whatever the method does not use.
    So is the size of micro-batches: the gradient is the same sum, added up in parts. Only with dropout does it count,
    because the masks are drawn part by part.
    """
    values = recipe.model_dump(mode="json")
    if isinstance(recipe.targets, list):
        values["targets"] = sorted(set(recipe.targets))
    if recipe.method not in TRAINED:
        return {key: values[key] for key in (*_ASKING, *(["examples"] if recipe.method == "few-shot" else []))}
    dropped = recipe.method == "lora" and recipe.dropout > 0
    unused = {*_PLACES, "examples", *([] if dropped else ["micro_batch"])}
    unused |= set() if recipe.method == "lora" else set(_ADAPTERS)
    unused |= set() if recipe.optimiser == "adamw" else {"betas"}
    return {key: value for key, value in values.items() if key not in unused}


def asking_keys(recipe: Recipe) -> dict[str, Any]:
    """The keys that determine what an untrained model answers."""
    values = recipe.model_dump(mode="json")
    return {key: values[key] for key in _ASKING if key != "method"}
