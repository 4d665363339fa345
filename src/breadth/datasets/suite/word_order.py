"""Full lexical overlap: every content word of the hypothesis occurs in the premise, and only the order decides."""

from __future__ import annotations

from breadth.datasets.suite.templates import PEOPLE, ROLES, Draw, Texts, families, sentence, texts, word_pool

#: None of these is symmetric; past tense and participle are the same word.
VERBS = word_pool(
    "thanked, praised, helped, followed, blamed, invited, trusted, warned, admired, photographed, hired, rescued,"
    "interviewed, ignored, painted, phoned, questioned, watched, visited, pushed, supported, accused, defended,"
    "surprised, teased, consoled"
)
OCCASIONS = word_pool(
    "after the concert, at the station, before the meeting, during the trial, in the garden, near the harbour,"
    "on the bridge, outside the museum, at the wedding, during the storm, in the lobby, after the game"
)
#: Verbs that direct a person to another; swapping the two changes the meaning.
DIRECTED = word_pool("recommended, described, preferred, entrusted, mentioned, reported")
FACTIVE = ("knew", "noticed", "remembered", "regretted")
OPINION = ("claimed", "believed", "suspected", "hoped")


def _cast(draw: Draw, k: int) -> list[str]:
    """Draw people, either all by name or all by trade."""
    return draw.words(PEOPLE, k) if draw.flip() else [f"the {role}" for role in draw.words(ROLES, k)]


def _active(subject: str, verb: str, other: str) -> str:
    return f"{subject} {verb} {other}"


def _passive(subject: str, verb: str, other: str) -> str:
    return f"{other} was {verb} by {subject}"


def _either_order(pair: tuple[str, str], kept: bool) -> tuple[str, str]:
    return pair if kept else (pair[1], pair[0])


def swap(draw: Draw, follows: bool) -> Texts:
    """Subject and object in the active voice."""
    one, two = _cast(draw, 2)
    verb, occasion = draw.word(VERBS), draw.word(OCCASIONS)
    subject, other = _either_order((one, two), follows)
    premise = f"{one} {verb} {two} {occasion}" if draw.flip() else f"{occasion}, {one} {verb} {two}"
    return texts(sentence(premise), sentence(_active(subject, verb, other)))


def passive(draw: Draw, follows: bool) -> Texts:
    """From active to passive, from passive to active, and from passive to passive."""
    one, two = _cast(draw, 2)
    verb, occasion = draw.word(VERBS), draw.word(OCCASIONS)
    given, asked = draw.one(((_active, _passive), (_passive, _active), (_passive, _passive)))
    subject, other = _either_order((one, two), follows)
    return texts(sentence(f"{given(one, verb, two)} {occasion}"), sentence(asked(subject, verb, other)))


def _relative_clause(draw: Draw, follows: bool, head_acts: bool) -> Texts:
    head, inner, outer = (f"the {role}" for role in draw.words(ROLES, 3))
    verb_in, verb_out = draw.words(VERBS, 2)
    clause = (head, verb_in, inner) if head_acts else (inner, verb_in, head)
    right, wrong = ((head, verb_out, outer), (inner, verb_out, outer)) if draw.flip() else (clause, clause[::-1])
    relative = f"who {verb_in} {inner}" if head_acts else f"whom {inner} {verb_in}"
    return texts(
        sentence(f"{head} {relative} {verb_out} {outer} {draw.word(OCCASIONS)}"),
        sentence(_active(*(right if follows else wrong))),
    )


def relative_subject(draw: Draw, follows: bool) -> Texts:
    """The head of a relative clause is its subject: "the baker who thanked the pilot admired the judge"."""
    return _relative_clause(draw, follows, head_acts=True)


def relative_object(draw: Draw, follows: bool) -> Texts:
    """The head of a relative clause is its object: "the baker whom the pilot thanked admired the judge"."""
    return _relative_clause(draw, follows, head_acts=False)


def directed(draw: Draw, follows: bool) -> Texts:
    """Three people and a verb with two objects: "Ann recommended Bob to Cy"."""
    who, one, two = _cast(draw, 3)
    verb, occasion = draw.word(DIRECTED), draw.word(OCCASIONS)
    kept, turned = (who, one, two), (who, two, one) if draw.flip() else (one, who, two)
    subject, first, second = kept if follows else turned
    return texts(
        sentence(f"{occasion}, {who} {verb} {one} to {two}"), sentence(f"{subject} {verb} {first} to {second}")
    )


def coordination(draw: Draw, follows: bool) -> Texts:
    """Two clauses joined by "and"; parts of both are mixed."""
    one, two, three, four = _cast(draw, 4)
    verb, other_verb = draw.words(VERBS, 2)
    first, second = (one, verb, two), (three, other_verb, four)
    if follows:
        asked = draw.one((first, second))
    else:
        asked = draw.one(((one, verb, four), (three, verb, two), (one, other_verb, four), (three, other_verb, two)))
    return texts(
        sentence(f"{_active(*first)} and {_active(*second)} {draw.word(OCCASIONS)}"), sentence(_active(*asked))
    )


def embedded(draw: Draw, follows: bool) -> Texts:
    """A clause under a factive verb, which implies it, and one under a verb of opinion, which does not."""
    who, *others = _cast(draw, 5)
    known, believed = draw.words(VERBS, 2)
    fact, opinion = (others[0], known, others[1]), (others[2], believed, others[3])
    clauses = draw.shuffled(
        (
            f"{draw.one(FACTIVE)} that {fact[0]} had {known} {fact[2]}",
            f"{draw.one(OPINION)} that {opinion[0]} had {believed} {opinion[2]}",
        )
    )
    asked = fact if follows else draw.one((opinion, fact[::-1]))
    return texts(sentence(f"{who} {clauses[0]} and {clauses[1]}"), sentence(_active(*asked)))


def clause_order(draw: Draw, follows: bool) -> Texts:
    """Which of two events came first, with "before" and "after" at the front or in the middle."""
    one, two, three, four = _cast(draw, 4)
    verb, other_verb = draw.words(VERBS, 2)
    word = draw.one(("before", "after"))
    main, side = _active(one, verb, two), _active(three, other_verb, four)
    premise = f"{word} {side}, {main}" if draw.flip() else f"{main} {word} {side}"
    left, right = _either_order((main, side), follows)
    hypothesis = f"{word} {right}, {left}" if draw.flip() else f"{left} {word} {right}"
    if premise == hypothesis:
        hypothesis = f"{word} {right}, {left}" if premise.startswith(main) else f"{left} {word} {right}"
    return texts(sentence(premise), sentence(hypothesis))


def modifier(draw: Draw, follows: bool) -> Texts:
    """A phrase after the subject puts another noun next to the verb: "the baker beside the pilot thanked the judge"."""
    head, near, other = (f"the {role}" for role in draw.words(ROLES, 3))
    verb = draw.word(VERBS)
    link = draw.one(("beside", "behind", "opposite", "in front of", "to the left of"))
    asked = _active(head if follows else near, verb, other)
    return texts(sentence(f"{head} {link} {near} {verb} {other} {draw.word(OCCASIONS)}"), sentence(asked))


FAMILIES = families(
    *(swap, passive, relative_subject, relative_object, directed, coordination, embedded, clause_order, modifier)
)
