"""Which items are for training and which for testing: splits and draws by a hash of the item id.

An item's place in a draw depends on the seed and its id alone. So draws are the same on every machine and for any
order of rows, a larger draw contains a smaller one, and new rows do not reshuffle the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, listed

#: With more labels than this, a label is an answer rather than a class, and draws are not balanced by it.
MAX_CLASSES = 20
_PLACE, _RANK = "__place", "__rank"

_TRAIN = ("train", "training")
_HELD_OUT = ("validation", "validation_matched", "dev", "dev_matched", "val")
_TEST = ("test", "test_matched", *_HELD_OUT)


def hash_items(items: Sequence[str], seed: int | str) -> list[int]:
    """A pseudo-random 64-bit number for every item: the BLAKE2b hash of seed and id.

    >>> hash_items(["mnli-1", "mnli-2"], 0) == hash_items(["mnli-2", "mnli-1"], 0)[::-1]
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
    """Whether labels are classes: few, and shared by items. The letter of an option is a position, not a class."""
    kinds = frame["label"].n_unique()
    return "options" not in frame.columns and kinds <= MAX_CLASSES and 2 * kinds <= frame.height


def draw_examples(frame: pl.DataFrame, n: int, seed: int) -> pl.DataFrame:
    """Draw ``n`` training items in random order, balanced by label (counts differ by at most 1).

    With the same seed, a draw of 32 is part of a draw of 64. Where labels are not classes (see `has_classes`), the
    draw is not balanced.
    """
    if n < 1:
        raise InputError(f"cannot draw {n} training items; draw at least 1")
    ordered = _ordered(frame, seed)
    if not has_classes(frame):
        if n > frame.height:
            raise InputError(
                f"{_testset_name(frame)}: cannot draw {n} training items, because there are only {frame.height}"
            )
        return ordered.head(n).drop(_PLACE)
    labels = sorted(frame["label"].unique().to_list())
    wanted = {label: (n + len(labels) - 1 - i) // len(labels) for i, label in enumerate(labels)}
    parts = []
    for label, count in wanted.items():
        part = ordered.filter(pl.col("label") == label)
        if part.height < count:
            raise InputError(
                f"{_testset_name(frame)}: {n} balanced training items need {count} items labelled {label!r}, but there "
                f"are only {part.height}; draw at most {part.height * len(labels)}"
            )
        parts.append(part.head(count))
    return pl.concat(parts).sort(_PLACE, "item").drop(_PLACE)


def draw_items(frame: pl.DataFrame, n: int | None, seed: int) -> pl.DataFrame:
    """Draw ``n`` items to evaluate on, with labels in proportion to the pool; sorted by item.

    All items if ``n`` is None or there are at most ``n``. A smaller draw is part of a larger one.
    """
    if n is None or n >= frame.height:
        return frame.sort("item")
    if n < 1:
        raise InputError(f"cannot draw {n} items; draw at least 1")
    ordered = _ordered(frame, seed)
    if has_classes(frame):
        # The items of each label are spread evenly over (0, 1), so that every prefix has the labels in proportion.
        spread = (pl.int_range(pl.len()).over("label") + 0.5) / pl.len().over("label")
        ordered = ordered.with_columns(spread.alias(_RANK)).sort(_RANK, _PLACE, "item").drop(_RANK)
    return ordered.head(n).drop(_PLACE).sort("item")


def drop_shared_texts(test: pl.DataFrame, train: pl.DataFrame, fields: Sequence[str]) -> pl.DataFrame:
    """The items of ``test`` whose texts (all ``fields`` together) do not occur in ``train``."""
    return test.join(train.select(fields).unique(), on=list(fields), how="anti", maintain_order="left")


def _ordered(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    numbers = pl.Series(_PLACE, hash_items(frame["item"].to_list(), seed), dtype=pl.UInt64)
    return frame.with_columns(numbers).sort(_PLACE, "item")


def _testset_name(frame: pl.DataFrame) -> str:
    return str(frame["testset"][0]) if "testset" in frame.columns and frame.height else "the training pool"


class Parts(NamedTuple):
    """The rows for training, the rows for testing, how they were split, and whether one pool was halved."""

    train: pl.DataFrame
    test: pl.DataFrame
    how: str
    halved: bool = False


def halve(frame: pl.DataFrame) -> Parts:
    """Split a pool about in half, by one bit of a hash of the item id.

    The part of an item depends on its id alone, so rows added later never move other items.
    """
    even = pl.Series([place % 2 == 0 for place in hash_items(frame["item"].to_list(), "half")], dtype=pl.Boolean)
    return Parts(frame.filter(even), frame.filter(~even), "half of the items, by a hash of their ids", halved=True)


def part(frame: pl.DataFrame, test_split: str, train_split: str | None, where: str) -> Parts:
    """Split train from test by the column ``split``, with the registry's names or common variants of them.

    A pool with a single split, without splits or with other names is halved, see `halve`.
    """
    if "split" not in frame.columns:
        return halve(frame)
    names: list[str] = sorted(frame["split"].cast(pl.String).drop_nulls().unique().to_list())
    test = _choose(names, [test_split, *(_TRAIN if test_split in _TRAIN else _TEST)])
    others = [name for name in names if name != test]
    variants = _HELD_OUT if test_split in _TRAIN else (*_TRAIN, *_HELD_OUT)
    train = _choose(others, [*([train_split] if train_split else []), *variants])
    if test is not None and train is not None:
        return Parts(_of(frame, train), _of(frame, test), f"split {test!r} (train: {train!r})")
    if test is not None:
        halves = halve(_of(frame, test))
        return halves._replace(how=f"split {test!r}, {halves.how}")
    if train is not None and len(names) > 1:
        raise InputError(f"{where}: no test split {test_split!r} among the splits ({listed(names)}); rename one")
    return halve(frame)


def _choose(names: list[str], wanted: list[str]) -> str | None:
    lowered = {name.lower(): name for name in names}
    return next((lowered[name] for name in wanted if name in lowered), None)


def _of(frame: pl.DataFrame, split: str) -> pl.DataFrame:
    return frame.filter(pl.col("split").cast(pl.String) == split)
