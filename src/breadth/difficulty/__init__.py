"""Difficulty levels and how stable they are, training data by difficulty, human measures of difficulty.

Imports ``stats`` only; calibration itself is in ``irt``.
"""

from breadth.difficulty.cross import (
    Break,
    Contrast,
    Gains,
    breaking_point,
    cell_weights,
    contrast,
    distance_weights,
    pairing_ratio,
)
from breadth.difficulty.levels import Levels, assign_levels, cut_levels, level_edges
from breadth.difficulty.measures import RankCorrelation, rank_correlation, text_measures
from breadth.difficulty.sampling import STRATEGIES, DifficultySampler, Order, Strategy, sample_items
from breadth.difficulty.stability import Stability, level_stability

__all__ = [
    "STRATEGIES",
    "Break",
    "Contrast",
    "DifficultySampler",
    "Gains",
    "Levels",
    "Order",
    "RankCorrelation",
    "Stability",
    "Strategy",
    "assign_levels",
    "breaking_point",
    "cell_weights",
    "contrast",
    "cut_levels",
    "distance_weights",
    "level_edges",
    "level_stability",
    "pairing_ratio",
    "rank_correlation",
    "sample_items",
    "text_measures",
]
