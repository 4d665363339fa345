"""Strategies by which training items can be chosen by difficulty, and the orders in which they can come.

The one definition of these words. The study file takes them from here: this module loads no numerical library, nor
does the package until one of its functions is used.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Strategy = Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"]
Order = Literal["shuffled", "rising", "falling", "spiral"]
Selection = Literal["easy", "middle", "hard", "full", "centred"]


class Plan(NamedTuple):
    """Which items a strategy draws, and in which order they come."""

    selection: Selection
    order: Order


STRATEGIES: dict[Strategy, Plan] = {
    "easy": Plan("easy", "shuffled"),
    "middle": Plan("middle", "shuffled"),
    "hard": Plan("hard", "shuffled"),
    "full": Plan("full", "shuffled"),
    "centred": Plan("centred", "shuffled"),
    "spiral": Plan("full", "spiral"),
    "curriculum": Plan("full", "rising"),
    "anti-curriculum": Plan("full", "falling"),
}
