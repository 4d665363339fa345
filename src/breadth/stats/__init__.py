"""Statistics on arrays: taking a control out, partial correlation, dependence, multiplicity, heterogeneity.

Functions here take arrays and return arrays, for all groups and pairs at once; the frames that users
see are made in ``verbs``. Imports only ``records``.
"""

from breadth.stats.basis import Regressor
from breadth.stats.heterogeneity import Heterogeneity, summarise
from breadth.stats.multiplicity import benjamini_hochberg
from breadth.stats.notes import Note, rows_needed
from breadth.stats.panel import Panel, make_panel, pair_indices
from breadth.stats.partial import Inference, Partial, Settings, partial_correlations
from breadth.stats.series import residual_series
from breadth.stats.similarity import Similarity, compare_groups

__all__ = [
    "Heterogeneity",
    "Inference",
    "Note",
    "Panel",
    "Partial",
    "Regressor",
    "Settings",
    "Similarity",
    "benjamini_hochberg",
    "compare_groups",
    "make_panel",
    "pair_indices",
    "partial_correlations",
    "residual_series",
    "rows_needed",
    "summarise",
]
