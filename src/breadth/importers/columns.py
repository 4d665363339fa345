"""Columns of texts that take little memory, for logs that repeat what other logs say.

Fifty models that answered one test set bring its texts fifty times. A :class:`Column` holds them compressed, travels
between processes as such, and columns of equal content are one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, overload
from weakref import WeakValueDictionary

import orjson
import zstandard

#: Columns that are kept unpacked: those of one test set while they are read.
UNPACKED = 8


class Column(Sequence[Any]):
    """A sequence of texts, lists of texts and None, compressed until it is looked at; make it by :func:`pack`."""

    __slots__ = ("__weakref__", "_length", "_packed")

    def __init__(self, packed: bytes, length: int) -> None:
        """Hold packed values; :func:`pack` makes them."""
        self._packed, self._length = packed, length

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        """The value at a place."""
        return _unpacked(self._packed)[place]

    def __len__(self) -> int:
        """How many values there are."""
        return self._length

    def __iter__(self) -> Iterator[Any]:
        """All values in order."""
        return iter(_unpacked(self._packed))

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same values."""
        if isinstance(other, Column):
            return self is other or (self._length == other._length and self._packed == other._packed)
        return isinstance(other, Sequence) and len(other) == self._length and list(self) == list(other)

    def __hash__(self) -> int:
        """Equal columns have equal hashes."""
        return hash(self._packed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is packed; in the other process equal columns are one object again."""
        return _shared, (self._packed, self._length)

    def __repr__(self) -> str:
        """A short description."""
        return f"Column of {self._length:,} values"


_COLUMNS: WeakValueDictionary[tuple[bytes, int], Column] = WeakValueDictionary()


def pack(values: Sequence[Any]) -> Column:
    """A column of these values: text, None, or lists of text."""
    listed = values if isinstance(values, list) else list(values)
    try:
        content = orjson.dumps(listed)
    except TypeError:  # half a surrogate pair, which JSON can hold but UTF-8 cannot
        content = orjson.dumps(_encodable(listed))
    return _shared(zstandard.ZstdCompressor(level=1).compress(content), len(listed))


def _shared(packed: bytes, length: int) -> Column:
    return _COLUMNS.setdefault((packed, length), Column(packed, length))


@lru_cache(maxsize=UNPACKED)
def _unpacked(packed: bytes) -> list[Any]:
    values: list[Any] = orjson.loads(zstandard.ZstdDecompressor().decompress(packed))
    return values


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
