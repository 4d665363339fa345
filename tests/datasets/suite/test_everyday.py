"""Labels of ``everyday`` and ``workplace`` by reading: which side of which contrast each sentence is on."""

import re

import pytest

from breadth.datasets.suite import SPLITS, everyday, generate

POOLS = {
    "everyday": (
        everyday.MOODS,
        everyday.CONTESTS,
        everyday.HABITS,
        everyday.CHANGES,
        everyday.PLACES,
        everyday.THINGS,
    ),
    "workplace": (everyday.OFFICE, everyday.WORKSHOP, everyday.SERVICE, everyday.MARKET),
}


def contrasts(name, split):
    return [contrast for pool in POOLS[name] for contrast in getattr(pool, split)]


def sides(name, split):
    return [side for contrast in contrasts(name, split) for side in contrast]


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("split", SPLITS)
def test_labels_by_reading(name, split):
    """Find the side that each sentence is on; a denial turns it round."""
    known = enumerate(contrasts(name, split))
    texts = {text: (k, i) for k, contrast in known for i in (0, 1) for text in contrast[i]}

    def side(text):
        found = [phrase for phrase in texts if re.search(rf"\b{re.escape(phrase)}\b", text)]
        return texts[max(found, key=len)]

    for row in generate(name, 2000, seed=5, split=split).iter_rows(named=True):
        (about, told), (again, said) = side(row["premise"]), side(row["hypothesis"])
        assert about == again
        denied = row["hypothesis"].startswith("It is not true that")
        assert ((told == said) != denied) == (row["label"] == "entailment"), row


@pytest.mark.parametrize("name", POOLS)
def test_shortcuts_are_as_stated(name):
    frame = generate(name, 4000)
    denied = frame["hypothesis"].str.starts_with("It is not true that")
    follows = frame["label"] == "entailment"
    assert denied.filter(~follows).mean() == pytest.approx(everyday.OPPOSED[0] / 100, abs=0.03)
    assert denied.filter(follows).mean() == pytest.approx(everyday.FOLLOWING[2] / 100, abs=0.03)


def test_every_contrast_has_two_sides_and_words_of_its_own():
    every = [side for name in POOLS for split in SPLITS for side in sides(name, split)]
    assert len({side.statement for side in every}) == len({side.paraphrase for side in every}) == len(every)


@pytest.mark.parametrize("name", POOLS)
def test_train_and_test_share_no_contrast(name):
    train, test = (set(sides(name, split)) for split in SPLITS)
    assert len(train) == len(test) == 12 * len(POOLS[name])
    assert not train & test
