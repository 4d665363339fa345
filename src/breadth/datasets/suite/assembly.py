"""From template families to a list of items: whose turn it is, which label, and no text twice."""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.suite.draw import SPLITS, Draw, Split
from breadth.datasets.suite.items import Family, Sketch, TestSet, Text
from breadth.errors import InputError, listed

#: Items of one set and split that can be asked for: tested for every set, and a quarter of what was seen to work.
MOST_ITEMS = 20_000

#: So many doubles in a row mean that a family has run out of fillings, which is a bug below ``MOST_ITEMS``.
PATIENCE = 1000


class Item(NamedTuple):
    """A text with its label, the family that wrote it and its number of inference steps."""

    text: Text
    entailed: bool
    template: str
    steps: int | None


def assemble(testset: TestSet, stream: int, n: int, seed: int, split: Split) -> list[Item]:
    """Write ``n`` items, two at a time: one family in turn writes one of each label, in random order.

    So labels are balanced to within one item overall, and to within one item in each family; and the first m
    of n items are the m items, because nothing that is drawn depends on ``n``. ``stream`` tells the sets apart;
    the three styles of one content share it.
    """
    draw = Draw((stream, SPLITS.index(split), seed), split)
    written: set[Text] = set()
    items: list[Item] = []
    turn = 0
    while len(items) < n:
        family = testset.families[turn % len(testset.families)]
        turn += 1
        first = draw.flip()
        for entailed in (first, not first):
            texts = _new(family, draw, entailed, written)
            text = getattr(texts, testset.style)
            items.append(Item(text, entailed, family.template, family.steps))
    return items[:n]


def _new(family: Family, draw: Draw, entailed: bool, written: set[Text]) -> Sketch:
    """Write until no style repeats an earlier text, so that paired styles stay paired."""
    for _ in range(PATIENCE):
        sketch = family.write(draw, entailed)
        if written.isdisjoint(sketch.texts()):
            written.update(sketch.texts())
            return sketch
    raise RuntimeError(f"template family {family.template!r} has run out of new fillings")


def check(n: int, seed: int, split: str) -> None:
    """Refuse what cannot be generated, naming all that is wrong at once."""
    wrong = []
    if not 0 <= n <= MOST_ITEMS:
        wrong.append(f"n is {n}, but a set has 0 to {MOST_ITEMS:,} items per split")
    if seed < 0:
        wrong.append(f"seed is {seed}, but must not be negative")
    if split not in SPLITS:
        wrong.append(f"there is no split {split!r}; use one of {listed(SPLITS)}")
    if wrong:
        raise InputError(f"generated suite: {'; '.join(wrong)}.")
