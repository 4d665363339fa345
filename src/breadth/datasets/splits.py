"""Train and test parts of a file: by its splits where it has them, else by halves."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from breadth.datasets.shots import places
from breadth.errors import InputError, listed

#: What is said of a pool that has no split of its own.
HALVED = "half of the items, by a hash of their ids"

_TRAIN = ("train", "training")
_HELD_OUT = ("validation", "validation_matched", "dev", "dev_matched", "val")
_TEST = ("test", "test_matched", *_HELD_OUT)


class Parts(NamedTuple):
    """The rows to train on, the rows to test on, and how they were told apart."""

    train: pl.DataFrame
    test: pl.DataFrame
    how: str


def halve(frame: pl.DataFrame) -> Parts:
    """Cut a pool by one bit of a hash of the item id: about half and half, whatever the order of rows.

    An item's side depends on its id alone, so rows added later move no item from one side to the other.
    """
    even = pl.Series([place % 2 == 0 for place in places(frame["item"].to_list(), "half")], dtype=pl.Boolean)
    return Parts(frame.filter(even), frame.filter(~even), HALVED)


def part(frame: pl.DataFrame, test_split: str, train_split: str | None, where: str) -> Parts:
    """Tell train from test by the column ``split``: the registry's names, or near kin of them.

    With one split only (or none, or names that say neither) the pool is halved, see `halve`.
    """
    if "split" not in frame.columns:
        return halve(frame)
    names: list[str] = sorted(frame["split"].cast(pl.String).drop_nulls().unique().to_list())
    test = _choose(names, [test_split, *(_TRAIN if test_split in _TRAIN else _TEST)])
    others = [name for name in names if name != test]
    kin = _HELD_OUT if test_split in _TRAIN else (*_TRAIN, *_HELD_OUT)
    train = _choose(others, [*([train_split] if train_split else []), *kin])
    if test is not None and train is not None:
        return Parts(_of(frame, train), _of(frame, test), f"split {test!r} (train: {train!r})")
    if test is not None:
        halves = halve(_of(frame, test))
        return halves._replace(how=f"split {test!r}, {halves.how}")
    if train is not None and len(names) > 1:
        raise InputError(f"{where}: none of the splits ({listed(names)}) is the test split {test_split!r}; rename one")
    return halve(frame)


def _choose(names: list[str], wanted: list[str]) -> str | None:
    lowered = {name.lower(): name for name in names}
    return next((lowered[name] for name in wanted if name in lowered), None)


def _of(frame: pl.DataFrame, split: str) -> pl.DataFrame:
    return frame.filter(pl.col("split").cast(pl.String) == split)
