"""Spelling, articles, capitals and full stops, in all sets; the grammar functions one by one."""

import re

import pytest

from breadth.datasets.suite import SETS, generate
from breadth.datasets.suite.grammar import a, listing, plural, sentence, sentences


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", SETS)
def test_sentences_are_well_formed(name, split):
    frame = generate(name, 2000, seed=4, split=split)
    for text in [*frame["premise"], *frame["hypothesis"]]:
        assert re.fullmatch(r"[A-Z“].*[.!”]", text), text
        assert not re.search(r"  | [.,!;:]|[.,!;:]{2}|[.!?] [a-z]|[{}_|]|[^\w\s.,!;:'“”-]", text), text
        assert not re.search(r"\ba (?=[aeio])|\ban (?=[^aeiou\W])|\ba u(?!ni|se)", text, re.IGNORECASE), text
        assert not re.search(r"\b(\w+) \1\b", text, re.IGNORECASE), text


@pytest.mark.parametrize("name", SETS)
def test_verbs_agree(name):
    """No plural verb after a single name, no singular verb after two."""
    frame = generate(name, 2000, seed=4)
    for text in [*frame["premise"], *frame["hypothesis"]]:
        assert not re.search(r"(?:^|\. )[A-Z]\w+ (?:are|have|were|do)\b", text), text
        assert not re.search(r"(?:^|\. )[A-Z]\w+ and [A-Z]\w+ (?:is|has|was|does)\b", text), text
        assert not re.search(r"\b(?:did not|does not|didn't) (?!feed\b|shed\b)\w+(?:ed|[^s]s)\b", text), text


def test_articles():
    assert [a(noun) for noun in ("egg", "lamp", "uniform", "hour", "umbrella", "Owl")] == [
        "an egg", "a lamp", "a uniform", "an hour", "an umbrella", "an Owl",
    ]  # fmt: skip


def test_plurals():
    assert [plural(noun) for noun in ("box", "berry", "key", "lamp", "match", "bus")] == [
        "boxes", "berries", "keys", "lamps", "matches", "buses",
    ]  # fmt: skip


def test_lists_and_stops():
    assert listing(["Ann"]) == "Ann"
    assert listing(["Ann", "Bob", "Cy"]) == "Ann, Bob and Cy"
    assert sentence("it rained!") == "It rained!"
    assert sentences("it rained", "Ann left") == "It rained. Ann left."
