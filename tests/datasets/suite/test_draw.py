"""Draws are fair, repeatable and stay in their split."""

from collections import Counter

import pytest

from breadth.datasets.suite import science, vocabulary
from breadth.datasets.suite.draw import Draw, Pool, words

POOLS = {
    name: value for module in (vocabulary, science) for name, value in vars(module).items() if isinstance(value, Pool)
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
    fillings = words("one, two, three, four")
    assert fillings == Pool(("one", "three"), ("two", "four"))
    assert {Draw((seed,), "train").word(fillings) for seed in range(20)} == {"one", "three"}
    assert set(Draw((0,), "test").words(fillings, 2)) == {"two", "four"}
