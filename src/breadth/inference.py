"""What every interval and test shares: the level of confidence, Wilson's interval, the false discovery rate."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

#: Coverage that every interval claims.
LEVEL = 0.95

#: Half the width of such an interval, in standard errors of a normal estimate.
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)


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


def with_wilson(frame: pl.DataFrame) -> pl.DataFrame:
    """Add Wilson's 95 % interval to ``accuracy`` of ``n`` items; it keeps a width where all or none are right."""
    z, n, p = NORMAL, pl.col("n"), pl.col("accuracy")
    centre, reach = p + z**2 / (2 * n), z * (p * (1 - p) / n + z**2 / (4 * n * n)).sqrt()
    low, high = (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)
    return frame.with_columns(low.clip(0, 1).alias("ci_low"), high.clip(0, 1).alias("ci_high"))
