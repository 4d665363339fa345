"""How alike are two groups' correlation matrices, and could that be chance?"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from breadth.stats.panel import Bools, Floats, Ints, pair_indices

#: Relabellings to draw where there are too many to go through all of them.
PERMUTATIONS = 4999

#: Fewest test sets for which relabelling can tell anything (4! = 24 relabellings).
FEWEST_FACETS = 4


class Similarity(NamedTuple):
    """One number per pair of groups (first < second); NaN where it cannot be said."""

    first: Ints
    second: Ints
    facets: Ints
    similarity: Floats
    difference: Floats
    p: Floats


def compare_groups(r: Floats, z: Floats, m: int, seed: int = 0) -> Similarity:
    """Compare the correlation matrices of every two groups, given r and z = atanh(r) [G, P] of m facets.

    ``similarity`` is the correlation, over pairs of test sets, between the two groups' z: do pairs that go
    together in one group go together in the other? ``difference`` is the mean absolute difference of r. ``p`` is
    Mantel's test (1967): the share of relabellings of one group's test sets that make the matrices at least as
    similar, all relabellings if there are no more than 5,040 of them, else 4,999 random ones. Entries of a matrix
    are not independent, which is why relabelling, and not a t-test, is used.

    Test sets that lack a correlation in either group are left out for that pair of groups; at least four must
    remain. A similarity near 0 does not mean that the groups contradict each other: that is near -1.
    """
    first, second = pair_indices(len(r))
    usable = np.array([_complete_facets(~np.isnan(row), m) for row in r], dtype=bool).reshape(len(r), m)
    shared = usable[first] & usable[second]
    similarity, difference, p = (np.full(len(first), np.nan) for _ in range(3))
    generator = np.random.default_rng(seed)
    patterns, which = np.unique(shared, axis=0, return_inverse=True)
    for index, keep in enumerate(patterns):
        members = np.flatnonzero(which.reshape(-1) == index)
        size = int(keep.sum())
        if size < FEWEST_FACETS:
            continue
        a, b = pair_indices(m)
        inside = keep[a] & keep[b]
        groups, place = np.unique(np.concatenate([first[members], second[members]]), return_inverse=True)
        left, right = np.split(place.reshape(-1), 2)
        vectors = _standardised(z[groups][:, inside])
        observed = (vectors[left] * vectors[right]).sum(axis=1)
        similarity[members] = observed
        p[members] = _mantel(vectors, left, right, observed, size, generator)
        values = r[groups][:, inside]
        difference[members] = np.abs(values[left] - values[right]).mean(axis=1)
    return Similarity(first, second, shared.sum(axis=1).astype(np.intp), similarity, difference, p)


def _complete_facets(present: Bools, m: int) -> Bools:
    """Largest set of facets found by dropping, one by one, the facet with most missing pairs."""
    a, b = pair_indices(m)
    matrix = np.ones((m, m), dtype=bool)
    matrix[a, b] = matrix[b, a] = present
    keep = np.ones(m, dtype=bool)
    while (missing := (~matrix & keep[:, None] & keep[None, :]).sum(axis=1)).any():
        keep[int(missing.argmax())] = False
    return keep


def _standardised(vectors: Floats) -> Floats:
    """Centre every row and scale it to length 1, so that products are correlations; NaN where constant."""
    centred: Floats = vectors - vectors.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return centred / np.where(length > 1e-12, length, np.nan)


def _mantel(
    vectors: Floats, left: Ints, right: Ints, observed: Floats, size: int, generator: np.random.Generator
) -> Floats:
    a, b = pair_indices(size)
    position = np.zeros((size, size), dtype=np.intp)
    position[a, b] = position[b, a] = np.arange(len(a))
    exact = math.factorial(size) <= 5040
    orders = (
        np.array(list(itertools.permutations(range(size))), dtype=np.intp)
        if exact
        else generator.permuted(np.tile(np.arange(size), (PERMUTATIONS, 1)), axis=1)
    )
    at_least = np.zeros(len(observed)) if exact else np.ones(len(observed))
    for order in orders:
        relabelled = vectors[:, position[order[a], order[b]]]
        alike = vectors @ relabelled.T
        at_least += alike[left, right] >= observed - 1e-12
    share: Floats = at_least / (len(orders) + (0 if exact else 1))
    return np.where(np.isnan(observed), np.nan, share)
