"""Files of logs, what they are by their first bytes, and the values in them, read without trusting either.

JSON is read by orjson; what it refuses but Python's json reads (NaN, Infinity) is read by that. Nothing is unpickled.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO

import orjson
import xxhash

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.limits import MOST_BYTES, MOST_VALUES, SMALL, regular_file

#: Bytes that are read from disk at once: lines of logs are long, and small buffers cost four times as much.
BUFFER = 1 << 20

#: Bytes of a file by which its format is judged.
HEAD = 1 << 16

#: Characters of the longest text that is kept as an answer.
LONGEST_ANSWER = 200

# A string may be cut off by the end of the head. Possessive, or a cut string with many quotes takes minutes.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]:]', re.DOTALL)

# The start of a list with an object per indented block.
_INDENTED = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\n  \{\n")

# Half of a surrogate pair, escaped or as bytes: Python reads it, but nothing can write it.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


#: An object of JSON.
Object = Mapping[str, Any]


@dataclass(frozen=True)
class SourceFile:
    """A file that may be a log."""

    path: Path
    size: int
    head: bytes

    @classmethod
    def look(cls, path: Path) -> SourceFile:
        """Look at the first bytes of a file."""
        regular_file(path)
        try:
            with path.open("rb") as file:
                return cls(path, path.stat().st_size, file.read(HEAD))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the first JSON object that the head shows, whether alone, on a line, or first in a list."""
        depth, start, keys, last = 0, 0, set(), b""
        text = self.head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] not in (b"{", b"["):
            return frozenset()
        for match in _TOKEN.finditer(text):
            token = match[0]
            if token in (b"{", b"["):
                depth += 1
                start = start or (depth if token == b"{" else 0)
            elif token in (b"}", b"]"):
                depth -= 1
                if depth < start:
                    break
            elif token == b":" and depth == start:
                keys.add(last[1:-1].decode(errors="replace"))
            last = token
        return frozenset(keys)

    @cached_property
    def is_list(self) -> bool:
        """Whether the file is one JSON list."""
        return self.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["

    @cached_property
    def members(self) -> frozenset[str]:
        """Names in a zip archive; empty for other files."""
        if not self.head.startswith(b"PK"):
            return frozenset()
        from breadth.sources.zip_archives import member_names

        return member_names(self.path)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of a Parquet file; empty for other files."""
        if not self.head.startswith(b"PAR1"):
            return frozenset()
        import polars as pl

        try:
            with reading(self.path):
                return frozenset(pl.read_parquet_schema(self.path))
        except InputError:
            return frozenset()

    def read(self) -> bytes:
        """The whole file, if it is not too large to be held in memory."""
        if self.size > MOST_BYTES:
            raise InputError(f"{self.path}: has {self.size:,} bytes; at most {MOST_BYTES:,} are read at once")
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error

    def json(self) -> Any:
        """The whole file as one JSON value."""
        return parse(self.read(), str(self.path))

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """JSON values one at a time, each with its line: the lines of a file, or the elements of one list.

        A list with an element per indented block, as ``json.dumps(indent=2)`` writes it, is cut at these blocks, so it
        may be larger than memory: a raw line break never occurs inside a JSON string.
        """
        try:
            with self.path.open("rb", buffering=BUFFER) as file:
                if not self.is_list:
                    lines = file if self.size <= MOST_BYTES else _short(file, str(self.path))
                    yield from ((k, line) for k, line in enumerate(lines, 1) if not line.isspace())
                elif _INDENTED.match(self.head):
                    yield from blocks(file, str(self.path))
                else:
                    for k, element in enumerate(self.json(), 1):
                        yield k, _dumped(element, f"{self.path}, element {k}")
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error


def _short(file: BinaryIO, where: str) -> Iterator[bytes]:
    """Lines that fit into memory."""
    for k, line in enumerate(iter(lambda: file.readline(MOST_BYTES + 1), b""), 1):
        if len(line) > MOST_BYTES:
            raise InputError(f"{where}, line {k}: has more than {MOST_BYTES:,} bytes; at most that many are read")
        yield line


def _dumped(element: Any, where: str) -> bytes:
    """An element of a list as JSON again; what orjson cannot write (large integers, deep nesting) by Python's json."""
    try:
        return orjson.dumps(element)
    except orjson.JSONEncodeError:
        try:
            return json.dumps(element).encode()
        except RecursionError:
            raise InputError(f"{where}: is nested too deep") from None


def blocks(lines: Iterable[bytes], where: str, indent: int = 2, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Elements of the first list whose elements are objects indented by ``indent``, each with its line.

    ``first`` is the number of the first line.
    """
    margin = b" " * indent
    opening, closing, end = margin + b"{", margin + b"}", margin[2:] + b"]"
    block: list[bytes] = []
    start, size = 0, 0
    for k, line in enumerate(lines, first):
        bare = line.rstrip(b", \t\r\n")
        if not block:
            if bare == opening:
                start, size = k, 0
            elif start and bare == end:
                return
            elif start and bare == opening + b"}":
                yield k, b"{}"
                continue
            elif start and bare:
                raise InputError(f"{where}, line {k}: expected an object or the end of a list; the file is damaged")
            else:
                continue
        block.append(line)
        size += len(line)
        if size > MOST_BYTES:
            raise InputError(f"{where}, line {start}: has more than {MOST_BYTES:,} bytes; at most that many are read")
        if bare == closing:
            yield start, b"".join(block).rstrip(b", \t\r\n")
            block = []
    raise InputError(f"{where}, line {start}: the file ends inside a list; it is damaged or still being written")


def parse(content: bytes | memoryview, where: str, line: int | None = None) -> Any:
    """Parse JSON; NaN and Infinity are read as Python reads them, halves of surrogate pairs become question marks."""
    if len(content) > SMALL and sum(map(bytes(content).count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise InputError(f"{where}: has more than {MOST_VALUES:,} values; at most that many are read at once")
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as refused:
        try:
            value = json.loads(bytes(content))
            if _SURROGATE.search(content):
                value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
            return value
        except (ValueError, RecursionError):
            place = f"{where}, line {line if line is not None else refused.lineno}"
            raise InputError(
                f"{place}: is not JSON ({refused.msg}); the file is damaged or still being written"
            ) from None


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Keep Python from looking for garbage while a file is parsed: there is none, and it takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def beside(path: Path) -> Any:
    """A companion file as JSON, kept for the next log that needs it; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _companion(path, status.st_mtime_ns, status.st_size) if path.is_file() else None


@lru_cache(maxsize=32)
def _companion(path: Path, _changed: int, _size: int) -> Any:
    return SourceFile.look(path).json()


# A tuple: the union of types would be built anew for every value, which takes longer than the rest.
_NUMBERS = (bool, int, float)


def number(value: Any) -> float | None:
    """A finite number or a truth value; None for everything else."""
    if not isinstance(value, _NUMBERS):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def words(value: Any) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value.strip() else None


def mapping(value: Any) -> Object:
    """An object of JSON; an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> Sequence[Any]:
    """A list of JSON; an empty one for everything else."""
    return value if isinstance(value, list) else ()


def plain(value: Any) -> str | float | bool | None:
    """A text, number or truth value as it describes a subject; None for everything else."""
    return value if isinstance(value, str | bool) else number(value)


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the numbers that are there; None if there are none."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


def agreed(answers: Mapping[int, str | None], epoch: int | None) -> str | None:
    """The answer of all epochs, or of one; None where they differ."""
    distinct = {answer for k, answer in answers.items() if epoch in (None, k)}
    return distinct.pop() if len(distinct) == 1 else None


def short_answer(value: Any) -> str | None:
    """A text that is short enough for an answer; longer ones are reasoning."""
    return value if isinstance(value, str) and len(value) <= LONGEST_ANSWER else None


def text_item(*texts: str) -> str:
    """The identity of an item that has none but its texts."""
    return xxhash.xxh3_128_hexdigest("\x1f".join(texts).encode("utf-8", "surrogatepass"))[:20]


def text_hash(text: str) -> str:
    """A hash that tells questions of one name apart; blanks do not matter."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def numbered(items: Iterable[str]) -> list[str]:
    """Items that are listed more than once told apart by how often they were before: a, b, a#2."""
    listed = list(items)
    names: dict[str, None] = dict.fromkeys(listed)
    if len(names) == len(listed):
        return listed
    seen: Counter[str] = Counter()
    names = {}
    for item in listed:
        seen[item] += 1
        name = item if seen[item] == 1 else f"{item}#{seen[item]}"
        while name in names:  # an item may itself be called a#2
            seen[item] += 1
            name = f"{item}#{seen[item]}"
        names[name] = None
    return list(names)


@cache
def option_letters(count: int) -> list[str]:
    """Labels of options that have none: A to Z, then 1, 2, ..."""
    return [chr(65 + k) if k < 26 else str(k - 25) for k in range(count)]


def log_odds(scores: Sequence[float], gold: Iterable[int]) -> float | None:
    """Log-odds of the right options against all others, given the log-probability of each; None if not finite."""
    right = {k for k in gold if 0 <= k < len(scores)}
    sides = [_log_sum([score for k, score in enumerate(scores) if (k in right) is side]) for side in (True, False)]
    odds = sides[0] - sides[1]
    return odds if math.isfinite(odds) else None


def _log_sum(scores: Sequence[float]) -> float:
    most = max(scores, default=-math.inf)
    return most if math.isinf(most) else most + math.log(sum(math.exp(score - most) for score in scores))


def model_arguments(given: Any) -> dict[str, str]:
    """Arguments of the model: a text ``pretrained=gpt2,dtype=float16`` or, since 0.4.13, an object."""
    if isinstance(given, str) and given.startswith("{"):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            return {}
    if isinstance(given, str):
        pairs = (part.partition("=") for part in given.split(","))
        return {key.strip(): value.strip() for key, _, value in pairs if key.strip() and value.strip()}
    return {key: text for key, value in mapping(given).items() if (text := as_text(value)) is not None}


def as_text(value: Any) -> str | None:
    """A value as a text, so that versions which write it differently agree; None for what is empty."""
    if value in (None, "", {}, []):
        return None
    if isinstance(value, str | bool | int | float):
        return str(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # nested too deeply, or half a surrogate pair
        return None
