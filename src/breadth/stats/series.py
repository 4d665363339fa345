"""Series made ready for fitting: ranked if asked for, centred, zero outside the rows of an entry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from breadth.stats.basis import Regressor, make_basis
from breadth.stats.panel import Bools, Floats, Panel
from breadth.stats.smooth import remove_control


class Prepared(NamedTuple):
    """Scores [F, n, m] and controls [F, n, q], zero outside ``rows`` [F, n]; ``centred`` scores besides."""

    scores: Floats
    controls: Floats
    centred: Floats
    rows: Bools


def prepare(scores: Floats, controls: Floats, rows: Bools, rank: bool) -> Prepared:
    """Blank out everything outside ``rows``; with ``rank``, replace values by their ranks within the rows."""
    inside = rows[:, :, None]
    if rank:
        scores, controls = _ranks(scores, rows), _ranks(controls, rows)
    filled = np.where(inside, scores, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1), 1)[:, None, None]
    # A facet may lack rows that other facets of the entry have; it is in no pair of this entry then.
    filled, mean = np.nan_to_num(filled), np.nan_to_num(mean)
    return Prepared(filled, np.where(inside, controls, 0.0), (filled - mean) * inside, rows)


def residual_series(panel: Panel, regressor: Regressor, rank: bool) -> Floats:
    """What the control leaves of every series [G, n, m], each on its own complete rows; NaN elsewhere."""
    present = panel.present()
    shared = bool((present == present[:, :, :1]).all())
    out = np.full(panel.scores.shape, np.nan)
    for j in [slice(None)] if shared else [slice(j, j + 1) for j in range(panel.scores.shape[2])]:
        rows = present[:, :, j][:, :, 0]
        ready = prepare(panel.scores[:, :, j], panel.controls, rows, rank)
        basis = make_basis(ready.controls, rows, regressor)
        left = remove_control(basis, ready.centred, rows).residuals
        out[:, :, j] = np.where(rows[:, :, None], left, np.nan)
    return out


def is_constant(values: Floats, rows: Bools) -> Bools:
    """Which columns [F, m] do not vary over the rows, but for rounding."""
    inside = rows[:, :, None]
    high = np.where(inside, values, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(inside, values, np.inf).min(axis=1, initial=np.inf)
    largest = np.maximum(np.abs(high), np.abs(low))
    varies = (high > low) & (high - low > 1e-12 * largest)
    constant: Bools = ~varies
    return constant


def _ranks(values: Floats, rows: Bools) -> Floats:
    """Ranks within an entry's rows, ties averaged; other rows are pushed behind and blanked later."""
    if not values.shape[2]:
        return values
    from scipy.stats import rankdata  # takes half a second to load, and few need it

    pushed = np.where(rows[:, :, None] & ~np.isnan(values), values, np.inf)
    return np.asarray(rankdata(pushed, axis=1), dtype=np.float64)
