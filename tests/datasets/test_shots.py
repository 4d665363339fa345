"""Draws: balanced, nested, the same for any order of rows."""

import random
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets.shots import draw_items, draw_shots, has_classes, places, without
from breadth.errors import InputError

LABELS = ("no", "perhaps", "yes")


def pool(counts, shuffle=0):
    rows = [(f"set-{label}-{i}", label) for label, count in zip(LABELS, counts, strict=False) for i in range(count)]
    random.Random(shuffle).shuffle(rows)
    return pl.DataFrame({"item": [row[0] for row in rows], "testset": "set", "label": [row[1] for row in rows]})


counts_of = st.lists(st.integers(4, 40), min_size=2, max_size=3)
seeds = st.integers(0, 2**32)


@given(counts_of, seeds, st.data())
def test_shots_are_balanced_nested_and_free_of_row_order(counts, seed, data):
    most = min(counts) * len(counts)
    large = data.draw(st.integers(1, most))
    small = data.draw(st.integers(1, large))
    shots = draw_shots(pool(counts), large, seed)
    assert shots.height == large == shots["item"].n_unique()
    seen = [int((shots["label"] == label).sum()) for label in LABELS[: len(counts)]]
    assert max(seen) - min(seen) <= 1
    assert shots.equals(draw_shots(pool(counts, shuffle=1), large, seed))
    fewer = draw_shots(pool(counts), small, seed)["item"].to_list()
    # The smaller draw is part of the larger one, and in the same order.
    assert [item for item in shots["item"] if item in set(fewer)] == fewer


@given(counts_of, seeds, st.data())
def test_items_keep_the_proportions_of_the_pool(counts, seed, data):
    frame = pool(counts)
    n = data.draw(st.integers(1, frame.height))
    drawn = draw_items(frame, n, seed)
    assert drawn.height == n
    for label, count in zip(LABELS, counts, strict=False):
        assert abs(int((drawn["label"] == label).sum()) - n * count / frame.height) <= 1
    assert drawn.equals(draw_items(pool(counts, shuffle=2), n, seed))
    assert set(drawn["item"]) <= set(draw_items(frame, n + 1, seed)["item"])
    assert drawn["item"].is_sorted()


def test_all_items_where_there_are_no_more():
    frame = pool([5, 5], shuffle=3)
    for n in (None, 10, 99):
        assert draw_items(frame, n, 0).equals(frame.sort("item"))


def test_seeds_draw_different_items_in_mixed_order():
    frame = pool([200, 200])
    first, second = draw_shots(frame, 64, 0), draw_shots(frame, 64, 1)
    assert len(set(first["item"]) & set(second["item"])) < 40
    runs = (first["label"] != first["label"].shift()).sum()
    assert 20 < runs < 45  # 32.5 expected of a shuffled order


def test_places_are_the_same_in_every_process_and_spread_evenly():
    code = "from breadth.datasets.shots import places; print(places(['mnli-1'], 3)[0])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == places(["mnli-1"], 3)[0] == 16999000311013078548
    numbers = places([str(i) for i in range(2000)], 0)
    assert abs(sum(number / 2**64 for number in numbers) / 2000 - 0.5) < 0.03


def test_too_few_of_a_label():
    with pytest.raises(InputError, match=r"set: 4 items labelled 'no' are needed for 8 .*there are 3; ask for 6"):
        draw_shots(pool([3, 50]), 8, 0)
    for draw in (draw_shots, draw_items):
        with pytest.raises(InputError, match="ask for 1 or more"):
            draw(pool([3, 3]), 0, 0)


def test_answers_that_are_no_classes_are_drawn_as_they_come():
    frame = pl.DataFrame({"item": [f"g-{i}" for i in range(50)], "label": [str(i) for i in range(50)]})
    assert not has_classes(frame)
    shots = draw_shots(frame, 20, 5)
    assert set(draw_shots(frame, 8, 5)["item"]) <= set(shots["item"])
    assert draw_items(frame, 20, 5).equals(shots.sort("item"))
    with pytest.raises(InputError, match="the training pool: has 50 items to train on, and 51 are asked for"):
        draw_shots(frame, 51, 0)
    letters = pool([10, 10]).with_columns(options=pl.lit(["a", "b"], dtype=pl.List(pl.String)))
    assert not has_classes(letters)


def test_without_looks_at_all_fields_together():
    test = pl.DataFrame({"item": ["1", "2", "3"], "a": ["x", "x", "y"], "b": ["p", "q", "p"]})
    train = pl.DataFrame({"item": ["9", "8"], "a": ["x", "x"], "b": ["p", "p"]})
    assert without(test, train, ["a", "b"])["item"].to_list() == ["2", "3"]
