"""Quantifiers: all, some, no, not all, most and few over the members of a club.

"Most" is more than half, "few" is any share smaller than half (the labels hold for every such share), and "some" is at
least one. Every premise states that the club has members of the trade in question, so that what holds for all of them
holds for some. Inferences that rest on an implicature ("some, so not all") are not used for either label.
"""

from __future__ import annotations

from breadth.datasets.suite.templates import (
    ROLES,
    TOWNS,
    Draw,
    Texts,
    a,
    families,
    person,
    plural,
    sentence,
    sentences,
    texts,
    word_pool,
)

HOBBIES = word_pool(
    "play chess, own a boat, keep bees, speak Greek, ride horses, collect stamps, drive a van, grow tomatoes,"
    "sing in a choir, read novels, wear glasses, drink tea, bake bread, write poems, swim every day, paint portraits,"
    "play the flute, own a dog, make cheese, know Latin"
)

#: A statement: a quantifier and two letters; A is a trade, B and C are hobbies.
Statement = tuple[str, str, str]
WORDING = {"all": "all", "some": "some", "no": "none", "not all": "not all", "most": "most", "few": "few"}


def _subject_phrase(term: str, terms: dict[str, str]) -> str:
    return f"of the {plural(terms[term])}" if term == "A" else f"of those who {terms[term]}"


def _statement_text(statement: Statement, terms: dict[str, str]) -> str:
    """A statement in its usual words."""
    quantifier, left, right = statement
    predicate = f"are {plural(terms['A'])}" if right == "A" else terms[right]
    return f"{WORDING[quantifier]} {_subject_phrase(left, terms)} {predicate}"


def _singular(hobby: str) -> str:
    verb, rest = hobby.split(" ", 1)
    return f"{verb}s {rest}"


def _reworded(draw: Draw, quantifier: str, role: str, hobby: str) -> str:
    """A quantified statement about a trade and a hobby, in words that the hypothesis does not use."""
    group, does = f"of the {plural(role)}", _singular(hobby)
    return draw.one(
        {
            "all": (f"every single one {group} {does}", f"there is no {role} who does not {hobby}"),
            "some": (f"at least one {group} {does}", f"there is {a(role)} who {does}"),
            "no": (f"not a single one {group} {does}", f"there is no {role} who {does}"),
            "not all": (f"at least one {group} does not {hobby}", f"there is {a(role)} who does not {hobby}"),
            "most": (f"more than half {group} {hobby}", f"the majority {group} {hobby}"),
            "few": (f"only a small minority {group} {hobby}", f"very few {group} {hobby}"),
        }[quantifier]
    )


def _scene(draw: Draw) -> tuple[str, dict[str, str]]:
    """Draw a club, and a trade and two hobbies of its members."""
    one, two = draw.words(HOBBIES, 2)
    return draw.word(TOWNS), {"A": draw.word(ROLES), "B": one, "C": two}


def _existence(town: str, terms: dict[str, str]) -> str:
    return f"some members of the {town} club are {plural(terms['A'])}"


#: Premise quantifier, then how often each hypothesis quantifier is used where it follows and where it does not. The
#: numbers make each quantifier, in premises and in hypotheses, equally frequent under both labels.
FOLLOWS = {
    "all": {"all": 2, "some": 1, "most": 2},
    "most": {"most": 2, "some": 2},
    "some": {"some": 2},
    "no": {"no": 3, "not all": 2},
    "few": {"few": 3, "not all": 1},
    "not all": {"not all": 2},
}
DOES_NOT_FOLLOW = {
    "all": {"not all": 5},
    "most": {"few": 3, "no": 1},
    "some": {"most": 1, "all": 1},
    "no": {"some": 5},
    "few": {"most": 2, "no": 1, "all": 1},
    "not all": {"most": 1, "no": 1},
}


def _pairs(table: dict[str, dict[str, int]]) -> tuple[tuple[str, str], ...]:
    """Pairs of premise and hypothesis quantifiers, repeated as often as the table says."""
    return tuple((given, asked) for given, row in table.items() for asked, times in row.items() for _ in range(times))


ENTAILED, NOT_ENTAILED = _pairs(FOLLOWS), _pairs(DOES_NOT_FOLLOW)


def direct(draw: Draw, follows: bool) -> Texts:
    """From one quantifier to another."""
    town, terms = _scene(draw)
    given, asked = draw.one(ENTAILED if follows else NOT_ENTAILED)
    return texts(
        sentences(_existence(town, terms), f"at this club, {_reworded(draw, given, terms['A'], terms['B'])}"),
        sentence(f"at the {town} club, {_statement_text((asked, 'A', 'B'), terms)}"),
    )


ALL_AB, ALL_BC, ALL_CB = ("all", "A", "B"), ("all", "B", "C"), ("all", "C", "B")
SOME_AB, SOME_AC, NO_AB, NO_BC = ("some", "A", "B"), ("some", "A", "C"), ("no", "A", "B"), ("no", "B", "C")
MOST_AB, FEW_AB, NOT_ALL_AB = ("most", "A", "B"), ("few", "A", "B"), ("not all", "A", "B")

#: Premises, the quantifier of the hypothesis about A and C, and how often. Again each quantifier is equally
#: frequent under both labels, and so are premises that differ only in whether all of B are C or all of C are B.
VALID: tuple[tuple[tuple[Statement, ...], str, int], ...] = (
    ((ALL_AB, ALL_BC), "all", 3),
    ((ALL_AB, ALL_BC), "most", 1),
    ((SOME_AB, ALL_BC), "some", 2),
    ((MOST_AB, ALL_BC), "most", 1),
    ((MOST_AB, ALL_BC), "some", 1),
    ((ALL_AB, NO_BC), "no", 2),
    ((SOME_AB, NO_BC), "not all", 1),
    ((NO_AB, ALL_CB), "no", 2),
    ((NOT_ALL_AB, ALL_CB), "not all", 2),
    ((FEW_AB, ALL_CB, SOME_AC), "few", 2),
    ((MOST_AB, NO_BC, SOME_AC), "not all", 2),
)
INVALID: tuple[tuple[tuple[Statement, ...], str, int], ...] = (
    ((ALL_AB, ALL_BC), "not all", 1),
    ((ALL_AB, ALL_CB), "not all", 2),
    ((ALL_AB, ALL_CB), "all", 1),
    ((NOT_ALL_AB, ALL_BC), "not all", 2),
    ((FEW_AB, ALL_BC, SOME_AC), "few", 2),
    ((MOST_AB, ALL_BC), "all", 1),
    ((MOST_AB, ALL_CB), "most", 1),
    ((SOME_AB, ALL_CB), "some", 1),
    ((SOME_AB, ALL_CB), "no", 1),
    ((ALL_AB, NO_BC), "some", 1),
    ((ALL_AB, NO_BC), "all", 1),
    ((NO_AB, ALL_BC), "some", 1),
    ((NO_AB, ALL_BC), "no", 1),
    ((SOME_AB, NO_BC), "no", 1),
    ((MOST_AB, NO_BC, SOME_AC), "no", 1),
    ((MOST_AB, NO_BC, SOME_AC), "most", 1),
)
SYLLOGISMS = {
    follows: tuple((premises, asked) for premises, asked, times in table for _ in range(times))
    for follows, table in ((True, VALID), (False, INVALID))
}


def syllogism(draw: Draw, follows: bool) -> Texts:
    """From two or three statements to another."""
    town, terms = _scene(draw)
    premises, asked = draw.one(SYLLOGISMS[follows])
    given = [_statement_text(statement, terms) for statement in premises]
    first, *others = draw.shuffled(given)
    return texts(
        sentences(_existence(town, terms), f"at this club, {first}", *others),
        sentence(f"at the {town} club, {_statement_text((asked, 'A', 'C'), terms)}"),
    )


#: A premise about A and B, and the hypothesis, mostly with A and B exchanged; "only" is "all" reversed.
ALL_BA, SOME_BA, NO_BA = ("all", "B", "A"), ("some", "B", "A"), ("no", "B", "A")
CONVERSIONS: dict[bool, tuple[tuple[str, Statement], ...]] = {
    True: (
        *(("no", NO_BA),) * 3,
        ("some", SOME_BA),
        ("most", SOME_BA),
        ("all", SOME_BA),
        ("only", ALL_BA),
        ("all", ALL_AB),
    ),
    False: (
        *(("no", SOME_BA),) * 3,
        ("some", NO_BA),
        ("most", NO_BA),
        ("all", NO_BA),
        ("all", ALL_BA),
        ("only", ALL_AB),
    ),
}


def _only_clause(terms: dict[str, str], hobby: str) -> str:
    return f"only {plural(terms['A'])} {terms[hobby]}"


def conversion(draw: Draw, follows: bool) -> Texts:
    """Conversion of a statement: valid for some and no, not for the others."""
    town, terms = _scene(draw)
    given, asked = draw.one(CONVERSIONS[follows])
    told = _only_clause(terms, "B") if given == "only" else _reworded(draw, given, terms["A"], terms["B"])
    return texts(
        sentences(_existence(town, terms), f"at this club, {told}"),
        sentence(f"at the {town} club, {_statement_text(asked, terms)}"),
    )


def _member(draw: Draw, town: str, terms: dict[str, str], told: list[str], fact: str, hypothesis: str) -> Texts:
    first, second = draw.shuffled(told)
    return texts(
        sentences(_existence(town, terms), f"at this club, {first}, and {second}", f"{fact} and belongs to this club"),
        sentence(hypothesis),
    )


def to_member(draw: Draw, follows: bool) -> Texts:
    """From a trade to one of its members: "all" and "no" decide, "most" and "few" do not."""
    town, terms = _scene(draw)
    who = person(draw)
    strong, weak = draw.one(("all", "no")), draw.one(("most", "few"))
    told = [_statement_text((strong, "A", "B"), terms), _statement_text((weak, "A", "C"), terms)]
    decided = follows or draw.flip()
    positive = (strong == "all") == follows if decided else draw.flip()
    hobby = terms["B" if decided else "C"]
    hypothesis = f"{who} {_singular(hobby)}" if positive else f"{who} does not {hobby}"
    return _member(draw, town, terms, told, f"{who} is {a(terms['A'])}", hypothesis)


def from_member(draw: Draw, follows: bool) -> Texts:
    """From what somebody does to what somebody is: "only" and "no" decide, "all" and "few" do not."""
    town, terms = _scene(draw)
    who = person(draw)
    only = draw.flip()
    told = (
        [_only_clause(terms, "B"), _statement_text(("all", "A", "C"), terms)]
        if only
        else [_statement_text(NO_AB, terms), _statement_text(("few", "A", "C"), terms)]
    )
    decided = follows or draw.flip()
    is_one = only == follows if decided else draw.flip()
    fact = f"{who} {_singular(terms['B' if decided else 'C'])}"
    return _member(draw, town, terms, told, fact, f"{who} is {'' if is_one else 'not '}{a(terms['A'])}")


FAMILIES = families(direct, syllogism, conversion, to_member, from_member)
