"""Working with difficulty: training data by difficulty, accuracy by level, human measures of difficulty.

Difficulty itself is estimated in ``irt``. Imports ``irt``, ``correlation``, ``records`` and ``results``, but only when
a function is first used, so that the study file can take its words from ``strategies`` without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from breadth.difficulty.strategies import STRATEGIES, Order, Strategy

if TYPE_CHECKING:
    from breadth.difficulty.measures import (
        HumanMeasures,
        MeasureFlag,
        RankCorrelation,
        difficulty_vs,
        rank_correlation,
        text_measures,
    )
    from breadth.difficulty.profiles import Profile, profile
    from breadth.difficulty.sampling import DifficultySampler, Sample, sample, sample_items

__all__ = [
    "STRATEGIES",
    "DifficultySampler",
    "HumanMeasures",
    "MeasureFlag",
    "Order",
    "Profile",
    "RankCorrelation",
    "Sample",
    "Strategy",
    "difficulty_vs",
    "profile",
    "rank_correlation",
    "sample",
    "sample_items",
    "text_measures",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        modules = (import_module(f"{__name__}.{module}") for module in ("sampling", "profiles", "measures"))
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
