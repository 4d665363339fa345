"""Everyday facts in three styles: kinds of things, places, owners, changes of state, and choices."""

from __future__ import annotations

from breadth.datasets.suite.draw import Draw, words
from breadth.datasets.suite.grammar import a, sentence
from breadth.datasets.suite.items import Sketch, Text, family
from breadth.datasets.suite.plain_events import styled
from breadth.datasets.suite.vocabulary import THINGS, TOWNS, people

#: Kinds, with members for train and for test. No member belongs to two of the kinds.
KINDS = {
    "flower": words("rose, tulip, daffodil, lily, carnation, orchid"),
    "tool": words("hammer, screwdriver, chisel, wrench, saw, drill"),
    "vehicle": words("lorry, van, motorbike, tractor, bus, taxi"),
    "bird": words("parrot, canary, pigeon, goose, owl, duck"),
    "musical instrument": words("flute, trumpet, harp, cello, trombone, banjo"),
    "piece of furniture": words("stool, desk, cupboard, sideboard, bench, bed"),
    "drink": words("lemonade, milkshake, beer, cider, coffee, tea"),
    "vegetable": words("cabbage, carrot, turnip, leek, cauliflower, radish"),
}
WORKPLACES = words("museum, bakery, library, hospital, theatre, brewery, school, post office, factory, bank")

#: A thing, its two states, and what turned the first into the second: plain, as a formal participle, and chat.
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
DISHES = words(
    "soup, salad, stew, omelette, curry, lasagne, risotto, pancake, sandwich, burger, pie, casserole, roast, trifle"
)


def hypernym(draw: Draw, follows: bool) -> Sketch:
    """Two people bought things of two kinds; one of them is said to have bought something of one kind."""
    first, second = people(draw, 2)
    (kind, members), (other_kind, other_members) = draw.several(list(KINDS.items()), 2)
    thing, other_thing = draw.word(members), draw.word(other_members)
    about_first = draw.flip()
    who = first if about_first else second
    what = kind if about_first == follows else other_kind
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


def location(draw: Draw, follows: bool) -> Sketch:
    """Two people work at two places in two towns."""
    first, second = people(draw, 2)
    one, two = draw.words(WORKPLACES, 2)
    town, other_town = draw.words(TOWNS, 2)
    about_first = draw.flip()
    who = first if about_first else second
    where = town if about_first == follows else other_town
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


def ownership(draw: Draw, follows: bool) -> Sketch:
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


def change(draw: Draw, follows: bool) -> Sketch:
    """A thing changed its state at noon, and is spoken of before or after."""
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


def choice(draw: Draw, follows: bool) -> Sketch:
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


FAMILIES = tuple(family(write) for write in (hypernym, location, ownership, change, choice))
