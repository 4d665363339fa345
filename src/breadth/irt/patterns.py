"""How many subjects are really different? Leaderboards are full of copies and merges of one model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from breadth.errors import InputError
from breadth.irt.answers import Answers, Floats
from breadth.irt.residuals import SURE

#: Subjects compared with all later ones at once.
BLOCK_SUBJECTS = 512

#: Pairs need this many common items to be judged at all.
LEAST_COMMON = 20


class Patterns(NamedTuple):
    """What was found about copies among subjects.

    ``distinct``
        Number of distinct rows of answers (missing cells count as a third kind of answer).
    ``pairs`` [M, 2], ``agreement`` [M], ``excess`` [M]
        Near-copies: two subjects, the share of common items they answered alike, and that share beyond what their
        abilities explain, as a share of what was left to explain.
    ``cluster`` [N], ``weights`` [N]
        Label of the group of near-copies a subject belongs to, and 1 / size of that group.
    """

    distinct: int
    pairs: NDArray[np.int64]
    agreement: Floats
    excess: Floats
    cluster: NDArray[np.int64]
    weights: Floats


def distinct_patterns(
    answers: Answers,
    difficulty: Floats,
    discrimination: Floats,
    ability: Floats,
    guessing: Floats | None = None,
    threshold: float = 0.8,
) -> Patterns:
    """Count distinct answer patterns and find pairs of subjects more alike than their abilities explain.

    Two independent subjects agree on an item with chance P P' + Q Q'. With A the share of common items on which they
    agree and E its expectation, the excess is k = (A - E) / (1 - E), Cohen's (1960) kappa with chance agreement taken
    from the model: 0 for independent subjects, 1 for copies. A pair is reported where k is above ``threshold``, at
    least 20 items are common, and A is five standard deviations above E. Groups are the connected components of
    the pairs: two subjects in one group may differ more than the threshold if others lie between them.

    Errors and fit statistics take subjects as independent; pass ``weights`` to :meth:`Answers.with_weights` to count
    every group once. Only for answers that are right or wrong.
    """
    if answers.fractional:
        raise InputError("Near-copies can only be found among answers that are right or wrong, not shares.")
    chance = np.zeros(answers.n_items) if guessing is None else guessing
    sign, expected, seen = _signs(answers, difficulty, discrimination, ability, chance)
    n = answers.n_subjects
    every = float(answers.n_items)
    first, second, agreement, excess = [], [], [], []
    for start in range(0, n, BLOCK_SUBJECTS):
        rows, rest = slice(start, start + BLOCK_SUBJECTS), slice(start, n)
        # Agreement is (sum of products of signs + common) / 2, and likewise what is expected of it.
        alike = sign[rows] @ sign[rest].T
        common = seen[rows] @ seen[rest].T if seen is not None else np.full_like(alike, every)
        likely = expected[rows] @ expected[rest].T
        np.maximum(common, 1, out=common)
        alike /= common
        likely /= common
        found = (alike - likely > threshold * (1 - likely)) & (common >= LEAST_COMMON)
        found &= (alike - likely) ** 2 * common > 25 * (1 - likely**2)
        found &= np.arange(start, n)[None, :] > np.arange(start, min(start + BLOCK_SUBJECTS, n))[:, None]
        i, j = np.nonzero(found)
        first.append(i + start)
        second.append(j + start)
        agreement.append((1 + alike[i, j].astype(np.float64)) / 2)
        excess.append(((alike[i, j] - likely[i, j]) / np.maximum(1 - likely[i, j], 1e-12)).astype(np.float64))
    a, b = np.concatenate(first), np.concatenate(second)
    graph = coo_array((np.ones(a.size), (a, b)), shape=(n, n))
    cluster = connected_components(graph, directed=False)[1].astype(np.int64)
    sizes = np.bincount(cluster)
    return Patterns(
        _count_distinct(answers),
        np.column_stack([a, b]).astype(np.int64),
        np.concatenate(agreement),
        np.concatenate(excess),
        cluster,
        1.0 / sizes[cluster],
    )


def _signs(
    answers: Answers, difficulty: Floats, discrimination: Floats, ability: Floats, chance: Floats
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32] | None]:
    """Answers as -1, 0 (missing), 1; their expectation; and the mask."""
    usable = np.isfinite(difficulty) & np.isfinite(discrimination) & np.isfinite(chance)
    slope = np.where(usable, discrimination, 0.0)
    intercept = np.where(usable, -slope * np.where(usable, difficulty, 0.0), 0.0)
    theta = np.nan_to_num(ability)
    z = np.clip(theta[:, None] * slope + intercept, -80, 80).astype(np.float32)
    probability = np.where(usable, chance, 0).astype(np.float32)
    expected = 2 * np.clip(probability + (1 - probability) / (1 + np.exp(-z)), SURE, 1 - SURE) - 1
    sign = 2 * answers.right.astype(np.float32) - 1
    if answers.seen is None and usable.all():
        return sign, expected.astype(np.float32), None
    seen = np.ones(sign.shape, np.float32) if answers.seen is None else answers.seen.astype(np.float32)
    seen *= usable.astype(np.float32)
    return sign * seen, (expected * seen).astype(np.float32), seen


def _count_distinct(answers: Answers) -> int:
    packed = np.packbits(answers.right.astype(np.bool_), axis=1)
    if answers.seen is not None:
        packed = np.concatenate([packed, np.packbits(answers.seen.astype(np.bool_), axis=1)], axis=1)
    whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))
    return int(np.unique(whole.ravel()).size)
