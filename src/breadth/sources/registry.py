"""What is this file? One registry of sources, asked in a fixed order, each with a reason.

To add a tool, write one subclass of :class:`Source` and pass an instance to :func:`register_source`, or name the class
in a package's entry points under ``breadth.sources``. Sources from outside are asked before the built-in ones. One that
is registered may replace a built-in one; that of a package may not, and if it fails, it is named and the others go on.
"""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from breadth.boundary import first_line
from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth.sources.checkpoint_scores.scores import CheckpointScore, ScoreOptions
    from breadth.sources.logs.log import Log, Options
    from breadth.sources.source_files import SourceFile


Piece = TypeVar("Piece")


class Part(StrEnum):
    """What a file is to the source that recognised it."""

    ANSWERS = "answers"  #: It holds answers to single items.
    COMPANION = "companion"  #: It is read along with a file of answers, such as a log's aggregate results.
    SCORES = "scores"  #: It holds scores of whole test sets only.


class Detection(NamedTuple):
    """What a source takes a file for, and by what it was recognised.

    ``has_scores`` says that :meth:`Source.read_scores` reads it, of this source or of one that is asked later:
    aggregate results beside samples are a companion of the answers, and hold scores of a checkpoint as well.
    """

    part: Part
    reason: str
    has_scores: bool = False


class Source(ABC):
    """One tool, or one kind of file: how it is recognised and how it is read."""

    #: What ``--format`` and messages call it.
    name: ClassVar[str]
    #: What its files look like, for a message that says what was looked for.
    looks_like: ClassVar[str] = ""
    #: Whether it was written from the tool's source code and never tried on a real log; said when it is used.
    experimental: ClassVar[bool] = False
    #: Whether its files hold only what the user chose to export, so that every value counts as a score.
    exported: ClassVar[bool] = False

    def part(self, file: SourceFile) -> Part | None:
        """What the file is."""
        raise NotImplementedError

    def detect(self, file: SourceFile) -> Detection | None:
        """What the file is, judged by its first bytes and keys; None if it is not this tool's. Reads nothing large."""
        part = self.part(file)
        return None if part is None else Detection(part, "")

    def holds_answers(self) -> bool:
        """Whether files of this source may hold answers to single items."""
        return type(self).read_answers is not Source.read_answers

    def holds_scores(self) -> bool:
        """Whether files of this source may hold scores of whole test sets."""
        return type(self).read_scores is not Source.read_scores

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read a file of answers, with the companions that lie beside it.

        Raises :class:`breadth.InputError` naming file and line where the file is damaged, and :class:`SkipFile` with a
        reason where it is sound but holds nothing to import.
        """
        raise NotImplementedError(f"{self.name} holds no answers")

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Read a file with scores of whole test sets, of one checkpoint or many."""
        raise NotImplementedError(f"{self.name} holds no scores")


def what_sources_read(sources: Iterable[Source]) -> str:
    """What files of some sources look like, for a message that says what was looked for."""
    descriptions = []
    for source in sources:
        if source.looks_like:
            descriptions.append(source.looks_like)
    return ", ".join(descriptions)


def experimental_note(tool: str) -> str:
    """What is said of a log that was read by rules which were written from the tool's source code only."""
    return f"read by rules that were never tried on a real log of {tool}; check the numbers"


#: Built-in sources in the order in which they are asked, as ``module:class`` below ``breadth.sources.tools``. Formats
#: that nobody else writes come first. Tables of answers come last: whatever a tool wrote is that tool's.
BUILT_IN = (
    "lm_eval:LmEval",
    "inspect_ai:Inspect",
    "helm:Helm",
    "lighteval:Lighteval",
    "evalplus:EvalPlus",
    "swe_bench:SweBench",
    "olmes:Olmes",
    "opencompass:OpenCompass",
    "eee:EveryEvalEver",
    "alpaca_eval:AlpacaEval",
    "openai_evals:OpenAIEvals",
    "trainer_state:TrainerState",
    "lm_eval:LmEvalResults",
    "mlflow:MlflowDatabase",
    "mlflow:MlflowFolder",
    "tensorboard:TensorBoard",
    "wandb:WandbChart",
    "matrix:Matrix",
)

_REGISTERED: list[Source] = []


def register_source(source: Source) -> None:
    """Add a source, to be asked before all others; one of the same name is replaced."""
    unregister_source(source.name)
    _REGISTERED.insert(0, source)


def unregister_source(name: str) -> None:
    """Remove a source that was registered."""
    _REGISTERED[:] = [source for source in _REGISTERED if source.name != name]


def all_sources() -> list[Source]:
    """Every source: registered ones, then those of other packages, then the built-in ones."""
    return list(each_source())


def each_source() -> Iterator[Source]:
    """Every source in the order in which it is asked; a built-in one is loaded when it is reached."""
    known: set[str] = set()
    for source in _REGISTERED:
        known.add(source.name)
        yield source
    for source in _from_entry_points().sources:
        if source.name not in known:
            known.add(source.name)
            yield source
    for place in BUILT_IN:
        source = _built_in(place)
        if source.name not in known:
            known.add(source.name)
            yield source


def is_built_in(source: Source) -> bool:
    """Whether a source comes with breadth, so that another process can load it by its name."""
    return type(source).__module__.startswith("breadth.") and not isinstance(source, PluginSource)


def detect(file: SourceFile, name: str = "auto") -> tuple[Source, Detection] | None:
    """The first source that recognises a file, and what it takes the file for; of one source if it is named."""
    for source in each_source():
        if name not in ("auto", source.name):
            continue
        chosen = source
        if name == source.name and isinstance(source, PluginSource):
            chosen = PluginSource(source.source, source.place, asked=True)
        detection = chosen.detect(file)
        if detection is not None:
            return chosen, detection
    return None


def detect_scores(file: SourceFile) -> Source | None:
    """The first source that reads scores of whole test sets from a file."""
    for source in each_source():
        detection = source.detect(file)
        if detection is not None and detection.has_scores and source.holds_scores():
            return source
    return None


@cache
def _built_in(place: str) -> Source:
    module, _, name = place.partition(":")
    source: Source = getattr(import_module(f"breadth.sources.tools.{module}"), name)()
    return source


class PluginWarning(UserWarning):
    """A source of another package does not work; the others go on."""


class PluginSource(Source):
    """A source of another package: what goes wrong in it is named as its fault, and the other sources go on.

    ``asked`` says that the user named it. Then no other source is to read the file, and a fault is an error.
    """

    def __init__(self, source: Source, place: str, asked: bool = False) -> None:
        self.source, self.place, self.asked = source, place, asked
        # What other sources declare in their class.
        vars(self).update(
            name=source.name,
            looks_like=source.looks_like,
            experimental=source.experimental,
            exported=source.exported,
        )

    def holds_answers(self) -> bool:
        """Whether the other package reads answers."""
        return self.source.holds_answers()

    def holds_scores(self) -> bool:
        """Whether the other package reads scores."""
        return self.source.holds_scores()

    def detect(self, file: SourceFile) -> Detection | None:
        """What the other package says; None if it fails, unless it was asked for."""
        try:
            detection = self.source.detect(file)
            if detection is None:
                return None
            if not isinstance(detection, Detection) or not isinstance(detection.part, Part):
                raise TypeError(f"detect returned {type(detection).__name__}, which is no Detection")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too, must not end the command
            fault = self._fault(file, error)
            if self.asked:
                raise InputError(fault) from error
            _warn_once(self.place, f"{fault}; it is not asked about this file")
            return None
        return detection

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """The logs that the other package reads; a file in which it fails is left out, unless it was asked for."""
        from breadth.sources.logs.log import Log

        def read() -> Iterator[Log]:
            for log in self.source.read_answers(file, options):
                if not isinstance(log, Log):
                    raise TypeError(f"read_answers returned {type(log).__name__}, which is no Log")
                if not all(isinstance(item, str) for item in log.items):
                    raise TypeError("names of items are not text")
                yield log

        return self._read(file, read)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """The scores that the other package reads, in the same way."""
        from breadth.sources.checkpoint_scores.scores import CheckpointScore

        def read() -> Iterator[CheckpointScore]:
            for score in self.source.read_scores(file, options):
                if not isinstance(score, CheckpointScore):
                    raise TypeError(f"read_scores returned {type(score).__name__}, which is no CheckpointScore")
                yield score

        return self._read(file, read)

    def _read(self, file: SourceFile, read: Callable[[], Iterator[Piece]]) -> Iterator[Piece]:
        from breadth.sources.logs.log import SkipFile

        try:
            pieces = list(read())
        except (KeyboardInterrupt, InputError, SkipFile):
            raise
        except BaseException as error:
            fault = self._fault(file, error)
            if self.asked:
                raise InputError(fault) from error
            _warn_once(self.place, fault)
            raise SkipFile(fault) from error
        yield from pieces

    def _fault(self, file: SourceFile, error: BaseException) -> str:
        what = f"{type(error).__name__}: {first_line(error)}"
        return f"{file.path}: source {self.name!r} ({self.place}), which another package installed, fails ({what})"


def plugin_fault(name: str) -> str:
    """Why the source of another package cannot be loaded; empty if there is no such fault."""
    return _from_entry_points().faults.get(name, "")


class _Plugins(NamedTuple):
    """Sources of other packages, and by the names of their entry points why others cannot be loaded."""

    sources: tuple[PluginSource, ...] = ()
    faults: Mapping[str, str] = {}


_WARNED: set[str] = set()


def _warn_once(place: str, text: str) -> None:
    """Warn about a source once, however many files it fails for."""
    if place not in _WARNED:
        _WARNED.add(place)
        warnings.warn(text, PluginWarning, stacklevel=2)


@cache
def _from_entry_points() -> _Plugins:
    from importlib.metadata import entry_points  # slow to load, and not needed by a process that reads one format

    sources: list[PluginSource] = []
    faults: dict[str, str] = {}
    for point in entry_points(group="breadth.sources"):
        try:
            source = point.load()()
            fault = _why_unusable(source)
            if not fault:
                sources.append(PluginSource(source, point.value))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too, must not end the command
            fault = f"cannot be loaded: {type(error).__name__}: {first_line(error)}"
        if fault:
            faults[point.name] = f"source {point.name!r} ({point.value}), which another package installed, {fault}"
            _warn_once(point.value, f"{faults[point.name]}; it is left out")
    return _Plugins(tuple(sources), faults)


def _why_unusable(source: object) -> str:
    """What is wrong with a source of another package; empty if it can be asked."""
    if not isinstance(source, Source):
        return "is not a subclass of breadth.sources.Source"
    if type(source).detect is Source.detect and type(source).part is Source.part:
        return "does not say which files are its own (detect)"
    if not (source.holds_answers() or source.holds_scores()):
        return "reads neither answers nor scores"
    name = getattr(source, "name", None)
    if not isinstance(name, str) or not name or name == "auto":
        return f"has no name that --format could take: {name!r}"
    if not isinstance(source.looks_like, str):
        return f"says what its files look like by {type(source.looks_like).__name__}, not text"
    # A package that came along with another must not change how files are read that breadth knows.
    if name in [_built_in(place).name for place in BUILT_IN]:
        return f"has the name of a source that comes with breadth, {name!r}; it needs another, or register_source"
    return ""
