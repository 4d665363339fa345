"""Numbers: counts, bounds, sums, differences, products and units, all numbers in figures.

The number in the hypothesis is drawn independently of the label and the premise is made to fit, so that the size of a
number says nothing about the label.
"""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.suite.templates import (
    SMALL_THINGS,
    Draw,
    Texts,
    families,
    people,
    plural,
    sentence,
    sentences,
    texts,
)


class Bound(NamedTuple):
    """A phrase before a number k, and the smallest and largest offsets from k for which it holds."""

    phrase: str
    least: int
    greatest: int


#: The largest offset that is drawn.
FAR = 9
BOUNDS = (
    Bound("exactly", 0, 0),
    Bound("at least", 0, FAR),
    Bound("at most", -FAR, 0),
    Bound("more than", 1, FAR),
    Bound("fewer than", -FAR, -1),
)


def _value(draw: Draw, bound: Bound, k: int, follows: bool) -> int:
    """Draw a number near ``k`` for which "bound k" is true or false; values close to ``k`` are frequent."""
    holds = range(bound.least, bound.greatest + 1)
    offsets = [d for d in range(-FAR, FAR + 1) if (d in holds) == follows]
    close = [d for d in offsets if abs(d) <= 2]
    return k + draw.one(close if close and draw.flip() else offsets)


def compare(draw: Draw, follows: bool) -> Texts:
    """Who has more of something."""
    one, two = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    low = draw.between(3, 80)
    high = low + draw.between(1, 15)
    counts = draw.shuffled(((one, high), (two, low)))
    premise = f"{counts[0][0]} has {counts[0][1]} {things}, and {counts[1][0]} has {counts[1][1]}"
    word = draw.one(("more", "fewer"))
    left, right = (one, two) if (word == "more") == follows else (two, one)
    return texts(sentence(premise), sentence(f"{left} has {word} {things} than {right}"))


def bounds(draw: Draw, follows: bool) -> Texts:
    """A count against a bound, with somebody else's count as a distraction."""
    who, other = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    bound, k = draw.one(BOUNDS), draw.between(20, 90)
    value, distraction = _value(draw, bound, k, follows), draw.between(12, 98)
    counts = draw.shuffled(((who, value), (other, distraction)))
    premise = f"{counts[0][0]} found {counts[0][1]} {things}, and {counts[1][0]} found {counts[1][1]}"
    return texts(sentence(premise), sentence(f"{who} found {bound.phrase} {k} {things}"))


def total(draw: Draw, follows: bool) -> Texts:
    """The sum of two counts against a bound."""
    one, two = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    bound, k = draw.one(BOUNDS), draw.between(30, 95)
    value = _value(draw, bound, k, follows)
    part = draw.between(4, value - 4)
    return texts(
        sentence(f"{one} picked up {part} {things}, and {two} picked up {value - part}"),
        sentence(f"{one} and {two} picked up {bound.phrase} {k} {things} in all"),
    )


def remainder(draw: Draw, follows: bool) -> Texts:
    """What is left after giving some away, or the total after getting more."""
    who, other = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    bound, k = draw.one(BOUNDS), draw.between(22, 80)
    value, moved = _value(draw, bound, k, follows), draw.between(3, 10)
    gave = draw.flip()
    move = f"gave {moved} of them to {other}" if gave else f"was given {moved} more by {other}"
    return texts(
        sentence(f"{who} had {value + (moved if gave else -moved)} {things} and then {move}"),
        sentence(f"after that, {who} had {bound.phrase} {k} {things}"),
    )


def product(draw: Draw, follows: bool) -> Texts:
    """A number of boxes with a number of things in each."""
    who, other = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    boxes, each = draw.between(4, 9), draw.between(4, 12)
    bound = draw.one(BOUNDS)
    # Not every number near k is a product, so the product is drawn first and k around it.
    mirrored = Bound(bound.phrase, -bound.greatest, -bound.least)
    k = _value(draw, mirrored, boxes * each, follows)
    container = plural(draw.one(("box", "bag", "basket", "crate")))
    return texts(
        sentence(f"{who} bought {boxes} {container} with {each} {things} in each for {other}"),
        sentence(f"{who} bought {bound.phrase} {k} {things} for {other}"),
    )


def multiple(draw: Draw, follows: bool) -> Texts:
    """Twice or three times as many as somebody else."""
    who, other = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    factor, count = draw.between(2, 3), draw.between(6, 30)
    phrase = {2: "twice", 3: "3 times"}[factor]
    larger = draw.flip()
    asked, value, given, known = (who, count * factor, other, count) if larger else (other, count, who, count * factor)
    k = value if follows else value + draw.one((-3, -2, -1, 1, 2, 3))
    return texts(
        sentences(f"{who} sold {phrase} as many {things} as {other}", f"{given} sold {known} {things}"),
        sentence(f"{asked} sold exactly {k} {things}"),
    )


def interval(draw: Draw, follows: bool) -> Texts:
    """From one bound to another: what is more than 20 is at least 15."""
    who, other = people(draw, 2)
    things = plural(draw.word(SMALL_THINGS))
    upward, k = draw.flip(), draw.between(25, 90)
    given = draw.one(("more than", "at least") if upward else ("fewer than", "at most"))
    asked = draw.one(("more than", "at least") if upward else ("fewer than", "at most"))
    # The last integers that hypothesis and premise still include.
    step = 1 if upward else -1
    edge = k + (step if asked in ("more than", "fewer than") else 0)
    reached = edge + step * (draw.between(0, 6) if follows else -draw.between(1, 6))
    figure = reached - (step if given in ("more than", "fewer than") else 0)
    verb = draw.one(("sold", "counted", "packed"))
    return texts(
        sentence(f"{who} {verb} {given} {figure} {things} and gave none to {other}"),
        sentence(f"{who} {verb} {asked} {k} {things}"),
    )


class Measure(NamedTuple):
    """A quantity in two units; one large unit is ``factor`` small ones."""

    thing: str
    large: str
    small: str
    factor: int
    more: str
    less: str


MEASURES = (
    Measure("rope", "metres long", "centimetres long", 100, "longer", "shorter"),
    Measure("ladder", "metres high", "centimetres high", 100, "higher", "lower"),
    Measure("parcel", "kilograms in weight", "grams in weight", 1000, "heavier", "lighter"),
    Measure("film", "hours long", "minutes long", 60, "longer", "shorter"),
    Measure("holiday", "weeks long", "days long", 7, "longer", "shorter"),
    Measure("walk", "kilometres long", "metres long", 1000, "longer", "shorter"),
)


def units(draw: Draw, follows: bool) -> Texts:
    """Two sizes in different units."""
    one, two = people(draw, 2)
    measure = draw.one(MEASURES)
    large = draw.between(2, 9)
    step = max(measure.factor // 20, 1)
    difference = step * draw.between(1, 6 if step == 1 else 19) * draw.one((-1, 1))
    small = large * measure.factor + difference
    sizes = draw.shuffled((f"{one}'s {measure.thing} is {large} {measure.large}", _small(two, measure, small)))
    bigger, smaller = (one, two) if difference < 0 else (two, one)
    more = draw.flip()
    left, right = (bigger, smaller) if more == follows else (smaller, bigger)
    return texts(
        sentence(f"{sizes[0]}, and {sizes[1]}"),
        sentence(f"{left}'s {measure.thing} is {measure.more if more else measure.less} than {right}'s"),
    )


def _small(who: str, measure: Measure, size: int) -> str:
    return f"{who}'s {measure.thing} is {size} {measure.small}"


FAMILIES = families(compare, bounds, total, remainder, product, multiple, interval, units)
