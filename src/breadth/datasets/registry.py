"""Every set that has a name: eight inference sets, six question sets, twelve generated ones."""

from __future__ import annotations

import difflib

from breadth.datasets.entry import Entry
from breadth.datasets.inference import INFERENCE, NLI_PATTERN
from breadth.datasets.questions import QUESTIONS
from breadth.datasets.suite import MOST_ITEMS, SETS
from breadth.errors import InputError, listed

__all__ = ["REGISTRY", "Entry", "find"]

_GENERATED = tuple(
    Entry(name, "generated", made.description, made.shift, NLI_PATTERN, "Apache-2.0", MOST_ITEMS, train_split="train")
    for name, made in SETS.items()
)

#: Name to entry: inference sets, question sets, generated sets.
REGISTRY: dict[str, Entry] = {entry.name: entry for entry in (*INFERENCE, *QUESTIONS, *_GENERATED)}


def find(name: str) -> Entry:
    """The entry of a name; a name that is not there gives a hint.

    >>> find("hans").items
    30000
    """
    if name not in REGISTRY:
        near = difflib.get_close_matches(name.lower().replace("-", "_"), REGISTRY, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(
            f"there is no data set {name!r}.{hint} See `breadth ls datasets`: {listed(REGISTRY, most=30)}; a file of "
            "your own goes under `sets` of a study file"
        )
    return REGISTRY[name]
