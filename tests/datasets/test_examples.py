"""Draws are balanced, nested and independent of row order; train and test never share an item."""

import random
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets.examples import draw_examples, draw_items, drop_shared_texts, halve, has_classes, hash_items, part
from breadth.errors import InputError

LABELS = ("no", "perhaps", "yes")


def pool(counts, shuffle=0):
    rows = [(f"set-{label}-{i}", label) for label, count in zip(LABELS, counts, strict=False) for i in range(count)]
    random.Random(shuffle).shuffle(rows)
    return pl.DataFrame({"item": [row[0] for row in rows], "testset": "set", "label": [row[1] for row in rows]})


counts_of = st.lists(st.integers(4, 40), min_size=2, max_size=3)
seeds = st.integers(0, 2**32)


@given(counts_of, seeds, st.data())
def test_examples_are_balanced_nested_and_independent_of_row_order(counts, seed, data):
    most = min(counts) * len(counts)
    large = data.draw(st.integers(1, most))
    small = data.draw(st.integers(1, large))
    examples = draw_examples(pool(counts), large, seed)
    assert examples.height == large == examples["item"].n_unique()
    seen = [int((examples["label"] == label).sum()) for label in LABELS[: len(counts)]]
    assert max(seen) - min(seen) <= 1
    assert examples.equals(draw_examples(pool(counts, shuffle=1), large, seed))
    fewer = draw_examples(pool(counts), small, seed)["item"].to_list()
    # The smaller draw is part of the larger one, and in the same order.
    assert [item for item in examples["item"] if item in set(fewer)] == fewer


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
    first, second = draw_examples(frame, 64, 0), draw_examples(frame, 64, 1)
    assert len(set(first["item"]) & set(second["item"])) < 40
    runs = (first["label"] != first["label"].shift()).sum()
    assert 20 < runs < 45  # 32.5 expected of a shuffled order


def test_places_are_the_same_in_every_process_and_spread_evenly():
    code = "from breadth.datasets.examples import hash_items; print(hash_items(['mnli-1'], 3)[0])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == hash_items(["mnli-1"], 3)[0] == 16999000311013078548
    numbers = hash_items([str(i) for i in range(2000)], 0)
    assert abs(sum(number / 2**64 for number in numbers) / 2000 - 0.5) < 0.03


def test_too_few_of_a_label():
    with pytest.raises(
        InputError, match=r"set: 8 balanced training items need 4 .* 'no', but .* only 3; draw at most 6"
    ):
        draw_examples(pool([3, 50]), 8, 0)
    for draw in (draw_examples, draw_items):
        with pytest.raises(InputError, match="draw at least 1"):
            draw(pool([3, 3]), 0, 0)


def test_answers_that_are_no_classes_are_drawn_as_they_come():
    frame = pl.DataFrame({"item": [f"g-{i}" for i in range(50)], "label": [str(i) for i in range(50)]})
    assert not has_classes(frame)
    examples = draw_examples(frame, 20, 5)
    assert set(draw_examples(frame, 8, 5)["item"]) <= set(examples["item"])
    assert draw_items(frame, 20, 5).equals(examples.sort("item"))
    with pytest.raises(InputError, match="the training pool: cannot draw 51 training items, because there are only 50"):
        draw_examples(frame, 51, 0)
    letters = pool([10, 10]).with_columns(options=pl.lit(["a", "b"], dtype=pl.List(pl.String)))
    assert not has_classes(letters)


def test_without_looks_at_all_fields_together():
    test = pl.DataFrame({"item": ["1", "2", "3"], "a": ["x", "x", "y"], "b": ["p", "q", "p"]})
    train = pl.DataFrame({"item": ["9", "8"], "a": ["x", "x"], "b": ["p", "p"]})
    assert drop_shared_texts(test, train, ["a", "b"])["item"].to_list() == ["2", "3"]


def frame(**sizes):
    names = [name for name, size in sizes.items() for _ in range(size)]
    return pl.DataFrame({"item": [f"s-{i}" for i in range(len(names))], "split": names})


@given(st.sets(st.text(min_size=1, max_size=8), max_size=60), st.randoms())
def test_halves_share_nothing_and_depend_on_ids_alone(ids, order):
    rows = sorted(ids)
    train, test, *_ = halve(pl.DataFrame({"item": rows}, schema={"item": pl.String}))
    assert not set(train["item"]) & set(test["item"])
    assert set(train["item"]) | set(test["item"]) == ids
    order.shuffle(rows)
    fewer = rows[: len(rows) // 2]
    again = halve(pl.DataFrame({"item": fewer}, schema={"item": pl.String}))
    assert set(again.train["item"]) == set(train["item"]) & set(fewer)


def test_halves_are_about_equal():
    assert abs(halve(frame(test=4000)).train.height - 2000) < 150


@pytest.mark.parametrize(
    ("sizes", "test_split", "train_split", "test", "train"),
    [
        ({"train": 5, "dev": 3, "test": 4}, "test", "train", 4, 5),
        ({"dev": 3, "test": 4}, "test", "train", 4, 3),
        ({"train": 5, "dev_matched": 3}, "validation_matched", "train", 3, 5),
        ({"train": 5, "dev": 3}, "train", "validation", 5, 3),
        ({"train": 5, "test": 3}, "test_r3", "train_r3", 3, 5),
        ({"test_r1": 5, "test_r3": 3, "train_r3": 6}, "test_r3", "train_r3", 3, 6),
        ({"Train": 5, "Test": 3}, "test", "train", 3, 5),
    ],
)
def test_names_and_their_variants(sizes, test_split, train_split, test, train):
    parts = part(frame(**sizes), test_split, train_split, "file")
    assert (parts.test.height, parts.train.height) == (test, train)


@pytest.mark.parametrize("sizes", [{"unknown": 40}, {"train": 40}, {"test": 40}, {"left": 20, "right": 20}])
def test_one_split_or_unknown_names_are_halved(sizes):
    parts = part(frame(**sizes), "test", "train", "file")
    assert parts.test.height + parts.train.height == 40
    assert parts.halved
    assert "half of the items" in parts.how
    assert 5 < parts.test.height < 35


def test_a_train_split_beside_an_unknown_one_is_an_error():
    with pytest.raises(InputError, match=r"file: no test split 'test' among the splits \(heldout, train\)"):
        part(frame(train=4, heldout=4), "test", "train", "file")
