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
from breadth.irt.parameters import Parameters
from breadth.results.words import count

#: Share of the subjects or of the items outside the largest block from which several stray blocks are serious.
MOST_STRAY = 0.1

#: Subjects and cells from which the main component is computed.
MOST_SUBJECTS, MOST_CELLS = 2000, 1_000_000

#: A component is one if it has this many times the variance that noise would show.
BEYOND_NOISE = 1.5

#: Standard errors that are beyond chance, one-sided 5 %.
BEYOND_CHANCE = 1.645

#: Answers of a share smaller than this do not count for more: they would be all that a component shows.
LEAST_FILLED = 0.25

#: Correlation of the ability of subjects with the mean difficulty of the items that they were given, from which items
#: were given by ability: chance alone hardly ever reaches the first. A warning takes the second.
BY_ABILITY, CLEARLY_BY_ABILITY = 0.3, 0.5

#: Points of ability over which the share right of a whole population is computed.
ABILITIES = np.linspace(-4, 4, 41)


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
        f"{count(stray.subjects, 'model')} and {count(stray.items, 'question')} share no answers with the others: do "
        "not compare their abilities and difficulties with those of the others"
    )


def expected_shares(answers: Answers, items: Parameters, mean: float = 0.0, sd: float = 1.0) -> Floats:
    """Share of all subjects that would get every item right, whoever it was given to.

    Where everybody answered everything this is the share that did. Otherwise it is what the curves expect of a
    N(mean, sd^2) population: in an adaptive test half of the answers to every item are right, because the hard ones
    were only given to the able.
    """
    share = answers.item_sums / np.maximum(answers.item_counts, 1)
    if answers.seen is None:
        return share
    weights = np.exp(-(ABILITIES**2) / 2)
    with np.errstate(invalid="ignore"):
        expected: Floats = weights @ items.probability(mean + sd * ABILITIES) / weights.sum()
    return np.where(np.isfinite(expected), expected, share)


def score_correlation(answers: Answers, ability: Floats, expected: Floats | None = None) -> float:
    """Does ability rank the subjects as their scores do? Spearman's rho; NaN where one of them does not vary.

    The score is the mean over a subject's answers of right or wrong less what was ``expected`` of everybody [J]
    (:func:`expected_shares`; by default the share right among those that answered), so that subjects that answered
    different items can be compared; with complete answers it ranks as the number right does. By ranks, because on a
    test that is too hard or too easy ability and score are tied by a bent curve. Where one ability explains the
    answers, rho is usually above 0.9; few subjects or weak slopes lower it by noise. A low value says that the scale
    measures something else than the score counts.
    """
    if expected is None:
        expected = answers.item_sums / np.maximum(answers.item_counts, 1)
    counts = np.maximum(answers.subject_counts, 1)
    score = (answers.subject_sums - answers.sums(expected[:, None], seen=True)[:, 0]) / counts
    known = np.isfinite(ability) & (answers.subject_counts > 0)
    # Rounding must not break ties between equal scores.
    first, second = (pl.Series(values[known].round(12)).rank().to_numpy() for values in (ability, score))
    if first.size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def given_by_ability(answers: Answers, difficulty: Floats, ability: Floats) -> float:
    """Correlation of the ability of subjects with the mean difficulty of the items that they were given.

    0 where everybody was given everything, or where it makes no difference. A test that adapts has .8 or more.
    """
    if answers.seen is None:
        return 0.0
    known = np.isfinite(difficulty)
    part = answers.part(np.ones(answers.n_subjects, dtype=np.bool_), known)
    given = part.sums(difficulty[known][:, None], seen=True)[:, 0] / np.maximum(part.subject_counts, 1)
    usable = np.isfinite(ability) & (part.subject_counts > 0)
    if usable.sum() < 3 or np.ptp(ability[usable]) == 0 or np.ptp(given[usable]) == 0:
        return 0.0
    return float(np.corrcoef(ability[usable], given[usable])[0, 1])


class FittedScale(NamedTuple):
    """Curves of items, abilities of subjects, and the share of all subjects that each item expects to be right."""

    items: Parameters
    ability: Floats
    expected: Floats


class MainComponent(NamedTuple):
    """What subjects differ in most: its rank correlation with the score, and the share of items that run against it."""

    correlation: float
    against: float


def main_component(answers: Answers, order: Floats, fitted: FittedScale | None = None) -> MainComponent | None:
    """Do subjects differ most in what the score counts? The first principal component of the answers; None if noise.

    Of right or wrong less the item's share right. Where answers measure one ability this component is the ability: it
    ranks subjects as the score does, and few items correlate with it clearly negatively (one-sided 5 %). A model with
    one slope for all items follows the score and cannot tell; this asks without a model. Of large matrices every k-th
    subject is taken and every k-th item, in order of shares right and then of ``order`` [J]. By subspace iteration, as
    in :func:`breadth.irt.diagnostics.residual_dimension`; noise is what Marchenko and Pastur (1967) expect.

    Where answers are missing, the first component may only say who was given which items. So what was ``fitted`` fills
    the gaps: see :func:`_filled`.
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
    expected = None
    if fitted is not None:
        expected = fitted.expected[chosen]
        fitted = FittedScale(Parameters(*(array[chosen] for array in fitted.items)), fitted.ability[subjects], expected)
    table = _filled(part, fitted)
    table -= table.mean(axis=0)
    n, j = float((part.subject_counts > 0).sum()), part.n_items
    variance = np.maximum((table**2).sum(axis=0), 1e-12)
    basis = np.random.default_rng(0).normal(size=(j, min(DIRECTIONS, j)))
    values, vectors, scores, loadings = np.zeros(1), np.eye(1), basis, basis[:, 0]
    for _ in range(ROUNDS):
        basis = np.linalg.qr(basis)[0]
        scores = table @ basis
        values, vectors = np.linalg.eigh(scores.T @ scores)
        loadings = basis @ vectors[:, -1]
        basis = table.T @ scores
    noise = min(1.0, 1 / n + 1 / j + 2 / float(np.sqrt(n * j)))
    rho = score_correlation(part, scores @ vectors[:, -1], expected)
    if values[-1] / variance.sum() <= BEYOND_NOISE * noise or np.isnan(rho):
        return None
    # Its sign is arbitrary: it points where the score does.
    correlations = loadings * np.sqrt(values[-1] / variance) * (1 if rho > 0 else -1)
    against = correlations < -BEYOND_CHANCE / np.sqrt(np.maximum(part.item_counts, 1))
    return MainComponent(abs(rho), float(against.mean()))


def _filled(answers: Answers, fitted: FittedScale | None) -> Floats:
    """Answers [N, J] without gaps.

    A missing answer is what the curves expect of the subject. An answer that is there is that and its residual, which
    also stands for those that are missing: it counts as often as there are cells for every answer, at most four times.
    """
    right: Floats = answers.right.astype(np.float64)
    if answers.seen is None:
        return right
    chance: Floats = np.broadcast_to(answers.item_sums / np.maximum(answers.item_counts, 1), right.shape)
    if fitted is not None:
        # An item or a subject that could not be placed is expected to do as the others did.
        by_curve = fitted.items.probability(np.where(np.isfinite(fitted.ability), fitted.ability, np.nan))
        chance = np.where(np.isfinite(by_curve), by_curve, chance)
    seen = answers.seen.astype(np.float64)
    return np.asarray(chance + seen * (right - chance) / max(float(seen.mean()), LEAST_FILLED))


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
