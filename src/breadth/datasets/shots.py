"""Which items are trained on and which are tested: drawn by hash, so the same everywhere and for any order of rows.

An item's place in the draw is the BLAKE2b hash of seed and item id. It depends on nothing else, so a larger draw
contains a smaller one, and adding rows to a file does not reshuffle the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import polars as pl

from breadth.errors import InputError

#: With more labels than this, a label is an answer rather than a class, and draws are not balanced by it.
MOST_CLASSES = 20
_PLACE, _RANK = "__place", "__rank"


def places(items: Sequence[str], seed: int | str) -> list[int]:
    """A number of 64 bits for every item, as good as random, from seed and id alone.

    >>> places(["mnli-1", "mnli-2"], 0) == places(["mnli-2", "mnli-1"], 0)[::-1]
    True
    """
    start = hashlib.blake2b(f"{seed}\0".encode(), digest_size=8)
    numbers = []
    for item in items:
        mixed = start.copy()
        mixed.update(item.encode())
        numbers.append(int.from_bytes(mixed.digest(), "big"))
    return numbers


def has_classes(frame: pl.DataFrame) -> bool:
    """Whether labels are classes: few, and shared by items. The letter of an option is a place, not a class."""
    kinds = frame["label"].n_unique()
    return "options" not in frame.columns and kinds <= MOST_CLASSES and 2 * kinds <= frame.height


def draw_shots(frame: pl.DataFrame, n: int, seed: int) -> pl.DataFrame:
    """Draw ``n`` training items, as many of each label (counts differ by at most 1), in shuffled order.

    A draw of 32 is part of a draw of 64 with the same seed. Where labels are no classes (see `has_classes`), the
    first ``n`` in the order of the hash are taken.
    """
    if n < 1:
        raise InputError(f"{n} training items cannot be drawn; ask for 1 or more")
    ordered = _ordered(frame, seed)
    if not has_classes(frame):
        if n > frame.height:
            raise InputError(f"{_where(frame)}: has {frame.height} items to train on, and {n} are asked for")
        return ordered.head(n).drop(_PLACE)
    labels = sorted(frame["label"].unique().to_list())
    wanted = {label: (n + len(labels) - 1 - i) // len(labels) for i, label in enumerate(labels)}
    parts = []
    for label, count in wanted.items():
        part = ordered.filter(pl.col("label") == label)
        if part.height < count:
            raise InputError(
                f"{_where(frame)}: {count} items labelled {label!r} are needed for {n} balanced training items, and "
                f"there are {part.height}; ask for {part.height * len(labels)} or fewer"
            )
        parts.append(part.head(count))
    return pl.concat(parts).sort(_PLACE, "item").drop(_PLACE)


def draw_items(frame: pl.DataFrame, n: int | None, seed: int) -> pl.DataFrame:
    """Draw ``n`` items to evaluate on, labels in proportion to the pool; sorted by item.

    All items where ``n`` is None or there are no more than ``n``. A smaller draw is part of a larger one.
    """
    if n is None or n >= frame.height:
        return frame.sort("item")
    if n < 1:
        raise InputError(f"{n} items cannot be drawn; ask for 1 or more")
    ordered = _ordered(frame, seed)
    if has_classes(frame):
        # Items of a label are spread evenly over (0, 1); any first part holds the labels in proportion.
        spread = (pl.int_range(pl.len()).over("label") + 0.5) / pl.len().over("label")
        ordered = ordered.with_columns(spread.alias(_RANK)).sort(_RANK, _PLACE, "item").drop(_RANK)
    return ordered.head(n).drop(_PLACE).sort("item")


def without(test: pl.DataFrame, train: pl.DataFrame, fields: Sequence[str]) -> pl.DataFrame:
    """The items of ``test`` whose texts (all ``fields`` together) are not those of an item of ``train``."""
    return test.join(train.select(fields).unique(), on=list(fields), how="anti", maintain_order="left")


def _ordered(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    numbers = pl.Series(_PLACE, places(frame["item"].to_list(), seed), dtype=pl.UInt64)
    return frame.with_columns(numbers).sort(_PLACE, "item")


def _where(frame: pl.DataFrame) -> str:
    return str(frame["testset"][0]) if "testset" in frame.columns and frame.height else "the training pool"
