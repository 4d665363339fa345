"""How many items well-known test sets have, by name: what the sampling noise of their scores follows from.

Sets of the registry have the size that breadth evaluates. The others have the size of the split that evaluation tools
report by default. A table may hold scores of a subset, so whoever uses these numbers says so and lets users override
them.
"""

from __future__ import annotations

from functools import cache

from breadth.datasets.registry import REGISTRY
from breadth.sources import USUAL_ITEMS, parse_score, plain


def usual_items(column: str) -> int | None:
    """How many items the test set has whose score a column holds, if its name is a well-known one.

    >>> usual_items("hans"), usual_items("eval/HellaSwag acc_norm"), usual_items("my own set")
    (30000, 10042, None)
    """
    sizes = _sizes_by_letters()
    for name in (plain(column), parse_score(column).testset):
        letters = name.replace("_", "")
        if letters in sizes:
            return sizes[letters]
    return None


@cache
def _sizes_by_letters() -> dict[str, int]:
    """Sizes by names without word breaks: HellaSwag, hella_swag and hellaswag are one."""
    sizes = {}
    for name, entry in REGISTRY.items():
        # A generated set has as many items as its user asks for.
        if entry.kind != "generated":
            sizes[name.replace("_", "")] = entry.items
    # The vocabulary names none of these sets, but a user's own may: theirs counts.
    for name, items in USUAL_ITEMS.items():
        sizes[name.replace("_", "")] = items
    return sizes
