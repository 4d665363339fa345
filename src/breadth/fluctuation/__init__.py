"""How far do scores move up and down during training, and do models differ in it?

The numeric core (``mean_squares`` of runs, ``pooling`` over runs and models), and the result with its words, columns
and figure. Imports ``correlation``, ``records`` and ``results``.
"""

from breadth.fluctuation.mean_squares import MeanSquares, contrasts, mean_over_testsets, mean_squares
from breadth.fluctuation.pooling import FluctuationVariance, Ratio, Typical, compare_models, spread_of_runs, typical_run
from breadth.fluctuation.result import (
    NoiseSource,
    Stability,
    StabilityFlag,
    fluctuation_figure,
)
from breadth.fluctuation.stability import stability

__all__ = [
    "FluctuationVariance",
    "MeanSquares",
    "NoiseSource",
    "Ratio",
    "Stability",
    "StabilityFlag",
    "Typical",
    "compare_models",
    "contrasts",
    "fluctuation_figure",
    "mean_over_testsets",
    "mean_squares",
    "spread_of_runs",
    "stability",
    "typical_run",
]
