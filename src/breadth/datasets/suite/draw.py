"""Random choices that come out the same on every machine, and word pools that train and test never share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

T = TypeVar("T")

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

#: Random numbers are taken from numpy in batches: one call per number would be most of the running time.
BATCH = 1024


class Pool(NamedTuple, Generic[T]):
    """Fillings of a slot, in two halves with nothing in common."""

    train: tuple[T, ...]
    test: tuple[T, ...]


def pool(fillings: Iterable[T]) -> Pool[T]:
    """Deal fillings out to the two splits in turn."""
    everything = tuple(fillings)
    return Pool(everything[0::2], everything[1::2])


def words(text: str) -> Pool[str]:
    """Make a pool of a text with a comma between fillings."""
    return pool(" ".join(word.split()) for word in text.split(","))


class Draw:
    """Draws fillings for one split from one stream of random numbers.

    Only ``Generator.random`` is used, whose stream numpy has kept unchanged; methods such as ``choice`` or
    ``permutation`` may change between numpy versions, and with them all items.
    """

    def __init__(self, seeds: Sequence[int], split: Split) -> None:
        """Start the stream that the numbers in ``seeds`` name."""
        self.split: Split = split
        self._generator = np.random.Generator(np.random.PCG64(list(seeds)))
        self._batch: list[float] = []

    def below(self, k: int) -> int:
        """Draw one of 0, ..., k - 1."""
        if not self._batch:
            self._batch = self._generator.random(BATCH).tolist()
        return int(self._batch.pop() * k)

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def flip(self) -> bool:
        """Toss a fair coin."""
        return self.below(2) == 1

    def one(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def several(self, options: Sequence[T], k: int) -> list[T]:
        """Draw ``k`` different options, in random order."""
        left = list(options)
        for i in range(k):
            j = self.between(i, len(left) - 1)
            left[i], left[j] = left[j], left[i]
        return left[:k]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Put the options in random order."""
        return self.several(options, len(options))

    def word(self, choices: Pool[T]) -> T:
        """Draw a filling of this split."""
        return self.one(self._of(choices))

    def words(self, choices: Pool[T], k: int) -> list[T]:
        """Draw ``k`` different fillings of this split."""
        return self.several(self._of(choices), k)

    def _of(self, choices: Pool[T]) -> tuple[T, ...]:
        return choices.train if self.split == "train" else choices.test
