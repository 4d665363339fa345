"""Negation: who did and who did not, with not, never, nobody, neither, without, only and double negation."""

from __future__ import annotations

from breadth.datasets.suite.templates import (
    DAYS,
    EVENTS,
    Draw,
    Event,
    Texts,
    families,
    listing,
    people,
    sentence,
    sentences,
    texts,
)


def _claim(draw: Draw, who: str, event: Event, did: bool) -> str:
    """Say that somebody did something or did not, in one of several ways."""
    if did:
        return draw.one((f"{who} {event.did}", f"it is true that {who} {event.did}"))
    return draw.one((f"{who} did not {event.do}", f"it is not true that {who} {event.did}"))


def _hypothesis_about(draw: Draw, doer: str, other: str, event: Event, follows: bool) -> str:
    """Ask about the doer or the other person, affirmed or negated so that the label is right."""
    affirm = draw.flip()
    return sentence(_claim(draw, doer if affirm == follows else other, event, affirm))


def contrast(draw: Draw, follows: bool) -> Texts:
    """One did, the other did not."""
    doer, other = people(draw, 2)
    event, day = draw.word(EVENTS), draw.one(DAYS)
    premise = draw.one(
        (
            f"on {day}, {other} did not {event.do}, but {doer} did",
            f"on {day}, {doer} {event.did}, but {other} did not",
            f"it was {doer} and not {other} who {event.did} on {day}",
        )
    )
    return texts(sentence(premise), _hypothesis_about(draw, doer, other, event, follows))


def double(draw: Draw, follows: bool) -> Texts:
    """One or two negations of a sentence; two cancel out."""
    who, other = people(draw, 2)
    event, aside = draw.words(EVENTS, 2)
    affirm = draw.flip()
    did = affirm == follows
    claim = draw.one(
        (f"it is not true that {who} did not {event.do}", f"{who} did not fail to {event.do}")
        if did
        else (f"it is not true that {who} {event.did}", f"{who} failed to {event.do}")
    )
    return texts(sentences(f"{other} {aside.did}", claim), sentence(_claim(draw, who, event, affirm)))


def never(draw: Draw, follows: bool) -> Texts:
    """Never, against at least once."""
    doer, other = people(draw, 2)
    event = draw.word(EVENTS)
    premise = draw.one(
        (
            f"{other} has never {event.done} in any year, but {doer} has, and more than once",
            f"{doer} has {event.done} several times, which {other} has never done",
        )
    )
    affirm = draw.flip()
    who = doer if affirm == follows else other
    return texts(sentence(premise), sentence(f"{who} has {'at some time' if affirm else 'never'} {event.done}"))


def without(draw: Draw, follows: bool) -> Texts:
    """Doing one thing without doing another."""
    who, other = people(draw, 2)
    done, left = draw.words(EVENTS, 2)
    premise = draw.one(
        (
            f"that day, {who} {done.did} and went home to {other} without {left.doing}",
            f"instead of {left.doing}, as {other} had asked, {who} only {done.did} that day",
        )
    )
    affirm = draw.flip()
    event = done if affirm == follows else left
    return texts(sentence(premise), sentence(f"{_claim(draw, who, event, affirm)} that day"))


def neither(draw: Draw, follows: bool) -> Texts:
    """Neither of two did, a third did; or both did and the third did not."""
    one, two, third = people(draw, 3)
    event, both = draw.word(EVENTS), draw.flip()
    pair = draw.one((one, two))
    if both:
        premise = f"both {one} and {two} {event.did}, but {third} did not"
        return texts(sentence(premise), _hypothesis_about(draw, pair, third, event, follows))
    premise = f"neither {one} nor {two} {event.did}, but {third} did"
    return texts(sentence(premise), _hypothesis_about(draw, third, pair, event, follows))


def only(draw: Draw, follows: bool) -> Texts:
    """One of three did, or all but one."""
    three = people(draw, 3)
    event, single = draw.word(EVENTS), draw.flip()
    special = draw.one(three)
    rest = draw.one([name for name in three if name != special])
    if single:
        premise = f"of {listing(three)}, only {special} {event.did}"
        return texts(sentence(premise), _hypothesis_about(draw, special, rest, event, follows))
    premise = f"of {listing(three)}, only {special} did not {event.do}"
    return texts(sentence(premise), _hypothesis_about(draw, rest, special, event, follows))


def nobody(draw: Draw, follows: bool) -> Texts:
    """Nobody of one group did, everybody of another."""
    doer, other = people(draw, 2)
    event = draw.word(EVENTS)
    one, two = draw.several(("upstairs", "downstairs", "next door", "across the street", "on the top floor"), 2)
    lives = draw.shuffled((f"{doer} lives {one}", f"{other} lives {two}"))
    acts = draw.shuffled((f"nobody who lives {two} {event.did}", f"everybody who lives {one} {event.did}"))
    return texts(
        sentences(f"{lives[0]}, and {lives[1]}", f"{acts[0]}, but {acts[1]}"),
        _hypothesis_about(draw, doer, other, event, follows),
    )


FAMILIES = families(contrast, double, never, without, neither, only, nobody)
