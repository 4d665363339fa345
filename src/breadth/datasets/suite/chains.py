"""Chains of one to six steps over a transitive relation, told in random order among distractors.

The number of steps is the number of given links that join the two things of the hypothesis. If the hypothesis
follows, they lead from the first to the second; if it does not, they lead the other way, so that both labels
take equally many steps to see.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from breadth.datasets.suite.draw import Draw, Pool, words
from breadth.datasets.suite.grammar import sentence, sentences
from breadth.datasets.suite.items import Family, Sketch, sketch
from breadth.datasets.suite.vocabulary import PEOPLE

LONGEST = 6

#: Invented kinds, so that nobody knows what is a what.
KINDS = words(
    "blick, drem, fonter, gavelin, harn, jubber, korvel, lusk, merp, nollin, plinter, quab, rastle, skeb, tolver, vurm,"
    "wimble, yorrel, zant, brundle, clort, dorrel, fenk, gribbon, holver, jask, kettler, lorn, mundle, neller,"
    "pardle, rundel, sneed, tampel, vosk, welp"
)
COLOURS = words(
    "red, blue, green, yellow, white, black, brown, grey, pink, purple, golden, silver, beige, scarlet, violet,"
    "crimson, turquoise, cream, striped, spotted, chequered, wooden, plastic, metal, paper, leather, glass, bamboo"
)
HAPPENINGS = words(
    "flood, wedding, harvest, parade, strike, auction, festival, storm, election, concert, match, fire, funeral,"
    "exhibition, drought, banquet, trial, census, earthquake, premiere, regatta, eclipse, conference, landslide,"
    "marathon, coronation, jubilee, blackout"
)


class Relation(NamedTuple):
    """A transitive relation: two ways to say it and what it holds between.

    ``inward`` says that a thing may have many below it but only one directly above, as boxes do.
    """

    forward: str
    backward: str
    fillings: Pool[str]
    inward: bool = False


RELATIONS = {
    "taller": Relation("{0} is taller than {1}", "{1} is shorter than {0}", PEOPLE),
    "is_a": Relation("every {0} is a {1}", "all {0}s are {1}s", KINDS),
    "contains": Relation("the {0} box contains the {1} box", "the {1} box is inside the {0} box", COLOURS, inward=True),
    "before": Relation("the {0} took place before the {1}", "the {1} took place after the {0}", HAPPENINGS),
    "older": Relation("{0} is older than {1}", "{1} is younger than {0}", PEOPLE),
    "north": Relation("{0} lives north of {1}", "{1} lives south of {0}", PEOPLE),
}


def _say(draw: Draw, relation: Relation, link: tuple[str, str]) -> str:
    return draw.one((relation.forward, relation.backward)).format(*link)


def chain(relation: Relation, steps: int, draw: Draw, follows: bool) -> Sketch:
    """Write a chain of ``steps`` links with one to three distractors, and ask about its two ends."""
    distractors = draw.between(1, 3)
    names = draw.words(relation.fillings, steps + 1 + distractors)
    nodes, spare = names[: steps + 1], names[steps + 1 :]
    links = list(pairwise(nodes))
    for new in spare:
        # A distractor hangs on one link only, so it opens no second way from end to end.
        old = draw.one(nodes)
        links.append((old, new) if relation.inward or draw.flip() else (new, old))
    asked = (nodes[0], nodes[-1]) if follows else (nodes[-1], nodes[0])
    told = [_say(draw, relation, link) for link in draw.shuffled(links)]
    return sketch(sentences(*told), sentence(_say(draw, relation, asked)))


#: Steps change fastest, so that any run of items has equal shares of every number of steps.
FAMILIES = tuple(
    Family(template, partial(chain, relation, steps), steps)
    for template, relation in RELATIONS.items()
    for steps in range(1, LONGEST + 1)
)
