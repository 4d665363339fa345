"""Coreference that gender, number or an explicit word resolves, never world knowledge."""

from __future__ import annotations

from breadth.datasets.suite.templates import (
    EVENTS,
    MEN,
    ROLES,
    SURNAMES,
    THINGS,
    TOWNS,
    WOMEN,
    Draw,
    Texts,
    a,
    families,
    people,
    sentence,
    sentences,
    texts,
)

MEETINGS = ("met", "visited", "had lunch with", "travelled with", "sat next to", "waited for")
GROUPS = ("sisters", "brothers", "cousins", "neighbours", "colleagues")


def _couple(draw: Draw) -> list[tuple[str, str]]:
    """Draw a woman and a man with their pronouns, in random order; by first name or with Mrs and Mr."""
    woman, man = draw.word(WOMEN), draw.word(MEN)
    if draw.flip():
        her, his = draw.words(SURNAMES, 2)
        woman, man = f"Mrs {her}", f"Mr {his}"
    return draw.shuffled([(woman, "she"), (man, "he")])


def gender(draw: Draw, follows: bool) -> Texts:
    """A woman and a man, and a pronoun for one of them."""
    (one, first), (two, second) = _couple(draw)
    event, town = draw.word(EVENTS), draw.word(TOWNS)
    meant, pronoun, other = draw.one(((one, first, two), (two, second, one)))
    meeting = draw.one(MEETINGS)
    premise = draw.one(
        (
            f"{one} {meeting} {two} in {town} after {pronoun} had {event.done}",
            f"before {one} {meeting} {two} in {town}, {pronoun} {event.did}",
            f"{one} {meeting} {two} in {town}, and on the way home {pronoun} {event.did}",
        )
    )
    return texts(sentence(premise), sentence(f"{meant if follows else other} {event.did}"))


def two_pronouns(draw: Draw, follows: bool) -> Texts:
    """A woman and a man with a pronoun each: who did what to whom."""
    (one, first), (two, second) = _couple(draw)
    thing = draw.word(THINGS)
    forms = {"she": ("she", "her"), "he": ("he", "him")}
    giver, taker, subject, target = draw.one(
        ((one, two, forms[first][0], forms[second][1]), (two, one, forms[second][0], forms[first][1]))
    )
    verb = draw.one(("lent", "sold", "offered", "promised", "showed"))
    left, right = (giver, taker) if follows else (taker, giver)
    return texts(
        sentence(f"{one} {draw.one(MEETINGS)} {two}, and then {subject} {verb} {target} {a(thing)}"),
        sentence(f"{left} {verb} {right} {a(thing)}"),
    )


def number(draw: Draw, follows: bool) -> Texts:
    """One person and several: singular or plural pronoun."""
    who, pronoun = draw.one(((draw.word(WOMEN), "she"), (draw.word(MEN), "he")))
    group = f"the three {draw.word(SURNAMES)} {draw.one(GROUPS)}"
    event, single = draw.word(EVENTS), draw.flip()
    meant, other = (who, group) if single else (group, who)
    one, two = draw.shuffled((who, group))
    premise = draw.one(
        (
            f"{one} {draw.one(MEETINGS)} {two} after {pronoun if single else 'all three of them'} had {event.done}",
            f"before {pronoun if single else 'they'} {draw.one(MEETINGS)} {other}, {meant} {event.did}",
        )
    )
    return texts(sentence(premise), sentence(f"{meant if follows else other} {event.did}"))


def former_latter(draw: Draw, follows: bool) -> Texts:
    """The former and the latter, the first and the second."""
    one, two = people(draw, 2)
    first, second = draw.words(EVENTS, 2)
    former, latter = draw.one((("the former", "the latter"), ("the first of them", "the second of them")))
    parts = draw.shuffled((f"{former} {first.did}", f"{latter} {second.did}"))
    who, event = draw.matched(follows, (one, first), (two, second))
    return texts(
        sentences(f"{one} and {two} came from {draw.word(TOWNS)}", f"{parts[0]}, and {parts[1]}"),
        sentence(f"{who} {event.did}"),
    )


def one_other(draw: Draw, follows: bool) -> Texts:
    """One of two is named, the other is "the other"."""
    sibling, pool = draw.one((("sisters", WOMEN), ("brothers", MEN)))
    who, named, other = (*draw.words(SURNAMES, 1), *draw.words(pool, 2))
    both = draw.shuffled((named, other))
    first, second = draw.words(EVENTS, 2)
    asked, event = draw.matched(follows, (named, first), (other, second))
    return texts(
        sentences(
            f"Mrs {who} has exactly two {sibling}, {both[0]} and {both[1]}",
            f"one of them, {named}, {first.did}, and the other one {second.did}",
        ),
        sentence(f"{asked} {event.did}"),
    )


def trade(draw: Draw, follows: bool) -> Texts:
    """People introduced by name and then referred to by their trade."""
    one, two = people(draw, 2)
    role, other_role = draw.words(ROLES, 2)
    first, second = draw.words(EVENTS, 2)
    parts = draw.shuffled((f"the {role} {first.did}", f"the {other_role} {second.did}"))
    who, event = draw.matched(follows, (one, first), (two, second))
    return texts(
        sentences(f"{one} is {a(role)}, and {two} is {a(other_role)}", f"{parts[0]}, while {parts[1]}"),
        sentence(f"{who} {event.did}"),
    )


def possession(draw: Draw, follows: bool) -> Texts:
    """Possessives: her and his."""
    (one, first), (two, second) = _couple(draw)
    thing = draw.word(THINGS)
    here, there = draw.words(TOWNS, 2)
    own = {"she": "her", "he": "his"}
    parts = draw.shuffled((f"{own[first]} {thing} is in {here}", f"{own[second]} {thing} is in {there}"))
    place = draw.one((here, there))
    who = one if (place == here) == follows else two
    return texts(
        sentences(f"{one} and {two} have {a(thing)} each", f"{parts[0]}, and {parts[1]}"),
        sentence(f"{who}'s {thing} is in {place}"),
    )


def quotation(draw: Draw, follows: bool) -> Texts:
    """ "I" and "you" in a quotation."""
    speaker, listener = people(draw, 2)
    mine, yours = draw.words(EVENTS, 2)
    parts = draw.shuffled((f"I {mine.did}", f"you {yours.did}"))
    who, event = draw.matched(follows, (speaker, mine), (listener, yours))
    said = parts[0][0].upper() + parts[0][1:]
    return texts(f"{speaker} truthfully told {listener}: “{said}, and {parts[1]}.”", sentence(f"{who} {event.did}"))


FAMILIES = families(gender, two_pronouns, number, former_latter, one_other, trade, possession, quotation)
