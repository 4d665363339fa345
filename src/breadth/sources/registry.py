"""What is this file? One registry of sources, asked in a fixed order, each with a reason.

To add a tool, write one subclass of :class:`Source` and pass an instance to :func:`register_source`, or name the class
in a package's entry points under ``breadth.sources``. Sources from outside are asked before the built-in ones. One that
is registered may replace a built-in one; that of a package may not, and if it fails, it is named and the others go on.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from functools import cache
from importlib import import_module
from io import TextIOBase
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from breadth.boundary import first_line
from breadth.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import FrameType

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
            chosen = source.named()
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


#: Characters that code of another package may print; what it prints beyond that is dropped.
PRINTED = 10_000

#: Characters of a name that ``--format`` takes.
LONGEST_NAME = 100


class _BesideResults(TextIOBase):
    """Where code of another package prints: on standard error, so that it never stands among results, and not long."""

    def __init__(self) -> None:
        self.left = PRINTED

    def write(self, text: str) -> int:
        """Print what there is room for."""
        shown = text[: self.left]
        self.left -= len(shown)
        if shown and sys.stderr is not None:
            sys.stderr.write(shown)
        return len(text)


class _PluginError(Exception):
    """What code of another package raised, in words."""


@contextmanager
def _foreign_code(*passed: type[BaseException]) -> Iterator[None]:
    """Run code of another package: whatever it raises is a :class:`_PluginError`, but for what is ``passed`` on.

    SystemExit must not end the command, nor a KeyboardInterrupt that nobody's Ctrl-C caused.
    """
    interrupted = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        signal.default_int_handler(number, frame)

    # Only this thread is ever interrupted by Ctrl-C, and only it may say what happens then.
    is_main = threading.current_thread() is threading.main_thread()
    watched = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if watched:
        signal.signal(signal.SIGINT, interrupt)
    try:
        with redirect_stdout(_BesideResults()):
            yield
    except passed:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and is_main and (interrupted or not watched):
            raise
        raise _PluginError(_error_words(error)) from error
    finally:
        if watched:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _error_words(error: BaseException) -> str:
    """Type and message of an exception, also of one that cannot say what it is."""
    try:
        return f"{type(error).__name__}: {first_line(error)}"
    except BaseException:
        return type(error).__name__


class PluginSource(Source):
    """A source of another package: what goes wrong in it is named as its fault, and the other sources go on.

    ``asked`` says that the user named it. Then no other source is to read the file, and a fault is an error.
    ``place`` is its entry point and the package that has it.
    """

    def __init__(self, source: Source, place: str, asked: bool = False) -> None:
        self.source, self.place, self.asked = source, place, asked
        # What other sources declare in their class, asked for once: code of another package may answer otherwise later.
        vars(self).update(
            name=str.__str__(source.name),
            looks_like=str.__str__(source.looks_like),
            experimental=bool(source.experimental),
            exported=bool(source.exported),
        )
        self._has_answers, self._has_scores = bool(source.holds_answers()), bool(source.holds_scores())

    def named(self) -> PluginSource:
        """The same source, for a file that the user named it for."""
        other = object.__new__(PluginSource)
        vars(other).update({**vars(self), "asked": True})
        return other

    def holds_answers(self) -> bool:
        """Whether the other package reads answers."""
        return self._has_answers

    def holds_scores(self) -> bool:
        """Whether the other package reads scores."""
        return self._has_scores

    def detect(self, file: SourceFile) -> Detection | None:
        """What the other package says; None if it fails, unless it was asked for."""
        try:
            with _foreign_code():
                detection = self.source.detect(file)
                if detection is None:
                    return None
                if not isinstance(detection, Detection) or not isinstance(detection.part, Part):
                    raise TypeError(f"detect returned {type(detection).__name__}, which is no Detection")
                if not isinstance(detection.reason, str):
                    raise TypeError(f"detect gave {type(detection.reason).__name__} as its reason, not text")
        except _PluginError as error:
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
            with _foreign_code(InputError, SkipFile):
                pieces = list(read())
        except _PluginError as error:
            fault = self._fault(file, error)
            if self.asked:
                raise InputError(fault) from error
            _warn_once(self.place, fault)
            raise SkipFile(fault) from error
        yield from pieces

    def _fault(self, file: SourceFile, error: _PluginError) -> str:
        return f"{file.path}: source {self.name!r} ({self.place}) fails ({error})"


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
    sources: list[PluginSource] = []
    faults: dict[str, str] = {}
    for point, package in _entry_points(faults):
        place, fault = f"{point.value} of the package {package}", ""
        try:
            with _foreign_code():
                source = point.load()()
                fault = _why_unusable(source)
                made = None if fault else PluginSource(source, place)
        except _PluginError as error:
            made, fault = None, f"cannot be loaded: {error}"
        if made is not None:
            others = [each.place for each in sources if each.name == made.name]
            if not others:
                sources.append(made)
                continue
            fault = f"has the name of another, {made.name!r} ({others[0]}); uninstall one of the two"
        faults[point.name] = f"source {point.name!r} ({place}) {fault}"
        _warn_once(place, f"{faults[point.name]}; it is left out")
    return _Plugins(tuple(sources), faults)


def _entry_points(faults: dict[str, str]) -> Iterator[tuple[EntryPoint, str]]:
    """Entry points of all packages with the names of their packages; those of a package that is broken are a fault.

    ``importlib.metadata.entry_points`` reads all packages at once, and fails for all if one of them is broken.
    """
    from importlib.metadata import distributions  # slow to load, and not needed by a process that reads one format

    known: set[str] = set()
    for distribution in distributions():
        try:
            if "breadth.sources" not in (distribution.read_text("entry_points.txt") or ""):
                continue
        except Exception:
            continue  # what is wrong with packages that have nothing to do with breadth is not for breadth to say
        package = "that has no name"
        try:
            package = str(distribution.metadata["Name"])
            if package in known:  # hidden by one that comes earlier on the path
                continue
            known.add(package)
            points = distribution.entry_points.select(group="breadth.sources")
        except Exception as error:
            faults[package] = f"the entry points of the package {package} cannot be read ({_error_words(error)})"
            _warn_once(package, f"{faults[package]}; its sources are left out")
            continue
        for point in points:
            yield point, package


def _why_unusable(source: object) -> str:
    """What is wrong with a source of another package; empty if it can be asked."""
    if not isinstance(source, Source):
        return "is not a subclass of breadth.sources.Source"
    if type(source).detect is Source.detect and type(source).part is Source.part:
        return "does not say which files are its own (detect)"
    if not (source.holds_answers() or source.holds_scores()):
        return "reads neither answers nor scores"
    name = getattr(source, "name", None)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name == "auto":
        return f"has no name that --format could take: {repr(name)[:LONGEST_NAME]}"
    if not isinstance(source.looks_like, str):
        return f"says what its files look like by {type(source.looks_like).__name__}, not text"
    # A package that came along with another must not change how files are read that breadth knows.
    if name in [_built_in(place).name for place in BUILT_IN]:
        return f"has the name of a source that comes with breadth, {name!r}; it needs another, or register_source"
    return ""
