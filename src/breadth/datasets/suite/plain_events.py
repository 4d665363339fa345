"""Everyday events in three styles: who did what, in which order, and what was only planned.

The plain set is in-domain; the formal and chat sets say the same, item by item.
"""

from __future__ import annotations

from breadth.datasets.suite.draw import Draw
from breadth.datasets.suite.grammar import listing, sentence
from breadth.datasets.suite.items import Sketch, Text, family
from breadth.datasets.suite.vocabulary import DAYS, EVENTS, Event, people

OPENERS = ("Ok so", "Right, so", "Guess what,", "Oh, and", "By the way,", "Just so you know,", "Haha,", "Hey,")
TAGS = ("yeah", "you know", "no joke", "honestly", "I mean it", "for real")


def styled(draw: Draw, plain: Text, formal: Text, chat: Text) -> Sketch:
    """Punctuate three styles of one content; chat gets an opener before the premise and a tag after the hypothesis."""
    return Sketch(
        Text(sentence(plain.premise), sentence(plain.hypothesis)),
        Text(sentence(formal.premise), sentence(formal.hypothesis)),
        Text(
            sentence(f"{draw.one(OPENERS)} {chat.premise}"),
            sentence(f"{chat.hypothesis}, {draw.one(TAGS)}{draw.one(('.', '!'))}"),
        ),
    )


def conjunction(draw: Draw, follows: bool) -> Sketch:
    """Two people did one thing, a third another; one of them is said to have done one of the things."""
    first, second, third = people(draw, 3)
    joint, alone = draw.words(EVENTS, 2)
    about_joint = draw.flip()
    event = joint if about_joint else alone
    together = draw.one((first, second))
    who = together if about_joint == follows else third
    return styled(
        draw,
        Text(f"{first} and {second} {joint.did}, while {third} {alone.did}", f"{who} {event.did}"),
        Text(
            f"It is recorded that {first} and {second} {joint.formal}, whereas {third} {alone.formal}",
            f"It may be stated that {who} {event.formal}",
        ),
        Text(f"{first} and {second} {joint.chat}, and {third} just {alone.chat}", f"so {who} {event.chat}"),
    )


def order(draw: Draw, follows: bool) -> Sketch:
    """Two people did the same thing, one of them hours later."""
    early, late = people(draw, 2)
    event = draw.word(EVENTS)
    hours, day, before = draw.between(2, 9), draw.one(DAYS), draw.flip()
    first, second = (early, late) if follows == before else (late, early)
    relation = "before" if before else "after"
    prior = "prior to" if before else "subsequent to"
    lead, trail, gap = (early, late, "later") if draw.flip() else (late, early, "earlier")
    return styled(
        draw,
        Text(
            f"On {day}, {lead} {event.did}, and {trail} did the same {hours} hours {gap}",
            f"{first} {event.did} {relation} {second} did",
        ),
        Text(
            f"On {day}, {lead} {event.formal}; {trail} acted likewise {hours} hours {gap}",
            f"{first} {event.formal} {prior} {second} doing so",
        ),
        Text(
            f"{lead} {event.chat} on {day} and {trail} did too, like {hours} hours {gap}",
            f"{first} {event.chat} {relation} {second} did",
        ),
    )


#: What the plain, formal and chat premise say between the name and the infinitive.
SUCCESS = (
    ("managed to", "succeeded in the endeavour to", "totally managed to"),
    ("remembered to", "did not neglect to", "actually remembered to"),
)
FAILURE = (
    ("failed to", "proved unable to", "just couldn't"),
    ("forgot to", "neglected to", "clean forgot to"),
    ("did not bother to", "omitted to", "couldn't be bothered to"),
)
INTENTION = (
    ("was planning to", "had expressed the intention to", "was kinda planning to"),
    ("wanted to", "had expressed the wish to", "really wanted to"),
)


def outcome(draw: Draw, follows: bool) -> Sketch:
    """One person managed or failed to do something, another merely planned to; whether it was done."""
    actor, planner = people(draw, 2)
    event, plan = draw.words(EVENTS, 2)
    succeeded = draw.flip()
    managed, planned = draw.one(SUCCESS if succeeded else FAILURE), draw.one(INTENTION)
    told = [
        (f"{actor} {did} {event.do}", f"{planner} {meant} {plan.do}")
        for did, meant in zip(managed, planned, strict=True)
    ]
    if draw.flip():
        told = [(second, first) for first, second in told]
    decided = follows or draw.flip()
    positive = succeeded == follows if decided else draw.flip()
    who, asked = (actor, event) if decided else (planner, plan)
    return styled(
        draw,
        Text(", and ".join(told[0]), f"{who} {asked.did}" if positive else f"{who} did not {asked.do}"),
        Text(", whereas ".join(told[1]), f"It is {'' if positive else 'not '}the case that {who} {asked.did}"),
        Text(" and ".join(told[2]), f"so {who} {asked.did}" if positive else f"so {who} didn't {asked.do}"),
    )


def rule(draw: Draw, follows: bool) -> Sketch:
    """A habit that depends on the weather, and the weather of two days."""
    who, other = people(draw, 2)
    event = draw.word(EVENTS)
    met, unmet = draw.several(DAYS, 2)
    condition, opposite = ("it rained", "it stayed dry") if draw.flip() else ("it stayed dry", "it rained")
    day = met if follows else unmet
    days = (f"{condition} on {met}", f"{opposite} on {unmet}")
    one, two = days if draw.flip() else days[::-1]
    return styled(
        draw,
        Text(
            f"That week, {who} {event.did} on every day when {condition}, as {other} had asked. "
            f"{sentence(f'{one}, and {two}')}",
            f"{who} {event.did} on {day}",
        ),
        Text(
            f"During the week in question, {who} {event.formal} on each day on which {condition}, at the request of "
            f"{other}. {sentence(f'It is known that {one} and that {two}')}",
            f"It follows that on {day} {who} {event.formal}",
        ),
        Text(
            f"{who} {event.chat} every single day {condition} that week, cos {other} asked. "
            f"{sentence(f'anyway {one} and {two}')}",
            f"{who} {event.chat} on {day}",
        ),
    )


def exception(draw: Draw, follows: bool) -> Sketch:
    """Everyone of a group but one did something."""
    members = people(draw, 3)
    event: Event = draw.word(EVENTS)
    out = draw.one(members)
    inside = draw.one([member for member in members if member != out])
    positive = draw.flip()
    who = inside if positive == follows else out
    group = draw.one(("choir", "chess club", "hiking group", "band", "rowing team", "book club"))
    names = listing(members)
    return styled(
        draw,
        Text(
            f"{names} are in the {group}. Everyone in the {group} {event.did}, except {out}, who did not",
            f"{who} {event.did}" if positive else f"{who} did not {event.do}",
        ),
        Text(
            f"The {group} includes {names}. With the sole exception of {out}, every member {event.formal}",
            f"It is {'' if positive else 'not '}the case that {who} {event.formal}",
        ),
        Text(
            f"{names} are in the {group}. The whole {group} {event.chat}, all of them except {out}",
            f"{who} {event.chat}" if positive else f"it's just not true that {who} {event.chat}",
        ),
    )


FAMILIES = tuple(family(write) for write in (conjunction, order, outcome, rule, exception))
