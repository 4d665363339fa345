"""Correct partial correlations for the sampling noise of finite test sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.correlation.intervals import to_z
from breadth.correlation.panel import Bools, Floats
from breadth.correlation.smooth import Adjust, Basis, SmoothFit, raw_columns
from breadth.inference import LEVEL

#: Below this share of signal in the residuals, a correlation of the signal cannot be estimated.
LEAST_RELIABILITY = 0.2

#: Share of a residual's variance that may come from noise in the control. Beyond it, the error of what is subtracted is
#: as large as what remains, and has the same sign in all pairs: a "Yes" in 4 of 20 studies of independent test sets.
MOST_LEAK = 0.5


class ScoreNoise(NamedTuple):
    """Sampling noise: variance per row of every test set's residual [F, m], and of the controls [F, q]."""

    testsets: Floats
    controls: Floats


class Corrected(NamedTuple):
    """Corrected correlations with intervals and p-values [F, m, m] (NaN where not estimated), and what they rest on.

    ``reliability`` [F, m] is the share of signal in a residual's variance, ``noise`` [F, m] the share that is the
    sampling noise of the test set itself, ``leak`` [F, m, m] the part of a plain partial correlation that comes from
    noise in the control, and ``control_reliability`` [F] the share of signal in the variance of the noisiest control.
    """

    r: Floats
    low: Floats
    high: Floats
    p: Floats
    reliability: Floats
    noise: Floats
    leak: Floats
    control_reliability: Floats


def noise_from_counts(scores: Floats, controls: Floats, rows: Bools, counts: Floats, scale: Floats) -> ScoreNoise:
    """Binomial noise of accuracies: p (1 - p) / N, averaged over the rows.

    ``counts`` and ``scale`` [m + q] hold the number of items of every column (test sets first; NaN if unknown)
    and the perfect score (1, or 100 for percentages). A column without a count, such as a loss, is taken to be free of
    noise. Assumes noise that is independent from row to row; where the same items are used at every checkpoint it is an
    upper bound.
    """
    values = np.concatenate([scores, controls], axis=2)
    inside = rows[:, :, None]
    # Error rates have changed their sign; their noise is that of the accuracy.
    share = np.abs(np.where(inside, values, 0.0)) / scale
    variance = np.where(inside, np.clip(share * (1 - share), 0, None), 0.0).sum(axis=1) * scale**2
    per_row = variance / (np.maximum(rows.sum(axis=1), 1)[:, None] * counts)
    m = scores.shape[2]
    per_row = np.nan_to_num(per_row)
    return ScoreNoise(per_row[:, :m], per_row[:, m:])


def noise_from_halves(halves: Floats, basis: Basis, fit: SmoothFit, rows: Bools) -> ScoreNoise:
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
    return ScoreNoise(per_row, control_noise)


def correct(
    noise: ScoreNoise,
    controls: Floats,
    rows: Bools,
    basis: Basis,
    fit: SmoothFit,
    n_eff: Floats,
    spent: Floats,
    adjust: Adjust,
    df: Floats | None = None,
    *,
    at_most: bool = False,
) -> Corrected:
    """Estimate the partial correlations that test sets of unlimited size would show.

    Noise in a test set swells its residual variance. Noise in the control leaves some of the control's effect in
    every residual, which makes residuals alike: with slopes f' of the two smooths and noise variance v of a
    control with variance V, it adds mean(f_a' f_b') v V / (V - v) to their covariance. Both are subtracted.
    For a straight line this is the classical correction (Spearman 1904; Fuller 1987, ch. 1): the partial
    correlation of the noise-free covariance matrix.

    Noise is subtracted as a share of the observed variance, and a variance that is estimated from few effective rows is
    too small as often as too large: 1 / variance is too large on average by df / (df - 2). Without that factor, means
    over many runs were too low by up to 0.04 where half of a residual is noise.

    The interval comes from the delta method on the residual covariance matrix with ``n_eff`` rows, taking the noise
    variances as known; ``df`` replaces the degrees of freedom that follow from ``n_eff``. NaN where less than a fifth
    of a residual's or the control's variance is signal, or where more than half comes from noise in the control. An
    estimate beyond 1 is given as 1; its interval is that of the observed correlation (less what noise in the control
    adds), divided like the estimate. ``at_most``: noise is only known to be at most so large, as where the same items
    are used in every row; then a fifth of the control counts as signal even if all of it may be noise.
    """
    n, q = np.maximum(rows.sum(axis=1), 1).astype(np.float64)[:, None, None], controls.shape[2]
    factors = fit.factors
    added = factors.sum(axis=1)[:, :, None] + factors.sum(axis=1)[:, None, :]
    free = np.maximum(n - added + factors.transpose(0, 2, 1) @ factors, 1.0)
    observed = fit.residuals.transpose(0, 2, 1) @ fit.residuals / free
    df = np.maximum(n_eff - 2 - spent, 1.0) if df is None else df
    fewer = 1 - 2 / np.maximum(df + 1, 4.0)
    leaked, control_reliability = np.zeros_like(observed), np.ones(len(rows))
    if adjust != "none" and q:
        leaked, control_reliability = _leak(noise.controls, controls, rows, basis, fit, adjust, at_most)
    signal = observed - fewer * leaked
    total = np.diagonal(observed, axis1=1, axis2=2)
    own_noise = noise.testsets * np.diagonal(fewer, axis1=1, axis2=2)
    own = np.diagonal(signal, axis1=1, axis2=2) - own_noise
    known_total = np.where(total > 0, total, np.nan)
    reliability = own / known_total
    own_leak = np.diagonal(fewer * leaked, axis1=1, axis2=2) / known_total
    clean = (own_leak <= MOST_LEAK) & (control_reliability >= LEAST_RELIABILITY - 1e-9)[:, None]
    usable = clean & (reliability >= LEAST_RELIABILITY)
    result = _divided_by_delta(signal, observed, np.where(usable, own, np.nan), n_eff, spent, df)
    size = np.sqrt(known_total)
    both = size[:, :, None] * size[:, None, :]
    if at_most:
        # The correlation less what noise in the control adds, at the size that was observed: between it and the
        # divided one lies the truth.
        z = to_z(np.clip(signal / both, -1, 1))
        error = 1 / np.sqrt(np.maximum(n_eff - 3 - spent, 1.0))
        half = special.stdtrit(df, (1 + LEVEL) / 2) * error
        p = 2 * special.stdtr(df, -np.abs(z) / error)
        # It is shown also where most of a residual may be noise.
        shown = (clean[:, :, None] & clean[:, None, :]) & ~(usable[:, :, None] & usable[:, None, :])
        least = np.clip(reliability, LEAST_RELIABILITY, 1)
        size = np.sqrt(least[:, :, None] * least[:, None, :])
        ends = divide_interval(np.tanh(z - half), np.tanh(z + half), size, shown)
        r, low, high, divided_p = result
        # The nearer end to 0 reaches to the observed one: dividing it made intervals from 1.00 to 1.00.
        low = np.where(low > 0, np.minimum(low, np.tanh(z - half)), low)
        high = np.where(high < 0, np.maximum(high, np.tanh(z + half)), high)
        result = (
            np.where(shown, np.tanh(z), r),
            np.where(shown, ends[0], low),
            np.where(shown, ends[1], high),
            np.where(shown, p, np.maximum(divided_p, p)),
        )
    return Corrected(*result, reliability, own_noise / known_total, fewer * leaked / both, control_reliability)


def _leak(
    noise: Floats, controls: Floats, rows: Bools, basis: Basis, fit: SmoothFit, adjust: Adjust, at_most: bool
) -> tuple[Floats, Floats]:
    """The covariance [F, m, m] that noise in the controls puts between residuals, and the least reliability [F]."""
    n, q = np.maximum(rows.sum(axis=1), 1).astype(np.float64)[:, None, None], controls.shape[2]
    inside = rows[:, :, None]
    values = np.where(inside, controls, 0.0)
    centred = (values - values.sum(axis=1, keepdims=True) / n) * inside
    spread = centred.transpose(0, 2, 1) @ centred / np.maximum(n - 1, 1)
    each = np.diagonal(spread, axis1=1, axis2=2)
    if at_most:
        noise = np.minimum(noise, (1 - LEAST_RELIABILITY) * each)
    share = 1 - noise / np.where(each > 0, each, np.nan)
    reliability = np.where(np.isnan(share), -np.inf, share).min(axis=1)
    solvable = (reliability >= LEAST_RELIABILITY - 1e-9)[:, None, None]
    clean = np.where(solvable, spread - np.eye(q) * noise[:, None, :], np.eye(q))
    excess = spread @ np.linalg.solve(clean + 1e-12 * each.mean() * np.eye(q), spread) - spread
    fitted = fit.factors * fit.loadings
    slopes = [raw_columns(controls, rows, adjust, slope_of=j) @ basis.rotation @ fitted for j in range(q)]
    slope = np.stack(slopes, axis=3)
    leaked: Floats = np.einsum("fnai,fij,fnbj->fab", slope, excess, slope, optimize=True) / n
    return leaked, reliability


def _divided_by_delta(
    signal: Floats, observed: Floats, own: Floats, n_eff: Floats, spent: Floats, df: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Correlations of signal with intervals and p-values [F, m, m], by the delta method on the covariance matrix.

    ``own`` [F, m] are the variances of signal, NaN where there is too little of it.
    """
    total = np.diagonal(observed, axis1=1, axis2=2)
    y, w = own[:, :, None], own[:, None, :]
    estimate = signal / np.sqrt(y * w)
    s, t = total[:, :, None], total[:, None, :]
    rows_left = np.maximum(n_eff - 3 - spent, 1.0)
    beyond = np.abs(estimate) >= 1
    r = np.where(beyond, 0.0, estimate)
    variance = (
        (s * t + observed**2) / (y * w)
        + r**2 / 2 * ((s / y) ** 2 + (t / w) ** 2)
        + r**2 * observed**2 / (y * w)
        - 2 * r * observed / np.sqrt(y * w) * (s / y + t / w)
    ) / rows_left
    error = np.sqrt(np.maximum(variance, 1e-24)) / (1 - r**2)
    z, scale = to_z(r), np.ones_like(r)
    if beyond.any():
        shrunk = np.sqrt(y * w / np.where(s * t > 0, s * t, np.nan))
        z = np.where(beyond, to_z(np.clip(estimate * shrunk, -1, 1)), z)
        error = np.where(beyond, 1 / np.sqrt(rows_left), error)
        scale = np.where(beyond, shrunk, scale)
    half = special.stdtrit(df, (1 + LEVEL) / 2) * error
    return (
        np.clip(estimate, -1, 1),
        np.clip(np.tanh(z - half) / scale, -1, 1),
        np.clip(np.tanh(z + half) / scale, -1, 1),
        2 * special.stdtr(df, -np.abs(z) / error),
    )


def divide_interval(low: Floats, high: Floats, size: Floats, at_most: Bools) -> tuple[Floats, Floats]:
    """Ends of an interval divided by ``size`` (at most 1), within -1 and 1.

    Where noise is only known to be ``at_most`` so large, the end that is nearer to 0 stays, if 0 is not between them.
    """
    low_size = np.where(at_most & (low > 0), 1.0, size)
    high_size = np.where(at_most & (high < 0), 1.0, size)
    return np.clip(low / low_size, -1, 1), np.clip(high / high_size, -1, 1)


def keep_sign(
    plain: Floats, corrected: Floats, low: Floats, high: Floats, p: Floats, at_most: Bools
) -> tuple[Floats, Floats, Floats]:
    """Interval and p-value of a corrected correlation, where noise may be smaller than was subtracted (``at_most``).

    Noise in the control makes test sets look alike; subtracting too much of it makes them look opposed. So a corrected
    correlation below 0 where the plain one is above 0 may be the correction's own doing: its interval then reaches up
    to the plain correlation, and it is no finding.
    """
    doubtful = at_most & (corrected < 0) & (plain > 0)
    return low, np.where(doubtful, np.maximum(high, plain), high), np.where(doubtful, 1.0, p)
