"""Draws are fair, reproducible and stay in their split; spelling, articles and punctuation are right in all sets."""

import re
from collections import Counter

import pytest

from breadth.datasets.suite import SETS, generate, science, templates
from breadth.datasets.suite.templates import Draw, WordPool, a, listing, plural, sentence, sentences, word_pool

POOLS = {
    name: value
    for module in (templates, science)
    for name, value in vars(module).items()
    if isinstance(value, WordPool)
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_share_nothing(name):
    train, test = POOLS[name]
    assert not set(train) & set(test)
    assert len(set(train + test)) == len(train + test)
    assert min(len(train), len(test)) >= 10


def test_streams_differ_by_every_number():
    def start(*seeds):
        draw = Draw(seeds, "test")
        return [draw.below(1000) for _ in range(5)]

    streams = [start(1, 0, 0), start(2, 0, 0), start(1, 1, 0), start(1, 0, 1)]
    assert start(1, 0, 0) == streams[0]
    assert len({tuple(stream) for stream in streams}) == 4


def test_stream_is_the_documented_one():
    """PCG64 seeded with the numbers; the batch is used from its end."""
    import numpy as np

    batch = np.random.Generator(np.random.PCG64([3, 1, 4])).random(1024)
    draw = Draw((3, 1, 4), "test")
    assert [draw.below(100) for _ in range(3)] == [int(100 * u) for u in batch[:-4:-1]]


def test_draws_are_fair():
    draw = Draw((0,), "train")
    orders = Counter(tuple(draw.shuffled("abc")) for _ in range(6000))
    assert len(orders) == 6
    assert min(orders.values()) > 850
    assert {draw.between(2, 4) for _ in range(100)} == {2, 3, 4}
    assert {len(set(draw.several(range(5), 3))) for _ in range(100)} == {3}


def test_words_come_from_the_split():
    choices = word_pool("one, two, three, four")
    assert choices == WordPool(("one", "three"), ("two", "four"))
    assert {Draw((seed,), "train").word(choices) for seed in range(20)} == {"one", "three"}
    assert set(Draw((0,), "test").words(choices, 2)) == {"two", "four"}


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
