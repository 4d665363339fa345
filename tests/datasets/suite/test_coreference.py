"""What words that point back stand for, read back from the text."""

import re

import pytest

from breadth.datasets.suite import generate
from breadth.datasets.suite.templates import MEN, WOMEN

FEMALE, MALE = set(WOMEN.train + WOMEN.test), set(MEN.train + MEN.test)
PERSON = r"((?:Mrs |Mr )?[A-Z][a-z]+)"


def sex(name):
    return "she" if name.startswith("Mrs ") or name in FEMALE else "he"


def test_no_name_is_both():
    assert not FEMALE & MALE


def gender(premise, hypothesis):
    pronoun = re.search(r"\b(she|he)\b", premise)[1]
    asked = re.match(PERSON, hypothesis)[1]
    assert len({sex(name) for name in re.findall(r"(?:Mrs |Mr )[A-Z]\w+|[A-Z]\w+", premise) if known(name)}) == 2
    return sex(asked) == pronoun


def known(name):
    return name.startswith(("Mrs ", "Mr ")) or name in FEMALE | MALE


def two_pronouns(premise, hypothesis):
    giver, taker = re.search(r"and then (she|he) \w+ (her|him) ", premise).groups()
    asked = re.match(rf"{PERSON} \w+ {PERSON}", hypothesis).groups()
    return sex(asked[0]) == giver and {"she": "her", "he": "him"}[sex(asked[1])] == taker


def number(premise, hypothesis):
    plural = bool(re.search(r"\b(they|them)\b", premise))
    assert plural != bool(re.search(r"\b(she|he)\b", premise))
    return hypothesis.startswith("The three") == plural


def former_latter(premise, hypothesis):
    one, two = re.match(r"(\w+) and (\w+) came", premise).groups()
    who, event = hypothesis.rstrip(".").split(" ", 1)
    phrase = re.search(rf"(former|latter|first of them|second of them) {re.escape(event)}", premise)[1]
    return who == (one if phrase in ("former", "first of them") else two)


def one_other(premise, hypothesis):
    names = set(re.search(r"(?:sisters|brothers), (\w+) and (\w+)\.", premise).groups())
    named, event, _ = re.search(r"One of them, (\w+), (.+), and the other one (.+)\.", premise).groups()
    who, asked = hypothesis.rstrip(".").split(" ", 1)
    return who == (named if asked == event else (names - {named}).pop())


def trade(premise, hypothesis):
    jobs = {job: name for name, job in re.findall(r"(\w+) is an? (\w+)", premise)}
    who, asked = hypothesis.rstrip(".").split(" ", 1)
    return jobs[re.search(rf"[Tt]he (\w+) {re.escape(asked)}", premise)[1]] == who


def possession(premise, hypothesis):
    who, place = re.fullmatch(rf"{PERSON}'s .+ is in (.+)\.", hypothesis).groups()
    word = re.search(rf"\b(her|his) \w+ is in {place}", premise, re.IGNORECASE)[1].lower()
    return {"her": "she", "his": "he"}[word] == sex(who)


def quotation(premise, hypothesis):
    speaker, listener = re.match(r"(\w+) truthfully told (\w+)", premise).groups()
    who, asked = hypothesis.rstrip(".").split(" ", 1)
    word = re.search(rf"\b(I|you) {re.escape(asked)}", premise, re.IGNORECASE)[1].lower()
    return who == (speaker if word == "i" else listener)


READERS = (gender, two_pronouns, number, former_latter, one_other, trade, possession, quotation)


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_resolving(split):
    readers = {reader.__name__: reader for reader in READERS}
    for row in generate("coreference", 2000, seed=7, split=split).iter_rows(named=True):
        follows = readers[row["template"]](row["premise"], row["hypothesis"])
        assert follows == (row["label"] == "entailment"), row
