"""Do items and subjects behave as the model says? Mean squares and item-rest correlations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.irt.answers import Answers, Floats
from breadth.irt.residuals import known, residual_blocks
from breadth.threads import one_blas_thread


class Misfit(NamedTuple):
    """Mean squares of items or subjects: 1 is as expected, above 1 noisier, below 1 more orderly. NaN if unknown."""

    infit: Floats
    outfit: Floats


class Fit(NamedTuple):
    """Misfit of items and of subjects, and the items' correlation with the rest of the test."""

    items: Misfit
    subjects: Misfit
    point_biserial: Floats


@one_blas_thread
def fit_statistics(
    answers: Answers,
    difficulty: Floats,
    discrimination: Floats,
    ability: Floats,
    guessing: Floats | None = None,
) -> Fit:
    """Infit and outfit of items and subjects in one pass over the answers, and item-rest correlations.

    With residual e = right - P and variance V = P (1 - P): outfit is the mean of e^2 / V, which a few surprises far
    from an item's difficulty dominate; infit is sum e^2 / sum V, which weighs answers by how much they tell (Wright
    and Masters 1982). Values between 0.7 and 1.3 are usual for items. Abilities are taken as known, so mean squares are
    a little below 1 on short tests; there is no p-value here, since with thousands of subjects every item misfits.
    """
    given = known(answers, difficulty, discrimination, ability, guessing)
    n, j = answers.right.shape
    item, subject = np.zeros((4, j)), np.zeros((4, n))
    one_row, one_column = np.ones(j, dtype=np.float32), np.ones(0, dtype=np.float32)
    for rows, seen, residual, variance in residual_blocks(answers, given):
        if one_column.size != residual.shape[0]:
            one_column = np.ones(residual.shape[0], dtype=np.float32)
        square = residual * residual
        standard = square / variance
        expected = variance if seen is None else variance * seen
        for k, table in enumerate((square, expected, standard)):
            item[k] += one_column @ table
            subject[k, rows] = table @ one_row
        item[3] += residual.shape[0] if seen is None else one_column @ seen
        subject[3, rows] = j if seen is None else seen @ one_row
    return Fit(_mean_squares(item), _mean_squares(subject), point_biserial(answers))


def item_fit(
    answers: Answers, difficulty: Floats, discrimination: Floats, ability: Floats, guessing: Floats | None = None
) -> Misfit:
    """Infit and outfit of items: see :func:`fit_statistics`."""
    return fit_statistics(answers, difficulty, discrimination, ability, guessing).items


def subject_fit(
    answers: Answers, difficulty: Floats, discrimination: Floats, ability: Floats, guessing: Floats | None = None
) -> Misfit:
    """Infit and outfit of subjects: see :func:`fit_statistics`."""
    return fit_statistics(answers, difficulty, discrimination, ability, guessing).subjects


def point_biserial(answers: Answers) -> Floats:
    """Correlate each item with the score on the other items, over the subjects that answered it.

    The score is the share right of the other items that a subject answered (the raw score, where all answered all).
    Negative values betray a wrong key. NaN for items that all or none got right. It depends on the range of ability in
    the sample: use discrimination to compare items across samples.

    The rest score is s' = (S - r) / (c - 1); its moments follow from sums over subjects of functions of the total S and
    the number of answers c, so that one matrix product suffices.
    """
    s, c = answers.subject_sums, answers.subject_counts
    w = answers.weights
    inverse = np.where(c > 1, 1 / np.maximum(c - 1, 1), 0.0)
    usable = w * (c > 1)
    share = s * inverse
    # Subtracting the mean keeps the sums of squares from cancelling.
    centre = float(np.average(share, weights=usable)) if usable.sum() > 0 else 0.0
    share = share - centre
    columns = np.column_stack([usable, usable * share, usable * share**2, usable * inverse, usable * inverse**2])
    more = np.column_stack([columns, usable * share * inverse])
    seen, right = answers.seen_totals(columns[:, :3]), answers.right_totals(more)
    if answers.fractional:
        return _by_blocks(answers, share, inverse, usable)
    count, first, second = seen.T
    r_count, r_first, _, r_inverse, r_inverse2, r_cross = right.T
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_r = r_count / count
        mean_rest = (first - r_inverse) / count
        variance_rest = (second - 2 * r_cross + r_inverse2) / count - mean_rest**2
        covariance = (r_first - r_inverse) / count - mean_r * mean_rest
        correlation = covariance / np.sqrt(mean_r * (1 - mean_r) * np.maximum(variance_rest, 0))
    return _clipped(correlation)


def _by_blocks(answers: Answers, share: Floats, inverse: Floats, usable: Floats) -> Floats:
    """Do the same for shares, whose squares are not themselves."""
    sums = np.zeros((6, answers.n_items))
    for rows, right, seen in answers.blocks():
        mask = np.ones_like(right) if seen is None else seen
        rest = (share[rows, None] - right * inverse[rows, None]) * mask
        w = usable[rows]
        tables = (mask, right, rest, right**2, rest**2, right * rest)
        sums += np.array([w @ table for table in tables])
    count, r, s, rr, ss, rs = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = rs / count - r * s / count**2
        spread = (rr / count - (r / count) ** 2) * (ss / count - (s / count) ** 2)
        correlation = covariance / np.sqrt(np.maximum(spread, 0))
    return _clipped(correlation)


def _mean_squares(sums: Floats) -> Misfit:
    with np.errstate(invalid="ignore", divide="ignore"):
        infit, outfit = sums[0] / sums[1], sums[2] / sums[3]
    nothing = sums[3] == 0
    infit[nothing] = outfit[nothing] = np.nan
    return Misfit(infit, outfit)


def _clipped(correlation: Floats) -> Floats:
    return np.where(np.isfinite(correlation), np.clip(correlation, -1, 1), np.nan)
