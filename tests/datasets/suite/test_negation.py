"""Negation read back from its text: who did and who did not."""

import re

import pytest

from breadth.datasets.suite import generate

NAME = r"([A-Z][a-z]+)"


def hypothesis(text):
    """Whom the hypothesis speaks about, and whether it says that they did it."""
    match = re.match(rf"(It is (?:not )?true that )?{NAME} (did not|has never|has at some time)?", text)
    negations = ("not true" in (match[1] or "")) + (match[3] in ("did not", "has never"))
    return match[2], negations % 2 == 0


#: Patterns of a premise; the groups that name who did it, and who did not.
PATTERNS = {
    "contrast": [
        (rf"On \w+, {NAME} did not .*, but {NAME} did\.", [2], [1]),
        (rf"On \w+, {NAME} .*, but {NAME} did not\.", [1], [2]),
        (rf"It was {NAME} and not {NAME} who .*", [1], [2]),
    ],
    "double": [
        (rf".*\. It is not true that {NAME} did not .*", [1], []),
        (rf".*\. It is not true that {NAME} .*", [], [1]),
        (rf".*\. {NAME} did not fail to .*", [1], []),
        (rf".*\. {NAME} failed to .*", [], [1]),
    ],
    "never": [
        (rf"{NAME} has never .*, but {NAME} has, and more than once\.", [2], [1]),
        (rf"{NAME} has .* several times, which {NAME} has never done\.", [1], [2]),
    ],
    "neither": [
        (rf"Neither {NAME} nor {NAME} .*, but {NAME} did\.", [3], [1, 2]),
        (rf"Both {NAME} and {NAME} .*, but {NAME} did not\.", [1, 2], [3]),
    ],
}


def readings(template, premise):
    for pattern, yes, no in PATTERNS[template]:
        if match := re.fullmatch(pattern, premise):
            return {match[k]: True for k in yes} | {match[k]: False for k in no}
    raise AssertionError(premise)


def only(premise):
    first, second, third, special, denied = re.fullmatch(
        rf"Of {NAME}, {NAME} and {NAME}, only {NAME} (did not )?.*", premise
    ).groups()
    return {name: (name == special) != bool(denied) for name in (first, second, third)}


def nobody(premise):
    homes = {place: name for name, place in re.findall(rf"{NAME} lives ([a-z ]+)", premise)}
    acts = re.findall(r"(nobody|everybody) who lives (.+?) (?:\w+ (?:the|a) \w+|cooked dinner)", premise, re.IGNORECASE)
    return {homes[place]: who.lower() == "everybody" for who, place in acts}


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_reading_who_did(split):
    for row in generate("negation", 2000, seed=7, split=split).iter_rows(named=True):
        template, premise = row["template"], row["premise"]
        who, did = hypothesis(row["hypothesis"])
        if template == "without":
            thing = row["hypothesis"].removesuffix(" that day.").split()[-1]
            left = re.search(r"(?:without|[Ii]nstead of) (\w+ (?:(?:the|a) )?\w+)", premise)[1]
            happened = not left.endswith(thing)
        elif template in PATTERNS:
            happened = readings(template, premise)[who]
        else:
            happened = {"only": only, "nobody": nobody}[template](premise)[who]
        assert (happened == did) == (row["label"] == "entailment"), row
