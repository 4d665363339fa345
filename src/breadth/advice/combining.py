"""Models together: majority votes and routing, with the gain that new items would show. Arrays in, arrays out.

``answers`` [models, items] are right (1) or wrong (0); models are in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from breadth.inference import Floats

Indices = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

#: The best models, among which pairs and triples are searched.
MOST_SEARCHED = 15

#: Folds of the nested cross-validation over items.
FOLDS = 10

#: Standard errors by which a model must lead on a group of items before they are routed to it.
SURE = 2.0


class Gain(NamedTuple):
    """Gain over the best single model: as the data show it, as items that were held out show it, and its error."""

    naive: float
    honest: float
    se: float
    members: tuple[int, ...]


def best_first(answers: Floats) -> Indices:
    """Models from the best to the worst."""
    return np.argsort(-answers.mean(axis=1), kind="stable")


def vote(answers: Floats, members: Sequence[int]) -> Floats:
    """Whether the majority of the members is right, item by item; a tie goes to the first, which is the best.

    With more than two possible answers this is a lower bound: those who are wrong may disagree with each other.
    """
    cells = answers[list(members)]
    right = cells.sum(axis=0)
    half = len(members) / 2
    return np.asarray(np.where(right == half, cells[0], right > half), dtype=np.float64)


def vote_margins(margins: Floats, members: Sequence[int]) -> Floats:
    """Whether the sum of the members' log-odds favours the right answer."""
    return np.asarray(margins[list(members)].sum(axis=0) > 0, dtype=np.float64)


def search_votes(answers: Floats, size: int, margins: Floats | None = None) -> tuple[int, ...]:
    """The group of ``size`` among the best models whose vote is right most often."""
    order = best_first(answers)[:MOST_SEARCHED]
    groups = list(itertools.combinations(map(int, order), size))
    if margins is not None:
        return max(groups, key=lambda group: float(vote_margins(margins, group).mean()))
    return max(groups, key=lambda group: float(vote(answers, group).mean()))


def route(answers: Floats, group: Indices) -> dict[int, int]:
    """The model for every group of items: the best overall, unless another leads by more than two standard errors.

    Leads are shrunk towards the lead on all items by how much groups differ beyond chance (empirical Bayes).
    """
    order = best_first(answers)[:MOST_SEARCHED]
    base = int(order[0])
    lead = answers[order] - answers[base]
    chosen = {}
    labels = np.unique(group)
    inside = [group == label for label in labels]
    mean = np.stack([lead[:, mask].mean(axis=1) for mask in inside], axis=1)
    variance = np.stack([lead[:, mask].var(axis=1) / max(mask.sum() - 1, 1) for mask in inside], axis=1)
    whole = lead.mean(axis=1)
    between = np.maximum(((mean - whole[:, None]) ** 2 - variance).mean(axis=1), 0.0)
    keep = between[:, None] / np.maximum(between[:, None] + variance, 1e-12)
    shrunk, error = whole[:, None] + keep * (mean - whole[:, None]), np.sqrt(keep * variance)
    for k, label in enumerate(labels):
        best = int(np.argmax(shrunk[:, k]))
        sure = shrunk[best, k] > SURE * error[best, k] and shrunk[best, k] > 0
        chosen[int(label)] = int(order[best]) if sure else base
    return chosen


def routed(answers: Floats, group: Indices, chosen: dict[int, int], base: int) -> Floats:
    """Right or wrong, item by item, if every group of items goes to its model; unknown groups go to ``base``."""
    model = np.array([chosen.get(int(label), base) for label in group], dtype=np.intp)
    return answers[model, np.arange(answers.shape[1])]


def make_folds(items: int, cluster: Indices | None, repeats: int = 1, seed: int = 0) -> Indices:
    """The fold of every item [repeats, items]; items of a cluster share it."""
    groups = np.arange(items) if cluster is None else np.unique(cluster, return_inverse=True)[1]
    number = int(groups.max(initial=0)) + 1
    generator = np.random.default_rng(seed)
    return np.stack([(generator.permutation(number) % min(FOLDS, number))[groups] for _ in range(repeats)])


#: Ways of cutting items into folds over which honest gains are averaged, and cells beyond which one must do.
REPEATS, MOST_CELLS = 4, 2_000_000


def honest_gain(
    answers: Floats, choose: Callable[[Bools], Callable[[Bools], Floats]], folds: Indices
) -> tuple[float, float]:
    """Gain over the best single model on items that neither was chosen on, and its standard error.

    ``choose`` takes the items to choose on and gives a function that answers others. In every fold, both the
    combination and the single model are chosen on the other folds (nested cross-validation).
    """
    gain = np.zeros(answers.shape[1])
    for fold_of in folds:
        for fold in np.unique(fold_of):
            out = fold_of == fold
            single = int(best_first(answers[:, ~out])[0])
            gain[out] += (choose(~out)(out) - answers[single, out]) / len(folds)
    return float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def vote_gain(answers: Floats, folds: Indices, size: int, search: bool, margins: Floats | None = None) -> Gain:
    """Gain of a vote of ``size`` models: the best group that is found by search, or simply the best models."""

    def members(on: Bools) -> tuple[int, ...]:
        if not search:
            return tuple(map(int, best_first(answers[:, on])[:size]))
        return search_votes(answers[:, on], size, None if margins is None else margins[:, on])

    def result(group: tuple[int, ...], on: Bools) -> Floats:
        return vote(answers[:, on], group) if margins is None else vote_margins(margins[:, on], group)

    everything = np.ones(answers.shape[1], dtype=np.bool_)
    group = members(everything)
    naive = float(result(group, everything).mean() - answers.mean(axis=1).max())

    def choose(on: Bools) -> Callable[[Bools], Floats]:
        own = members(on)
        return lambda out: result(own, out)

    return Gain(naive, *honest_gain(answers, choose, folds), group)


def route_gain(answers: Floats, folds: Indices, group: Indices) -> Gain:
    """Gain of sending every group of items to the model that is best on it."""

    def choose(on: Bools) -> Callable[[Bools], Floats]:
        chosen, base = route(answers[:, on], group[on]), int(best_first(answers[:, on])[0])
        return lambda out: routed(answers[:, out], group[out], chosen, base)

    naive = np.stack([answers[:, group == label].sum(axis=1) for label in np.unique(group)])
    everything = np.ones(answers.shape[1], dtype=np.bool_)
    members = tuple(dict.fromkeys(route(answers[:, everything], group).values()))
    best = float(naive.max(axis=1).sum() / answers.shape[1] - answers.mean(axis=1).max())
    return Gain(best, *honest_gain(answers, choose, folds), members)
