"""What a test set is made of: families of templates, each of which can write an item of either label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from breadth.datasets.suite.draw import Draw

Shift = Literal["in-domain", "domain", "style", "difficulty", "adversarial"]
SHIFTS: tuple[Shift, ...] = get_args(Shift)
Style = Literal["plain", "formal", "chat"]


class Text(NamedTuple):
    """A premise and a hypothesis."""

    premise: str
    hypothesis: str


class Sketch(NamedTuple):
    """One content in up to three styles; a set without style variants writes the plain one only."""

    plain: Text
    formal: Text | None = None
    chat: Text | None = None

    def texts(self) -> tuple[Text, ...]:
        """List the styles that were written."""
        return tuple(text for text in self if text is not None)


class Family(NamedTuple):
    """A template family: ``write(draw, follows)`` writes an item whose hypothesis follows, or does not.

    A writer keeps what hypotheses look like independent of ``follows``, so that a hypothesis alone says nothing
    about the label; where it can, it does so for premises too.
    """

    template: str
    write: Callable[[Draw, bool], Sketch]
    steps: int | None = None


def family(write: Callable[[Draw, bool], Sketch]) -> Family:
    """Name a family after the function that writes it."""
    return Family(write.__name__, write)


def sketch(premise: str, hypothesis: str) -> Sketch:
    """Make a sketch of one style."""
    return Sketch(Text(premise, hypothesis))


class TestSet(NamedTuple):
    """A named set: what it measures, what kind of shift it is, and its families."""

    description: str
    shift: Shift
    families: tuple[Family, ...]
    style: Style = "plain"
