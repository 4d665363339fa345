"""How uncertain a correlation is: Fisher's interval, the effective number of dependent rows, the block bootstrap."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
from scipy import fft, special

from breadth.correlation.panel import Bools, Floats, Ints
from breadth.correlation.smooth import GRID, Basis, SmoothFit, choose_factors, diagonalise
from breadth.inference import LEVEL

#: Fisher's interval, effective rows, block bootstrap; auto is ``ar`` with an order and ``iid`` without.
IntervalMethod = Literal["auto", "iid", "ar", "block"]

#: A correlation closer to 1 than this counts as 1 and has no interval.
SAME = 1e-12

#: Resamples handled together; keeps their matrices in the processor's cache.
BATCH = 250


class Interval(NamedTuple):
    """A 95 % interval and the two-sided p-value of a correlation of zero."""

    low: Floats
    high: Floats
    p: Floats


def to_z(r: Floats) -> Floats:
    """Fisher's transformation, finite at -1 and 1."""
    z: Floats = np.arctanh(np.clip(r, -1 + SAME, 1 - SAME))
    return z


def independent_interval(r: Floats, n: Floats, spent: Floats, rank: bool = False, df: Floats | None = None) -> Interval:
    """Fisher's interval and the t-test of a partial correlation of independent rows.

    z = atanh(r) is close to normal with variance 1 / (n - 3 - spent), where ``spent`` counts the degrees of
    freedom given to the control (1 for a straight line in one control). p is from t with n - 2 - spent
    degrees of freedom. For ranks the variance is larger by 1 + r^2 / 2 (Bonett and Wright 2000).
    Assumes independent rows: for checkpoints of one run it is far too narrow. With ``df`` (of an error that comes from
    clusters of rows) it is :func:`dependent_interval`.

    >>> import numpy as np
    >>> interval = independent_interval(np.array([0.5]), np.array([41.0]), np.array([1.0]))
    >>> bool(interval.low[0] < 0.5 < interval.high[0])
    True
    """
    if df is not None:
        return dependent_interval(r, n, spent, rank, df)
    widen = 1 + r**2 / 2 if rank else np.ones_like(r)
    half = special.ndtri((1 + LEVEL) / 2) * np.sqrt(widen / np.maximum(n - 3 - spent, 1.0))
    df = np.maximum(n - 2 - spent, 1.0)
    t = np.abs(r) * np.sqrt(df / np.maximum(1 - r**2, SAME))
    z = to_z(r)
    return Interval(np.tanh(z - half), np.tanh(z + half), 2 * special.stdtr(df, -t))


def dependent_interval(
    r: Floats, n_eff: Floats, spent: Floats, rank: bool = False, df: Floats | None = None
) -> Interval:
    """Interval and p-value of a partial correlation whose rows are worth only ``n_eff`` independent ones.

    As Fisher's, with n_eff for n, and quantiles of t with n_eff - 2 - spent degrees of freedom (or ``df``) because the
    number of effective rows is itself an estimate. The interval excludes 0 exactly when p < 0.05.
    """
    widen = 1 + r**2 / 2 if rank else np.ones_like(r)
    error = np.sqrt(widen / np.maximum(n_eff - 3 - spent, 1.0))
    df = np.maximum(n_eff - 2 - spent, 1.0) if df is None else df
    half = special.stdtrit(df, (1 + LEVEL) / 2) * error
    z = to_z(r)
    return Interval(np.tanh(z - half), np.tanh(z + half), 2 * special.stdtr(df, -np.abs(z) / error))


def z_variance(n_eff: Floats, spent: Floats) -> Floats:
    """Variance of z, for comparing groups.

    The error of :func:`dependent_interval` squared, times df / (df - 2), the variance of t, because n_eff is an
    estimate. Without that factor Cochran's test finds differences between alike groups of few effective rows in up to
    a third of cases. Half a degree of freedom less than in the interval keeps it below a tenth under heavy tails. At
    least three are assumed, where a variance of t exists.
    """
    df = np.maximum(n_eff - 2.5 - spent, 3.0)
    variance: Floats = df / (df - 2) / np.maximum(n_eff - 3 - spent, 1.0)
    return variance


def new_group_variance(n_eff: Floats, spent: Floats) -> Floats:
    """Variance of z, for how far groups really differ: what a new group may be like.

    What is taken for sampling error is not taken for a difference between groups, so here the variance must not be too
    large. That of intervals is: it was 0.7 to 0.9 times as large as claimed in simulations of 15 to 100 checkpoints,
    and intervals for a new group covered 86 to 89 % with it.
    """
    variance: Floats = 0.75 / np.maximum(n_eff - 1 - spent, 1.0)
    return variance


def lost_to_smooth(basis: Basis, factors: Floats) -> Floats:
    """How much lag-1 autocorrelation a penalised smooth takes out of the residuals of every series, in rows: [F, m].

    A smooth follows the slow part of the fluctuations as well as the curve, so residuals look less dependent than the
    fluctuations were. A function with lag-1 autocorrelation s, fitted with factor f, removes a share 2 f - f^2 of what
    lies along it, and so about (2 f - f^2) s of the sum of lagged products of independent rows of variance 1. Constant
    and straight line are not counted: :func:`inflation` makes up for them, see there.
    """
    slowness = np.einsum("fnk,fnk->fk", basis.phi[:, 1:], basis.phi[:, :-1]) * (basis.ease < 1)
    lost: Floats = np.einsum("fk,fkm->fm", slowness, (2 - factors) * factors)
    return lost


def before_smooth(first: Floats, lost: Floats | None, n: Floats) -> Floats:
    """Lag-1 autocorrelations ``first`` [F, m] of residuals, corrected for ``lost`` (None: nothing) in n rows [F, 1].

    Every slow function that is fitted to an autoregression lowers p by about (1 + p) / n (Marriott and Pope 1954).
    """
    corrected = first if lost is None else first + (1 + first) * lost / np.maximum(n, 1)
    return np.clip(corrected, -0.99, 0.99)


def inflation(residuals: Floats, rows: Bools, lost: Floats | None = None) -> Floats:
    """By how much dependence inflates the variance of a correlation, for every two series of an entry: [F, m, m].

    Question: two series of n rows each are autocorrelated; how many independent rows would tell as much about their
    correlation? The effective number of rows is n / inflation.

    It is Bartlett's (1935) sum 1 + 2 sum_k (1 - k/n) p_k q_k over the lags up to n / 4, with two estimates of the
    autocorrelations p_k and q_k, of which the more cautious is taken:

    - powers of the lag-1 autocorrelations, as in a first-order autoregression, steady in short series. What a smooth
      took out of them (``lost`` [F, m], from :func:`lost_to_smooth`) is added back;
    - the sample autocorrelations (Pyper and Peterman 1998), which also see dependence that outlasts its first lag, such
      as a slow drift under measurement noise.

    The bias of p by fitting a constant and a line is not corrected: Bartlett's sum is too large in short series by
    about as much. Negative dependence is not credited: the result is at least 1. Do not use it for periodic series, nor
    for fewer than about ten rows, where autocorrelation cannot be estimated.

    ``residuals`` [F, n, m] are zero outside ``rows`` [F, n]. Missing rows are skipped: a lag uses the pairs of rows
    that are both present.
    """
    # Autocorrelations [F, lags, m], zero beyond a quarter of an entry's own rows. The fast Fourier transform gives the
    # sums of products at all lags at once.
    length = residuals.shape[1]
    lags = max(length // 4, 1)
    size = fft.next_fast_len(length + lags, real=True)
    products, pairs = (
        fft.irfft(spectrum.real**2 + spectrum.imag**2, size, axis=1)[:, 1 : lags + 1]
        for spectrum in (fft.rfft(values, size, axis=1) for values in (residuals, rows[:, :, None].astype(np.float64)))
    )
    n = rows.sum(axis=1)[:, None, None]
    lag = np.arange(1, lags + 1)[None, :, None]
    power = np.einsum("fnm,fnm->fm", residuals, residuals)[:, None, :]
    counted = (lag <= np.maximum(n // 4, 1)) & (power > 0)
    usable = (np.rint(pairs) > 0) & counted
    scale = np.maximum(n - lag, 0) / np.where(usable, pairs, 1.0)
    sampled = np.where(usable, products * scale / np.where(power > 0, power, 1.0), 0.0)
    first = before_smooth(sampled[:, 0], lost, n[:, 0])
    powers = np.cumprod(np.broadcast_to(first[:, None, :], sampled.shape), axis=1) * counted
    weight = np.clip(1 - lag / np.maximum(n, 1), 0, None)
    sums = ((correlations * weight).transpose(0, 2, 1) @ correlations for correlations in (powers, sampled))
    result: Floats = 1 + 2 * np.maximum(np.maximum(*sums), 0)
    return result


def row_cost(phi: Floats, factors: Floats, worth: Floats) -> Floats:
    """Effective rows spent on the control, for every two series: [F, m, m].

    A fitted function that varies as quickly as noise from row to row costs one row in n, so ``worth`` (n_eff / n)
    of an effective row. One that varies as slowly as the dependence itself costs a whole effective row. The lag-1
    autocorrelation of a function measures how slow it is. The constant does not count: Fisher's variance includes it.
    """
    slowness = np.clip(np.einsum("fnk,fnk->fk", phi[:, 1:], phi[:, :-1]), 0, 1)
    spent = factors.sum(axis=1) - 1
    slow = np.clip(np.einsum("fk,fkm->fm", slowness, factors) - 1, 0, spent)
    spent, slow = ((side[:, :, None] + side[:, None, :]) / 2 for side in (spent, slow))
    cost: Floats = worth * spent + (1 - worth) * slow
    return cost


def block_errors(
    basis: Basis,
    series: Floats,
    fit: SmoothFit,
    rows: Bools,
    inflation: Floats,
    *,
    resamples: int,
    seeds: list[np.random.SeedSequence],
) -> Floats:
    """Return the standard error of Fisher's z for every pair [F, P], from a circular moving-block bootstrap.

    Blocks of consecutive rows (wrapping round at the end) are drawn with replacement until as many rows are
    drawn as there were (Künsch 1989; Politis and Romano 1992). All series of an entry share the blocks, which keeps
    what they have in common. Every resample chooses the smoothness and fits the control again. Everything is computed
    from weighted cross products, so a resample costs a few small matrices and no pass over the data.

    The length of blocks follows the strongest dependence between two series of the entry. With few blocks in a
    run the bootstrap sees too little of a strong dependence; prefer the effective sample size then.
    """

    def errors(f: int) -> Floats:
        generator = np.random.default_rng(seeds[f])
        inside = rows[f]
        length = block_length(int(inside.sum()), float(inflation[f].max()))
        # Keep the basis functions that matter even two steps of the grid below the least smooth series.
        ease, step = basis.ease[f], (GRID[1] / GRID[0]) ** 2
        loosest = fit.factors[f].max(axis=1)
        keep = (ease > 0) & (loosest / (loosest + (1 - loosest) / step) > 0.01)
        phi, roughness = basis.phi[f][inside][:, keep], (1 - ease[keep]) / ease[keep]
        values = series[f][inside]
        z = [
            refitted_z(phi, roughness, values, block_counts(generator, len(values), length, size))
            for size in np.diff([*range(0, resamples, BATCH), resamples])
        ]
        spread: Floats = np.concatenate(z).std(axis=0, ddof=1)
        # Blocks vary around the mean of the run they were cut from, which hides a share length / n of the variance.
        spread /= np.sqrt(1 - length / len(values))
        return spread

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.array(list(pool.map(errors, range(len(rows)))))


def block_length(n: int, inflation: float) -> int:
    """Length of blocks for n rows whose dependence inflates the variance of a correlation as given.

    The rule of Andrews (1991) and Carlstein (1986) for a first-order autoregression,
    (sqrt(6) p / (1 - p^2))^(2/3) n^(1/3), with p the autocorrelation of products that belongs to the
    inflation (1 + p) / (1 - p); at least 1, at most a quarter of the rows.
    """
    p = (inflation - 1) / (inflation + 1)
    ideal = (np.sqrt(6) * p / (1 - p**2)) ** (2 / 3) * n ** (1 / 3)
    return int(np.clip(np.ceil(ideal), 1, max(n // 4, 1)))


def block_counts(generator: np.random.Generator, n: int, length: int, size: int) -> Floats:
    """How often each of n rows occurs in each of ``size`` resamples made of blocks."""
    blocks = -(-n // length)
    starts = generator.integers(0, n, (size, blocks, 1))
    drawn = ((starts + np.arange(length)) % n).reshape(size, -1)[:, :n]
    flat: Ints = (drawn + n * np.arange(size)[:, None]).reshape(-1)
    return np.bincount(flat, minlength=size * n).reshape(size, n).astype(np.float64)


def refitted_z(phi: Floats, roughness: Floats, series: Floats, counts: Floats) -> Floats:
    """Return the partial correlations (as z) [size, P] of resamples, given how often each row occurs in each.

    ``phi`` [n, K] and ``roughness`` [K] are a basis of the control and the penalty of its functions, ``series``
    [n, m] centred scores.
    """
    n, k = phi.shape
    m = series.shape[1]
    scale = 1 / np.sqrt(1 + roughness)
    scaled = phi * scale
    products = np.concatenate(
        [
            (scaled[:, :, None] * scaled[:, None, :]).reshape(n, -1),
            (scaled[:, :, None] * series[:, None, :]).reshape(n, -1),
            (series[:, :, None] * series[:, None, :]).reshape(n, -1),
        ],
        axis=1,
    )
    sums = counts @ products
    gram, cross, total = (
        sums[:, : k * k].reshape(-1, k, k),
        sums[:, k * k : k * (k + m)].reshape(-1, k, m),
        sums[:, k * (k + m) :].reshape(-1, m, m),
    )
    rotation, ease = diagonalise(gram, np.diag(roughness * scale**2))
    loadings = rotation.transpose(0, 2, 1) @ cross
    # Repeated rows carry no new information on smoothness: the criterion counts the distinct ones.
    distinct = (counts > 0).sum(axis=1).astype(np.float64)
    factors = choose_factors(ease, loadings, np.diagonal(total, axis1=1, axis2=2), distinct)
    fitted = factors * loadings
    overlap = fitted.transpose(0, 2, 1) @ (loadings - fitted / 2)
    left = total - overlap - overlap.transpose(0, 2, 1)
    a, b = np.triu_indices(m, 1)
    size = np.sqrt(np.maximum(np.diagonal(left, axis1=1, axis2=2), 1e-300))
    return to_z(left[:, a, b] / size[:, a] / size[:, b])
