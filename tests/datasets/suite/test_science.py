"""Science facts read back from their text."""

import re

import pytest

from breadth.datasets.suite import generate

LESS = {"less dense", "colder", "thinner", "paler"}


def denied(hypothesis):
    return "not" in hypothesis.split()


def conjunction(premise, hypothesis):
    lacking = re.search(r"(\w+) (?:lacks|does not)", premise)[1]
    return (hypothesis.split()[0].lower() == lacking.lower()) == denied(hypothesis)


def group(premise, hypothesis):
    order = dict(re.findall(r"[Tt]he (\w+) is (?:a species|one) of the (\w+) order", premise))
    law = dict(re.findall(r"(every|no) species of the (\w+) order", premise, re.IGNORECASE))
    have = {word.lower(): number for word, number in law.items()}["every"]
    return (order[hypothesis.split()[1]] == have) != denied(hypothesis)


def orbit(premise, hypothesis):
    stars = dict(re.findall(r"planet (\w+) belongs to the star (\w+)", premise))
    sites = dict(re.findall(r"only ([a-z ]+) is on (\w+)", premise))
    thing, star = re.fullmatch(r"The ([a-z ]+) is on a planet of the star (\w+)\.", hypothesis).groups()
    return stars[sites[thing]] == star


def sequence(premise, hypothesis):
    told = re.findall(r"the (\w+) (?:form first|form last|are complete|form only)|then the (\w+)", premise)
    organs = list(dict.fromkeys(one or two for one, two in told))
    if "only once" in premise:
        organs = organs[::-1]
    left, word, right = re.search(r"the (\w+) form (before|after) the (\w+)", hypothesis).groups()
    return (organs.index(left) < organs.index(right)) == (word == "before")


def threshold(premise, hypothesis):
    points = {name.lower(): int(t) for name, t in re.findall(r"(\w+) melts at (\d+)", premise)}
    heat = int(re.search(r"heated to (\d+)", premise)[1])
    return (points[re.search(r"sample of (\w+)", hypothesis)[1]] <= heat) != denied(hypothesis)


def exception(premise, hypothesis):
    odd = re.search(r"except the (\w+)", premise)[1]
    return (hypothesis.split()[1] == odd) == denied(hypothesis)


def comparison(premise, hypothesis):
    def pair(text):
        left, word, right = re.search(r"(\w+) is (less dense|\w+) than (\w+)", text.lower()).groups()
        return (right, left) if word in LESS else (left, right)

    links = [pair(part) for part in premise.split(", and ")]
    links += [(one, four) for one, two in links for three, four in links if two == three]
    return pair(hypothesis) in links


def switch(premise, hypothesis):
    before, day, after = re.search(r"was (\w+) on every day before day (\d+), became (\w+) on", premise).groups()
    asked, state = re.search(r"day (\d+), the gene \w+ was (\w+)", hypothesis).groups()
    assert before != after
    return state == (before if int(asked) < int(day) else after)


def elimination(premise, hypothesis):
    out = re.search(r"there is no (\w+)", premise)[1]
    return (hypothesis.rstrip(".").split()[-1] == out) == denied(hypothesis)


def law(premise, hypothesis):
    samples = dict(re.findall(r"the (\w+) sample ((?:was|touched) .+?)(?:, and|\.)", premise))
    asked = re.search(r"The (\w+) sample", hypothesis)[1]
    return not re.search(r"kept|left at normal", samples[asked])


READERS = (
    conjunction,
    group,
    orbit,
    sequence,
    threshold,
    exception,
    comparison,
    switch,
    elimination,
    law,
)


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_reading(split):
    readers = {reader.__name__: reader for reader in READERS}
    frame = generate("science", 2000, seed=7, split=split)
    assert set(frame["template"]) == set(readers)
    for row in frame.iter_rows(named=True):
        follows = readers[row["template"]](row["premise"], row["hypothesis"])
        assert follows == (row["label"] == "entailment"), row
