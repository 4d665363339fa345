"""What gives a label away without reading: words of one sentence, the template, or shared words."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from breadth.datasets.suite import SETS, generate

MOST = 0.65

#: Every set but the two that have shortcuts on purpose.
NAMES = [name for name in SETS if name not in ("everyday", "workplace")]


def bag(text):
    words = re.findall(r"\w+", text.lower())
    return set(words) | {f"{one}_{two}" for one, two in pairwise(words)}


class NaiveBayes:
    """Bernoulli-style naive Bayes on the words and word pairs that a text contains, with add-one smoothing."""

    def __init__(self, texts, labels):
        self.counts = {label: Counter() for label in (True, False)}
        self.sizes = Counter(labels)
        for text, label in zip(texts, labels, strict=True):
            self.counts[label].update(bag(text))
        self.known = set(self.counts[True]) | set(self.counts[False])

    def score(self, text, label):
        counts, size = self.counts[label], self.sizes[label]
        return np.log(size) + sum(np.log((counts[word] + 1) / (size + 2)) for word in bag(text) & self.known)

    def accuracy(self, texts, labels):
        guesses = [self.score(text, True) > self.score(text, False) for text in texts]
        return float(np.mean([guess == label for guess, label in zip(guesses, labels, strict=True)]))


def labelled(frame, column):
    return frame[column].to_list(), (frame["label"] == "entailment").to_list()


def test_the_baseline_finds_a_cue_where_there_is_one():
    texts = [f"Ann {'never ' if i % 2 else ''}met Bob{i}" for i in range(200)]
    labels = [i % 2 == 0 for i in range(200)]
    assert NaiveBayes(texts[:100], labels[:100]).accuracy(texts[100:], labels[100:]) > 0.95


@pytest.mark.parametrize("column", ["hypothesis", "premise"])
@pytest.mark.parametrize("name", NAMES)
def test_one_sentence_alone_does_not_give_the_label_away(name, column):
    train, test = generate(name, 2000, split="train"), generate(name, 1000, split="test")
    assert NaiveBayes(*labelled(train, column)).accuracy(*labelled(test, column)) < MOST


@pytest.mark.parametrize("name", NAMES)
def test_nor_with_the_same_words_in_training(name):
    """Harder: trained on the test split's own words with another seed."""
    train, test = generate(name, 2000, seed=1), generate(name, 1000, seed=0)
    assert NaiveBayes(*labelled(train, "hypothesis")).accuracy(*labelled(test, "hypothesis")) < MOST


@pytest.mark.parametrize("name", NAMES)
def test_no_word_of_the_hypothesis_is_a_cue(name):
    """Every word in at least 5 % of hypotheses goes with either label in 35 to 65 % of its cases."""
    frame = generate(name, 4000, seed=3)
    counts = {label: Counter() for label in (True, False)}
    for text, label in zip(*labelled(frame, "hypothesis"), strict=True):
        counts[label].update(set(re.findall(r"\w+", text.lower())))
    for word in counts[True] | counts[False]:
        total = counts[True][word] + counts[False][word]
        if total >= 200:
            assert 0.35 <= counts[True][word] / total <= 0.65, word


def overlap(premise, hypothesis):
    words = [set(re.findall(r"\w+", text.lower())) for text in (premise, hypothesis)]
    return len(words[0] & words[1]) / len(words[1])


@pytest.mark.parametrize("name", NAMES)
def test_shared_words_do_not_give_the_label_away(name):
    """The best threshold on the share of hypothesis words that stand in the premise."""
    frame = generate(name, 2000)
    shares = np.array([overlap(*texts) for texts in frame.select("premise", "hypothesis").rows()])
    labels = (frame["label"] == "entailment").to_numpy()
    best = max(max(np.mean((shares >= cut) == labels), np.mean((shares < cut) == labels)) for cut in np.unique(shares))
    assert best < MOST
