import math

import numpy as np
import polars as pl
import pytest

from breadth.datasets import Loaded
from breadth.datasets.tasks import Pattern
from breadth.errors import InputError
from breadth.execute.halves import held_out, split_levels
from breadth.records import StudyStore
from breadth.study.schema import Train

TASK = Pattern("{premise} {hypothesis}?", (("entailment", " Yes"), ("contradiction", " No")))


def pool(n=120, **columns):
    frame = pl.DataFrame(
        {
            "item": [f"own-{i:04d}" for i in range(n)],
            "testset": "own",
            "label": [("entailment", "contradiction")[i % 2] for i in range(n)],
            "premise": [f"premise {i}" for i in range(n)],
            "hypothesis": [f"hypothesis {i}" for i in range(n)],
            "steps": [float((i * 37) % n) for i in range(n)],
        }
    ).with_columns(**columns)
    return Loaded("own", "in-domain", TASK, frame, "")


def train(levels=4, **difficulty):
    return Train(set=["own"], difficulty=difficulty or {"column": "steps"}, levels=levels)


def test_levels_are_cut_into_halves(tmp_path):
    halves = split_levels(pool(), train(), tmp_path, 0)
    assert halves.levels == [0, 1, 2, 3]
    assert not set(halves.train["item"]) & set(halves.test["item"])
    assert len(halves.train) + len(halves.test) == 120
    both = pl.concat([halves.train, halves.test])
    edges = both.group_by("level").agg(low=pl.col("steps").min(), high=pl.col("steps").max()).sort("level")
    assert edges["low"].to_list()[1:] > edges["high"].to_list()[:-1]
    for side in (halves.train, halves.test):
        assert side.group_by("level").len()["len"].to_list() == [15] * 4
    assert "4 levels" in halves.notes[-1]


def test_halves_depend_on_the_seed_and_on_no_order(tmp_path):
    first = split_levels(pool(), train(), tmp_path, 0)
    shuffled = pool()
    turned = Loaded("own", "in-domain", TASK, shuffled.frame.reverse(), "")
    assert split_levels(turned, train(), tmp_path, 0).train["item"].to_list() == first.train["item"].to_list()
    assert split_levels(pool(), train(), tmp_path, 1).train["item"].to_list() != first.train["item"].to_list()


def test_low_values_may_be_hard(tmp_path):
    up, down = (split_levels(pool(), train(column="steps", hard_is=how), tmp_path, 0) for how in ("high", "low"))
    easiest = [pl.concat([h.train, h.test]).filter(pl.col("level") == 0)["steps"].max() for h in (up, down)]
    assert easiest[0] < 60 <= easiest[1]


def test_shots_are_as_many_of_every_level_and_label(tmp_path):
    halves = split_levels(pool(), train(), tmp_path, 0)
    for level in halves.levels:
        shots = halves.shots(level, 8, seed=1)
        assert shots.height == 8
        assert set(shots["level"]) == {level}
        assert set(shots["item"]) <= set(halves.train["item"])
        assert shots["label"].value_counts()["count"].to_list() == [4, 4]
        assert shots.equals(halves.shots(level, 8, seed=1))
    with pytest.raises(InputError, match=r"own, level 2: has 15 items to train on .* and 16 shots are asked for"):
        halves.shots(2, 16, seed=1)


def test_test_items_are_as_many_of_every_level(tmp_path):
    halves = split_levels(pool(), train(), tmp_path, 0)
    drawn = halves.draw(40, 0)
    assert drawn.group_by("level").len()["len"].to_list() == [10] * 4
    assert drawn.equals(halves.draw(40, 0))
    assert drawn["item"].is_sorted()
    assert halves.draw(None, 0).height == 60
    assert halves.draw(4, 0).height == 8


def test_texts_that_stand_twice_are_not_on_both_sides(tmp_path):
    # Every text stands twice, under two names and once with a space behind it.
    space = pl.when(pl.int_range(120) % 2 == 0).then(pl.lit(" ")).otherwise(pl.lit(""))
    twice = pool(premise=pl.format("premise {}{}", pl.int_range(120) // 2, space), hypothesis=pl.lit("the same"))
    halves = split_levels(twice, train(), tmp_path, 0)
    shown = [set(side["premise"].str.strip_chars()) for side in (halves.train, halves.test)]
    assert halves.test.height > 0
    assert not shown[0] & shown[1]
    assert any("whose texts are those of train items, left out" in note for note in halves.notes)


def test_held_out_by_name_and_by_text():
    test = pool(6).frame
    other = test[:1].with_columns(premise=pl.lit("changed"))
    same_text = test[1:2].with_columns(item=pl.lit("elsewhere-1"), premise=pl.col("premise") + "  ")
    assert held_out(test, other, TASK)["item"].to_list() == test["item"].to_list()[1:]
    assert held_out(test, same_text, TASK)["item"].to_list() == test["item"].to_list()[:1] + test["item"].to_list()[2:]
    half_same = same_text.with_columns(hypothesis=pl.lit("another"))
    assert held_out(test, half_same, TASK).height == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: (pool(), train(column="hardness")), "own: has no column 'hardness' to take the difficulty from. Col"),
        (lambda: (pool(steps=pl.lit("deep")), train()), "own: no item has a difficulty that is a number"),
        (lambda: (pool(steps=pl.lit(1.0)), train()), "makes 1 levels, not 4; take another measure"),
        (lambda: (pool(steps=pl.int_range(120) % 3), train()), "have 3 different difficulties, .* ask for 3 or fewer"),
        (lambda: (pool(12), train()), "level 0, 1, 2, 3 has too few items to be cut"),
    ],
)
def test_what_cannot_be_cut(tmp_path, given, message):
    data, wanted = given()
    with pytest.raises(InputError, match=message):
        split_levels(data, wanted, tmp_path, 0)


def test_items_without_a_difficulty_are_left_out(tmp_path):
    steps = pl.when(pl.int_range(120) < 20).then(None).otherwise(pl.col("steps"))
    halves = split_levels(pool(steps=steps), train(), tmp_path, 0)
    assert halves.train.height + halves.test.height == 100
    assert halves.notes[0] == "20 of 120 items have no difficulty and are left out"


@pytest.mark.parametrize("prefix", ["own-", ""])
def test_difficulty_from_a_calibration(tmp_path, prefix):
    rows = {"item": [f"{prefix}{i:04d}" for i in range(100)], "difficulty": [-float(i) for i in range(100)]}
    pl.DataFrame(rows).write_parquet(tmp_path / "calibration.parquet")
    halves = split_levels(pool(), train(calibration="calibration.parquet"), tmp_path, 0)
    easiest = pl.concat([halves.train, halves.test]).filter(pl.col("level") == 0)["item"]
    assert easiest.min() == "own-0075"
    assert halves.notes[0] == f"100 of the 100 items of {tmp_path / 'calibration.parquet'} are in the data"
    assert halves.notes[1] == "20 of 120 items have no difficulty and are left out"


def test_a_calibration_of_other_items(tmp_path):
    pl.DataFrame({"item": ["a", "b", "c", "d"], "difficulty": [0.0, 1, 2, 3]}).write_csv(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"none of its 4 items is in own \(there: a, b, c; here: own-0000, own-0001"):
        split_levels(pool(), train(calibration="c.csv"), tmp_path, 0)
    pl.DataFrame({"item": ["a"], "hardness": [0.0]}).write_csv(tmp_path / "c.csv")
    with pytest.raises(InputError, match="is no calibration, because it has no column 'difficulty'"):
        split_levels(pool(), train(calibration="c.csv"), tmp_path, 0)


def test_difficulty_from_a_study(tmp_path):
    """Items that fewer checkpoints got right are harder."""
    items = [f"own-{i:04d}" for i in range(120)]
    store = StudyStore(tmp_path / "before")
    store.folder.mkdir()
    store.write_items("own", pool().frame.with_columns(shift=pl.lit("in-domain")))
    run = store.run("run-1")
    run.write_spec({"model": "m", "checkpoints": list(range(12))})
    draw = np.random.default_rng(0)
    for step in range(12):
        chance = [1 / (1 + math.exp(i / 20 - 3 - (step - 6) / 4)) for i in range(120)]
        right = (draw.random(120) < chance).astype(np.float32)
        rows = {"testset": "own", "item": items, "correct": right, "margin": right, "answer": "x"}
        run.write_part(step, pl.DataFrame(rows))
    (tmp_path / "before" / "study.yaml").write_text("name: before\n")
    halves = split_levels(pool(), train(levels=3, study="before"), tmp_path, 0)
    both = pl.concat([halves.train, halves.test])
    place = both.with_columns(place=pl.col("item").str.slice(4).cast(pl.Int64))
    means = place.group_by("level").agg(pl.col("place").mean()).sort("level")["place"].to_list()
    assert means == sorted(means)
    assert means[2] - means[0] > 40
    assert "120 of the 120 items of study before are in the data" in halves.notes[0]
