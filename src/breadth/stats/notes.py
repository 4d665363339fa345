"""Why a pair of test sets has no number, or a poor one."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from breadth.stats.basis import Regressor
from breadth.stats.intervals import SAME
from breadth.stats.panel import Bools, Entries, Floats
from breadth.stats.series import Prepared, is_constant

Codes = npt.NDArray[np.int8]


class Note(IntEnum):
    """What is known about a pair, from everything to nothing; a later note says less is known."""

    FINE = 0
    FEW_EFFECTIVE = 1
    IDENTICAL = 2
    EXPLAINED_A = 3
    EXPLAINED_B = 4
    CONSTANT_CONTROL = 5
    CONSTANT_A = 6
    CONSTANT_B = 7
    TOO_FEW = 8


#: Up to these notes a pair still has an interval, a partial correlation, a plain correlation.
HAS_INTERVAL, HAS_R, HAS_RAW = Note.FEW_EFFECTIVE, Note.IDENTICAL, Note.CONSTANT_CONTROL


def rows_needed(regressor: Regressor, controls: int) -> int:
    """Rows below which a partial correlation has no interval worth the name."""
    return {"none": 4, "linear": 4 + controls, "gam": 6 + 2 * controls}[regressor]


def note_pairs(
    entries: Entries, ready: Prepared, total: Floats, left: Floats, r: Floats, regressor: Regressor
) -> Codes:
    """Return the note [G, P] of every pair.

    ``total`` and ``left`` [F, m] are the sums of squares of every series before and after the control was
    taken out, ``r`` [G, P] the partial correlations.
    """
    # What a smooth leaves of a curve without noise is its own error of approximation, not a residual.
    explained = left <= (1e-6 if regressor == "gam" else 1e-12) * total
    constant = is_constant(ready.scores, ready.rows)
    no_control: Bools = np.logical_or.reduce(is_constant(ready.controls, ready.rows), axis=1) & (regressor != "none")
    too_few: Bools = ready.rows.sum(axis=1) < rows_needed(regressor, ready.controls.shape[2])
    note = np.zeros(r.shape, dtype=np.int8)
    note[np.abs(r) > 1 - SAME] = Note.IDENTICAL
    note[entries.first(explained)] = Note.EXPLAINED_A
    note[entries.second(explained)] = Note.EXPLAINED_B
    note[entries.entry(no_control)] = Note.CONSTANT_CONTROL
    note[entries.first(constant)] = Note.CONSTANT_A
    note[entries.second(constant)] = Note.CONSTANT_B
    note[entries.entry(too_few)] = Note.TOO_FEW
    return note
