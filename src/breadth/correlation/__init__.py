"""Does doing better on one test set go with doing better on another, after controlling for in-domain performance?

The numeric core (arrays in, arrays out, for all groups at once), the result class, its words, tables and figures, and
what a report shows of a study (``carry_over``). Imports ``records`` and ``results``.
"""

from breadth.correlation.carry_over import CarryOver, carry_over
from breadth.correlation.changes import Changes, change_of_run, change_over_units
from breadth.correlation.correlate import Method, correlate, perfect_score
from breadth.correlation.figure import correlations_figure, heatmap
from breadth.correlation.group_figures import agreement_figure, similarity_figure, windows_figure
from breadth.correlation.groups import Heterogeneity, Similarity, compare_groups, summarise_units
from breadth.correlation.intervals import IntervalMethod, independent_interval
from breadth.correlation.moderator_words import moderator_words, moderators_figure
from breadth.correlation.moderators import Moderation, ModeratorFlag, kinds_of, moderate
from breadth.correlation.panel import Panel, make_panel, orient
from breadth.correlation.partial import Flag, Partial, Settings, partial_correlations, residual_series, rows_needed
from breadth.correlation.result import CORRECTED_COLUMNS, PAIR_COLUMNS, Correlation, CorrelationByTrainSet
from breadth.correlation.smooth import Adjust
from breadth.correlation.units import MODEL_COLUMNS, describe_groups, find_units
from breadth.correlation.verdict import Counts, count_findings
from breadth.correlation.words import correlation_verdict

__all__ = [
    "CORRECTED_COLUMNS",
    "MODEL_COLUMNS",
    "PAIR_COLUMNS",
    "Adjust",
    "CarryOver",
    "Changes",
    "Correlation",
    "CorrelationByTrainSet",
    "Counts",
    "Flag",
    "Heterogeneity",
    "IntervalMethod",
    "Method",
    "Moderation",
    "ModeratorFlag",
    "Panel",
    "Partial",
    "Settings",
    "Similarity",
    "agreement_figure",
    "carry_over",
    "change_of_run",
    "change_over_units",
    "compare_groups",
    "correlate",
    "correlation_verdict",
    "correlations_figure",
    "count_findings",
    "describe_groups",
    "find_units",
    "heatmap",
    "independent_interval",
    "kinds_of",
    "make_panel",
    "moderate",
    "moderator_words",
    "moderators_figure",
    "orient",
    "partial_correlations",
    "perfect_score",
    "residual_series",
    "rows_needed",
    "similarity_figure",
    "summarise_units",
    "windows_figure",
]
