"""Is one model really better than another, where, and does the win carry over to a new test set? Who leads among many?

The numeric cores (``paired``, ``ranking``), who is compared (``groups``), the result classes, their words, terminal
tables and figures. Imports ``correlation`` (random effects), ``irt`` (levels), ``records`` and ``results``.
"""

from breadth.comparison.compare import By, CellFlag, Comparison, Within, compare
from breadth.comparison.figure import differences_figure, ranking_figure
from breadth.comparison.groups import Group, final_groups, group_answers, item_clusters, item_levels, named_groups
from breadth.comparison.paired import (
    EXACT,
    Difference,
    exact_p,
    mean_spread,
    paired_difference,
    run_spread,
    score_interval,
)
from breadth.comparison.ranking import Ranking, Standing, rank, rank_intervals
from breadth.comparison.words import (
    cells_table,
    comparison_verdict,
    pairs_table,
    points,
    ranking_verdict,
    ranks_table,
)

__all__ = [
    "EXACT", "By", "CellFlag", "Comparison", "Difference", "Group", "Ranking", "Standing", "Within", "cells_table",
    "compare", "comparison_verdict", "differences_figure", "exact_p", "final_groups", "group_answers", "item_clusters",
    "item_levels", "mean_spread", "named_groups", "paired_difference", "pairs_table", "points", "rank",
    "rank_intervals", "ranking_figure", "ranking_verdict", "ranks_table", "run_spread", "score_interval",
]  # fmt: skip
