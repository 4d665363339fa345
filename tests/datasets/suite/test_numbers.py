"""Numbers read back from their text, and the arithmetic done again."""

import re

import pytest

from breadth.datasets.suite import generate

FIGURES = re.compile(r"\b\d+\b")
HOLDS = {
    "exactly": lambda value, k: value == k,
    "at least": lambda value, k: value >= k,
    "at most": lambda value, k: value <= k,
    "more than": lambda value, k: value > k,
    "fewer than": lambda value, k: value < k,
}
BOUND = re.compile(r"(exactly|at least|at most|more than|fewer than) (\d+)")
#: Everything in the smallest unit.
UNITS = {
    "metres long": 100, "centimetres long": 1, "metres high": 100, "centimetres high": 1, "kilometres long": 100_000,
    "kilograms in weight": 1000, "grams in weight": 1, "hours long": 60, "minutes long": 1, "weeks long": 7,
    "days long": 1,
}  # fmt: skip


def figures(text):
    return [int(figure) for figure in FIGURES.findall(text)]


def claim(text, value):
    phrase, k = BOUND.search(text).groups()
    return HOLDS[phrase](value, int(k))


def compare(premise, hypothesis):
    counts = {name: int(k) for name, k in re.findall(r"(\w+) has (\d+)", premise)}
    left, word, right = re.fullmatch(r"(\w+) has (more|fewer) \w+ than (\w+)\.", hypothesis).groups()
    return counts[left] > counts[right] if word == "more" else counts[left] < counts[right]


def bounds(premise, hypothesis):
    counts = {name: int(k) for name, k in re.findall(r"(\w+) found (\d+)", premise)}
    return claim(hypothesis, counts[hypothesis.split()[0]])


def total(premise, hypothesis):
    return claim(hypothesis, sum(figures(premise)))


def remainder(premise, hypothesis):
    had, moved = figures(premise)
    return claim(hypothesis, had - moved if " gave " in premise else had + moved)


def product(premise, hypothesis):
    boxes, each = figures(premise)
    return claim(hypothesis, boxes * each)


def multiple(premise, hypothesis):
    law, fact = premise.rstrip(".").split(". ")
    larger, factor, smaller = re.fullmatch(r"(\w+) sold (twice|3 times) as many \w+ as (\w+)", law).groups()
    known, count = re.match(r"(\w+) sold (\d+)", fact).groups()
    times = 2 if factor == "twice" else 3
    counts = {known: int(count)}
    if known == larger:
        assert int(count) % times == 0
        counts[smaller] = int(count) // times
    else:
        counts[larger] = int(count) * times
    return claim(hypothesis, counts[hypothesis.split()[0]])


def interval(premise, hypothesis):
    """Try all counts that the premise allows."""
    allowed = [value for value in range(300) if claim(premise, value)]
    return all(claim(hypothesis, value) for value in allowed)


def units(premise, hypothesis):
    unit = "|".join(UNITS)
    sizes = {
        name: int(size) * UNITS[measure]
        for name, size, measure in re.findall(rf"(\w+)'s \w+ is (\d+) ({unit})", premise)
    }
    left, word, right = re.fullmatch(r"(\w+)'s \w+ is (\w+) than (\w+)'s\.", hypothesis).groups()
    return sizes[left] > sizes[right] if word in ("longer", "higher", "heavier") else sizes[left] < sizes[right]


READERS = {
    reader.__name__: reader for reader in (compare, bounds, total, remainder, product, multiple, interval, units)
}


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_arithmetic(split):
    frame = generate("numbers", 2000, seed=7, split=split)
    assert set(frame["template"]) == set(READERS)
    for row in frame.iter_rows(named=True):
        follows = READERS[row["template"]](row["premise"], row["hypothesis"])
        assert follows == (row["label"] == "entailment"), row


def test_edges_come_up():
    """Bounds are met exactly in a good part of the items, for either label."""
    frame = generate("numbers", 2000)
    for label in ("entailment", "not_entailment"):
        rows = [row for row in frame.iter_rows(named=True) if row["template"] == "total" and row["label"] == label]
        met = [sum(figures(row["premise"])) == figures(row["hypothesis"])[0] for row in rows]
        assert sum(met) / len(met) > 0.04


def test_no_single_thing_has_a_plural():
    for row in generate("numbers", 2000).iter_rows(named=True):
        assert min(figures(row["premise"]) + figures(row["hypothesis"])[:1], default=2) >= 2, row
