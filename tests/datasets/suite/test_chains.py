"""Chains read back from their text: a search through the graph of links gives label and number of steps."""

import re
from collections import deque

import polars as pl
import pytest

from breadth.datasets.suite import generate

#: What a sentence says, as (pattern, whether its first thing stands above its second).
PATTERNS = [
    (r"(\w+) is (?:taller|older) than (\w+)", True),
    (r"(\w+) is (?:shorter|younger) than (\w+)", False),
    (r"Every (\w+) is a (\w+)", True),
    (r"All (\w+)s are (\w+)s", True),
    (r"The (\w+) box contains the (\w+) box", True),
    (r"The (\w+) box is inside the (\w+) box", False),
    (r"The (\w+) took place before the (\w+)", True),
    (r"The (\w+) took place after the (\w+)", False),
    (r"(\w+) lives north of (\w+)", True),
    (r"(\w+) lives south of (\w+)", False),
]


def link(sentence):
    found = [(re.fullmatch(pattern, sentence), forward) for pattern, forward in PATTERNS]
    ((match, forward),) = [(match, forward) for match, forward in found if match]
    return match.groups() if forward else match.groups()[::-1]


def distance(links, start, end):
    """Number of links on the shortest way from start to end, or None."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        node, steps = queue.popleft()
        if node == end:
            return steps
        for one, two in links:
            if one == node and two not in seen:
                seen.add(two)
                queue.append((two, steps + 1))
    return None


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_and_steps_by_graph_search(split):
    for row in generate("chains", 2000, seed=7, split=split).iter_rows(named=True):
        links = [link(sentence) for sentence in row["premise"].rstrip(".").split(". ")]
        above, below = link(row["hypothesis"].rstrip("."))
        there, back = distance(links, above, below), distance(links, below, above)
        assert (there is not None) == (row["label"] == "entailment")
        assert (there if back is None else back) == row["steps"]
        assert len(links) - row["steps"] in (1, 2, 3)  # distractors


def test_links_are_told_in_no_telling_order():
    """A reader cannot start at the first sentence: it holds an end of the chain about as often as chance has it."""
    frame = generate("chains", 2000).filter(pl.col("steps") == 6)
    firsts = [
        bool(set(link(row["premise"].split(". ")[0].rstrip("."))) & set(link(row["hypothesis"].rstrip("."))))
        for row in frame.iter_rows(named=True)
    ]
    assert 0.15 < sum(firsts) / len(firsts) < 0.5


@pytest.mark.parametrize("n", [12, 600, 2004])
def test_numbers_of_steps_have_equal_shares(n):
    frame = generate("chains", n)
    shares = frame["steps"].value_counts().sort("steps")
    assert shares["steps"].to_list() == [1, 2, 3, 4, 5, 6]
    assert shares["count"].n_unique() == 1
    labels = frame.group_by("steps").agg((pl.col("label") == "entailment").mean().alias("share"))
    assert labels["share"].unique().to_list() == [0.5]
