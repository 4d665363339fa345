"""What an importer is, and what it hands over: the answers of one subject to one test set (:class:`Log`).

To add a format, write one subclass of :class:`Importer` and pass an instance to :func:`register_importer`, or name the
class in a package's entry points under ``breadth.importers``. Formats from outside are tried before the built-in ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain, starmap
from typing import Any, ClassVar, Literal, NamedTuple, overload
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import orjson
import zstandard

from breadth.errors import InputError
from breadth.importers.reading import LogFile

Epochs = Literal["mean", "each"]

#: What an attribute of a subject or a setting may be.
Plain = str | int | float | bool | None


class Metric(NamedTuple):
    """How a log scores answers: ``acc_norm``; ``variant`` is its filter or its scorer where there are several."""

    name: str
    variant: str = ""

    def __str__(self) -> str:
        """The name as messages show it."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


class Part(StrEnum):
    """What a file is to an importer."""

    ANSWERS = "answers"  #: It is read: it holds answers to single items.
    COMPANION = "companion"  #: It is read along with a file of answers, such as a log's aggregate results.
    SCORES = "scores"  #: It holds scores of whole test sets only.


class LeftOut(Exception):  # noqa: N818
    """A sound file that holds nothing to import; the message is the reason, without the file's name."""


@dataclass(frozen=True)
class Options:
    """What the user asked for; an importer heeds what concerns it."""

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
    text where a model writes freely), or other columns of text. An importer whose items may share names with other
    questions gives ``text_hash`` (:func:`breadth.importers.reading.text_hash`) where texts are not wanted. ``answers``
    is what was chosen or extracted.

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
        """Turn numbers into arrays, and refuse what an importer must never hand over."""
        for name in ("values", "margins"):
            arrays = {Metric(*key): np.array(column, dtype=np.float64) for key, column in getattr(self, name).items()}
            object.__setattr__(self, name, arrays)
        lengths = {len(column) for column in (*self.values.values(), *self.margins.values(), *self.texts.values())}
        lengths |= {len(self.items)} | (set() if self.answers is None else {len(self.answers)})
        if len(lengths) > 1:
            raise ValueError(f"{self.path}: columns of a log differ in length: {sorted(lengths)}")
        if len(set(self.items)) < len(self.items):
            raise ValueError(f"{self.path}: items of a log must differ")

    def scores(self, metric: Metric) -> npt.NDArray[np.float64]:
        """The values of a metric, NaN where an answer is missing."""
        return np.asarray(self.values[metric], dtype=np.float64)


class Importer(ABC):
    """Reads the logs of one tool."""

    #: What ``--format`` calls it.
    name: ClassVar[str]

    @abstractmethod
    def part(self, file: LogFile) -> Part | None:
        """What the file is, judged by its first bytes and keys; None if it is not this tool's. Read nothing large."""

    @abstractmethod
    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read a file of answers, with the companions that lie beside it.

        Raise :class:`breadth.InputError` naming file and line where the file is damaged, and :class:`LeftOut` with a
        reason where it is sound but holds nothing to import.
        """


#: Built-in formats, in the order in which they are asked: module and class.
BUILT_IN: tuple[tuple[str, str], ...] = (
    ("lm_eval", "LmEval"),
    ("inspect_logs", "Inspect"),
    ("helm", "Helm"),
    ("lighteval", "Lighteval"),
    ("code", "EvalPlus"),
    ("code", "SweBench"),
    ("olmes", "Olmes"),
    ("opencompass", "OpenCompass"),
    ("eee", "EveryEvalEver"),
    ("judged", "AlpacaEval"),
    ("judged", "OpenAIEvals"),
    ("matrix", "Matrix"),
)

_REGISTERED: list[Importer] = []


def register_importer(importer: Importer) -> None:
    """Add a format, to be asked before all others; one of the same name is replaced."""
    unregister_importer(importer.name)
    _REGISTERED.insert(0, importer)


def unregister_importer(name: str) -> None:
    """Remove a format that was registered."""
    _REGISTERED[:] = [importer for importer in _REGISTERED if importer.name != name]


def importers() -> list[Importer]:
    """Every importer: registered ones, then those of other packages, then the built-in ones."""
    return list(each_importer())


def each_importer() -> Iterator[Importer]:
    """Every importer in this order; a built-in one is loaded when it is reached."""
    known: set[str] = set()
    for importer in chain(_REGISTERED, _from_entry_points(), starmap(_built_in, BUILT_IN)):
        if importer.name not in known:
            known.add(importer.name)
            yield importer


@cache
def _built_in(module: str, name: str) -> Importer:
    importer: Importer = getattr(import_module(f"breadth.importers.{module}"), name)()
    return importer


@cache
def _from_entry_points() -> tuple[Importer, ...]:
    from importlib.metadata import entry_points  # slow to load, and not needed by a process that reads one format

    importers: list[Importer] = []
    for point in entry_points(group="breadth.importers"):
        try:
            importer = point.load()()
        except Exception as error:
            raise InputError(f"importer {point.name!r} ({point.value}) cannot be loaded: {error}") from error
        if not isinstance(importer, Importer):
            raise InputError(f"importer {point.name!r} ({point.value}) is not a subclass of breadth.importers.Importer")
        importers.append(importer)
    return tuple(importers)


#: Columns that are kept unpacked: those of one test set while they are read.
UNPACKED = 8


class Column(Sequence[Any]):
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
