"""The words of breadth's vocabulary: ``vocabulary.toml``, and what a file of the user's own adds to it.

The shipped file says what there is: a user's file may add words to its lists and, where the keys are names of test
sets or models, keys to its tables. Words of the user come first, so they are preferred.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from breadth.errors import InputError, did_you_mean, listed
from breadth.sources.limits import regular_file

#: The environment variable that names a user's own vocabulary.
VARIABLE = "BREADTH_VOCABULARY"

#: What comes with breadth.
SHIPPED = Path(__file__).with_name("vocabulary.toml")

#: Most bytes of a user's file: a list of words is short.
MOST_BYTES = 1 << 20

#: Tables whose keys are names of test sets or models, so that any key may be added.
OPEN_TABLES = frozenset({"training_sets", "spellings", "items", "model_sizes"})

#: Tables and keys whose words are regular expressions.
EXPRESSIONS = frozenset({"patterns", "bookkeeping", "series", "short_series", "idle_arguments", "task_beginnings"})

#: Tables in which names of data sets are written without blanks.
SQUEEZED = frozenset({"training_sets", "spellings"})

Table = dict[str, Any]

# Where a lower-case letter is followed by a word that begins with a capital one.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name in lower-case words joined by underscores: ``isCorrect``, ``Is correct`` and ``_is-correct`` are one."""
    return "_".join(_WORD.findall(_HUMP.sub(" ", name).lower()))


def own_file() -> Path | None:
    """The user's own vocabulary: the file that the environment names, or one where programs keep their settings."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    usual = platformdirs.user_config_path("breadth", appauthor=False) / SHIPPED.name
    return usual if usual.is_file() else None


def load_vocabulary(own: Path | None) -> dict[str, Table]:
    """The shipped vocabulary, with what a user's file adds."""
    vocabulary: dict[str, Table] = tomllib.loads(SHIPPED.read_text("utf-8"))
    if own is None:
        return vocabulary
    for table, added in _read_toml(own).items():
        if table not in vocabulary:
            hint = did_you_mean([table], vocabulary)
            raise InputError(f"{own}, [{table}]: there is no such table.{hint} Tables: {listed(vocabulary, 20)}")
        if not isinstance(added, dict):
            raise InputError(f"{own}, {table}: is a table; write [{table}] and its keys below")
        for key, value in added.items():
            _add(vocabulary[table], table, key, value, f"{own}, [{table}] {key}")
    return vocabulary


def _read_toml(path: Path) -> Table:
    if regular_file(path) > MOST_BYTES:
        raise InputError(f"{path}: has more than {MOST_BYTES:,} bytes, too many for a vocabulary")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML ({error})") from error


def _add(known: Table, table: str, key: str, value: Any, where: str) -> None:
    """Add what a user's file says under one key to a table of the vocabulary."""
    if key not in known and table not in OPEN_TABLES:
        hint = did_you_mean([key], known)
        raise InputError(f"{where}: there is no such key.{hint} Keys: {listed(known, 20)}")
    example = next(iter(known.values()))
    if not isinstance(example, list):
        known[key] = _checked_number(value, where, whole=isinstance(example, int))
        return
    words = _checked_words(value, where, expressions=bool(EXPRESSIONS & {table, key}))
    if table in SQUEEZED:
        key = plain(key).replace("_", "")
        words = [plain(word).replace("_", "") for word in words]
    elif table in ("columns", "scores") and key not in EXPRESSIONS:
        words = [plain(word) for word in words]
    if table == "columns":
        # A column is one thing: what the user takes a name for counts.
        for role, names in known.items():
            known[role] = [name for name in names if name not in words]
    known[key] = list(dict.fromkeys([*words, *known.get(key, ())]))


def _checked_number(value: Any, where: str, *, whole: bool) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0 or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{where}: {value!r} is not {kind} above 0")
    return int(value) if whole else float(value)


def _checked_words(value: Any, where: str, *, expressions: bool) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f'{where}: {value!r} is not a list of words such as ["one", "two"]')
    if expressions:
        for word in value:
            try:
                re.compile(word)
            except re.error as error:
                raise InputError(f"{where}: {word!r} is not a regular expression ({error})") from error
    return value


#: The words of this process.
VOCABULARY = load_vocabulary(own_file())
