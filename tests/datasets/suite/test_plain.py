"""The plain set and its formal and chat versions, read back from their texts."""

import re

import pytest

from breadth.datasets.suite import generate
from breadth.datasets.suite.plain import KINDS
from breadth.datasets.suite.templates import PEOPLE, TOWNS

EVERYONE = set(PEOPLE.train + PEOPLE.test)
OPPOSITE = {"open": "closed", "locked": "unlocked", "full": "empty", "on": "off"}
OPPOSITE |= {two: one for one, two in OPPOSITE.items()}
TAG = r", (?:yeah|you know|no joke|honestly|I mean it|for real)[.!]$"
LEAD = r"^(?:It may be stated that |It is (?:not )?the case that |So )"


def names(text):
    return [word for word in re.findall(r"[A-Z]\w+", text) if word in EVERYONE]


def core(hypothesis):
    """The hypothesis without what only its style adds."""
    return re.sub(LEAD, "", re.sub(TAG, "", hypothesis).rstrip("."))


def denied(hypothesis):
    return bool(re.search(r"did not|didn't|not the |not true", hypothesis))


def conjunction(premise, hypothesis):
    who, event = core(hypothesis).split(" ", 1)
    clauses = re.split(r", while |, whereas |, and (?=\w+ just )", premise)
    (clause,) = [clause for clause in clauses if event in clause.replace(" just ", " ")]
    return who in names(clause)


def hypernym(premise, hypothesis):
    (who,) = names(hypothesis)
    kind = re.search(r"\ban? (.+)$", core(hypothesis))[1]
    thing = re.search(rf"{who} \w+ an? ([\w ]+?)(?:, | at the|\.| and )", premise)[1]
    return thing in KINDS[kind].train + KINDS[kind].test


def order(premise, hypothesis):
    lead, trail = names(premise)
    early, late = (lead, trail) if "hours later" in premise else (trail, lead)
    return names(hypothesis) == ([early, late] if re.search(r"before|prior to", hypothesis) else [late, early])


def location(premise, hypothesis):
    (who,) = names(hypothesis)
    known = "|".join(TOWNS.train + TOWNS.test)
    towns = dict(re.findall(rf"[Tt]he ([a-z ]+?) (?:is )?(?:situated |over )?in ({known})", premise))
    place = re.search(rf"{who} [a-z ]*?at the ([a-z ]+?)(?:,| and|\.)", premise)[1]
    return re.search(r" in ([A-Z].+)$", core(hypothesis))[1] == towns[place]


def outcome(premise, hypothesis):
    (who,) = names(hypothesis)
    clause = re.split(r", and | and |, whereas ", premise.removeprefix("Oh, and "))[names(premise).index(who)]
    if re.search(r"planning|intention|wanted|wish", clause):
        return False
    failed = bool(re.search(r"failed|unable|couldn't|forgot|(?<!not )neglect|omitted|bother", clause))
    return failed == denied(hypothesis)


def ownership(premise, hypothesis):
    first, second = names(premise)[:2]
    sold = re.search(r"sold|by sale", premise)
    formal_loan = "on loan to" in premise
    assert re.search(r"now|transferred", premise) if sold else re.search(r"still|retains", premise)
    return names(hypothesis) == [second if sold or formal_loan else first]


def rule(premise, hypothesis):
    condition = re.search(r"day (?:when |on which )?(it rained|it stayed dry)", premise)[1]
    weather = {day: kind for kind, day in re.findall(r"(it rained|it stayed dry) on (\w+)", premise, re.IGNORECASE)}
    day = re.search(r"on (\w+day)", hypothesis)[1]
    return weather[day].lower() == condition


def change(premise, hypothesis):
    first = re.search(r"was (\w+)(?: all morning)?\.", premise)[1]
    asked = re.search(r"was (\w+)$", core(hypothesis))[1]
    return asked == (first if "morning" in hypothesis else OPPOSITE[first])


def exception(premise, hypothesis):
    out = re.search(r"(?:except|exception of) (\w+)", premise)[1]
    return (names(hypothesis) == [out]) == denied(hypothesis)


def choice(premise, hypothesis):
    out = re.search(r"(?:not|wasn't) the (\w+)", premise)[1]
    dish = re.search(r"(?:order|ordered|had|have|was|not) the (\w+)", hypothesis)[1]
    return (dish == out) == bool(re.search(r"did not|not the", hypothesis))


READERS = (
    conjunction,
    hypernym,
    order,
    location,
    outcome,
    ownership,
    rule,
    change,
    exception,
    choice,
)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", ["plain", "formal", "chat"])
def test_labels_by_reading(name, split):
    readers = {reader.__name__: reader for reader in READERS}
    frame = generate(name, 2000, seed=7, split=split)
    assert set(frame["template"]) == set(readers)
    for row in frame.iter_rows(named=True):
        follows = readers[row["template"]](row["premise"], row["hypothesis"])
        assert follows == (row["label"] == "entailment"), row


def test_no_thing_is_of_two_kinds():
    members = [thing for kind in KINDS.values() for thing in kind.train + kind.test]
    assert len(set(members)) == len(members)
