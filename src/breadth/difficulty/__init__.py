"""Difficulty levels, how stable they are, and human measures of difficulty beside them.

Imports ``stats`` only; calibration itself is in ``irt``.
"""

from breadth.difficulty.levels import Levels, assign_levels, level_edges
from breadth.difficulty.measures import RankCorrelation, rank_correlation, text_measures
from breadth.difficulty.stability import Stability, level_stability

__all__ = [
    "Levels",
    "RankCorrelation",
    "Stability",
    "assign_levels",
    "level_edges",
    "level_stability",
    "rank_correlation",
    "text_measures",
]
