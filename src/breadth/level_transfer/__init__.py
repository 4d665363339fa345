"""Train on one level of difficulty, test on all: does it help, and how far away?

The numeric core (``gains``, ``breaks``), which answers are compared (``answers``), the result with its words, terminal
tables and figures. Imports ``irt``, ``records`` and ``results``.
"""

from breadth.level_transfer.answers import By, trained_groups
from breadth.level_transfer.gains import Contrast, Gains, estimate_contrast
from breadth.level_transfer.result import (
    BreakFlag,
    Effect,
    Transfer,
    TransferFlag,
    gain_by_distance,
    gain_matrix,
    gains_shown,
    transfer_verdict,
)
from breadth.level_transfer.transfer import transfer

__all__ = [
    "BreakFlag",
    "By",
    "Contrast",
    "Effect",
    "Gains",
    "Transfer",
    "TransferFlag",
    "estimate_contrast",
    "gain_by_distance",
    "gain_matrix",
    "gains_shown",
    "trained_groups",
    "transfer",
    "transfer_verdict",
]
