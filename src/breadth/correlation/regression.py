"""Arrays in, arrays out: effects of runs and pairs, regression over few units, permutation tests."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Bools, Floats, Ints
from breadth.inference import LEVEL

#: Relabellings to draw where there are more than so many.
MOST_EXACT, PERMUTATIONS = 5040, 4999

#: Effects beyond this are correlations of .9999 and have no meaning of their own.
LARGEST_Z = 5.0

#: Largest change of an effect in one step, so that a fit far from the data does not overshoot.
LARGEST_STEP = 1.5


class Effects(NamedTuple):
    """Effects of pairs [P] and runs [G] on Fisher's scale; NaN where there is nothing to tell them by.

    Run effects have mean 0, so that a pair's effect is its mean over runs. ``slopes`` [G, P] say by how much the
    observed value moves with an effect: 1 without noise, NaN where there is no value.
    """

    pairs: Floats
    runs: Floats
    slopes: Floats


class Contrasts(NamedTuple):
    """Contrasts [q] of coefficients with their errors, and the test that all coefficients are 0."""

    b: Floats
    estimate: Floats
    se: Floats
    df: Floats
    p: Floats
    p_any: float

    def interval(self) -> tuple[Floats, Floats]:
        """Ends of the intervals."""
        half = special.stdtrit(self.df, (1 + LEVEL) / 2) * self.se
        return self.estimate - half, self.estimate + half


def additive_effects(z: Floats, size: Floats) -> Effects:
    """Fit z [G, P] by atanh(size tanh(pair + run)), made linear in the run effect: least squares over what is known.

    ``size`` [G, P] is what noise leaves of a correlation (1: all of it); NaN takes a value out. With all sizes 1 and
    nothing missing, pair effects are column means, run effects row means less the mean of all. The fit is linear in
    the run effect: a run whose correlations happen to exceed what noise should leave would else have one without
    bounds. Where runs share no pair with the others, even through further runs, their effects cannot be compared: only
    the largest set of runs that hang together has effects.
    """
    known = ~np.isnan(z) & ~np.isnan(size)
    known &= _largest_component(known)
    runs, pairs = known.any(axis=1), known.any(axis=0)
    alpha, beta = np.zeros(z.shape[1]), np.zeros(len(z))
    values, share = np.where(known, z, 0.0), np.where(known, size, 1.0)
    slope = known.astype(np.float64)
    for _ in range(500):
        before = alpha + 0.0, beta + 0.0
        for axis, effect in ((0, alpha), (1, beta)):
            r = np.tanh(np.clip(alpha, -LARGEST_Z, LARGEST_Z))
            slope = np.where(known, share * (1 - r**2) / (1 - share**2 * r**2), 0.0)
            fitted = to_z(share * r) + slope * beta[:, None]
            left = np.where(known, values - fitted, 0.0)
            weight = (slope**2).sum(axis=axis)
            step = (slope * left).sum(axis=axis) / np.where(weight > 0, weight, 1.0)
            np.add(effect, np.clip(step, -LARGEST_STEP, LARGEST_STEP), out=effect)
        centre = beta[runs].mean() if runs.any() else 0.0
        beta[runs] -= centre
        alpha[pairs] = np.clip(alpha[pairs] + centre, -LARGEST_Z, LARGEST_Z)
        if max(np.abs(alpha - before[0]).max(initial=0), np.abs(beta - before[1]).max(initial=0)) < 1e-9:
            break
    return Effects(
        np.where(pairs, alpha, np.nan), np.where(runs, beta, np.nan), np.where(known, slope, np.nan)
    )  # fmt: skip


def _largest_component(known: Bools) -> Bools:
    """The cells [G, P] of the largest set of runs that are linked by pairs they share."""
    left, best = known.any(axis=1), np.zeros(len(known), dtype=bool)
    while left.sum() > best.sum():
        inside = np.zeros(len(known), dtype=bool)
        inside[np.flatnonzero(left)[0]] = True
        while True:
            grown = left & known[:, known[inside].any(axis=0)].any(axis=1)
            if (grown <= inside).all():
                break
            inside |= grown
        left &= ~inside
        if inside.sum() > best.sum():
            best = inside
    return np.asarray(best[:, None])


def variance_of_mean(pairs: Floats, testsets: int) -> float:
    """Variance of a run's mean z over pairs, times its effective rows, when the true correlations are those of pairs.

    Errors of correlations that share a test set are dependent. With standardised scores x, the error of z_ab is about
    (x_a x_b - r (x_a^2 + x_b^2) / 2) / (1 - r^2), so a weighted sum of them is a quadratic form x'Mx, whose variance is
    2 tr(MRMR). With independent test sets it is one over the number of pairs, with alike ones nearly 1.
    """
    a, b = np.triu_indices(testsets, 1)
    known = ~np.isnan(pairs)
    r = np.clip(np.tanh(np.where(known, pairs, 0.0)), -0.95, 0.95)
    matrix, form = np.eye(testsets), np.zeros((testsets, testsets))
    matrix[a, b] = matrix[b, a] = r
    values, vectors = np.linalg.eigh(matrix)
    matrix = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    weight = known / max(int(known.sum()), 1) / (1 - r**2)
    form[a, b] = form[b, a] = weight / 2
    np.add.at(form, (a, a), -weight * r / 2)
    np.add.at(form, (b, b), -weight * r / 2)
    product = form @ matrix
    return float(2 * np.trace(product @ product))


def solve_tau2(y: Floats, variance: Floats, design: Floats) -> float:
    """Variance between units at which the weighted squares of a regression equal their expectation (Paule, Mandel)."""
    free = len(y) - design.shape[1]
    if free < 1:
        return 0.0

    def excess(tau2: float) -> float:
        weight = 1 / (tau2 + variance)
        b = np.linalg.lstsq(design * np.sqrt(weight)[:, None], y * np.sqrt(weight), rcond=None)[0]
        return float((weight * (y - design @ b) ** 2).sum()) - float(free)

    low, high = 0.0, max(4 * float(np.var(y)), 1e-12)
    if excess(low) <= 0:
        return 0.0
    while excess(high) > 0 and high < 1e6:
        high *= 4
    for _ in range(60):
        middle = (low + high) / 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fit_over_units(y: Floats, variance: Floats, design: Floats, contrasts: Floats) -> Contrasts:
    """Random-effects meta-regression of y [K] on ``design`` [K, p] with the variance of Knapp and Hartung (2003).

    Weights are 1 / (tau2 + variance); the variance of the coefficients is that of weighted least squares with an
    estimated residual variance, and t has K - p degrees of freedom. With equal weights and normal effects this is
    exact, however few units there are. ``contrasts`` [q, p] are what to estimate; ``p_any`` tests that all are 0.
    """
    weight = 1 / (solve_tau2(y, variance, design) + variance)
    root = np.sqrt(weight)
    inverse = np.linalg.pinv((design * weight[:, None]).T @ design)
    b = inverse @ (design.T @ (weight * y))
    df = len(y) - design.shape[1]
    scale = float(((root * (y - design @ b)) ** 2).sum()) / df
    return _contrasts(b, scale * inverse, contrasts, np.full(len(contrasts), float(df)), float(df), exact=True)


def fit_within_units(y: Floats, columns: Floats, unit: Ints, contrasts: Floats) -> Contrasts:
    """Least squares of y [G] on ``columns`` [G, c] within units, robust to slopes and spreads that differ by unit.

    The variance is CR2 with an identity as the working model (Bell and McCaffrey 2002), degrees of freedom are
    Satterthwaite's for every contrast (Pustejovsky and Tipton 2018). Where all units have the same design this is the
    t-test over the units' own slopes. Units in which nothing varies say nothing.
    """
    centred, response = columns.astype(np.float64), y.astype(np.float64)
    for index in np.unique(unit):
        own = unit == index
        centred[own] -= centred[own].mean(axis=0)
        response[own] -= response[own].mean()
    inverse = np.linalg.pinv(centred.T @ centred)
    b = inverse @ (centred.T @ response)
    left = response - centred @ b
    keep = np.eye(len(y)) - centred @ inverse @ centred.T
    scores, influences = [], []
    for index in np.unique(unit):
        own = np.flatnonzero(unit == index)
        if not np.abs(centred[own]).max(initial=0) > 1e-12:
            continue
        projection = np.zeros((len(y), len(own)))
        projection[own] = 1 / len(own)
        maker = keep[:, own] - projection
        values, vectors = np.linalg.eigh(maker[own])
        inverse_root = np.where(values > 1e-8, 1 / np.sqrt(np.maximum(values, 1e-8)), 0.0)
        adjust = vectors @ (inverse_root[:, None] * vectors.T)
        scores.append(centred[own].T @ (adjust @ left[own]))
        influences.append(maker @ adjust @ centred[own] @ inverse)
    meat = sum(np.outer(score, score) for score in scores)
    covariance = inverse @ meat @ inverse
    df = []
    for contrast in contrasts:
        each = np.stack([influence @ contrast for influence in influences])
        gram = each @ each.T
        df.append(np.trace(gram) ** 2 / (gram**2).sum())
    least = float(min(df)) if df else 0.0
    return _contrasts(b, covariance, contrasts, np.array(df), least, exact=False)


def _contrasts(
    b: Floats, covariance: Floats, contrasts: Floats, df: Floats, df_any: float, *, exact: bool
) -> Contrasts:
    estimate = contrasts @ b
    variance = np.einsum("qp,pr,qr->q", contrasts, covariance, contrasts)
    se = np.sqrt(np.maximum(variance, 0.0))
    t = np.divide(np.abs(estimate), se, out=np.full(len(se), np.inf), where=se > 0)
    p = np.where((se > 0) | (np.abs(estimate) > 1e-12), 2 * special.stdtr(df, -t), 1.0)
    rank = np.linalg.matrix_rank(contrasts)
    middle = contrasts @ covariance @ contrasts.T
    form = float(estimate @ np.linalg.pinv(middle) @ estimate)
    if exact:
        p_any = float(special.fdtrc(rank, df_any, form / rank))
    else:
        # Hotelling's form: the covariance itself is an estimate from few units.
        rest = df_any - rank + 1
        p_any = float(special.fdtrc(rank, rest, form * rest / (df_any * rank))) if rest > 0.5 else float("nan")
    return Contrasts(b, estimate, se, df, p, p_any)


def orders(blocks: Ints, generator: np.random.Generator) -> tuple[Ints, bool]:
    """Ways [B, n] to shuffle rows within blocks: all of them (the given order included), or many random ones."""
    members = [np.flatnonzero(blocks == index) for index in np.unique(blocks)]
    number = math.prod(math.factorial(len(own)) for own in members if len(own) < 20)
    exact = all(len(own) < 20 for own in members) and number <= MOST_EXACT
    if exact:
        each = [list(itertools.permutations(own)) for own in members]
        ways = np.empty((number, len(blocks)), dtype=np.intp)
        for row, choice in enumerate(itertools.product(*each)):
            for own, order in zip(members, choice, strict=True):
                ways[row, own] = order
        return ways, True
    ways = np.tile(np.arange(len(blocks)), (PERMUTATIONS, 1))
    for own in members:
        ways[:, own] = generator.permuted(np.tile(own, (PERMUTATIONS, 1)), axis=1)
    return ways, False


def permutation_p(
    y: Floats, fixed: Floats, shuffled: Floats, contrasts: Floats, weight: Floats, blocks: Ints,
    generator: np.random.Generator,
) -> tuple[Floats, float]:  # fmt: skip
    """Share of shuffles of the rows of ``shuffled`` [n, c] with statistics at least as large, per contrast and in all.

    ``fixed`` [n, f] are columns that stay (an intercept; none where y and columns are centred). A contrast's statistic
    is the size of t, that of all contrasts is F, with weights that do not depend on the order.
    """
    ways, exact = orders(blocks, generator)
    ways = np.concatenate([np.arange(len(y))[None], ways])
    root = np.sqrt(weight)
    design = np.concatenate([np.broadcast_to(fixed, (len(ways), *fixed.shape)), shuffled[ways]], axis=2)
    design = design * root[None, :, None]
    response = root * y
    gram = design.transpose(0, 2, 1) @ design
    inverse = np.linalg.pinv(gram, hermitian=True)
    b = np.einsum("bpq,bnq,n->bp", inverse, design, response, optimize=True)
    left = response - np.einsum("bnp,bp->bn", design, b)
    scale = np.maximum((left**2).sum(axis=1), 1e-300)
    own = slice(fixed.shape[1], None)
    estimate = b[:, own] @ contrasts.T
    spread = np.einsum("qp,bpr,qr->bq", contrasts, inverse[:, own, own], contrasts)
    size = np.abs(estimate) / np.sqrt(np.maximum(spread * scale[:, None], 1e-300))
    middle = np.einsum("qp,bpr,sr->bqs", contrasts, inverse[:, own, own], contrasts)
    whole = np.einsum("bq,bqs,bs->b", estimate, np.linalg.pinv(middle, hermitian=True), estimate) / scale
    start = 1 if exact else 0
    share = (size[start:] >= size[0] * (1 - 1e-9)).mean(axis=0)
    share_any = float((whole[start:] >= whole[0] * (1 - 1e-9)).mean())
    return np.asarray(share), share_any


def sign_flip_p(
    y: Floats, columns: Floats, unit: Ints, contrasts: Floats, generator: np.random.Generator
) -> tuple[Floats, float]:
    """Share of the ways to turn the signs of units' own slopes that give a mean as large, per contrast and for all.

    ``y`` [G] and ``columns`` [G, c] are centred within units. Unlike shuffling within units, this leaves it open
    whether units differ in their slopes: with a mean slope of 0, each is as likely to be turned. With K units the
    smallest share is 2 / 2^K.
    """
    units = np.unique(unit)
    inverse = np.linalg.pinv(columns.T @ columns)
    own = np.stack([inverse @ columns[unit == index].T @ y[unit == index] for index in units]) @ contrasts.T
    own = own[np.abs(own).max(axis=1) > 0]
    if 2 ** len(own) <= MOST_EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(own))))
    else:
        drawn = generator.choice((1.0, -1.0), size=(PERMUTATIONS, len(own)))
        signs = np.concatenate([np.ones((1, len(own))), drawn])
    sums = signs @ own
    share = (np.abs(sums) >= np.abs(sums[0]) * (1 - 1e-9)).mean(axis=0)
    form = np.einsum("bq,qs,bs->b", sums, np.linalg.pinv(own.T @ own), sums)
    return np.asarray(share), float((form >= form[0] * (1 - 1e-9)).mean())
