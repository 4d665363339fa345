"""What single rows far out do to a correlation: how many rows it is still worth, and an estimate that resists them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.correlation.intervals import SAME, before_smooth, inflation, to_z
from breadth.correlation.panel import Bools, Floats

#: Closer to 1 than this, moments lose too many digits to rounding, and a pair is computed row by row.
CLOSE = 1e-3

#: Degrees of freedom of t to choose from, from almost normal to very heavy tails.
DEGREES = (np.inf, 30.0, 12.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.0)

#: Below this many rows there is no telling a tail from the rest, and the plain correlation is kept.
FEWEST_ROWS = 10

#: Below this share of the plain unexplained variance, a robust fit has shrunk to a line through repeated rows.
COLLAPSED = 0.05

#: Parts that are left out in turn by the jackknife; every row on its own up to this number.
MOST_PARTS = 60

#: Numbers held at once by the jackknife, in each of its arrays.
CELLS = 2_000_000


def tail_inflation(residuals: Floats, rows: Bools, growth: Floats | None = None, lost: Floats | None = None) -> Floats:
    """By how much dependence and heavy tails together inflate the variance of a correlation: [F, m, m].

    Question: a few rows lie far out, where a normal distribution has none. How many normal rows would tell as much
    about the correlation?

    With residuals u, v of mean square 1 and correlation r, psi = (uv - r (u^2 + v^2) / 2) / (1 - r^2) is the influence
    of a row on Fisher's z and d^2 = (u^2 - 2 r u v + v^2) / (1 - r^2) its distance from the centre. For normal rows
    both psi^2 and d^4 / 8 are 1 on average, so

        k = max(1, mean psi^2, mean(d^4) / 8 (n + 1) / (n - 1)).

    The first is the variance of z for any distribution (Steiger and Hakstian 1982), but too small where the rows far
    out happen to lie near an axis. The second is Mardia's (1970) kurtosis over its expectation for normal rows, the
    same variance if all directions are alike.

    ``growth`` [F, m, m] is the inflation by dependence alone (None: rows are independent). Rows that are far out each
    on their own multiply it: growth k. Jumps that die away slowly look less heavy than they are. In Bartlett's formula
    the kurtosis of the shocks adds to dependence and is not multiplied by it, so that case is growth + k' - 1, with k'
    from the residuals' one-step prediction errors. The larger of the two is taken.

    ``residuals`` [F, n, m] are zero outside ``rows`` [F, n]; ``lost`` [F, m] is the autocorrelation that a smooth took
    out of them, which one-step predictions need.
    """
    own = _kurtosis(residuals, rows)
    if growth is None:
        return own
    result: Floats = np.maximum(growth * own, growth + _kurtosis(*_shocks(residuals, rows, lost)) - 1)
    return result


def _shocks(residuals: Floats, rows: Bools, lost: Floats | None) -> tuple[Floats, Bools]:
    """Errors of predicting every row from the one before by its lag-1 autocorrelation, and where both are present."""
    before, now = residuals[:, :-1], residuals[:, 1:]
    both = rows[:, 1:] & rows[:, :-1]
    power = np.einsum("fnm,fnm->fm", residuals, residuals)
    lag = np.einsum("fnm,fnm->fm", before, now) / np.where(power > 0, power, 1.0)
    lag = before_smooth(lag, lost, rows.sum(axis=1)[:, None])
    shocks = (now - lag[:, None, :] * before) * both[:, :, None]
    mean = shocks.sum(axis=1, keepdims=True) / np.maximum(both.sum(axis=1), 1)[:, None, None]
    return (shocks - mean) * both[:, :, None], both


def _kurtosis(series: Floats, rows: Bools) -> Floats:
    """k of every two series [F, m, m], from sums of fourth powers; 1 where a series is constant."""
    n = np.maximum(rows.sum(axis=1), 2).astype(np.float64)[:, None, None]
    size = np.sqrt(np.einsum("fnm,fnm->fm", series, series)[:, None, :] / n)
    u = series / np.where(size > 0, size, 1.0)
    squares = u**2
    r = np.clip(u.transpose(0, 2, 1) @ u / n, -1, 1)
    m22 = squares.transpose(0, 2, 1) @ squares
    m31 = (squares * u).transpose(0, 2, 1) @ u
    odd = m31 + m31.transpose(0, 2, 1)
    fourth = np.diagonal(m22, axis1=1, axis2=2)
    even = fourth[:, :, None] + fourth[:, None, :]
    scale = n * np.maximum(1 - r**2, SAME) ** 2
    psi = (m22 * (1 + r**2 / 2) - r * odd + r**2 / 4 * even) / scale
    distance = (even + (2 + 4 * r**2) * m22 - 4 * r * odd) / scale
    # Where r is almost 1 or -1: the same from the sum and the difference of the two, each of mean square 1.
    f, a, b = np.nonzero((1 - np.abs(r) < CLOSE) & (1 - np.abs(r) > SAME) & ~np.eye(r.shape[1], dtype=bool))
    if len(f):
        x, y, c = u[f, :, a], u[f, :, b], r[f, a, b][:, None]
        along, across = (x + y) ** 2 / (2 * (1 + c)), (x - y) ** 2 / (2 * (1 - c))
        psi[f, a, b] = ((along - across) ** 2 / 4).sum(axis=1) / n[f, 0, 0]
        distance[f, a, b] = ((along + across) ** 2).sum(axis=1) / n[f, 0, 0]
    k = np.maximum(np.maximum(psi, distance / 8 * (n + 1) / (n - 1)), 1.0)
    return np.where((1 - np.abs(r) > SAME) & (m22 > 0), k, 1.0)


class Robust(NamedTuple):
    """Per pair [B]: the robust correlation, its variance over Fisher's, and the degrees of freedom (may be inf)."""

    r: Floats
    inflation: Floats
    df: Floats


def robust_residuals(phi: Floats, factors: Floats, series: Floats, rows: Bools) -> Floats:
    """Residuals [B, n, 2] of pairs of series after an adjustment in which rows far out have little weight.

    A row far out bends the fit of the control, which then leaves something of the control in every residual. So the
    fit is repeated twice with the weights of the t distribution. ``phi`` [B, n, K] are the functions of the control,
    ``factors`` [B, K, 2] how much of each the unweighted fit takes: the smoothness stays as it is.
    """
    penalty = np.maximum(1 / np.maximum(factors, 1e-9) - 1, 0)
    residuals = series - phi @ (factors * (phi.transpose(0, 2, 1) @ series))
    inside = rows.astype(np.float64)
    for _ in range(2):
        x, y = (_scaled(residuals[:, :, side], rows) for side in range(2))
        fit, df = _most_likely(x, y, inside, 1e-4)
        weight = inside * (1 + 2 / df[:, None]) / (1 + _distance(x, y, fit) / df[:, None])
        weighted = phi * weight[:, :, None]
        gram, cross = weighted.transpose(0, 2, 1) @ phi, weighted.transpose(0, 2, 1) @ series
        for side in range(2):
            total = gram + np.eye(phi.shape[2]) * (penalty[:, None, :, side] + 1e-9)
            fitted = phi @ np.linalg.solve(total, cross[:, :, side : side + 1])
            residuals[:, :, side] = (series[:, :, side] - fitted[:, :, 0]) * inside
    return residuals


def robust_correlation(
    x: Floats, y: Floats, rows: Bools, spent: Floats, dependent: bool, lost: Floats | None = None
) -> Robust:
    """Correlate ``x`` and ``y`` [B, n] by the scatter of a bivariate t distribution, fitted by maximum likelihood.

    Question: what is the correlation of the bulk of the rows, if a few lie far out? A row at distance d has the
    weight (nu + 2) / (nu + d^2) (Lange, Little and Taylor 1989). The degrees of freedom nu are the most likely of nine
    values from 2 to infinity, so that nearly normal rows keep almost equal weights.

    The variance of z comes from a jackknife (every row left out in turn; above 60 rows, 60 parts), with nu fixed. k is
    that variance over Fisher's 1 / (n - 3 - spent), and at least 1. With ``dependent``, it is multiplied by the
    inflation g by dependence of the weighted rows. Jumps that die away slowly cannot be given a small weight; for
    them the kurtosis k' of the shocks is added as in :func:`tail_inflation`, to the extent that rows depend on each
    other: the result is max(g k, g + (k' - 1) (1 - 1 / g)). ``lost`` [B, 2] is the autocorrelation that a smooth took
    out of the two series.

    It estimates the same number as the plain correlation if rows far out follow the same relation as the others
    (elliptical distributions). If they do not, it describes the bulk, and the plain correlation both. NaN where the
    fit fails: fewer than ten rows, or so many repeated values that the bulk lies on a line.
    """
    n = rows.sum(axis=1).astype(np.float64)
    x, y = _scaled(x, rows), _scaled(y, rows)
    weight = rows.astype(np.float64)
    chosen, df = _most_likely(x, y, weight, 1e-7)
    # Where many rows are the same up to the control (scores at the ceiling), the scatter shrinks to a line or a point.
    plain = (x * y).sum(axis=1) / np.sqrt(np.maximum((x**2).sum(axis=1) * (y**2).sum(axis=1), 1e-300))
    flat = 1 - _r(chosen) ** 2 < COLLAPSED * (1 - plain**2)
    solved = (n >= FEWEST_ROWS) & ~flat & (np.minimum(chosen[:, 2], chosen[:, 4]) > 1e-3)
    z = to_z(_r(chosen))
    # Left out: row i is in part i mod g.
    length = x.shape[1]
    parts = min(length, MOST_PARTS)
    left = (np.arange(length) % parts)[None, :] != np.arange(parts)[:, None]
    variance = np.zeros(len(x))
    size = max(1, CELLS // (parts * length))
    for first in range(0, len(x), size):
        some = slice(first, first + size)
        weights = weight[some, None, :] * left
        start = np.broadcast_to(chosen[some, None, :], (*weights.shape[:2], 5))
        without = _fit_t(x[some, None, :], y[some, None, :], weights, df[some, None], start, 12, 1e-7)
        shift = to_z(_r(without)) - z[some, None]
        # A part without rows changes nothing and does not count.
        used = (weight[some, None, :] * ~left).sum(axis=2) > 0
        count = np.maximum(used.sum(axis=1), 2)
        centred = (shift - (shift * used).sum(axis=1, keepdims=True) / count[:, None]) * used
        variance[some] = (count - 1) / count * (centred**2).sum(axis=1)
    inflated = np.maximum(variance * np.maximum(n - 3 - spent, 1.0), 1.0)
    if dependent:
        root = np.sqrt(weight / (1 + _distance(x, y, chosen) / df[:, None]))
        centred = np.stack([root * (x - chosen[:, :1]), root * (y - chosen[:, 1:2])], axis=2)
        centred -= rows[:, :, None] * centred.sum(axis=1, keepdims=True) / np.maximum(n, 1)[:, None, None]
        growth = inflation(centred, rows, lost)[:, 0, 1]
        jumps = _kurtosis(*_shocks(np.stack([x, y], axis=2), rows, lost))[:, 0, 1] - 1
        inflated = np.maximum(growth * inflated, growth + jumps * (1 - 1 / growth))
    return Robust(*(np.where(solved, values, np.nan) for values in (np.tanh(z), inflated, df)))


def _scaled(values: Floats, rows: Bools) -> Floats:
    """Series [B, n] over their median distance from 0, which no row far out can move."""
    ordered = np.sort(np.where(rows, np.abs(values), np.inf), axis=1)
    middle = np.take_along_axis(ordered, (rows.sum(axis=1) // 2)[:, None].clip(max=values.shape[1] - 1), axis=1)
    return values / np.where(np.isfinite(middle) & (middle > 0), middle, 1.0)


def _most_likely(x: Floats, y: Floats, weight: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """The fit [B, 5] of the most likely degrees of freedom [B], and these."""
    start = np.zeros((len(x), 5))
    start[:, 2] = start[:, 4] = 1.0
    best, chosen, df = np.full(len(x), -np.inf), start, np.full(len(x), np.inf)
    for nu in DEGREES:
        start = _fit_t(x, y, weight, np.full(len(x), nu), start, 300, tolerance)
        likelihood = _likelihood(x, y, weight, nu, start)
        better = likelihood > best
        best, df = np.where(better, likelihood, best), np.where(better, nu, df)
        chosen = np.where(better[:, None], start, chosen)
    return chosen, df


def _r(fit: Floats) -> Floats:
    result: Floats = fit[..., 3] / np.sqrt(np.maximum(fit[..., 2] * fit[..., 4], 1e-300))
    return result


def _distance(x: Floats, y: Floats, fit: Floats) -> Floats:
    """Squared distance [.., n] of every row from the centre; ``fit`` [.., 5] is two means and xx, xy, yy of scatter."""
    mx, my, xx, xy, yy = (fit[..., j, None] for j in range(5))
    dx, dy = x - mx, y - my
    determinant = np.maximum(xx * yy - xy**2, 1e-12 * xx * yy + 1e-300)
    result: Floats = np.maximum((yy * dx**2 - 2 * xy * dx * dy + xx * dy**2) / determinant, 0)
    return result


def _likelihood(x: Floats, y: Floats, weight: Floats, nu: float, fit: Floats) -> Floats:
    """Log-likelihood [B] but for a constant, which in two dimensions does not depend on nu."""
    distance = _distance(x, y, fit)
    row = distance / 2 if np.isinf(nu) else (nu + 2) / 2 * np.log1p(distance / nu)
    determinant = np.maximum(fit[:, 2] * fit[:, 4] - fit[:, 3] ** 2, 1e-300)
    result: Floats = -(weight * row).sum(axis=1) - weight.sum(axis=1) / 2 * np.log(determinant)
    return result


def _fit_t(x: Floats, y: Floats, weight: Floats, nu: Floats, fit: Floats, steps: int, tolerance: float) -> Floats:
    """Maximum likelihood from ``fit`` on, by EM in the form of Kent, Tyler and Vardi (1994), which needs few steps."""
    heaviness = 1 / nu[..., None]
    for _ in range(steps):
        # (nu + 2) / (nu + d^2), written so that nu may be infinite.
        w = weight * (1 + 2 * heaviness) / (1 + _distance(x, y, fit) * heaviness)
        total = np.maximum(w.sum(axis=-1), 1e-300)
        mx, my = (w * x).sum(axis=-1) / total, (w * y).sum(axis=-1) / total
        dx, dy = x - mx[..., None], y - my[..., None]
        moments = [(w * products).sum(axis=-1) / total for products in (dx * dx, dx * dy, dy * dy)]
        moved = np.stack([mx, my, *moments], axis=-1)
        done = np.abs(moved - fit).max(initial=0) < tolerance
        fit = moved
        if done:
            break
    return fit
