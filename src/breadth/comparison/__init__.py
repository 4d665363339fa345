"""Is one model really better than another, where, and does the win carry over to a new test set? Who leads among many?

The numeric core (``paired``), who is compared (``groups``), the results with their words, terminal tables and figures.
Imports ``correlation`` (random effects), ``irt`` (levels), ``records`` and ``results``.
"""

from breadth.comparison.compare import compare
from breadth.comparison.comparison import (
    By,
    Comparison,
    ComparisonFlag,
    Within,
    comparison_verdict,
    differences_figure,
)
from breadth.comparison.groups import (
    Group,
    describe_left_out,
    final_groups,
    group_answers,
    has_several_groups,
    levels_for_comparison,
    models_with_common_items,
    named_groups,
)
from breadth.comparison.paired import (
    EXACT,
    Difference,
    MeanVariance,
    add_runs,
    exact_p,
    mean_spread,
    paired_difference,
    run_spread,
    score_interval,
)
from breadth.comparison.ranking import (
    Ranking,
    Standing,
    rank,
    rank_intervals,
    ranking_figure,
)
from breadth.sources import item_clusters

__all__ = [
    "EXACT",
    "By",
    "Comparison",
    "ComparisonFlag",
    "Difference",
    "Group",
    "MeanVariance",
    "Ranking",
    "Standing",
    "Within",
    "add_runs",
    "compare",
    "comparison_verdict",
    "describe_left_out",
    "differences_figure",
    "exact_p",
    "final_groups",
    "group_answers",
    "has_several_groups",
    "item_clusters",
    "levels_for_comparison",
    "mean_spread",
    "models_with_common_items",
    "named_groups",
    "paired_difference",
    "rank",
    "rank_intervals",
    "ranking_figure",
    "run_spread",
    "score_interval",
]  # fmt: skip
