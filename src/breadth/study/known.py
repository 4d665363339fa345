"""What a study file may name without saying more: data sets of the registry and embedded models."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from breadth.datasets import SETS
from breadth.datasets.tasks import Choice, Generate, Pattern, Task

#: Items of a set's test split after preprocessing, where the split is fixed.
SIZES = {
    "snli": 6605,
    "mnli": 6692,
    "scitail": 2126,
    "wnli": 635,
    "rte": 2490,
    "paws": 8000,
    "hans": 30000,
    "anli": 798,
    "arc": 1170,
    "gsm8k": 1319,
    "bbh": 5250,
    "mmlu_pro": 12032,
    "math": 1324,
    "musr": 756,
}

_NLI = Pattern(
    "{premise} Question: {hypothesis} Yes or No?", (("entailment", " Yes"), ("not_entailment", " No")), "premise"
)
_QA: dict[str, Task] = {
    **dict.fromkeys(("arc", "mmlu_pro", "musr"), Choice("{question}\n{choices}\nAnswer:", "label")),
    **dict.fromkeys(("gsm8k", "bbh", "math"), Generate("{question}\nAnswer:", r"(-?[\d.,]+)", "number")),
}


class KnownSet(NamedTuple):
    """What a study needs to know of a data set: its task, its kind of shift, its size if that is fixed."""

    task: Task
    shift: str
    items: int | None = None


def known_sets() -> dict[str, KnownSet]:
    """Every data set of the registry."""
    registry = _attribute("breadth.datasets.registry", "REGISTRY")
    if registry is not None:
        return {name: KnownSet(entry.task, entry.shift, SIZES.get(name)) for name, entry in registry.items()}
    published = ("snli", "mnli", "scitail", "wnli", "rte", "paws", "hans", "anli")
    return {
        **{name: KnownSet(_NLI, testset.shift) for name, testset in SETS.items()},
        **{name: KnownSet(_NLI, "domain", SIZES[name]) for name in published},
        **{name: KnownSet(task, "domain", SIZES[name]) for name, task in _QA.items()},
    }


def known_models() -> tuple[str, ...]:
    """Names of the embedded models."""
    embedded = _attribute("breadth.lm.models", "EMBEDDED")
    return ("smollm2-135m", "gemma3-270m") if embedded is None else tuple(embedded)


def _attribute(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
