"""Near-paraphrases: other words with the same meaning, or almost the same words with another."""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.suite.templates import (
    EVENTS,
    THINGS,
    TOWNS,
    Draw,
    Texts,
    a,
    families,
    people,
    pool,
    sentence,
    sentences,
    texts,
)


class Converse(NamedTuple):
    """One transaction described from both sides; {x} and {y} are people, {it} is a thing."""

    one: str
    other: str


CONVERSES = pool(
    (
        Converse("{x} sold the {it} to {y}", "{y} bought the {it} from {x}"),
        Converse("{x} lent the {it} to {y}", "{y} borrowed the {it} from {x}"),
        Converse("{x} gave the {it} to {y}", "{y} was given the {it} by {x}"),
        Converse("{x} rented the {it} out to {y}", "{y} rented the {it} from {x}"),
        Converse("{x} won the {it} from {y} at cards", "{y} lost the {it} to {x} at cards"),
        Converse("{x} handed the {it} to {y}", "{y} was handed the {it} by {x}"),
        Converse("{x} showed the {it} to {y}", "{y} was shown the {it} by {x}"),
        Converse("{x} stole the {it} from {y}", "the {it} was stolen from {y} by {x}"),
    )
)
SYMMETRIC = (
    "is married to",
    "is a cousin of",
    "shares an office with",
    "is the same age as",
    "lives next door to",
    "once danced with",
)
DIRECTED = ("is the boss of", "admires", "is a parent of", "works for", "looks after", "once painted a picture of")
#: Two comparatives that are each other's converse.
COMPARATIVES = (
    ("taller", "shorter"),
    ("older", "younger"),
    ("faster", "slower"),
    ("richer", "poorer"),
    ("heavier", "lighter"),
    ("stronger", "weaker"),
)
#: Two words for each of two opposite qualities.
OPPOSITES = (
    (("expensive", "costly"), ("cheap", "inexpensive")),
    (("big", "large"), ("small", "little")),
    (("second-hand", "pre-owned"), ("unused", "never-used")),
    (("ugly", "unsightly"), ("beautiful", "lovely")),
    (("heavy", "weighty"), ("light", "lightweight")),
    (("defective", "faulty"), ("flawless", "faultless")),
)


def converse(draw: Draw, follows: bool) -> Texts:
    """Buying and selling, lending and borrowing: from the other side, or with the roles swapped."""
    x, y = people(draw, 2)
    thing, telling = draw.word(THINGS), draw.word(CONVERSES)
    given, asked = (telling.one, telling.other) if draw.flip() else (telling.other, telling.one)
    left, right = (x, y) if follows else (y, x)
    premise = f"in {draw.word(TOWNS)}, {given.format(x=x, y=y, it=thing)}"
    return texts(sentence(premise), sentence(asked.format(x=left, y=right, it=thing)))


def symmetry(draw: Draw, follows: bool) -> Texts:
    """A symmetric relation: it may be reversed, but does not hold for another pair."""
    one, two, three, four = people(draw, 4)
    relation, other = draw.several(SYMMETRIC, 2)
    facts = draw.shuffled((f"{one} {relation} {two}", f"{three} {other} {four}"))
    left, right = (two, one) if draw.flip() else (one, two)
    if not follows:
        left, right = draw.one(((one, three), (four, two), (three, two), (one, four)))
    return texts(sentence(f"{facts[0]}, and {facts[1]}"), sentence(f"{left} {relation} {right}"))


def direction(draw: Draw, follows: bool) -> Texts:
    """An asymmetric relation: it may not be reversed."""
    one, two, three, four = people(draw, 4)
    relation, other = draw.one(DIRECTED), draw.one(SYMMETRIC)
    facts = draw.shuffled((f"{one} {relation} {two}", f"{three} {other} {four}"))
    left, right = (one, two) if follows else (two, one)
    return texts(sentence(f"{facts[0]}, and {facts[1]}"), sentence(f"{left} {relation} {right}"))


def before_after(draw: Draw, follows: bool) -> Texts:
    """The order of two events, with "before" replaced by "after" or the other way round."""
    one, two = people(draw, 2)
    first, second = draw.words(EVENTS, 2)
    early, late = f"{one} {first.did}", f"{two} {second.did}"
    given = draw.flip()
    premise = f"{early} before {late}" if given else f"{late} after {early}"
    word = "after" if given else "before"
    left, right = (late, early) if (word == "after") == follows else (early, late)
    return texts(sentence(premise), sentence(f"{left} {word} {right}"))


def comparative(draw: Draw, follows: bool) -> Texts:
    """Taller and shorter: the same comparison in other words."""
    one, two, aside = people(draw, 3)
    words = draw.one(COMPARATIVES)
    given, asked = words if draw.flip() else words[::-1]
    left, right = (two, one) if follows else (one, two)
    return texts(
        sentences(f"{one} is {given} than {two}", f"{aside} comes from {draw.word(TOWNS)}"),
        sentence(f"{left} is {asked} than {right}"),
    )


def quality(draw: Draw, follows: bool) -> Texts:
    """A synonym or an antonym in place of an adjective."""
    who, other = people(draw, 2)
    thing, other_thing = draw.words(THINGS, 2)
    qualities = draw.several(draw.one(OPPOSITES), 2)
    said, asked = draw.several(qualities[0], 2)
    opposite = draw.one(qualities[1])
    subject, what = (who, thing) if follows else (other, other_thing)
    verb, again = draw.one((("bought", "purchased"), ("used", "made use of"), ("moved", "shifted")))
    facts = draw.shuffled((f"{who} {verb} {a(f'{said} {thing}')}", f"{other} {verb} {a(f'{opposite} {other_thing}')}"))
    return texts(sentence(f"{facts[0]}, and {facts[1]}"), sentence(f"{subject} {again} {a(f'{asked} {what}')}"))


def cleft(draw: Draw, follows: bool) -> Texts:
    """A cleft sentence: it was one person and not the other."""
    doer, other = people(draw, 2)
    event = draw.word(EVENTS)
    premise = draw.one(
        (
            f"it was {doer}, not {other}, who {event.did}",
            f"{doer} was the one who {event.did}, not {other}",
            f"the person who {event.did} was {doer} rather than {other}",
        )
    )
    left, right = (doer, other) if follows else (other, doer)
    hypothesis = draw.one((f"{left} {event.did}, and {right} did not", f"{right} did not {event.do}, but {left} did"))
    return texts(sentence(premise), sentence(hypothesis))


def cause(draw: Draw, follows: bool) -> Texts:
    """Cause and effect."""
    one, two = people(draw, 2)
    first, second = draw.words(EVENTS, 2)
    reason, result = f"{one} {first.did}", f"{two} {second.did}"
    premise = draw.one((f"{reason}, and that is why {result}", f"the fact that {reason} was the reason why {result}"))
    left, right = (result, reason) if follows else (reason, result)
    return texts(sentence(premise), sentence(f"{left} because {right}"))


def replacement(draw: Draw, follows: bool) -> Texts:
    """One thing done in place of another."""
    who, other = people(draw, 2)
    done, left_out = draw.words(EVENTS, 2)
    premise = draw.one(
        (
            f"instead of {left_out.doing}, which had been {other}'s idea, {who} {done.did}",
            f"{who} {done.did} in place of {left_out.doing}, as {other} had suggested",
        )
    )
    first, second = (done, left_out) if follows else (left_out, done)
    return texts(sentence(premise), sentence(f"{who} {first.did} rather than {second.do}"))


FAMILIES = families(converse, symmetry, direction, before_after, comparative, quality, cleft, cause, replacement)
