"""A bootstrap for dependent rows: resample blocks of checkpoints and take the control out anew each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from breadth.stats.basis import Basis, diagonalise
from breadth.stats.intervals import to_z
from breadth.stats.panel import Bools, Floats, Ints, pair_indices
from breadth.stats.smooth import GRID, Fit, choose_factors

#: Resamples handled together; keeps their matrices in the processor's cache.
BATCH = 250


def block_errors(
    basis: Basis,
    series: Floats,
    fit: Fit,
    rows: Bools,
    inflation: Floats,
    *,
    resamples: int,
    seeds: list[np.random.SeedSequence],
    done: Callable[[], None] | None = None,
) -> Floats:
    """Return the standard error of Fisher's z for every pair [F, P], from a circular moving-block bootstrap.

    Blocks of consecutive rows (wrapping round at the end) are drawn with replacement until as many rows are
    drawn as there were (Künsch 1989; Politis and Romano 1992). All series of an entry share the blocks, so
    what they have in common is kept. In every resample the smoothness is chosen and the control taken out
    anew. Everything is computed from weighted cross products, so a resample costs a few small matrices and
    no pass over the data.

    The length of blocks follows the strongest dependence between two series of the entry. With few blocks in a
    run the bootstrap sees too little of a strong dependence; prefer the effective sample size then.
    """

    def errors(f: int) -> Floats:
        generator = np.random.default_rng(seeds[f])
        inside = rows[f]
        length = block_length(int(inside.sum()), float(inflation[f].max()))
        phi, roughness = _needed(basis, fit, f, inside)
        values = series[f][inside]
        z = [
            refitted_z(phi, roughness, values, block_counts(generator, len(values), length, size))
            for size in np.diff([*range(0, resamples, BATCH), resamples])
        ]
        if done is not None:
            done()
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


def _needed(basis: Basis, fit: Fit, f: int, inside: Bools) -> tuple[Floats, Floats]:
    """Keep the basis functions that matter even two steps of the grid below the least smooth series."""
    ease, step = basis.ease[f], (GRID[1] / GRID[0]) ** 2
    loosest = fit.factors[f].max(axis=1)
    keep = (ease > 0) & (loosest / (loosest + (1 - loosest) / step) > 0.01)
    phi = basis.phi[f][inside][:, keep]
    return phi, (1 - ease[keep]) / ease[keep]


def block_counts(generator: np.random.Generator, n: int, length: int, size: int) -> Floats:
    """How often each of n rows occurs in each of ``size`` resamples made of blocks."""
    blocks = -(-n // length)
    starts = generator.integers(0, n, (size, blocks, 1))
    drawn = ((starts + np.arange(length)) % n).reshape(size, -1)[:, :n]
    flat: Ints = (drawn + n * np.arange(size)[:, None]).reshape(-1)
    return np.bincount(flat, minlength=size * n).reshape(size, n).astype(np.float64)


def refitted_z(phi: Floats, roughness: Floats, series: Floats, counts: Floats) -> Floats:
    """Return the partial correlations (as z) [size, P] of resamples, given how often each row is in each.

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
    a, b = pair_indices(m)
    size = np.sqrt(np.maximum(np.diagonal(left, axis1=1, axis2=2), 1e-300))
    return to_z(left[:, a, b] / size[:, a] / size[:, b])
