"""How many independent rows a series of dependent ones is worth."""

from __future__ import annotations

import numpy as np
from scipy import fft

from breadth.stats.panel import Bools, Floats


def autocorrelation(residuals: Floats, rows: Bools) -> Floats:
    """Return the autocorrelations [F, L, m] of residuals [F, n, m] at lags 1 to L = n // 4 of the longest entry.

    Missing rows are stepped over: a lag uses the pairs of rows that are both there. Lags beyond a quarter
    of an entry's own rows are set to zero.
    """
    length = residuals.shape[1]
    lags = max(length // 4, 1)
    size = fft.next_fast_len(length + lags, real=True)
    products = _lagged(residuals, size, lags)
    pairs = _lagged(rows[:, :, None].astype(np.float64), size, lags)
    n = rows.sum(axis=1)[:, None, None]
    lag = np.arange(1, lags + 1)[None, :, None]
    power = np.einsum("fnm,fnm->fm", residuals, residuals)[:, None, :]
    usable = (np.rint(pairs) > 0) & (lag <= np.maximum(n // 4, 1)) & (power > 0)
    scale = np.maximum(n - lag, 0) / np.where(usable, pairs, 1.0)
    return np.where(usable, products * scale / np.where(power > 0, power, 1.0), 0.0)


def inflation(correlations: Floats, n: Floats) -> Floats:
    """By how much dependence inflates the variance of a correlation, for every two series: [F, m, m].

    Question: two series of n rows each are autocorrelated; how much less than n independent rows do they
    tell about their correlation? The effective number of rows is n / inflation.

    Two estimates are made and the more cautious is taken:

    - a first-order autoregression, (1 + p q) / (1 - p q) with lag-1 autocorrelations p and q
      (Bartlett 1935; Bretherton et al. 1999), steady in short series;
    - Bartlett's sum 1 + 2 sum_k (1 - k/n) p_k q_k over the lags up to n / 4 (Pyper and Peterman 1998),
      which also sees dependence that outlasts its first lag, such as a slow drift under measurement noise.

    Negative dependence is not credited: the result is at least 1. Do not use it for series with a period,
    nor for fewer than about ten rows, where autocorrelation cannot be estimated.
    """
    first = correlations[:, 0, :]
    product = np.clip(first[:, :, None] * first[:, None, :], -0.99, 0.99)
    autoregressive = (1 + product) / (1 - product)
    lag = np.arange(1, correlations.shape[1] + 1)
    weight = np.clip(1 - lag[None, :] / np.maximum(n, 1)[:, None], 0, None)
    summed = 1 + 2 * (correlations * weight[:, :, None]).transpose(0, 2, 1) @ correlations
    result: Floats = np.maximum(np.maximum(autoregressive, summed), 1.0)
    return result


def row_cost(phi: Floats, factors: Floats, worth: Floats) -> Floats:
    """Effective rows that taking the control out has cost, for every two series: [F, m, m].

    A fitted function that is as quick as noise from row to row takes away one row in n, so ``worth`` (n_eff / n)
    of an effective row. One that is as slow as the dependence itself takes a whole effective row. How slow a function
    is, is its lag-1 autocorrelation. The constant is not counted: Fisher's variance has it already.
    """
    slowness = np.clip(np.einsum("fnk,fnk->fk", phi[:, 1:], phi[:, :-1]), 0, 1)
    spent = factors.sum(axis=1) - 1
    slow = np.clip(np.einsum("fk,fkm->fm", slowness, factors) - 1, 0, spent)
    spent, slow = ((side[:, :, None] + side[:, None, :]) / 2 for side in (spent, slow))
    cost: Floats = worth * spent + (1 - worth) * slow
    return cost


def _lagged(values: Floats, size: int, lags: int) -> Floats:
    """Sums of products of values that lie 1 to ``lags`` rows apart, by the fast Fourier transform."""
    spectrum = fft.rfft(values, size, axis=1)
    products: Floats = fft.irfft(spectrum.real**2 + spectrum.imag**2, size, axis=1)
    return products[:, 1 : lags + 1]
