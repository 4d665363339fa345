"""Chains of one to six steps over a transitive relation, stated in random order among distractors.

The number of steps is the number of links in the premise between the two things in the hypothesis. If the hypothesis
follows, the links lead from the first to the second; if not, they lead the other way. So both labels take the same
number of steps to verify.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from breadth.datasets.suite.templates import (
    PEOPLE,
    Draw,
    Family,
    Texts,
    WordPool,
    sentence,
    sentences,
    texts,
    word_pool,
)

LONGEST = 6

#: Invented kinds, so that world knowledge does not help.
KINDS = word_pool(
    "blick, drem, fonter, gavelin, harn, jubber, korvel, lusk, merp, nollin, plinter, quab, rastle, skeb, tolver, vurm,"
    "wimble, yorrel, zant, brundle, clort, dorrel, fenk, gribbon, holver, jask, kettler, lorn, mundle, neller,"
    "pardle, rundel, sneed, tampel, vosk, welp"
)
COLOURS = word_pool(
    "red, blue, green, yellow, white, black, brown, grey, pink, purple, golden, silver, beige, scarlet, violet,"
    "crimson, turquoise, cream, striped, spotted, chequered, wooden, plastic, metal, paper, leather, glass, bamboo"
)
HAPPENINGS = word_pool(
    "flood, wedding, harvest, parade, strike, auction, festival, storm, election, concert, match, fire, funeral,"
    "exhibition, drought, banquet, trial, census, earthquake, premiere, regatta, eclipse, conference, landslide,"
    "marathon, coronation, jubilee, blackout"
)


class Relation(NamedTuple):
    """A transitive relation: two ways to say it, and the words it relates.

    ``inward``: a thing may have many others directly below it but only one directly above, like nested boxes.
    """

    forward: str
    backward: str
    fillings: WordPool[str]
    inward: bool = False


RELATIONS = {
    "taller": Relation("{0} is taller than {1}", "{1} is shorter than {0}", PEOPLE),
    "is_a": Relation("every {0} is a {1}", "all {0}s are {1}s", KINDS),
    "contains": Relation("the {0} box contains the {1} box", "the {1} box is inside the {0} box", COLOURS, inward=True),
    "before": Relation("the {0} took place before the {1}", "the {1} took place after the {0}", HAPPENINGS),
    "older": Relation("{0} is older than {1}", "{1} is younger than {0}", PEOPLE),
    "north": Relation("{0} lives north of {1}", "{1} lives south of {0}", PEOPLE),
}


def _link_text(draw: Draw, relation: Relation, link: tuple[str, str]) -> str:
    return draw.one((relation.forward, relation.backward)).format(*link)


def chain(relation: Relation, steps: int, draw: Draw, follows: bool) -> Texts:
    """Write a chain of ``steps`` links with one to three distractors, and ask about its two ends."""
    distractors = draw.between(1, 3)
    names = draw.words(relation.fillings, steps + 1 + distractors)
    nodes, spare = names[: steps + 1], names[steps + 1 :]
    links = list(pairwise(nodes))
    for new in spare:
        # A distractor is attached by a single link, so it opens no second path between the two ends.
        old = draw.one(nodes)
        links.append((old, new) if relation.inward or draw.flip() else (new, old))
    asked = (nodes[0], nodes[-1]) if follows else (nodes[-1], nodes[0])
    told = [_link_text(draw, relation, link) for link in draw.shuffled(links)]
    return texts(sentences(*told), sentence(_link_text(draw, relation, asked)))


#: The number of steps varies fastest, so that every stretch of items has each number equally often.
FAMILIES = tuple(
    Family(template, partial(chain, relation, steps), steps)
    for template, relation in RELATIONS.items()
    for steps in range(1, LONGEST + 1)
)
