"""Many tests at once: control the share of false discoveries."""

from __future__ import annotations

import numpy as np

from breadth.stats.panel import Floats


def benjamini_hochberg(p: Floats) -> Floats:
    """Return the smallest false-discovery rate at which each test would be called a discovery.

    q_(i) = min over j >= i of p_(j) N / j, for p sorted upwards (Benjamini and Hochberg 1995). Valid for
    independent tests and for positively dependent ones. NaN stays NaN and does not count as a test.

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    q = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    values = p[tested]
    order = np.argsort(values)[::-1]
    rank = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(values[order] * len(values) / rank), 1.0)
    q[tested] = adjusted
    return q
