"""Labels of ``everyday`` by reading: which side of which contrast each sentence is on."""

import re

import pytest

from breadth.datasets.suite import SPLITS, everyday, generate

POOLS = (everyday.MOODS, everyday.CONTESTS, everyday.HABITS, everyday.CHANGES, everyday.PLACES, everyday.THINGS_TOLD)


def sides(split):
    return [side for pool in POOLS for contrast in getattr(pool, split) for side in contrast]


@pytest.mark.parametrize("split", SPLITS)
def test_labels_by_reading(split):
    told = {side.told: side for side in sides(split)}
    for row in generate("everyday", 2000, seed=5, split=split).iter_rows(named=True):
        name, _, said = row["hypothesis"].removesuffix(".").partition(" ")
        assert name in row["premise"]
        found = [side for text, side in told.items() if re.search(rf"\b{re.escape(text)}\b", row["premise"])]
        longest = max(found, key=lambda side: len(side.told))
        assert (longest.again == said) == (row["label"] == "entailment"), row


def test_every_contrast_has_two_sides_and_words_of_its_own():
    every = [side for split in SPLITS for side in sides(split)]
    assert len({side.told for side in every}) == len({side.again for side in every}) == len(every)


def test_train_and_test_share_no_contrast():
    train, test = (set(sides(split)) for split in SPLITS)
    assert len(train) == len(test) == 72
    assert not train & test
