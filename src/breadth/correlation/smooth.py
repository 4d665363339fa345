"""Control for the in-domain score: a constant, a straight line or a penalised smooth, fitted to every series at once.

Each is an orthonormal basis in which a penalised fit is a division, so that all series of all groups choose their
smoothness together. Python's GAM libraries fit one series at a time, thousands of times slower.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from breadth.correlation.panel import Bools, Floats

Adjust = Literal["gam", "linear", "none"]

#: Cubic B-splines per control, on equally spaced knots over the control's range.
SPLINES = 20

#: Keeps a basis that the data leave undetermined from dividing by zero; far below any reported digit.
RIDGE = 1e-12

#: Smoothing parameters to choose from: from wiggly to a straight line, a factor of four apart.
GRID = 10.0 ** np.linspace(-3, 6, 16)

#: Price of a degree of freedom in the criterion. 1 is plain generalised cross-validation, which overfits
#: short series too often; Kim and Gu (2004) found 1.4 to cure that at no loss elsewhere.
GAMMA = 1.4


class Basis(NamedTuple):
    """K orthonormal functions of the control on the rows of F entries.

    ``phi`` [F, n, K] holds their values (zero outside an entry's rows), ``ease`` [F, K] how free each is
    of the penalty: 1 is unpenalised (constant and line), near 0 is rough. With smoothing parameter
    ``lam`` function j is fitted with the factor ease / (ease + lam (1 - ease)). ``rotation`` [F, k, K]
    turns the raw columns (splines, or constant and controls) into ``phi``.
    """

    phi: Floats
    ease: Floats
    rotation: Floats


def make_basis(controls: Floats, rows: Bools, adjust: Adjust) -> Basis:
    """Build the basis for ``controls`` [F, n, q] on ``rows`` [F, n]."""
    raw = raw_columns(controls, rows, adjust)
    if adjust == "gam":
        # The penalty is the sum of squared second differences of neighbouring coefficients. Every smooth after the
        # first has one spline fewer: a constant added to all its coefficients would change nothing.
        first = np.diff(np.eye(SPLINES), 2, axis=0)
        penalty = block_diag(*(part.T @ part for part in (first, *[first[:, 1:]] * (controls.shape[2] - 1))))
        rotation, ease = diagonalise(raw.transpose(0, 2, 1) @ raw, penalty)
        return Basis(raw @ rotation, ease, rotation)
    # Householder QR keeps all digits, which squaring the columns would not. It needs as many rows as columns.
    q, r = np.linalg.qr(np.pad(raw, ((0, 0), (0, raw.shape[2]), (0, 0))))
    size = np.abs(np.diagonal(r, axis1=1, axis2=2))
    free = size > 1e-10 * np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    safe = np.where(free, size, 1.0)
    r = r + np.eye(r.shape[1]) * np.where(free, 0.0, safe)[:, None, :]
    inverse = np.linalg.inv(r)
    phi = q[:, : raw.shape[1]] * free[:, None, :] * rows[:, :, None]
    return Basis(phi, free.astype(np.float64), inverse * free[:, None, :])


def raw_columns(controls: Floats, rows: Bools, adjust: Adjust, slope_of: int | None = None) -> Floats:
    """Columns before orthonormalisation, or their derivative with respect to one control."""
    inside = rows[:, :, None]
    n = np.maximum(rows.sum(axis=1), 1)[:, None, None].astype(np.float64)
    low = np.where(inside, controls, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(inside, controls, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    width = np.where(high > low, high - low, 1.0)
    unit = np.where(inside, (controls - low) / width, 0.0)
    if adjust == "gam":
        # A cubic B-spline has four pieces, each a polynomial in the place t within the piece.
        x = unit * (SPLINES - 3)
        piece = np.minimum(x.astype(np.intp), SPLINES - 4)
        t = x - piece
        if slope_of is None:
            scale = 1 / 6
            pieces = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
        else:
            scale = float(SPLINES - 3)
            pieces = [-((1 - t) ** 2) / 2, (3 * t**2 - 4 * t) / 2, (-3 * t**2 + 2 * t + 1) / 2, t**2 / 2]
        parts = []
        for j in range(controls.shape[2]):
            splines = np.zeros((*rows.shape, SPLINES))
            if slope_of in (None, j):
                for offset, value in enumerate(pieces):
                    place = piece[:, :, j : j + 1] + offset
                    np.put_along_axis(splines, place, scale * value[:, :, j : j + 1], axis=-1)
            splines *= inside
            if slope_of == j:
                splines /= width[:, :, j : j + 1]
            elif j and slope_of is None:  # every further smooth is centred: the constant belongs to the first
                splines = (splines - splines.sum(1, keepdims=True) / n) * inside
            parts.append(splines[:, :, 1:] if j else splines)
        return np.concatenate(parts, axis=2)
    constant = np.full((*rows.shape, 1), 1.0 if slope_of is None else 0.0) * inside
    if adjust == "none":
        return constant
    if slope_of is None:
        centred = (unit - unit.sum(1, keepdims=True) / n) * inside
    else:
        centred = np.zeros_like(unit)
        centred[:, :, slope_of] = rows / width[:, :, slope_of]
    return np.concatenate([constant, centred], axis=2)


def diagonalise(gram: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    """Rotate so that ``gram`` becomes the identity and ``penalty`` diagonal, at once for all entries.

    With T' (gram + penalty) T = I and T' gram T = diag(ease), the penalty becomes diag(1 - ease), and a
    penalised fit for any smoothing parameter is a division. Directions that the data do not determine (ease near 0)
    are dropped. This is the Demmler-Reinsch form of a smoothing spline.
    """
    total = gram + penalty
    size = np.trace(total, axis1=1, axis2=2)[:, None, None] / total.shape[1]
    lower = np.linalg.cholesky(total + (RIDGE * size + 1e-300) * np.eye(total.shape[1]))
    inverse = np.linalg.inv(lower)
    ease, turn = np.linalg.eigh(inverse @ gram @ inverse.transpose(0, 2, 1))
    known = ease > 1e-8
    ease = np.where(ease > 1 - 1e-9, 1.0, np.where(known, ease, 0.0))
    scale = np.where(known, 1 / np.sqrt(np.where(known, ease, 1.0)), 0.0)
    rotation: Floats = inverse.transpose(0, 2, 1) @ (turn * scale[:, None, :])
    return rotation, ease


class SmoothFit(NamedTuple):
    """Residuals [F, n, m], the factor [F, K, m] of every basis function, its loading [F, K, m], and edf [F, m]."""

    residuals: Floats
    factors: Floats
    loadings: Floats
    edf: Floats


def remove_control(basis: Basis, series: Floats, rows: Bools) -> SmoothFit:
    """Fit every series [F, n, m] on the basis and return the residuals, zero outside an entry's rows.

    Parameters
    ----------
    basis
        Orthonormal functions of the control, from :func:`make_basis`.
    series
        Centred series, zero outside ``rows``.

    Returns
    -------
    SmoothFit
        Residuals, the factor and loading of every basis function, and the effective degrees of freedom.
    """
    loadings = basis.phi.transpose(0, 2, 1) @ series
    total = np.einsum("fnm,fnm->fm", series, series)
    factors = choose_factors(basis.ease, loadings, total, rows.sum(axis=1).astype(np.float64))
    residuals = (series - basis.phi @ (factors * loadings)) * rows[:, :, None]
    return SmoothFit(residuals, factors, loadings, factors.sum(axis=1))


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
