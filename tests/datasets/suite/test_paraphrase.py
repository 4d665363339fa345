"""Near-paraphrases read back from their text."""

import re

import pytest

from breadth.datasets.suite import generate
from breadth.datasets.suite.paraphrase import SYMMETRIC
from breadth.datasets.suite.templates import PEOPLE

EVERYONE = set(PEOPLE.train + PEOPLE.test)

#: How a deal is told, with the one whom the thing leaves as giver and the one whom it reaches as taker.
DEALS = [
    (r"(\w+) (sold|lent|gave|handed|showed) the \w+ to (\w+)", 1, 3),
    (r"(\w+) (rented) the \w+ out to (\w+)", 1, 3),
    (r"(\w+) (bought|borrowed|rented) the \w+ from (\w+)", 3, 1),
    (r"(\w+) was (given|handed|shown) the \w+ by (\w+)", 3, 1),
    (r"(\w+) (won|stole) the \w+ from (\w+)", 3, 1),
    (r"(\w+) (lost) the \w+ to (\w+)", 1, 3),
    (r"[Tt]he \w+ was (stolen) from (\w+) by (\w+)", 2, 3),
]
SAME_QUALITY = [
    {"expensive", "costly"}, {"cheap", "inexpensive"}, {"big", "large"}, {"small", "little"}, {"unused", "never-used"},
    {"second-hand", "pre-owned"}, {"ugly", "unsightly"}, {"beautiful", "lovely"}, {"heavy", "weighty"},
    {"light", "lightweight"}, {"defective", "faulty"}, {"flawless", "faultless"},
]  # fmt: skip
MORE = {"taller", "older", "faster", "richer", "heavier", "stronger"}


def names(text):
    return [word for word in re.findall(r"[A-Z]\w+", text) if word in EVERYONE]


def converse(premise, hypothesis):
    def deal(text):
        for pattern, giver, taker in DEALS:
            if match := re.search(pattern, text):
                return match[giver], match[taker]
        raise AssertionError(text)

    return deal(premise) == deal(hypothesis)


def symmetry(premise, hypothesis):
    def fact(text):
        one, relation, two = re.fullmatch(r"(\w+) (.+) (\w+)", text.rstrip(".")).groups()
        assert relation in SYMMETRIC
        return relation, frozenset((one, two))

    return fact(hypothesis) in [fact(part) for part in premise.split(", and ")]


def direction(premise, hypothesis):
    return hypothesis.rstrip(".") in premise.rstrip(".").split(", and ")


def before_after(premise, hypothesis):
    def order(text):
        one, word, two = re.fullmatch(r"(.+) (before|after) (.+)", text.rstrip(".")).groups()
        return (one, two) if word == "before" else (two, one)

    return order(premise) == order(hypothesis)


def comparative(premise, hypothesis):
    def order(text):
        one, word, two = re.match(r"(\w+) is (\w+) than (\w+)", text).groups()
        return (one, two) if word in MORE else (two, one)

    return order(premise) == order(hypothesis)


def quality(premise, hypothesis):
    def bought(text, who):
        return re.search(rf"{who} .*?\ban? ([\w-]+) (\w+)", text).groups()

    (who,) = names(hypothesis)
    said, asked = bought(premise, who), bought(hypothesis, who)
    assert said[1] == asked[1]
    return any({said[0], asked[0]} <= same for same in SAME_QUALITY)


def cleft(premise, hypothesis):
    doer, _ = names(premise)
    claimed = names(hypothesis)[0 if hypothesis.endswith("did not.") else 1]
    return claimed == doer


def cause(premise, hypothesis):
    reason, result = re.match(
        r"(?:The fact that )?(.+?)(?:, and that is why | was the reason why )(.+)\.", premise
    ).groups()
    return hypothesis == f"{result} because {reason}."


def replacement(premise, hypothesis):
    who = names(hypothesis)[0]
    done = re.fullmatch(rf"{who} (.+?) rather than .+", hypothesis)[1]
    return f"{who} {done}" in premise


READERS = (converse, symmetry, direction, before_after, comparative, quality, cleft, cause, replacement)


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_reading(split):
    readers = {reader.__name__: reader for reader in READERS}
    frame = generate("paraphrase", 2000, seed=7, split=split)
    assert set(frame["template"]) == set(readers)
    for row in frame.iter_rows(named=True):
        follows = readers[row["template"]](row["premise"], row["hypothesis"])
        assert follows == (row["label"] == "entailment"), row
