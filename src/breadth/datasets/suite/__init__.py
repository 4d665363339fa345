"""A generated natural-language-inference suite: twelve test sets, any seed, no download.

Labels are true by construction. All words and templates are written here; ``sets`` lists the sets, a module per set
holds its template families, and ``assembly`` puts items together. Imports only ``errors``.
"""

from __future__ import annotations

import difflib

import polars as pl

from breadth.datasets.suite.assembly import MOST_ITEMS, assemble, check
from breadth.datasets.suite.draw import SPLITS, Split
from breadth.datasets.suite.items import SHIFTS, TestSet
from breadth.datasets.suite.sets import SETS, STREAMS
from breadth.errors import InputError, listed

__all__ = ["MOST_ITEMS", "SCHEMA", "SETS", "SHIFTS", "SPLITS", "Split", "TestSet", "generate"]

SCHEMA = {
    "item": pl.String,
    "testset": pl.String,
    "shift": pl.String,
    "premise": pl.String,
    "hypothesis": pl.String,
    "label": pl.String,
    "template": pl.String,
    "pair": pl.String,
    "steps": pl.Int64,
}


def generate(name: str, n: int, seed: int = 0, split: Split = "test") -> pl.DataFrame:
    """Make ``n`` items of the set ``name``; up to 20,000 (``MOST_ITEMS``) per set, seed and split.

    The same arguments give the same frame on every machine, and the first m rows of n are what asking for m gives.
    No text comes twice. Items of ``train`` and ``test`` are filled from different words, so they share no premise
    and no hypothesis, whatever the seeds; items of one split with different seeds may. Labels are balanced to within
    one item, in the set and in every template family.

    ``item`` numbers the items of a set and split, and does not name the seed: do not mix seeds in one table without
    adding it. ``pair`` is shared by the items of ``plain``, ``formal`` and ``chat`` that say the same. ``steps`` is
    the number of inference steps in ``chains``; hypotheses that do not follow count the steps to see that.

    >>> frame = generate("word_order", 4)
    >>> frame["label"].value_counts().sort("label").rows()
    [('entailment', 2), ('not_entailment', 2)]
    """
    if name not in SETS:
        near = difflib.get_close_matches(name, SETS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"generated suite: there is no set {name!r}.{hint} Sets: {listed(SETS)}")
    check(n, seed, split)
    testset = SETS[name]
    items = assemble(testset, STREAMS[name], n, seed, split)
    paired = STREAMS[name] == STREAMS["plain"]
    return pl.DataFrame(
        {
            "item": [f"{name}-{split}-{i:06d}" for i in range(n)],
            "testset": [name] * n,
            "shift": [testset.shift] * n,
            "premise": [item.text.premise for item in items],
            "hypothesis": [item.text.hypothesis for item in items],
            "label": ["entailment" if item.entailed else "not_entailment" for item in items],
            "template": [item.template for item in items],
            "pair": [f"pair-{split}-{i:06d}" if paired else None for i in range(n)],
            "steps": [item.steps for item in items],
        },
        schema=SCHEMA,
    )
