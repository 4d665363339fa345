"""What to call a model that a study has with several recipes, such as few-shot and lora.

Tables and figures put the runs of a model together. Runs of different recipes are no repeats of one another, so each
recipe is a model of its own there, under a name that says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from breadth.records.store import RunRecord

#: A model, and what determines its answers besides the training data: its recipe with a key ``method``.
Variant = tuple[str, Mapping[str, Any]]


def label_variants(variants: Sequence[Variant]) -> list[str]:
    """A name for every variant: that of the model; where it has several, also the method, and keys that differ in it.

    >>> label_variants([("m", {"method": "few-shot"}), ("m", {"method": "lora", "lr": 0.1}), ("n", {"method": "lora"})])
    ['m (few-shot)', 'm (lora)', 'n']
    """
    labels = []
    for model, recipe in variants:
        every = [other for name, other in variants if name == model]
        if len(every) == 1:
            labels.append(model)
            continue
        alike = [other for other in every if other["method"] == recipe["method"]]
        words = [str(recipe["method"])]
        for key, value in recipe.items():
            differs = any(other.get(key) != value for other in alike)
            if differs and value is not None:
                words.append(_shown_chat(value) if key == "chat" else f"{key} {value}")
        labels.append(f"{model} ({', '.join(words)})")
    return labels


def _shown_chat(chat: Mapping[str, Any]) -> str:
    """How a model is asked in chat form, in a few words."""
    system = chat.get("system")
    return f"chat, system prompt {str(system)[:30]!r}" if system else "chat"


def label_runs(records: Mapping[str, RunRecord]) -> dict[str, str]:
    """What the model of every run is called in results.

    Only runs of a study file have recipes; what a ``Recorder`` recorded keeps the name of its model. So does the
    untrained model that is evaluated beside runs that begin with a start: it is what they are compared with.
    """
    started = {record.model for record in records.values() if record.start is not None}
    variants: dict[str, Variant] = {}
    of_run: dict[str, str] = {}
    for run, record in records.items():
        is_baseline = record.method == "zero-shot" and record.model in started
        if is_baseline or record.method is None or record.recipe.get("method") != record.method:
            continue
        recipe = {**record.recipe, **(record.endpoint or {})}
        of_run[run] = json.dumps([record.model, recipe], sort_keys=True)
        variants[of_run[run]] = (record.model, recipe)
    labels = dict(zip(variants, label_variants(list(variants.values())), strict=True))
    return {run: labels[of_run[run]] if run in of_run else record.model for run, record in records.items()}
