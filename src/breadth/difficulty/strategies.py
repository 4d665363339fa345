"""Strategies by which training items can be chosen by difficulty, and the orders in which they can come.

The one definition of these words. The study file takes them from here: this module loads no numerical library, nor
does the package until one of its functions is used.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Strategy = Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"]
Order = Literal["shuffled", "rising", "falling", "spiral"]
Selection = Literal["easy", "middle", "hard", "full", "centred"]


class SamplingPlan(NamedTuple):
    """Which items a strategy draws, and in which order they come."""

    selection: Selection
    order: Order


STRATEGIES: dict[Strategy, SamplingPlan] = {
    "easy": SamplingPlan("easy", "shuffled"),
    "middle": SamplingPlan("middle", "shuffled"),
    "hard": SamplingPlan("hard", "shuffled"),
    "full": SamplingPlan("full", "shuffled"),
    "centred": SamplingPlan("centred", "shuffled"),
    "spiral": SamplingPlan("full", "spiral"),
    "curriculum": SamplingPlan("full", "rising"),
    "anti-curriculum": SamplingPlan("full", "falling"),
}
