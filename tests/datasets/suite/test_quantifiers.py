"""Quantifiers read back from their text, and tried on every small club: what follows has no club against it."""

import re
from functools import lru_cache

import numpy as np
import pytest

from breadth.datasets.suite import generate

#: How many members are in each region of A, B, C (bit 0, 1, 2 of the region's number), for all small clubs.
MOST_PER_REGION = 3
CLUBS = np.indices((MOST_PER_REGION + 1,) * 8).reshape(8, -1)
REGIONS = np.arange(8)
LETTERS = {"A": (REGIONS & 1) > 0, "B": (REGIONS & 2) > 0, "C": (REGIONS & 4) > 0}


def truth(statement):
    """In which clubs a statement (quantifier, left, right) is true."""
    quantifier, left, right = statement
    inside = CLUBS[LETTERS[left] & LETTERS[right]].sum(axis=0)
    outside = CLUBS[LETTERS[left] & ~LETTERS[right]].sum(axis=0)
    return {
        "all": outside == 0,
        "some": inside > 0,
        "no": inside == 0,
        "not all": outside > 0,
        "most": inside > outside,
        "few": inside < outside,
    }[quantifier]


@lru_cache
def follows(premises, hypothesis, single):
    """``single``: C stands for one person."""
    possible = CLUBS[LETTERS["A"]].sum(axis=0) > 0
    if single:
        possible = possible & (CLUBS[LETTERS["C"]].sum(axis=0) == 1)
    for premise in premises:
        possible = possible & truth(premise)
    assert possible.any()
    return bool(truth(hypothesis)[possible].all())


#: Openings of a statement about "the X", in front of the verb.
OPENINGS = [
    (r"every single one of the (\w+)s ", "all"), (r"there is no (\w+) who does not ", "all"),
    (r"at least one of the (\w+)s does not ", "not all"), (r"there is an? (\w+) who does not ", "not all"),
    (r"at least one of the (\w+)s ", "some"), (r"there is an? (\w+) who ", "some"),
    (r"not a single one of the (\w+)s ", "no"), (r"there is no (\w+) who ", "no"),
    (r"(?:more than half|the majority) of the (\w+)s ", "most"),
    (r"(?:only a small minority|very few) of the (\w+)s ", "few"),
    (r"all of the (\w+)s ", "all"), (r"some of the (\w+)s ", "some"), (r"none of the (\w+)s ", "no"),
    (r"not all of the (\w+)s ", "not all"), (r"most of the (\w+)s ", "most"), (r"few of the (\w+)s ", "few"),
]  # fmt: skip
TURNED = {"all": "all", "some": "some", "none": "no", "not all": "not all", "most": "most", "few": "few"}


def bare(hobby):
    """The hobby without the ending of the third person."""
    verb, rest = hobby.split(" ", 1)
    return f"{verb.removesuffix('s')} {rest}"


class Reader:
    """Reads statements, giving hobbies the letters B and C as they come up."""

    def __init__(self, role):
        self.role, self.hobbies = role, {}

    def letter(self, hobby):
        if bare(hobby) not in self.hobbies:
            self.hobbies[bare(hobby)] = "BC"[len(self.hobbies)]
        return self.hobbies[bare(hobby)]

    def read(self, text):
        text = text[0].lower() + text[1:].rstrip(".")
        if match := re.fullmatch(r"only (\w+)s (.+)", text):
            assert match[1] == self.role
            return ("all", self.letter(match[2]), "A")
        if match := re.fullmatch(r"(not all|all|some|none|most|few) of those who (.+?) (?:are (\w+)s)", text):
            assert match[3] == self.role
            return (TURNED[match[1]], self.letter(match[2]), "A")
        if match := re.match(r"(not all|all|some|none|most|few) of those who (.+)", text):
            one, two = self.split(match[2])
            return (TURNED[match[1]], self.letter(one), self.letter(two))
        for opening, quantifier in OPENINGS:
            if match := re.match(opening, text):
                assert match[1] == self.role, text
                return (quantifier, "A", self.letter(text[match.end() :]))
        raise AssertionError(text)

    @staticmethod
    def split(text):
        from breadth.datasets.suite.quantifiers import HOBBIES

        ((one, two),) = [
            (hobby, text.removeprefix(hobby).strip())
            for hobby in HOBBIES.train + HOBBIES.test
            if text.startswith(hobby + " ") and text.removeprefix(hobby).strip() in HOBBIES.train + HOBBIES.test
        ]
        return one, two


def check(row):
    existence, first, *others = row["premise"].rstrip(".").split(". ")
    town, role = re.fullmatch(r"Some members of the (.+) club are (\w+)s", existence).groups()
    reader = Reader(role)
    first = first.removeprefix("At this club, ")
    if not row["template"].endswith("member"):
        hypothesis = row["hypothesis"].removeprefix(f"At the {town} club, ")
        assert hypothesis != row["hypothesis"]
        premises = tuple(reader.read(text) for text in (first, *others))
        return follows(premises, reader.read(hypothesis), False)
    premises = [reader.read(text) for text in re.split(r", and ", first)]
    # One person cannot be a third letter beside two hobbies: the other hobby's statement must be irrelevant, as it
    # is about the trade and a hobby of which nothing else is said.
    (fact,) = others
    who, fact = fact.removesuffix(" and belongs to this club").split(" ", 1)
    asked = row["hypothesis"].rstrip(".").removeprefix(f"{who} ")
    about = [text for text in (fact, asked) if not re.match(r"is (not )?an? ", text)]
    (hobby,) = {reader.letter(text.removeprefix("does not ")) for text in about}
    relevant = [tuple({hobby: "B"}.get(x, x) for x in p) for p in premises if hobby in p]

    def personal(text):
        if match := re.match(r"is (not )?an? ", text):
            return ("no" if match[1] else "all", "C", "A")
        return ("no" if text.startswith("does not ") else "all", "C", "B")

    return follows((*relevant, personal(fact)), personal(asked), True)


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_trying_all_small_clubs(split):
    for row in generate("quantifiers", 2000, seed=7, split=split).iter_rows(named=True):
        assert check(row) == (row["label"] == "entailment"), row


def test_enumeration_knows_textbook_cases():
    barbara = (("all", "A", "B"), ("all", "B", "C"))
    assert follows(barbara, ("all", "A", "C"), False)
    assert follows(barbara, ("some", "A", "C"), False)  # because there are A
    assert not follows((("all", "A", "B"), ("all", "C", "B")), ("all", "A", "C"), False)
    assert not follows((("most", "A", "B"), ("most", "B", "C")), ("most", "A", "C"), False)
    assert not follows((("all", "B", "C"),), ("some", "B", "C"), False)  # there may be no B


def test_each_quantifier_has_either_label_equally_often():
    from collections import Counter

    from breadth.datasets.suite import quantifiers

    for table in (quantifiers.FOLLOWS, quantifiers.DOES_NOT_FOLLOW):
        assert {given: sum(row.values()) for given, row in table.items()} == {
            given: sum(row.values()) for given, row in quantifiers.FOLLOWS.items()
        }
    for position in (0, 1):
        yes = Counter(pair[position] for pair in quantifiers.ENTAILED)
        assert yes == Counter(pair[position] for pair in quantifiers.NOT_ENTAILED)
    asked = [Counter(asked for _, asked in quantifiers.SYLLOGISMS[label]) for label in (True, False)]
    assert asked[0] == asked[1]
