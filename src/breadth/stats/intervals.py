"""Intervals and p-values for correlations, on Fisher's z scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from breadth.stats.panel import Floats

LEVEL = 0.95

#: A correlation closer to 1 than this is 1 for every purpose, and has no interval.
SAME = 1e-12


class Interval(NamedTuple):
    """A 95 % interval and the two-sided p-value of a correlation of zero."""

    low: Floats
    high: Floats
    p: Floats


def to_z(r: Floats) -> Floats:
    """Fisher's transformation, finite at -1 and 1."""
    z: Floats = np.arctanh(np.clip(r, -1 + SAME, 1 - SAME))
    return z


def spare_rows(n_eff: Floats, spent: Floats) -> Floats:
    """Inverse variance of z: rows less 3 less those spent on the control, but never less than one."""
    return np.maximum(n_eff - 3 - spent, 1.0)


def independent_interval(r: Floats, n: Floats, spent: Floats, rank: bool = False) -> Interval:
    """Fisher's interval and the t-test of a partial correlation of independent rows.

    z = atanh(r) is close to normal with variance 1 / (n - 3 - spent), where ``spent`` counts the degrees of
    freedom given to the control (1 for a straight line in one control). p is from t with n - 2 - spent
    degrees of freedom. For ranks the variance is larger by 1 + r^2 / 2 (Bonett and Wright 2000).
    Assumes independent rows: for checkpoints of one run it is far too narrow.

    >>> import numpy as np
    >>> interval = independent_interval(np.array([0.5]), np.array([41.0]), np.array([1.0]))
    >>> bool(interval.low[0] < 0.5 < interval.high[0])
    True
    """
    widen = 1 + r**2 / 2 if rank else np.ones_like(r)
    half = special.ndtri((1 + LEVEL) / 2) * np.sqrt(widen / spare_rows(n, spent))
    df = np.maximum(n - 2 - spent, 1.0)
    t = np.abs(r) * np.sqrt(df / np.maximum(1 - r**2, SAME))
    z = to_z(r)
    return Interval(np.tanh(z - half), np.tanh(z + half), 2 * special.stdtr(df, -t))


def dependent_interval(r: Floats, n_eff: Floats, spent: Floats, rank: bool = False) -> Interval:
    """Interval and p-value of a partial correlation whose rows are worth only ``n_eff`` independent ones.

    As Fisher's, with n_eff for n, and quantiles of t with n_eff - 2 - spent degrees of freedom because the
    number of effective rows is itself an estimate. The interval excludes 0 exactly when p < 0.05.
    """
    widen = 1 + r**2 / 2 if rank else np.ones_like(r)
    error = np.sqrt(widen / spare_rows(n_eff, spent))
    df = np.maximum(n_eff - 2 - spent, 1.0)
    half = special.stdtrit(df, (1 + LEVEL) / 2) * error
    z = to_z(r)
    return Interval(np.tanh(z - half), np.tanh(z + half), 2 * special.stdtr(df, -np.abs(z) / error))
