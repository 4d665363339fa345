"""Take the control out of every series at once: choose each series' smoothness, return what is left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.stats.basis import Basis
from breadth.stats.panel import Bools, Floats

#: Smoothing parameters to choose from: from wiggly to a straight line, a factor of four apart.
GRID = 10.0 ** np.linspace(-3, 6, 16)

#: Price of a degree of freedom in the criterion. 1 is plain generalised cross-validation, which overfits
#: short series too often; Kim and Gu (2004) found 1.4 to cure that at no loss elsewhere.
GAMMA = 1.4


class Fit(NamedTuple):
    """Residuals [F, n, m], the factor [F, K, m] of every basis function, its loading [F, K, m], and edf [F, m]."""

    residuals: Floats
    factors: Floats
    loadings: Floats
    edf: Floats


def remove_control(basis: Basis, series: Floats, rows: Bools) -> Fit:
    """Fit every series [F, n, m] on the basis and return what is left, zero outside an entry's rows.

    Parameters
    ----------
    basis
        Orthonormal functions of the control, from :func:`breadth.stats.basis.make_basis`.
    series
        Centred series, zero outside ``rows``.
    """
    loadings = basis.phi.transpose(0, 2, 1) @ series
    total = np.einsum("fnm,fnm->fm", series, series)
    factors = choose_factors(basis.ease, loadings, total, rows.sum(axis=1).astype(np.float64))
    residuals = (series - basis.phi @ (factors * loadings)) * rows[:, :, None]
    return Fit(residuals, factors, loadings, factors.sum(axis=1))


def choose_factors(ease: Floats, loadings: Floats, total: Floats, n: Floats) -> Floats:
    """Choose the smoothing parameter of every series by generalised cross-validation; return factors [F, K, m].

    The criterion is RSS / (n - gamma edf)^2 (Craven and Wahba 1979, with the gamma of Kim and Gu 2004),
    evaluated for all series and all parameters of the grid in closed form. At most half of the rows may
    be spent on the smooth.

    Parameters
    ----------
    ease, loadings
        [F, K] and [F, K, m]: the basis, and the projection of the series on it.
    total
        [F, m]: sum of squares of every series.
    n
        [F]: number of distinct rows.
    """
    if not ((ease > 0) & (ease < 1)).any():  # nothing is penalised: constant and line
        return np.broadcast_to(ease[:, :, None], loadings.shape)
    factor = ease[:, None, :] / (ease[:, None, :] + GRID[None, :, None] * (1 - ease[:, None, :]) + 1e-300)
    edf = factor.sum(axis=2)
    left = total[:, None, :] - (2 * factor - factor**2) @ loadings**2
    spare = n[:, None] - GAMMA * edf
    allowed = (edf <= n[:, None] / 2) | (edf <= edf[:, -1:])
    score = np.where(
        allowed[:, :, None],
        np.maximum(left, 0) / np.where(allowed, np.maximum(spare, 1e-3), 1)[:, :, None] ** 2,
        np.inf,
    )
    best = score.argmin(axis=1)
    return np.take_along_axis(factor, best[:, :, None], axis=1).transpose(0, 2, 1)
