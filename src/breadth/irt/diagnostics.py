"""Does the model hold? Mean squares, item-rest correlations, a second dimension, near-copies of subjects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from breadth.errors import InputError
from breadth.irt.answers import Answers, Floats
from breadth.irt.parameters import Parameters
from breadth.records import ROUND_SHARES
from breadth.threads import one_blas_thread

#: Cells per block, small enough for the half dozen tables of a block to stay in the processor's cache.
BLOCK_CELLS = 100_000

#: Expected chances are kept this far from 0 and 1, so that one wild answer counts at most a million.
SURE = 1e-6

#: Random directions that the power iteration carries along, and its rounds. Residual spectra are flat where one
#: dimension is enough, and there the precise direction does not matter; where it is not, the gap is wide.
DIRECTIONS = 8
ROUNDS = 4

#: Subjects compared with all later ones at once.
BLOCK_SUBJECTS = 512

#: Pairs need this many common items to be judged at all.
LEAST_COMMON = 20


class Misfit(NamedTuple):
    """Mean squares of items or subjects: 1 is as expected, above 1 noisier, below 1 more orderly. NaN if unknown."""

    infit: Floats
    outfit: Floats


class FitDiagnostics(NamedTuple):
    """Misfit of items and of subjects, and the items' correlation with the rest of the test."""

    items: Misfit
    subjects: Misfit
    point_biserial: Floats


@one_blas_thread
def fit_statistics(
    answers: Answers, items: Parameters, ability: Floats, expected: Floats | None = None
) -> FitDiagnostics:
    """Infit and outfit of items and subjects in one pass over the answers, and item-rest correlations.

    ``expected`` [J] is as in :func:`point_biserial`.

    With residual e = right - P and variance V = P (1 - P): outfit is the mean of e^2 / V, which a few surprises far
    from an item's difficulty dominate; infit is sum e^2 / sum V, which weighs answers by how much they tell (Wright
    and Masters 1982). Values between 0.7 and 1.3 are usual for items. Abilities are taken as known, so mean squares are
    a little below 1 on short tests. There is no p-value: with thousands of subjects every item misfits.
    """
    n, j = answers.right.shape
    item, subject = np.zeros((4, j)), np.zeros((4, n))
    one_row, one_column = np.ones(j, dtype=np.float32), np.ones(0, dtype=np.float32)
    for rows, seen, residual, chance in residual_blocks(answers, items, ability):
        variance = chance - chance * chance
        if one_column.size != residual.shape[0]:
            one_column = np.ones(residual.shape[0], dtype=np.float32)
        square = residual * residual
        standard = square / variance
        likely = variance if seen is None else variance * seen
        for k, table in enumerate((square, likely, standard)):
            item[k] += one_column @ table
            subject[k, rows] = table @ one_row
        item[3] += residual.shape[0] if seen is None else one_column @ seen
        subject[3, rows] = j if seen is None else seen @ one_row
    # Where there are no answers, 0 / 0 is NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        by_item, by_subject = (Misfit(sums[0] / sums[1], sums[2] / sums[3]) for sums in (item, subject))
    return FitDiagnostics(by_item, by_subject, point_biserial(answers, expected))


class Block(NamedTuple):
    """Rows of the matrix, in single precision: mask, answers less expectation (0 where unseen), expected chances."""

    rows: slice
    seen: NDArray[np.float32] | None
    residual: NDArray[np.float32]
    chance: NDArray[np.float32]


def residual_blocks(answers: Answers, items: Parameters, ability: Floats) -> Iterator[Block]:
    """Walk over the residuals; items or subjects that have no finite parameters count as not seen."""
    if items.slope.size != answers.n_items:
        raise InputError(f"There are answers to {answers.n_items} items but parameters of {items.slope.size}.")
    if ability.shape != (answers.n_subjects,):
        raise InputError(f"There are {answers.n_subjects} subjects but {ability.size} abilities.")
    known, subjects = np.isfinite(np.array(items)).all(axis=0), np.isfinite(ability)
    single = Parameters(*(np.where(known, array, 0).astype(np.float32) for array in items))  # type: ignore[arg-type]
    theta = np.where(subjects, ability, 0).astype(np.float32)
    masked = answers.seen is not None or not known.all() or not subjects.all()
    step = max(1, BLOCK_CELLS // answers.n_items)
    for start in range(0, answers.n_subjects, step):
        rows = slice(start, min(start + step, answers.n_subjects))
        chance = np.clip(single.probability(theta[rows]), SURE, 1 - SURE)
        residual = answers.right[rows] - chance
        seen = None
        if masked:
            seen = np.ones_like(chance) if answers.seen is None else answers.seen[rows].astype(np.float32)
            seen *= known
            seen *= subjects[rows, None]
            residual *= seen
        yield Block(rows, seen, residual, chance)


def point_biserial(answers: Answers, expected: Floats | None = None) -> Floats:
    """Correlate each item with the score on the other items, over the subjects that answered it.

    The score is the share right of the other items that a subject answered (the raw score, where all answered all),
    less the share ``expected`` [J] of everybody on these items, where that is given: in a test that adapts, the able
    answer harder items and have no larger share right. Negative values point to a wrong label. NaN for items that all
    or none got right. It depends on the range of ability in the sample: use discrimination to compare items across
    samples.

    The rest score is s' = (S - r + e) / (c - 1), with S the sum of right answers less what was expected; its moments
    follow from sums over subjects of functions of S and the number of answers c, so that one matrix product suffices.
    """
    s, c = answers.subject_sums, answers.subject_counts
    w = answers.weights
    e = np.zeros(answers.n_items)
    if expected is not None and answers.seen is not None:
        e = np.where(np.isfinite(expected), expected, 0.0)
        s = s - answers.sums(e[:, None], seen=True)[:, 0]
    inverse = np.where(c > 1, 1 / np.maximum(c - 1, 1), 0.0)
    usable = w * (c > 1)
    share = s * inverse
    # Subtracting the mean keeps the sums of squares from cancelling.
    centre = float(np.average(share, weights=usable)) if usable.sum() > 0 else 0.0
    share = share - centre
    if answers.fractional:
        correlation = _point_biserial_of_shares(answers, share, inverse, usable, e)
    else:
        columns = np.column_stack([usable, usable * share, usable * share**2, usable * inverse, usable * inverse**2])
        more = np.column_stack([columns, usable * share * inverse])
        every = more[:, :3] if not e.any() else more
        count, first, second, *rest = answers.sums(every, axis=0, seen=True).T
        r_count, r_first, _, r_inverse, r_inverse2, r_cross = answers.sums(more, axis=0).T
        if e.any():
            # What a wrong answer leaves as the rest score: the expectation of its own item is not part of it.
            inverses, inverses2, cross = rest
            first = first + e * inverses
            second = second + 2 * e * cross + e**2 * inverses2
            r_first = r_first + e * r_inverse
            r_cross = r_cross + e * r_inverse2
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_r = r_count / count
            mean_rest = (first - r_inverse) / count
            variance_rest = (second - 2 * r_cross + r_inverse2) / count - mean_rest**2
            covariance = (r_first - r_inverse) / count - mean_r * mean_rest
            correlation = covariance / np.sqrt(mean_r * (1 - mean_r) * np.maximum(variance_rest, 0))
    return np.where(np.isfinite(correlation), np.clip(correlation, -1, 1), np.nan)


def _point_biserial_of_shares(
    answers: Answers, share: Floats, inverse: Floats, usable: Floats, expected: Floats
) -> Floats:
    """Do the same for shares, whose squares are not themselves."""
    sums = np.zeros((6, answers.n_items))
    masks = iter(()) if answers.seen is None else answers.blocks(answers.seen)
    for rows, right in answers.blocks(answers.right):
        mask = next(masks, (rows, np.ones_like(right)))[1]
        rest = (share[rows, None] - (right - expected) * inverse[rows, None]) * mask
        w = usable[rows]
        tables = (mask, right, rest, right**2, rest**2, right * rest)
        sums += np.array([w @ table for table in tables])
    count, r, s, rr, ss, rs = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = rs / count - r * s / count**2
        spread = (rr / count - (r / count) ** 2) * (ss / count - (s / count) ** 2)
        correlation: Floats = covariance / np.sqrt(np.maximum(spread, 0))
    return correlation


class Dimension(NamedTuple):
    """Share of residual variance in the first residual component, and the share pure noise would show there.

    ``ratio`` is their quotient; ``loadings`` [J] say which items make up the component, for naming what it is.
    """

    share: float
    expected: float
    ratio: float
    loadings: Floats


@one_blas_thread
def residual_dimension(answers: Answers, items: Parameters, ability: Floats, seed: int = 0) -> Dimension:
    """Do the answers hold a second dimension that one ability misses?

    Residuals are standardised, z = (right - P) / sqrt(P (1 - P)), and their largest squared singular value is compared
    with their total (the principal component analysis of residuals of Linacre 1998, as a share). Independent noise of
    the same shape has a largest squared singular value of about (sqrt N + sqrt J)^2 (Marchenko and Pastur 1967), so a
    share of 1/N + 1/J + 2/sqrt(NJ). A ratio above about 1.5 says that some items hang together for another reason than
    ability: content, format, or subjects that are copies of each other. Look at duplicates before adding dimensions.

    Computed by subspace iteration from a random start: the share is a lower bound, tight where there is a dimension to
    find. Values beyond 5 standard deviations are cut, so that a handful of wild answers are not a dimension.
    """
    rng = np.random.default_rng(seed)
    width = min(DIRECTIONS, answers.n_items, answers.n_subjects)
    basis = np.linalg.qr(rng.normal(size=(answers.n_items, width)))[0]
    total, shape = 0.0, (0.0, 0.0)
    values, vectors = np.zeros(width), np.eye(width)
    for _ in range(ROUNDS):
        image = np.zeros((answers.n_items, width))
        gram = np.zeros((width, width))
        total, counts, subjects = 0.0, np.zeros(answers.n_items), 0
        table = basis.astype(np.float32)
        for _rows, seen, residual, chance in residual_blocks(answers, items, ability):
            z = residual / np.sqrt(chance - chance * chance)
            np.clip(z, -5, 5, out=z)
            part = z @ table
            image += z.T @ part
            gram += part.T @ part
            total += float(np.vdot(z, z))
            counts += residual.shape[0] if seen is None else seen.sum(axis=0)
            subjects += residual.shape[0] if seen is None else int((seen.sum(axis=1) > 0).sum())
        shape = (float(subjects), float((counts > 0).sum()))
        values, vectors = np.linalg.eigh(gram)
        loadings = basis @ vectors[:, -1]
        basis = np.linalg.qr(image)[0]
    n, j = shape
    if total == 0 or n == 0 or j == 0:
        return Dimension(float("nan"), float("nan"), float("nan"), np.full(answers.n_items, np.nan))
    share = float(values[-1]) / total
    expected = min(1.0, 1 / n + 1 / j + 2 / float(np.sqrt(n * j)))
    return Dimension(share, expected, share / expected, loadings)


class Patterns(NamedTuple):
    """Copies among subjects.

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


def distinct_patterns(answers: Answers, items: Parameters, ability: Floats, threshold: float = 0.8) -> Patterns:
    """Count distinct answer patterns and find pairs of subjects more alike than their abilities explain.

    Leaderboards are full of copies and merges of one model. Two independent subjects agree on an item with chance
    P P' + Q Q'. With A the share of common items on which they agree and E its expectation, the excess is
    k = (A - E) / (1 - E), Cohen's (1960) kappa with chance agreement taken from the model: 0 for independent subjects,
    1 for copies. A pair is reported where k is above ``threshold``, at least 20 items are common, and A is five
    standard deviations above E. Groups are the connected components of the pairs: two subjects in one group may differ
    more than the threshold if others lie between them.

    Errors and fit statistics take subjects as independent; pass ``weights`` to :meth:`Answers.with_weights` to count
    every group once. Only for answers that are right or wrong.
    """
    if answers.fractional:
        raise InputError(
            f"Near-copies can only be found among answers that are right or wrong, not shares. {ROUND_SHARES}"
        )
    n = answers.n_subjects
    # Answers as -1, 0 (missing) and 1, their expectation, and the mask.
    sign = 2 * answers.right.astype(np.float32) - 1
    expected, seen = np.empty_like(sign), None
    for block in residual_blocks(answers, items, ability):
        expected[block.rows] = 2 * block.chance - 1
        if block.seen is not None:
            seen = np.empty_like(sign) if seen is None else seen
            seen[block.rows] = block.seen
    if seen is not None:
        sign *= seen
        expected *= seen
    # Distinct rows, eight answers in a byte.
    bits = [np.packbits(cells.astype(np.bool_), axis=1) for cells in (answers.right, answers.seen) if cells is not None]
    packed = np.concatenate(bits, axis=1)
    distinct = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).ravel()).size
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
        copied = (alike - likely > threshold * (1 - likely)) & (common >= LEAST_COMMON)
        copied &= (alike - likely) ** 2 * common > 25 * (1 - likely**2)
        copied &= np.arange(start, n)[None, :] > np.arange(start, min(start + BLOCK_SUBJECTS, n))[:, None]
        i, j = np.nonzero(copied)
        first.append(i + start)
        second.append(j + start)
        agreement.append((1 + alike[i, j].astype(np.float64)) / 2)
        excess.append(((alike[i, j] - likely[i, j]) / np.maximum(1 - likely[i, j], 1e-12)).astype(np.float64))
    a, b = np.concatenate(first), np.concatenate(second)
    graph = coo_array((np.ones(a.size), (a, b)), shape=(n, n))
    cluster = connected_components(graph, directed=False)[1].astype(np.int64)
    sizes = np.bincount(cluster)
    return Patterns(
        int(distinct),
        np.column_stack([a, b]).astype(np.int64),
        np.concatenate(agreement),
        np.concatenate(excess),
        cluster,
        1.0 / sizes[cluster],
    )
