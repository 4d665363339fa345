"""Names of models and test sets as labels: without what all or most of them start with."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Sequence

#: Shortest prefix that is left out of names, where it does not end in a slash: ``model-a`` stays as it is.
LEAST_PREFIX = 8

#: Share of the names that have a prefix of their own, such as one of several benchmarks, from which it is left out.
MOST_HAVE_IT = 0.5


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Labels by name. Where only most names share a prefix, an ellipsis stands for it."""
    distinct = list(dict.fromkeys(names))
    plain = {name: name for name in distinct}
    if len(distinct) < 2:
        return plain
    prefix = _common_prefix(distinct)
    if prefix:
        short = {name: name.removeprefix(prefix) for name in distinct}
        # A label of one letter says less than a long one.
        return short if min(map(len, short.values())) > 1 else plain
    prefix = _frequent_prefix(distinct)
    if not prefix:
        return plain
    return {name: f"…{name.removeprefix(prefix)}" if name.startswith(prefix) else name for name in distinct}


def _common_prefix(names: Sequence[str]) -> str:
    """What all names start with, if it ends where a part of a name does."""
    common = os.path.commonprefix(list(names))  # noqa: RUF071 - names are no paths
    ends = [match.end() for match in re.finditer(r"[/:_\- ]", common)]
    if not ends:
        return ""
    if ends[-1] >= LEAST_PREFIX:
        return common[: ends[-1]]
    return common[: common.rfind("/") + 1]


def _frequent_prefix(names: Sequence[str]) -> str:
    """The first part of most names, if it is long."""
    parts: Counter[str] = Counter()
    for name in names:
        match = re.match(r"[^/:_\- ]+[/:_\- ]", name)
        if match and match.end() >= LEAST_PREFIX and len(name) > match.end() + 1:
            parts[match[0]] += 1
    if not parts:
        return ""
    prefix, number = parts.most_common(1)[0]
    return prefix if number >= max(3, MOST_HAVE_IT * len(names)) else ""
