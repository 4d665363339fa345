"""What a control may explain: a constant, a straight line, or a penalised smooth, each as an orthonormal basis."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from breadth.stats.panel import Bools, Floats

Regressor = Literal["gam", "linear", "none"]

#: Cubic B-splines per control, on equally spaced knots over the control's range.
SPLINES = 20

#: Keeps a basis that the data leave undetermined from dividing by zero; far below any reported digit.
RIDGE = 1e-12


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


def make_basis(controls: Floats, rows: Bools, regressor: Regressor) -> Basis:
    """Build the basis for ``controls`` [F, n, q] on ``rows`` [F, n]."""
    raw = raw_columns(controls, rows, regressor)
    if regressor == "gam":
        gram = raw.transpose(0, 2, 1) @ raw
        rotation, ease = diagonalise(gram, _penalty(controls.shape[2]))
        return Basis(raw @ rotation, ease, rotation)
    # Householder QR keeps all digits, which squaring the columns would not. It wants no fewer rows than columns.
    q, r = np.linalg.qr(np.pad(raw, ((0, 0), (0, raw.shape[2]), (0, 0))))
    size = np.abs(np.diagonal(r, axis1=1, axis2=2))
    free = size > 1e-10 * np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    safe = np.where(free, size, 1.0)
    r = r + np.eye(r.shape[1]) * np.where(free, 0.0, safe)[:, None, :]
    inverse = np.linalg.inv(r)
    phi = q[:, : raw.shape[1]] * free[:, None, :] * rows[:, :, None]
    return Basis(phi, free.astype(np.float64), inverse * free[:, None, :])


def raw_columns(controls: Floats, rows: Bools, regressor: Regressor, slope_of: int | None = None) -> Floats:
    """Columns before they are made orthonormal, or their derivative with respect to one control."""
    inside = rows[:, :, None]
    low = np.where(inside, controls, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(inside, controls, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    width = np.where(high > low, high - low, 1.0)
    unit = np.where(inside, (controls - low) / width, 0.0)
    if regressor == "gam":
        parts = []
        for j in range(controls.shape[2]):
            splines = _splines(unit[:, :, j], derivative=slope_of == j) * inside
            if slope_of is not None:
                splines = splines / width[:, :, j : j + 1] if slope_of == j else np.zeros_like(splines)
            elif j:  # every further smooth is centred: the constant belongs to the first
                splines = (splines - splines.sum(1, keepdims=True) / _count(rows)) * inside
            parts.append(splines[:, :, 1:] if j else splines)
        return np.concatenate(parts, axis=2)
    constant = np.full((*rows.shape, 1), 1.0 if slope_of is None else 0.0) * inside
    if regressor == "none":
        return constant
    if slope_of is None:
        centred = (unit - unit.sum(1, keepdims=True) / _count(rows)) * inside
    else:
        centred = np.zeros_like(unit)
        centred[:, :, slope_of] = rows / width[:, :, slope_of]
    return np.concatenate([constant, centred], axis=2)


def diagonalise(gram: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    """Rotate so that ``gram`` becomes the identity and ``penalty`` diagonal, at once for all entries.

    With T' (gram + penalty) T = I and T' gram T = diag(ease), the penalty becomes diag(1 - ease), and a
    penalised fit for any smoothing parameter is a division. Directions that the data say nothing about
    (ease near 0) are dropped. This is the Demmler-Reinsch form of a smoothing spline.
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


def _splines(unit: Floats, derivative: bool) -> Floats:
    """Evaluate the cubic B-splines (or their derivative) at ``unit`` [F, n] in [0, 1]; [F, n, SPLINES]."""
    pieces = SPLINES - 3
    x = unit * pieces
    piece = np.minimum(x.astype(np.intp), pieces - 1)
    t = x - piece
    if derivative:
        scale = float(pieces)
        values = [-((1 - t) ** 2) / 2, (3 * t**2 - 4 * t) / 2, (-3 * t**2 + 2 * t + 1) / 2, t**2 / 2]
    else:
        scale = 1 / 6
        values = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    out = np.zeros((*unit.shape, SPLINES))
    for offset, value in enumerate(values):
        np.put_along_axis(out, (piece + offset)[..., None], scale * value[..., None], axis=-1)
    return out


def _penalty(q: int) -> Floats:
    """Sum of squared second differences of neighbouring spline coefficients, for each of q smooths."""
    differences = np.diff(np.eye(SPLINES), 2, axis=0)
    # A further smooth has one spline less: a constant added to all its coefficients would change nothing.
    blocks = [differences if j == 0 else differences[:, 1:] for j in range(q)]
    return np.asarray(block_diag(*(block.T @ block for block in blocks)), dtype=np.float64)


def _count(rows: Bools) -> Floats:
    count: Floats = np.maximum(rows.sum(axis=1), 1)[:, None, None].astype(np.float64)
    return count
