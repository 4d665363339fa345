"""Science facts: the inferences of the plain set on invented substances, creatures, planets and cells.

All names are invented and the premise contains everything needed, so that world knowledge does not help.
"""

from __future__ import annotations

from breadth.datasets.suite.templates import (
    Draw,
    Texts,
    WordPool,
    families,
    listing,
    sentence,
    sentences,
    texts,
    word_pool,
)

STEMS = word_pool(
    "brel, cald, dorv, elm, farg, gand, hest, irv, jarl, kest, lorm, mard, nelv, orv, pelt, quand, rhod, selv, tarv,"
    "urd, vand, welm, yold, zirk, brond, crest, dralk, felm, grast, holv, jund, krend, lind, morv, nard, pirn, quist,"
    "rusk, stend, thorm, varn, wolst, xenn, zeld, blent, corm, delv, frind"
)


def _derive_names(ending: str, capital: bool = False) -> WordPool[str]:
    def name(stem: str) -> str:
        return (stem.capitalize() if capital else stem) + ending

    return WordPool(tuple(map(name, STEMS.train)), tuple(map(name, STEMS.test)))


MINERALS, LIQUIDS, CREATURES = _derive_names("ite"), _derive_names("ol"), _derive_names("ling")
PLANETS, STARS, GENES = _derive_names("ia", capital=True), _derive_names("ar", capital=True), _derive_names("in")

#: A property of a mineral, and its negation.
PROPERTIES = (
    ("absorbs red light", "does not absorb red light"),
    ("dissolves in weak acid", "does not dissolve in weak acid"),
    ("conducts electricity", "does not conduct electricity"),
    ("floats on mercury", "does not float on mercury"),
    ("glows under ultraviolet light", "does not glow under ultraviolet light"),
    ("reacts with chlorine", "does not react with chlorine"),
)
HABITS = (
    ("hibernates in winter", "does not hibernate in winter"),
    ("hunts at night", "does not hunt at night"),
    ("lays eggs", "does not lay eggs"),
    ("lives in salt water", "does not live in salt water"),
    ("feeds on algae", "does not feed on algae"),
    ("sheds its skin", "does not shed its skin"),
)
ORGANS = ("gills", "wings", "eyes", "antennae", "scales", "fins", "whiskers", "claws")


def conjunction(draw: Draw, follows: bool) -> Texts:
    """Two minerals have a property that a third lacks."""
    one, two, three = draw.words(MINERALS, 3)
    has, lacks = draw.one(PROPERTIES)
    positive, with_it = draw.flip(), draw.one((one, two))
    subject = with_it if positive == follows else three
    premise = draw.one(
        (
            f"both {one} and {two} have a trait that {three} lacks: each of the two {has}, and {three} {lacks}",
            f"{three} {lacks}, while {one} {has} and {two} {has}",
        )
    )
    return texts(sentence(premise), sentence(f"{subject} {has if positive else lacks}"))


def group(draw: Draw, follows: bool) -> Texts:
    """A law about a group of species, and which species belong to it."""
    one, two = draw.words(CREATURES, 2)
    order, other = draw.several(("first", "second", "third", "fourth", "fifth"), 2)
    has, lacks = draw.one(HABITS)
    positive = draw.flip()
    subject = one if positive == follows else two
    law = draw.one(
        (
            f"every species of the {order} order {has}, and no species of the {other} order does so",
            f"no species of the {other} order {has}, but every species of the {order} order does so",
        )
    )
    return texts(
        sentences(
            law,
            f"the {one} is a species of the {order} order, and the {two} is one of the {other} order",
        ),
        sentence(f"the {subject} {has if positive else lacks}"),
    )


def orbit(draw: Draw, follows: bool) -> Texts:
    """Instruments on planets, and planets of stars."""
    planet, other_planet = draw.words(PLANETS, 2)
    star, other_star = draw.words(STARS, 2)
    site, other_site = draw.several(("probe", "telescope", "satellite", "relay station", "lander"), 2)
    parts = draw.shuffled(
        (
            f"the planet {planet} belongs to the star {star}",
            f"the planet {other_planet} belongs to the star {other_star}",
        )
    )
    where, thing = draw.matched(follows, (star, site), (other_star, other_site))
    return texts(
        sentences(
            f"{parts[0]}, and {parts[1]}",
            f"the only {site} is on {planet}, and the only {other_site} is on {other_planet}",
        ),
        sentence(f"the {thing} is on a planet of the star {where}"),
    )


def sequence(draw: Draw, follows: bool) -> Texts:
    """The order in which organs form in an embryo."""
    creature = draw.word(CREATURES)
    first, second, third = draw.several(ORGANS, 3)
    early, late = draw.one(((first, second), (second, third), (first, third)))
    word = draw.one(("before", "after"))
    left, right = (early, late) if (word == "before") == follows else (late, early)
    premise = draw.one(
        (
            f"in the {creature}, the {first} form first, then the {second}, and the {third} form last",
            f"in the {creature}, the {third} form only once the {second} are complete, and the {second} form only once "
            f"the {first} are complete",
        )
    )
    return texts(sentence(premise), sentence(f"in the {creature}, the {left} form {word} the {right}"))


def threshold(draw: Draw, follows: bool) -> Texts:
    """Two melting points and a temperature between them."""
    low_one, high_one = draw.words(MINERALS, 2)
    low = draw.between(40, 400)
    middle = low + draw.between(5, 60)
    high = middle + draw.between(5, 60)
    parts = draw.shuffled((f"{low_one} melts at {low} degrees", f"{high_one} melts at {high} degrees"))
    positive = draw.flip()
    subject = low_one if positive == follows else high_one
    return texts(
        sentences(
            f"{parts[0]}, and {parts[1]}",
            f"a solid sample of each was heated to {middle} degrees and never got any hotter, and each sample melts "
            "as soon as it reaches its melting point",
        ),
        sentence(f"the sample of {subject} {'melted' if positive else 'did not melt'}"),
    )


def exception(draw: Draw, follows: bool) -> Texts:
    """All species on an island but one."""
    species = draw.words(CREATURES, 3)
    has, lacks = draw.one(HABITS)
    odd = draw.one(species)
    normal = draw.one([one for one in species if one != odd])
    positive = draw.flip()
    subject = normal if positive == follows else odd
    names = listing([f"the {one}" for one in species])
    return texts(
        sentences(
            f"three species live on the island: {names}",
            f"every species on the island {has}, except the {odd}, which {lacks}",
        ),
        sentence(f"the {subject} {has if positive else lacks}"),
    )


def comparison(draw: Draw, follows: bool) -> Texts:
    """Three liquids ordered by a quantity."""
    one, two, three = draw.words(LIQUIDS, 3)
    more, less = draw.one((("denser", "less dense"), ("warmer", "colder"), ("thicker", "thinner"), ("darker", "paler")))
    pairs = draw.shuffled((_compare(draw, one, two, more, less), _compare(draw, two, three, more, less)))
    high, low = draw.one(((one, three), (one, two), (two, three)))
    word = draw.one((more, less))
    left, right = (high, low) if (word == more) == follows else (low, high)
    return texts(sentence(f"{pairs[0]}, and {pairs[1]}"), sentence(f"{left} is {word} than {right}"))


def _compare(draw: Draw, high: str, low: str, more: str, less: str) -> str:
    return draw.one((f"{high} is {more} than {low}", f"{low} is {less} than {high}"))


def switch(draw: Draw, follows: bool) -> Texts:
    """A gene that is switched on or off on a certain day."""
    gene, creature = draw.word(GENES), draw.word(CREATURES)
    day = draw.between(10, 30)
    before, after = draw.shuffled(("active", "inactive"))
    early = draw.flip()
    asked = day + (-1 if early else 1) * draw.between(1, 8)
    state = before if early == follows else after
    return texts(
        sentence(
            f"in cells of the {creature}, the gene {gene} was {before} on every day before day {day}, became {after} "
            f"on day {day} and stayed {after}"
        ),
        sentence(f"on day {asked}, the gene {gene} was {state} in cells of the {creature}"),
    )


def elimination(draw: Draw, follows: bool) -> Texts:
    """One of two substances is in the sample, and a test rules one out."""
    one, two = draw.words(LIQUIDS, 2)
    source = draw.word(CREATURES)
    excluded, present = draw.several((one, two), 2)
    positive = draw.flip()
    asked = present if positive == follows else excluded
    return texts(
        sentences(
            f"the blood of the {source} contains either {one} or {two}, but not both",
            f"a reliable test showed that there is no {excluded} in it",
        ),
        sentence(f"the blood of the {source} {'contains' if positive else 'does not contain'} {asked}"),
    )


def law(draw: Draw, follows: bool) -> Texts:
    """A law with a condition, and two samples of which one meets it."""
    mineral, other = draw.words(MINERALS, 2)
    condition, met, unmet = draw.one(
        (
            ("is exposed to light", "was exposed to light", "was kept in the dark"),
            ("is put under pressure", "was put under pressure", "was left at normal pressure"),
            ("touches water", "touched water", "was kept dry"),
        )
    )
    effect, happened = draw.one(
        (("turns blue", "turned blue"), ("cracks", "cracked"), ("gives off gas", "gave off gas"))
    )
    good, bad = draw.several(("first", "second", "third"), 2)
    samples = draw.shuffled((f"the {good} sample {met}", f"the {bad} sample {unmet}"))
    return texts(
        sentences(
            f"whenever {mineral} {condition}, it {effect}, which {other} never does",
            f"of two samples of {mineral}, {samples[0]}, and {samples[1]}",
        ),
        sentence(f"the {good if follows else bad} sample of {mineral} {happened}"),
    )


FAMILIES = families(conjunction, group, orbit, sequence, threshold, exception, comparison, switch, elimination, law)
