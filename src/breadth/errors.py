"""The one exception that means: the input is wrong, and this is how to fix it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Control characters but tabs and line breaks, and those that change the direction of writing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Bytes of a file's name that are not UTF-8, as Python keeps them in text.
_UNDECODABLE = re.compile(r"[\udc80-\udcff]")


#: A command line in a message, which stays as it is; or an option, with the word behind it if there is one.
_SPOKEN = re.compile(
    r"(?P<command>`[^`]*`)"
    r"|(?<![\w-])(?:--(?P<name>[a-z][a-z0-9-]*)|-(?P<letter>[a-z]))(?![\w-])"
    r"(?: (?P<word>'[^']*'|[A-Z]=\d+,\.\.|[\w*~./\\](?:[^\s`]*[^\s`.,;:?)])?))?"
)

#: Words behind an option that go on with the sentence; any other is the option's value.
_PROSE = re.compile(
    "and|are|can|cannot|compares|corrects|could|counts|does|for|from|has|have|if|in|is|keeps|may|must|names|needs|not|of|"
    "on|or|overrides|says|shares|takes?|tells|that|to|was|where|which|with"
)

#: What stands for a value: COLUMN, FILE, A=635,..
_PLACEHOLDER = re.compile(r"[A-Z]+(?:[=,/].*)?|\w+=[A-Z]+")

#: Options that are written without a value.
_FLAGS = frozenset(("dry-run", "losses", "robust", "round-shares", "seeds"))

#: Options whose argument has another name; and what is no argument at all.
_ARGUMENTS = {"with": "calibration=", "from": "source="}
_INSTEAD = {"no-texts": "texts=False", "all": "breadth.rank"}

#: Options of other tools.
_FOREIGN = frozenset(("dump-eval-details", "limit", "samples"))


class _Speech:
    """Whether messages name options of the command line; else they name arguments of Python functions."""

    options = False


@contextmanager
def option_names() -> Iterator[None]:
    """Have messages name options (``--lower-is-better``), as on the command line, while a command runs."""
    before = _Speech.options
    _Speech.options = True
    try:
        yield
    finally:
        _Speech.options = before


def speaks_options() -> bool:
    """Whether whoever reads messages has a command line before them."""
    return _Speech.options


def in_words_of_the_caller(message: str) -> str:
    """A message that names options, as whoever called reads it: in Python options are arguments.

    >>> in_words_of_the_caller("give --item-counts A=635,.. or --cluster none; --by run needs --order")
    'give item_counts= or cluster="none"; by="run" needs order='
    """
    return message if _Speech.options else _SPOKEN.sub(_argument, message)


def _argument(match: re.Match[str]) -> str:
    """An option as an argument of a function."""
    option, word = match["name"] or match["letter"], match["word"]
    if match["command"] or option in _FOREIGN:
        return match[0]
    rest = "" if word is None else f" {word}"
    if option in _INSTEAD:
        return _INSTEAD[option] + rest
    name = _ARGUMENTS.get(option, f"{option.replace('-', '_')}=")
    if option in _FLAGS:
        return f"{name}True{rest}"
    if word is None or _PROSE.fullmatch(word):
        return name + rest
    if _PLACEHOLDER.fullmatch(word):
        return name
    return name + _python_value(word)


def _python_value(word: str) -> str:
    """A value of the command line as Python writes it."""
    word = word.strip("'")
    key, sign, value = word.partition("=")
    if sign:
        return f'{{"{key}": {_python_value(value)}}}'
    return word if re.fullmatch(r"-?\d+(\.\d+)?", word) else f'"{word}"'


class InputError(ValueError):
    """A mistake in a table, a file or an option.

    The message says what is wrong, where, and what to do. The command line prints it as one line
    and exits with code 2; any other exception is a bug and keeps its traceback.
    """

    def __init__(self, message: str = "") -> None:
        """A message that can be printed, whatever the names of files in it."""
        super().__init__(in_words_of_the_caller(escape_bytes(message)))


class NothingFoundError(InputError):
    """Nothing of the kind that was looked for is there, so that it may be something else."""


def unknown_column(name: str, columns: Iterable[str], where: str, role: str) -> InputError:
    """An error that names a missing column, the nearest names, and all columns."""
    names = list(columns)
    hint = did_you_mean([name], names, cutoff=0.5)
    return InputError(f"{where}: there is no column {name!r} ({role}).{hint} Columns: {listed(names, most=40)}")


def did_you_mean(names: Iterable[str], known: Iterable[str], cutoff: float = 0.6, most: int = 3) -> str:
    """A question to end a message with: the ``known`` names nearest to ``names``; empty if none is near."""
    lowered = {name.lower(): name for name in reversed(list(known)[:5000]) if len(name) < 200}
    near = [key for name in names for key in difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=cutoff)]
    return f" Did you mean {listed(lowered[key] for key in dict.fromkeys(near))}?" if near else ""


def printable(text: str) -> str:
    """Text for a terminal: control characters, which could move the cursor or hide words, are shown as question marks.

    >>> printable("red \\x1b[31m\\n")
    'red ?[31m\\n'
    """
    return _CONTROL.sub("?", escape_bytes(text))


def escape_bytes(text: str) -> str:
    """Text that can be printed and stored: bytes that are not UTF-8, from the name of a file, are written as \\xff."""
    return _UNDECODABLE.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def listed(names: Iterable[object], most: int = 12) -> str:
    """Join names for a message, cutting a long list short. Cells without a value are shown as ``None``."""
    everything = [str(name) for name in names]
    shown = ", ".join(everything[:most])
    return shown if len(everything) <= most else f"{shown}, ... ({len(everything)} in all)"
