"""Are all subjects and items linked by answers? Blocks that share no subject and no item have a scale each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from breadth.irt.answers import Answers, Bools
from breadth.results.words import count, joined

#: Share of the subjects or of the items outside the largest block from which several stray blocks are serious.
MOST_STRAY = 0.1


class Component(NamedTuple):
    """Number of subjects and items of a block: no subject in it answered an item outside it, or the reverse."""

    subjects: int
    items: int

    def __str__(self) -> str:
        """Its size."""
        return f"{count(self.subjects, 'subject')} x {count(self.items, 'item')}"


def linked_components(answers: Answers, items: Bools, anchored: Bools | None = None) -> list[Component]:
    """Which blocks do subjects and items fall into, the largest first?

    The connected components of the graph that has an edge for every answer. Each block has an origin of its own, which
    no answer relates to that of another, so that difficulties and abilities compare within a block only (Wright and
    Stone 1979, on linking). One block is the rule. Subjects of weight 0, items that are not among ``items``, and
    whatever has no answers are left out; ``anchored`` items are linked by the scale that they come from.
    """
    subjects = (answers.subject_counts > 0) & (answers.weights > 0)
    items = items & (answers.item_counts > 0)
    if answers.seen is None or not subjects.any():
        return [Component(int(subjects.sum()), int(items.sum()))]
    seen = answers.seen.view(np.bool_)
    # Nearly always everything is within reach of one subject. This is found without a list of all answers.
    first = int(np.where(subjects, answers.subject_counts, -1).argmax())
    near_subjects = subjects & seen[:, items & seen[first]].any(axis=1)
    near_items = items & seen[near_subjects].any(axis=0)
    rest = np.flatnonzero(subjects & ~near_subjects)
    row, column = np.nonzero(seen[rest] & items)
    # Node 0 stands for all that is near; then come the subjects, the items, and the anchor.
    n, j = seen.shape
    anchor = 1 + n + j
    subject_node = np.where(near_subjects, 0, 1 + np.arange(n))
    item_node = np.where(near_items, 0, 1 + n + np.arange(j))
    fixed = np.empty(0, dtype=np.intp) if anchored is None else item_node[items & anchored]
    start = np.concatenate([subject_node[rest][row], np.full(fixed.size, anchor)])
    end = np.concatenate([item_node[column], fixed])
    graph = coo_array((np.ones(start.size), (start, end)), shape=(anchor + 1, anchor + 1))
    label = connected_components(graph, directed=False)[1]
    sizes = [
        np.bincount(label[nodes], minlength=label.max() + 1) for nodes in (subject_node[subjects], item_node[items])
    ]
    blocks = [Component(int(a), int(b)) for a, b in zip(*sizes, strict=True) if a and b]
    return sorted(blocks, key=lambda block: (-block.subjects * block.items, -block.subjects))


def are_separate(blocks: Sequence[Component]) -> bool:
    """Whether blocks make one scale meaningless, rather than leave a stray subject or item aside.

    They do if a second one has at least 2 subjects and 2 items, or if several smaller ones hold more than a tenth of
    the subjects or of the items.
    """
    others = blocks[1:]
    if any(min(block) > 1 for block in others):
        return True
    whole, apart = np.sum(blocks, axis=0), np.sum(others, axis=0)
    return len(others) > 1 and bool((apart > MOST_STRAY * whole).any())


def block_sizes(blocks: Sequence[Component]) -> str:
    """Sizes of the largest blocks."""
    return joined([str(block) for block in blocks], 5)


def stray_warning(blocks: Sequence[Component]) -> str | None:
    """Warn about stray subjects and items; None where everything is linked."""
    if len(blocks) < 2:
        return None
    stray = Component(*(int(number) for number in np.sum(blocks[1:], axis=0)))
    return (
        f"{count(stray.subjects, 'subject')} and {count(stray.items, 'item')} share no answers with the others: do not "
        "compare their abilities and difficulties with those of the others"
    )
