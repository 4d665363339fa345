"""Choose training items by difficulty, and the order in which they come.

Which items (selection) and when (order) are separate: a strategy names one of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from breadth.difficulty.levels import Floats
from breadth.errors import InputError

Selection = Literal["easy", "middle", "hard", "full", "centred"]
Order = Literal["shuffled", "rising", "falling", "spiral"]
Strategy = Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"]
Indices = npt.NDArray[np.intp]

#: Standard deviation of the quantiles that ``centred`` draws: nine in ten items come from the middle two thirds.
SPREAD = 0.2

#: Times that ``spiral`` comes back to the easiest items.
TURNS = 4


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


def sample_items(
    difficulty: Floats, n: int | None, strategy: Strategy, order: Order | None = None, seed: int = 0
) -> Indices:
    """Draw n items without repetition; return their positions, in the order in which to train on them.

    Items are ranked by difficulty (equal ones in an order that the seed decides) and drawn by their quantile u:

    - ``easy``, ``middle``, ``hard``: evenly over the lowest, middle or highest third;
    - ``full``: evenly over the whole range;
    - ``centred``: as a normal distribution around the median with standard deviation 0.2, cut at both ends.

    The draw is stratified: one item from each n-th part of the wanted distribution, so the sample follows it more
    closely than independent draws would. ``order`` replaces the order that belongs to the strategy. Items whose
    difficulty is NaN are never drawn. By default n is as many as the strategy can draw.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"strategy is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    generator = np.random.default_rng(seed)
    known = generator.permutation(np.flatnonzero(~np.isnan(difficulty)))
    ranked = known[np.argsort(difficulty[known], kind="stable")]
    plan = STRATEGIES[strategy]
    most = _most(plan.selection, len(ranked))
    wanted = most if n is None else n
    if not 1 <= wanted <= most:
        raise InputError(
            f"strategy {strategy} can draw 1 to {most:,} of {len(ranked):,} items with a difficulty, not {wanted:,}; "
            "ask for fewer, or take a strategy that draws from the whole range"
        )
    drawn = ranked[_places(plan.selection, wanted, len(ranked), generator)]
    return drawn[_ordering(order or plan.order, wanted, generator)]


def _quantile(selection: Selection, p: Floats) -> Floats:
    """Quantile function of the distribution over difficulty quantiles that a selection wants."""
    thirds = {"easy": 0, "middle": 1, "hard": 2}
    if selection in thirds:
        return (thirds[selection] + p) / 3
    if selection == "full":
        return p
    low, high = special.ndtr(-0.5 / SPREAD), special.ndtr(0.5 / SPREAD)
    centred: Floats = 0.5 + SPREAD * special.ndtri(low + p * (high - low))
    return centred


def _most(selection: Selection, items: int) -> int:
    """Items that can be drawn before the densest part of the distribution runs out of them."""
    if selection == "full":
        return items
    if selection == "centred":
        inside = special.ndtr(0.5 / SPREAD) - special.ndtr(-0.5 / SPREAD)
        return int(items * inside * SPREAD * np.sqrt(2 * np.pi))
    return items // 3


def _places(selection: Selection, n: int, items: int, generator: np.random.Generator) -> Indices:
    """Ranks of n different items: one drawn in each n-th part of the distribution, neighbours moved apart on a tie."""
    step = np.arange(n)
    wanted = np.floor(_quantile(selection, (step + generator.random(n)) / n) * items).astype(np.intp)
    apart = np.maximum.accumulate(wanted - step) + step
    end = int(_quantile(selection, np.ones(1))[0] * items)
    return np.minimum(apart, end - n + step)


def _ordering(order: Order, n: int, generator: np.random.Generator) -> Indices:
    """Positions of n items, sorted from easy to hard, in the order in which they come."""
    rising = np.arange(n)
    if order == "rising":
        return rising
    if order == "falling":
        return rising[::-1]
    if order == "shuffled":
        return generator.permutation(n)
    if order == "spiral":
        # An item of the k-th easiest part may come in every turn from the k-th on; each turn rises from the easiest.
        part = rising * TURNS // n
        turn = part + np.floor(generator.random(n) * (TURNS - part)).astype(np.intp)
        return np.lexsort((rising, turn))
    raise InputError(f"order is {order!r}; choose shuffled, rising, falling or spiral")


@dataclass
class DifficultySampler:
    """Positions of training items for a data loader: iterate it, or pass it as ``sampler=`` to a PyTorch DataLoader.

    Every epoch draws anew, from the seed and the epoch; ``set_epoch`` is what PyTorch's samplers call it.

    >>> sampler = DifficultySampler(np.linspace(-2, 2, 100), n=10, strategy="curriculum")
    >>> positions = list(sampler)
    >>> positions == sorted(positions), len(sampler)
    (True, 10)
    """

    difficulty: Floats
    n: int | None = None
    strategy: Strategy = "full"
    order: Order | None = None
    seed: int = 0
    epoch: int = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose which epoch's draw the next iteration gives."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        """Walk over the positions of this epoch's items."""
        seed = int(np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)[0])
        return iter(sample_items(np.asarray(self.difficulty), self.n, self.strategy, self.order, seed).tolist())

    def __len__(self) -> int:
        """Items per epoch."""
        known = int((~np.isnan(np.asarray(self.difficulty))).sum())
        return _most(STRATEGIES[self.strategy].selection, known) if self.n is None else self.n
