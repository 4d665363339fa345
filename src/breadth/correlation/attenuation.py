"""Correct partial correlations for the sampling noise of finite test sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Bools, Floats
from breadth.correlation.smooth import Adjust, Basis, Fit, raw_columns
from breadth.inference import LEVEL

#: Below this share of signal in the residuals, a correlation of the signal cannot be estimated.
LEAST_RELIABILITY = 0.2


class Noise(NamedTuple):
    """Sampling noise: variance per row of every test set's residual [F, m], and of the controls [F, q]."""

    testsets: Floats
    controls: Floats


class Corrected(NamedTuple):
    """Corrected correlations and their intervals [F, m, m] (NaN where not estimated); reliabilities [F, m]."""

    r: Floats
    low: Floats
    high: Floats
    reliability: Floats
    control_reliability: Floats


def noise_from_counts(scores: Floats, controls: Floats, rows: Bools, counts: Floats, scale: Floats) -> Noise:
    """Binomial noise of accuracies: p (1 - p) / N, averaged over the rows.

    ``counts`` and ``scale`` [m + q] hold the number of items of every column (test sets first; NaN if unknown)
    and the perfect score (1, or 100 for percentages). Assumes noise that is independent from row to row; where the
    same items are used at every checkpoint it is an upper bound.
    """
    values = np.concatenate([scores, controls], axis=2)
    inside = rows[:, :, None]
    # Error rates have changed their sign; their noise is that of the accuracy.
    share = np.abs(np.where(inside, values, 0.0)) / scale
    variance = np.where(inside, np.clip(share * (1 - share), 0, None), 0.0).sum(axis=1) * scale**2
    per_row = variance / (np.maximum(rows.sum(axis=1), 1)[:, None] * counts)
    m = scores.shape[2]
    return Noise(per_row[:, :m], per_row[:, m:])


def noise_from_halves(halves: Floats, basis: Basis, fit: Fit, rows: Bools) -> Noise:
    """Noise from split halves: residuals of the halves' differences after the same smoother.

    Half the difference between two random halves of a test set has the noise of the whole and none of the
    signal. A constant difference (one half is easier) cancels as it does in the scores. NaN where a half is empty.
    """
    m = fit.edf.shape[1]
    inside = rows[:, :, None, None]
    values = np.where(inside, halves, 0.0)
    n = np.maximum(rows.sum(axis=1), 1).astype(np.float64)
    testsets, controls = values[:, :, :m], values[:, :, m:]
    loadings = np.einsum("fnk,fnms->fkms", basis.phi, testsets)
    left = testsets - np.einsum("fnk,fkms->fnms", basis.phi, fit.factors[..., None] * loadings)
    free = np.maximum(n[:, None] - (2 * fit.factors - fit.factors**2).sum(axis=1), 1.0)
    per_row = (left**2).sum(axis=1).mean(axis=2) / free
    centred = (controls - controls.sum(axis=1, keepdims=True) / n[:, None, None, None]) * inside
    control_noise = (centred**2).sum(axis=1).mean(axis=2) / np.maximum(n[:, None] - 1, 1)
    return Noise(per_row, control_noise)


def correct(
    noise: Noise,
    controls: Floats,
    rows: Bools,
    basis: Basis,
    fit: Fit,
    n_eff: Floats,
    spent: Floats,
    adjust: Adjust,
) -> Corrected:
    """Estimate the partial correlations that test sets of unlimited size would show.

    Noise in a test set swells its residual variance. Noise in the control leaves some of the control's effect in
    every residual, which makes residuals alike: with slopes f' of the two smooths and noise variance v of a
    control with variance V, it adds mean(f_a' f_b') v V / (V - v) to their covariance. Both are subtracted.
    For a straight line this is the classical correction (Spearman 1904; Fuller 1987, ch. 1): the partial
    correlation of the noise-free covariance matrix.

    The interval comes from the delta method on the residual covariance matrix with ``n_eff`` rows, taking the
    noise variances as known. NaN where less than a fifth of a residual's or the control's variance is signal, or where
    the estimate leaves [-1, 1].
    """
    n, q = np.maximum(rows.sum(axis=1), 1).astype(np.float64)[:, None, None], controls.shape[2]
    factors, inside = fit.factors, rows[:, :, None]
    added = factors.sum(axis=1)[:, :, None] + factors.sum(axis=1)[:, None, :]
    free = np.maximum(n - added + factors.transpose(0, 2, 1) @ factors, 1.0)
    signal = observed = fit.residuals.transpose(0, 2, 1) @ fit.residuals / free
    control_reliability = np.ones(len(rows))
    if adjust != "none" and q:
        # Subtract the covariance that noise in the controls puts between residuals.
        values = np.where(inside, controls, 0.0)
        centred = (values - values.sum(axis=1, keepdims=True) / n) * inside
        spread = centred.transpose(0, 2, 1) @ centred / np.maximum(n - 1, 1)
        each = np.diagonal(spread, axis1=1, axis2=2)
        share = 1 - noise.controls / np.where(each > 0, each, np.nan)
        control_reliability = np.where(np.isnan(share), -np.inf, share).min(axis=1)
        solvable = (control_reliability >= LEAST_RELIABILITY)[:, None, None]
        clean = np.where(solvable, spread - np.eye(q) * noise.controls[:, None, :], np.eye(q))
        excess = spread @ np.linalg.solve(clean + 1e-12 * each.mean() * np.eye(q), spread) - spread
        fitted = factors * fit.loadings
        slopes = [raw_columns(controls, rows, adjust, slope_of=j) @ basis.rotation @ fitted for j in range(q)]
        slope = np.stack(slopes, axis=3)
        signal = observed - np.einsum("fnai,fij,fnbj->fab", slope, excess, slope, optimize=True) / n
    total = np.diagonal(observed, axis1=1, axis2=2)
    own = np.diagonal(signal, axis1=1, axis2=2) - noise.testsets
    reliability = own / np.where(total > 0, total, np.nan)
    usable = (reliability >= LEAST_RELIABILITY) & (control_reliability >= LEAST_RELIABILITY)[:, None]
    own = np.where(usable, own, np.nan)
    y, w = own[:, :, None], own[:, None, :]
    r = signal / np.sqrt(y * w)
    r = np.where(np.abs(r) < 1, r, np.nan)
    s, t = total[:, :, None], total[:, None, :]
    variance = (
        (s * t + observed**2) / (y * w)
        + r**2 / 2 * ((s / y) ** 2 + (t / w) ** 2)
        + r**2 * observed**2 / (y * w)
        - 2 * r * observed / np.sqrt(y * w) * (s / y + t / w)
    ) / np.maximum(n_eff - 3 - spent, 1.0)
    quantile = special.stdtrit(np.maximum(n_eff - 2 - spent, 1.0), (1 + LEVEL) / 2)
    half = quantile * np.sqrt(np.maximum(variance, 0)) / (1 - r**2)
    z = to_z(r)
    return Corrected(r, np.tanh(z - half), np.tanh(z + half), reliability, control_reliability)
