"""A problem of a study file: where it is, and in plain words what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from breadth.errors import did_you_mean as nearest

#: Where something stands: keys and positions from the top of the file.
Place = tuple[str | int, ...]

#: Takes the place of a wrong name while the rest of a file is checked.
STAND_IN = "?"


class Problem(NamedTuple):
    """One thing that is wrong (or, as a warning, worth knowing) and where.

    ``needs`` are further places it was concluded from: where one of them is wrong already, the conclusion is void.
    ``line`` is given where the place alone does not tell it.
    """

    place: Place
    message: str
    needs: tuple[Place, ...] = ()
    line: int | None = None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with a leading blank, or nothing if no known name is near.

    >>> did_you_mean("recpie", ["recipe", "models"])
    ' Did you mean recipe?'
    """
    return nearest([name], known, most=1)


def key_path(place: Place) -> str:
    """The keys on the way to a place; positions in lists are left out, since the line says where.

    >>> key_path(("models", 1, "recipe", "lr"))
    'models.recipe.lr'
    """
    return ".".join(part for part in place if isinstance(part, str))


def is_void(problem: Problem, broken: Iterable[Place]) -> bool:
    """Whether a problem lies in a place that is broken anyway, or was concluded from one that is or holds one."""
    places = list(broken)
    inside = any(problem.place[: len(each)] == each for each in places)
    return inside or any(
        need[: len(each)] == each or each[: len(need)] == need for need in problem.needs for each in places
    )


def quoted(names: Iterable[object]) -> str:
    """Names in quotation marks for a message."""
    return ", ".join(repr(name) for name in names)


def repeated(values: Sequence[object]) -> list[object]:
    """Values that come more than once, each once, in order; stand-ins for wrong values do not count."""
    return list(dict.fromkeys(value for k, value in enumerate(values) if value in values[:k] and value != STAND_IN))
