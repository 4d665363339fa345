"""Do the answers make one scale? Whether they link all subjects and items, measure one ability, and more than guessing.

Blocks that share no subject and no item have a scale each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.diagnostics import DIRECTIONS, ROUNDS
from breadth.results.words import count

#: Share of the subjects or of the items outside the largest block from which several stray blocks are serious.
MOST_STRAY = 0.1

#: Subjects and cells from which the main component is computed.
MOST_SUBJECTS, MOST_CELLS = 2000, 1_000_000

#: A component is one if it has this many times the variance that noise would show.
BEYOND_NOISE = 1.5

#: Standard errors that are beyond chance, one-sided 5 %.
BEYOND_CHANCE = 1.645


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


def stray_warning(blocks: Sequence[Component]) -> str | None:
    """Warn about stray subjects and items; None where everything is linked."""
    if len(blocks) < 2:
        return None
    stray = Component(*(int(number) for number in np.sum(blocks[1:], axis=0)))
    return (
        f"{count(stray.subjects, 'subject')} and {count(stray.items, 'item')} share no answers with the others: do not "
        "compare their abilities and difficulties with those of the others"
    )


def score_correlation(answers: Answers, ability: Floats) -> float:
    """Does ability rank the subjects as their scores do? Spearman's rho; NaN where one of them does not vary.

    The score is the mean over a subject's answers of right or wrong less the item's share right, so that subjects that
    answered different items can be compared; with complete answers it ranks as the number right does. By ranks, because
    on a test that is too hard or too easy ability and score are tied by a bent curve. Where one ability explains the
    answers, rho is usually above 0.9; few subjects or weak slopes lower it by noise. A low value says that the scale
    measures something else than the score counts.
    """
    share = answers.item_sums / np.maximum(answers.item_counts, 1)
    counts = np.maximum(answers.subject_counts, 1)
    score = (answers.subject_sums - answers.sums(share[:, None], seen=True)[:, 0]) / counts
    known = np.isfinite(ability) & (answers.subject_counts > 0)
    # Rounding must not break ties between equal scores.
    first, second = (pl.Series(values[known].round(12)).rank().to_numpy() for values in (ability, score))
    if first.size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


class MainComponent(NamedTuple):
    """What subjects differ in most: its rank correlation with the score, and the share of items that run against it."""

    correlation: float
    against: float


def main_component(answers: Answers, order: Floats) -> MainComponent | None:
    """Do subjects differ most in what the score counts? The first principal component of the answers; None if noise.

    Of right or wrong less the item's share right. Where answers measure one ability this component is the ability: it
    ranks subjects as the score does, and few items correlate with it clearly negatively (one-sided 5 %). A model with
    one slope for all items follows the score and cannot tell; this asks without a model. Of large matrices every k-th
    subject is taken and every k-th item, in order of shares right and then of ``order`` [J]. By subspace iteration, as
    in :func:`breadth.irt.diagnostics.residual_dimension`; noise is what Marchenko and Pastur (1967) expect.
    """
    subjects, chosen = (np.zeros(n, dtype=np.bool_) for n in (answers.n_subjects, answers.n_items))
    subjects[:: -(-answers.n_subjects // MOST_SUBJECTS)] = True
    share = answers.item_sums / np.maximum(answers.item_counts, 1)
    ranked = np.lexsort((order, share))
    step = -(-int(subjects.sum()) * answers.n_items // MOST_CELLS)
    chosen[ranked[(share[ranked] > 0) & (share[ranked] < 1)][::step]] = True
    if not chosen.any():
        return None
    part = answers.part(subjects, chosen)
    p = (part.item_sums / np.maximum(part.item_counts, 1))[:, None]
    basis = np.random.default_rng(0).normal(size=(p.size, min(DIRECTIONS, p.size)))
    values, vectors, scores, loadings = np.zeros(1), np.eye(1), basis, basis[:, 0]
    for _ in range(ROUNDS):
        basis = np.linalg.qr(basis)[0]
        scores = part.sums(basis) - part.sums(p * basis, seen=True)
        values, vectors = np.linalg.eigh(scores.T @ scores)
        loadings = basis @ vectors[:, -1]
        basis = part.sums(scores, axis=0) - p * part.sums(scores, axis=0, seen=True)
    variance = np.maximum((p * (1 - p))[:, 0] * part.item_counts, 1e-12)
    n, j = float((part.subject_counts > 0).sum()), p.size
    noise = min(1.0, 1 / n + 1 / j + 2 / float(np.sqrt(n * j)))
    rho = score_correlation(part, scores @ vectors[:, -1] / np.maximum(part.subject_counts, 1))
    if values[-1] / variance.sum() <= BEYOND_NOISE * noise or np.isnan(rho):
        return None
    # Its sign is arbitrary: it points where the score does.
    correlations = loadings * np.sqrt(values[-1] / variance) * (1 if rho > 0 else -1)
    against = correlations < -BEYOND_CHANCE / np.sqrt(np.maximum(part.item_counts, 1))
    return MainComponent(abs(rho), float(against.mean()))


class Above(NamedTuple):
    """Whether subjects [N] and items [J] are right more often than guessing would be."""

    subjects: Bools
    items: Bools


def above_chance(answers: Answers, chance: Floats) -> Above:
    """Which subjects and items are right clearly more often than by ``chance`` [J] (one-sided 5 %)?

    The number right less the sum of chances, over its standard deviation under independent guesses, is above 1.645. NaN
    in ``chance`` leaves an item out; subjects and items without any known chance count as above it.
    """
    known = np.isfinite(chance)
    part = answers.part(np.ones(answers.n_subjects, dtype=np.bool_), known)
    guess = chance[known]
    expected, variance = part.sums(np.column_stack([guess, guess * (1 - guess)]), seen=True).T
    items = np.ones(answers.n_items, dtype=np.bool_)
    right, n = part.item_sums, part.item_counts
    items[known] = (n == 0) | (right - n * guess > BEYOND_CHANCE * np.sqrt(n * guess * (1 - guess)))
    return Above((variance == 0) | (part.subject_sums - expected > BEYOND_CHANCE * np.sqrt(variance)), items)
