"""What a log hands over: the answers of one subject to one test set (:class:`Log`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, overload
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import orjson
import zstandard

from breadth.errors import escape_bytes

Epochs = Literal["mean", "each"]

#: Logs that a message names.
MOST_LOGS = 3

#: What an attribute of a subject or a setting may be.
Plain = str | int | float | bool | None


class Metric(NamedTuple):
    """How a log scores answers: ``acc_norm``; ``variant`` is its filter or its scorer where there are several."""

    name: str
    variant: str = ""

    def __str__(self) -> str:
        """The name as messages show it."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


class SkipFile(Exception):  # noqa: N818
    """A sound file that holds nothing to import; the message is the reason, without the file's name."""


@dataclass(frozen=True)
class Options:
    """What the user asked for; a source heeds what concerns it."""

    metric: str | None = None
    variant: str | None = None  #: A filter or a scorer.
    epochs: Epochs = "mean"
    split: str | None = None
    texts: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """The answers of one subject to one test set, as one file holds them.

    ``items`` identify the questions across models, versions and settings, each once. ``values`` has a number per item
    for every metric that scores single answers, None or NaN where an answer is missing or failed; ``margins`` the
    log-odds of the right answer, where a metric has them. ``prefer`` lists metrics by name, the default first.

    A subject is ``model`` with everything in ``subject`` (revision, adapter, chat template, solver, epoch): text or
    numbers by name. ``settings`` are those of the test set (``num_fewshot``); they tell subjects apart only where a
    model has several for one test set. ``step`` is the training step if the log names it.

    ``texts`` are columns that describe the items, each as long as ``items``: ``text`` (the question), ``options`` and
    ``option_labels`` (lists of text), ``label`` (the label of the right option, or the class), ``target`` (the expected
    text where a model writes freely), or other columns of text. A source whose items may share names with other
    questions gives ``text_hash`` (:func:`~breadth.sources.source_files.text_hash`) where texts are not wanted.
    ``answers`` is what was chosen or extracted.

    ``stated`` are the means that the log itself states, by metric. ``stamp`` tells later logs from earlier ones, as
    text that sorts. ``notes`` are for the user: a partial file, an unknown version.
    """

    path: str
    tool: str
    testset: str
    model: str
    items: Sequence[str]
    values: Mapping[Metric, Sequence[float | None] | npt.NDArray[np.float64]]
    version: str | None = None
    prefer: Sequence[str] = ()
    margins: Mapping[Metric, Sequence[float | None] | npt.NDArray[np.float64]] = field(default_factory=dict)
    answers: Sequence[str | None] | None = None
    texts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    subject: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Plain] = field(default_factory=dict)
    step: int | None = None
    stamp: str = ""
    stated: Mapping[Metric, float] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Turn numbers into arrays, and refuse what a source must never hand over."""
        # Names of test sets and models may come from names of files, which need not be UTF-8; tables cannot hold those.
        for name in ("path", "testset", "model"):
            object.__setattr__(self, name, escape_bytes(getattr(self, name)))
        for name in ("values", "margins"):
            arrays = {}
            for metric, column in getattr(self, name).items():
                arrays[Metric(*metric)] = np.array(column, dtype=np.float64)
            object.__setattr__(self, name, arrays)
        lengths = {len(self.items)}
        for column in (*self.values.values(), *self.margins.values(), *self.texts.values()):
            lengths.add(len(column))
        if self.answers is not None:
            lengths.add(len(self.answers))
        if len(lengths) > 1:
            raise ValueError(f"{self.path}: columns of a log differ in length: {sorted(lengths)}")
        if len(set(self.items)) < len(self.items):
            raise ValueError(f"{self.path}: items of a log must differ")

    def scores(self, metric: Metric) -> npt.NDArray[np.float64]:
        """The values of a metric, NaN where an answer is missing."""
        return np.asarray(self.values[metric], dtype=np.float64)


#: Columns that are kept unpacked: those of one test set while they are read.
UNPACKED = 8


class PackedColumn(Sequence[Any]):
    """A sequence of texts, lists of texts and None, compressed until it is looked at; make it by :func:`pack`.

    Fifty models that answered one test set bring its texts fifty times: columns of equal content are one object, and
    travel between processes compressed.
    """

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
        if isinstance(other, PackedColumn):
            return self is other or (self._length == other._length and self._packed == other._packed)
        return isinstance(other, Sequence) and len(other) == self._length and list(self) == list(other)

    def __hash__(self) -> int:
        """Equal columns have equal hashes."""
        return hash(self._packed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is packed; in the other process equal columns are one object again."""
        return _shared_column, (self._packed, self._length)

    def __repr__(self) -> str:
        """A short description."""
        return f"PackedColumn of {self._length:,} values"


_COLUMNS: WeakValueDictionary[tuple[bytes, int], PackedColumn] = WeakValueDictionary()


def pack(values: Sequence[Any]) -> PackedColumn:
    """A column of these values: text, None, or lists of text."""
    everything = list(values)
    try:
        content = orjson.dumps(everything)
    except TypeError:  # half a surrogate pair, which JSON can hold but UTF-8 cannot
        content = orjson.dumps(_encodable(everything))
    return _shared_column(zstandard.ZstdCompressor(level=1).compress(content), len(everything))


def _shared_column(packed: bytes, length: int) -> PackedColumn:
    return _COLUMNS.setdefault((packed, length), PackedColumn(packed, length))


@lru_cache(maxsize=UNPACKED)
def _unpacked(packed: bytes) -> list[Any]:
    values: list[Any] = orjson.loads(zstandard.ZstdDecompressor().decompress(packed))
    return values


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
