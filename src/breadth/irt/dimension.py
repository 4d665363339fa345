"""Is one ability enough?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Floats
from breadth.irt.residuals import known, residual_blocks
from breadth.threads import one_blas_thread

#: Random directions that the power iteration carries along, and its rounds. Residual spectra are flat where one
#: dimension is enough, and there the precise direction does not matter; where it is not, the gap is wide.
DIRECTIONS = 8
ROUNDS = 4


class Dimension(NamedTuple):
    """Share of residual variance in the first residual component, and the share pure noise would show there.

    ``ratio`` is their quotient; ``loadings`` [J] say which items make up the component, for naming what it is.
    """

    share: float
    expected: float
    ratio: float
    loadings: Floats


@one_blas_thread
def residual_dimension(
    answers: Answers,
    difficulty: Floats,
    discrimination: Floats,
    ability: Floats,
    guessing: Floats | None = None,
    seed: int = 0,
) -> Dimension:
    """Do the answers hold a second dimension that one ability misses?

    Residuals are standardised, z = (right - P) / sqrt(P (1 - P)), and their largest squared singular value is compared
    with their total (the principal component analysis of residuals of Linacre 1998, as a share). Independent noise of
    the same shape has a largest squared singular value of about (sqrt N + sqrt J)^2 (Marchenko and Pastur 1967), so a
    share of 1/N + 1/J + 2/sqrt(NJ). A ratio above about 1.5 says that some items hang together for another reason than
    ability: content, format, or subjects that are copies of each other. Look at duplicates before adding dimensions.

    Found by subspace iteration from a random start: the share is a lower bound, tight where there is a dimension to
    find. Values beyond 5 standard deviations are cut, so that a handful of wild answers are not a dimension.
    """
    given = known(answers, difficulty, discrimination, ability, guessing)
    rng = np.random.default_rng(seed)
    width = min(DIRECTIONS, answers.n_items, answers.n_subjects)
    basis = np.linalg.qr(rng.normal(size=(answers.n_items, width)))[0]
    total, shape = 0.0, (0.0, 0.0)
    values, vectors = np.zeros(width), np.eye(width)
    for _ in range(ROUNDS):
        image = np.zeros((answers.n_items, width))
        gram = np.zeros((width, width))
        total, items, subjects = 0.0, np.zeros(answers.n_items), 0
        table = basis.astype(np.float32)
        for _rows, seen, residual, variance in residual_blocks(answers, given):
            z = residual / np.sqrt(variance)
            np.clip(z, -5, 5, out=z)
            part = z @ table
            image += z.T @ part
            gram += part.T @ part
            total += float(np.vdot(z, z))
            items += residual.shape[0] if seen is None else seen.sum(axis=0)
            subjects += residual.shape[0] if seen is None else int((seen.sum(axis=1) > 0).sum())
        shape = (float(subjects), float((items > 0).sum()))
        values, vectors = np.linalg.eigh(gram)
        loadings = basis @ vectors[:, -1]
        basis = np.linalg.qr(image)[0]
    n, j = shape
    if total == 0 or n == 0 or j == 0:
        return Dimension(float("nan"), float("nan"), float("nan"), np.full(answers.n_items, np.nan))
    share = float(values[-1]) / total
    expected = min(1.0, 1 / n + 1 / j + 2 / float(np.sqrt(n * j)))
    return Dimension(share, expected, share / expected, loadings)
