"""Values as logs hold them, taken for what they are: nothing that comes from a file is trusted to be of a type."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xxhash


def number(value: Any) -> float | None:
    """A finite number or a truth value; None for everything else."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def words(value: Any) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value.strip() else None


def mapping(value: Any) -> Mapping[str, Any]:
    """An object of JSON; an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> Sequence[Any]:
    """A list of JSON; an empty one for everything else."""
    return value if isinstance(value, list) else ()


def plain(value: Any) -> str | float | bool | None:
    """A text, number or truth value as it describes a subject; None for everything else."""
    return value if isinstance(value, str | bool) else number(value)


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


def log_odds(scores: Sequence[float], gold: Iterable[int]) -> float | None:
    """Log-odds of the right options against all others, given the log-probability of each; None if not finite."""
    right = {k for k in gold if 0 <= k < len(scores)}
    sides = [_log_sum([score for k, score in enumerate(scores) if (k in right) is side]) for side in (True, False)]
    odds = sides[0] - sides[1]
    return odds if math.isfinite(odds) else None


def _log_sum(scores: Sequence[float]) -> float:
    most = max(scores, default=-math.inf)
    return most if math.isinf(most) else most + math.log(sum(math.exp(score - most) for score in scores))
