"""Everyday events and facts in three styles: who did what and when; kinds, places, owners, changes and choices.

The plain set is in-domain; the formal and chat sets say the same, item for item.
"""

from __future__ import annotations

from breadth.datasets.suite.templates import (
    DAYS,
    EVENTS,
    THINGS,
    TOWNS,
    Draw,
    Text,
    Texts,
    a,
    families,
    listing,
    people,
    sentence,
    word_pool,
)

OPENERS = ("Ok so", "Right, so", "Guess what,", "Oh, and", "By the way,", "Just so you know,", "Haha,", "Hey,")
TAGS = ("yeah", "you know", "no joke", "honestly", "I mean it", "for real")


def styled(draw: Draw, plain: Text, formal: Text, chat: Text) -> Texts:
    """Punctuate the three styles; chat gets an opener before the premise and a tag after the hypothesis."""
    return Texts(
        Text(sentence(plain.premise), sentence(plain.hypothesis)),
        Text(sentence(formal.premise), sentence(formal.hypothesis)),
        Text(
            sentence(f"{draw.one(OPENERS)} {chat.premise}"),
            sentence(f"{chat.hypothesis}, {draw.one(TAGS)}{draw.one(('.', '!'))}"),
        ),
    )


def conjunction(draw: Draw, follows: bool) -> Texts:
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


def order(draw: Draw, follows: bool) -> Texts:
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


def outcome(draw: Draw, follows: bool) -> Texts:
    """One person managed or failed to do something, another only planned to; was it done?"""
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


def rule(draw: Draw, follows: bool) -> Texts:
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


def exception(draw: Draw, follows: bool) -> Texts:
    """Everyone in a group but one did something."""
    members = people(draw, 3)
    event = draw.word(EVENTS)
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


#: Kinds and their members, for train and for test. No member belongs to two kinds.
KINDS = {
    "flower": word_pool("rose, tulip, daffodil, lily, carnation, orchid"),
    "tool": word_pool("hammer, screwdriver, chisel, wrench, saw, drill"),
    "vehicle": word_pool("lorry, van, motorbike, tractor, bus, taxi"),
    "bird": word_pool("parrot, canary, pigeon, goose, owl, duck"),
    "musical instrument": word_pool("flute, trumpet, harp, cello, trombone, banjo"),
    "piece of furniture": word_pool("stool, desk, cupboard, sideboard, bench, bed"),
    "drink": word_pool("lemonade, milkshake, beer, cider, coffee, tea"),
    "vegetable": word_pool("cabbage, carrot, turnip, leek, cauliflower, radish"),
}
WORKPLACES = word_pool("museum, bakery, library, hospital, theatre, brewery, school, post office, factory, bank")

#: A thing, its state before and after, and the change: plain, as a formal participle, and chat.
CHANGES = (
    ("door", "open", "closed", ("closed it", "closed", "went and closed it")),
    ("door", "closed", "open", ("opened it", "opened", "went and opened it")),
    ("gate", "locked", "unlocked", ("unlocked it", "unlocked", "went and unlocked it")),
    ("gate", "unlocked", "locked", ("locked it", "secured by lock", "went and locked it")),
    ("tank", "full", "empty", ("emptied it", "drained completely", "went and emptied it")),
    ("tank", "empty", "full", ("filled it to the top", "filled to capacity", "topped it right up")),
    ("lamp", "on", "off", ("switched it off", "extinguished", "flicked it off")),
    ("lamp", "off", "on", ("switched it on", "lit", "flicked it on")),
)
DISHES = word_pool(
    "soup, salad, stew, omelette, curry, lasagne, risotto, pancake, sandwich, burger, pie, casserole, roast, trifle"
)


def hypernym(draw: Draw, follows: bool) -> Texts:
    """Two people bought things of two kinds; one of them is said to have bought something of one kind."""
    first, second = people(draw, 2)
    (kind, members), (other_kind, other_members) = draw.several(list(KINDS.items()), 2)
    thing, other_thing = draw.word(members), draw.word(other_members)
    what, who = draw.matched(follows, (kind, first), (other_kind, second))
    return styled(
        draw,
        Text(f"{first} bought {a(thing)}, and {second} bought {a(other_thing)}", f"{who} bought {a(what)}"),
        Text(
            f"{first} purchased {a(thing)}, whereas {second} purchased {a(other_thing)}",
            f"{who} has made the purchase of {a(what)}",
        ),
        Text(
            f"{first} got {a(thing)} at the shops and {second} got {a(other_thing)}",
            f"so {who} got {a(what)}",
        ),
    )


def location(draw: Draw, follows: bool) -> Texts:
    """Two people work at two places in two towns."""
    first, second = people(draw, 2)
    one, two = draw.words(WORKPLACES, 2)
    town, other_town = draw.words(TOWNS, 2)
    where, who = draw.matched(follows, (town, first), (other_town, second))
    return styled(
        draw,
        Text(
            f"The {one} is in {town} and the {two} is in {other_town}. {first} works only at the {one}, and {second} "
            f"works only at the {two}",
            f"{who} works in {where}",
        ),
        Text(
            f"The {one} is situated in {town} and the {two} in {other_town}. {first} is employed solely at the {one}, "
            f"{second} solely at the {two}",
            f"The place of employment of {who} is in {where}",
        ),
        Text(
            f"the {one} is over in {town} and the {two} is in {other_town}. {first} only works at the {one} and "
            f"{second} only at the {two}",
            f"so {who} works in {where}",
        ),
    )


def ownership(draw: Draw, follows: bool) -> Texts:
    """Something was sold, which moves it to a new owner, or lent, which does not."""
    giver, taker = people(draw, 2)
    thing, sold = draw.word(THINGS), draw.flip()
    owner, other = (taker, giver) if sold else (giver, taker)
    who = owner if follows else other
    return styled(
        draw,
        Text(
            f"{giver} sold the {thing} to {taker}, who is now its only owner"
            if sold
            else f"{giver} lent the {thing} to {taker} but is still its only owner",
            f"The {thing} belongs to {who}",
        ),
        Text(
            f"Full title to the {thing} was transferred from {giver} to {taker} by sale"
            if sold
            else f"The {thing} was placed on loan to {taker} by {giver}, who retains full title to it",
            f"{who} is the owner of the {thing}",
        ),
        Text(
            f"{giver} sold that {thing} to {taker}, so it's all {taker}'s now"
            if sold
            else f"{giver} let {taker} borrow that {thing}, but it's still all {giver}'s",
            f"that {thing} is {who}'s",
        ),
    )


def change(draw: Draw, follows: bool) -> Texts:
    """A thing changed its state at noon; what was its state before or after?"""
    owner, actor = people(draw, 2)
    thing, before, after, (plain, formal, chat) = draw.one(CHANGES)
    morning = draw.flip()
    state = before if morning == follows else after
    time, formally, chatty = (
        ("In the morning", "During the morning", "in the morning")
        if morning
        else ("In the evening", "During the evening", "in the evening")
    )
    town = draw.word(TOWNS)
    return styled(
        draw,
        Text(
            f"All morning the {thing} at {owner}'s place in {town} was {before}. At noon {actor} {plain}, and "
            "nobody touched it again that day",
            f"{time} the {thing} at {owner}'s place was {state}",
        ),
        Text(
            f"Throughout the morning, the {thing} at the residence of {owner} in {town} was {before}. At midday it was "
            f"{formal} by {actor}, after which it was left untouched until the following day",
            f"{formally}, the {thing} at the residence of {owner} was {state}",
        ),
        Text(
            f"the {thing} at {owner}'s in {town} was {before} all morning. Then {actor} "
            f"{chat} at noon and nobody went near it till the next day",
            f"{chatty} the {thing} at {owner}'s was {state}",
        ),
    )


def choice(draw: Draw, follows: bool) -> Texts:
    """One of two dishes was ordered, and one is ruled out."""
    who, other = people(draw, 2)
    one, two = draw.words(DISHES, 2)
    ruled_out, taken = draw.several((one, two), 2)
    positive = draw.flip()
    dish = taken if positive == follows else ruled_out
    return styled(
        draw,
        Text(
            f"{who} ordered either the {one} or the {two}, and it was certainly not the {ruled_out}. "
            f"{sentence(f'{other} only had a glass of water')}",
            f"{who} {'ordered' if positive else 'did not order'} the {dish}",
        ),
        Text(
            f"{who} requested either the {one} or the {two}, and it has been established that it was not the "
            f"{ruled_out}. {sentence(f'{other} requested water only')}",
            f"It was {'' if positive else 'not '}the {dish} that {who} requested",
        ),
        Text(
            f"{who} had either the {one} or the {two}, and it deffo wasn't the {ruled_out}. "
            f"{sentence(f'{other} just had water')}",
            f"{who} {'had' if positive else 'did not have'} the {dish}",
        ),
    )


#: Events and facts alternate, so that a few items already show both.
FAMILIES = families(conjunction, hypernym, order, location, outcome, ownership, rule, change, exception, choice)
