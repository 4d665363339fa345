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


def wilson_interval(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of a share of ``n``; it keeps a width where all or none are right."""
    z = NORMAL
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing was answered: no share, and no interval
        centre = share + z**2 / (2 * n)
        reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n * n))
        low = np.clip((centre - reach) / (1 + z**2 / n), 0, 1)
        high = np.clip((centre + reach) / (1 + z**2 / n), 0, 1)
    return low, high


def with_wilson(frame: pl.DataFrame) -> pl.DataFrame:
    """Add Wilson's interval to ``accuracy`` of ``n`` items."""
    share, n = (frame[name].cast(pl.Float64).to_numpy() for name in ("accuracy", "n"))
    ends = dict(zip(("ci_low", "ci_high"), wilson_interval(share, n), strict=True))
    return frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in ends.items())
