import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import Loaded, Pattern
from breadth.errors import InputError
from breadth.execute.data import held_out, split_levels
from breadth.level_transfer.answers import levels_for_transfer
from breadth.records.store import RunRecord, StudyStore
from breadth.study import Train

PATTERN = (
    "pattern: '{premise} Question: {hypothesis} Yes or No?'\nanswers: {entailment: ' Yes', contradiction: ' No'}\n"
)

PLAIN = "train: {set: plain, examples: [16, 32], seeds: [0, 1]}\nrecipe: {epochs: 1}\n"
EVALUATE = "evaluate: {on: [plain, negation], items: 40}\n"
OWN = "train: {set: own, examples: 8}\nrecipe: {epochs: 1}\nevaluate: {on: [own, other]}\n" + PATTERN


def levels(train, evaluate="{on: [chains, negation], items: 60}"):
    return (
        f"train: {{set: chains, difficulty: {{column: steps}}, {train}}}\nrecipe: {{epochs: 1}}\nevaluate: {evaluate}"
    )


def nli_frame(n, name="own", **columns):
    """Items whose texts and ids differ, with labels in turn."""
    return pl.DataFrame(
        {
            "id": [f"{name}{i:04d}" for i in range(n)],
            "premise": [f"{name} premise {i}" for i in range(n)],
            "hypothesis": [f"hypothesis {i}" for i in range(n)],
            "label": [("entailment", "contradiction")[i % 2] for i in range(n)],
            **columns,
        }
    )


def texts(frame):
    return set(frame.select("premise", "hypothesis").iter_rows())


def own_sets(tmp_path, own, train, other):
    own.write_csv(tmp_path / "own.csv")
    train.write_csv(tmp_path / "train.csv")
    other.write_parquet(tmp_path / "other.parquet")
    return OWN + "sets:\n  own: {file: own.csv, train_file: train.csv}\n  other: {file: other.parquet, shift: style}\n"


def test_the_same_items_for_every_run_and_every_time(study_data):
    first, runs = study_data(PLAIN + EVALUATE)
    again, _ = study_data(PLAIN + EVALUATE)
    assert {name: testset.frame.height for name, testset in first.testsets.items()} == {"plain": 40, "negation": 40}
    for name, testset in first.testsets.items():
        assert testset.frame.equals(again.testsets[name].frame)
    other, _ = study_data(PLAIN + EVALUATE.replace("items: 40", "items: 40, seed: 1"))
    assert not other.testsets["plain"].frame.equals(first.testsets["plain"].frame)
    for run in runs:
        assert first.training(run).frame.equals(again.training(run).frame)
    assert len({tuple(first.training(run).frame["item"]) for run in runs}) == 4


def test_more_examples_contain_fewer(study_data):
    data, runs = study_data(PLAIN + EVALUATE)
    drawn = {(run.examples, run.seed): set(data.training(run).frame["item"]) for run in runs}
    assert {key: len(items) for key, items in drawn.items()} == {(16, 0): 16, (16, 1): 16, (32, 0): 32, (32, 1): 32}
    assert drawn[16, 0] < drawn[32, 0]
    assert drawn[16, 0] != drawn[16, 1]


def test_test_and_training_items_share_nothing(study_data):
    data, runs = study_data(PLAIN + "evaluate: {on: [plain, negation]}")
    for run in runs:
        training = data.training(run).frame
        for testset in data.testsets.values():
            assert not set(training["item"]) & set(testset.frame["item"])
            assert not texts(training) & texts(testset.frame)


def test_what_is_trained_on_is_in_domain(study_data):
    data, runs = study_data(PLAIN + EVALUATE)
    assert data.testsets["plain"].shift == "in-domain"
    assert set(data.testsets["plain"].frame["shift"]) == {"in-domain"}
    assert data.testsets["negation"].shift != "in-domain"
    assert data.training(runs[0]).shift == "in-domain"
    elsewhere, _ = study_data(PLAIN.replace("set: plain", "set: negation") + EVALUATE)
    assert elsewhere.testsets["negation"].shift == "in-domain"
    assert elsewhere.testsets["plain"].shift == "domain"
    assert set(elsewhere.testsets["plain"].frame["shift"]) == {"domain"}


def test_own_sets(study_data, tmp_path):
    train = nli_frame(40, "train")
    # Items of the training file under other names, once with a space more.
    copied = train[:2].with_columns(id=pl.lit("x") + pl.col("id"), premise=pl.col("premise") + " ")
    other = pl.concat([nli_frame(20, "other"), copied])
    data, (run,) = study_data(own_sets(tmp_path, nli_frame(30), train, other))
    assert data.testsets["own"].frame.height == 30
    assert data.testsets["own"].shift == "in-domain"
    assert data.testsets["other"].shift == "style"
    assert data.testsets["other"].frame.height == 20
    assert data.notes == ("other: dropped 2 test items whose texts are in the training data",)
    training = data.training(run)
    assert training.frame.height == 8
    assert training.task.answers == (("entailment", " Yes"), ("contradiction", " No"))
    assert training.frame["premise"].str.starts_with("train premise").all()
    assert training.frame["label"].value_counts()["count"].to_list() == [4, 4]


def test_an_own_file_with_splits_is_tested_on_its_test_split(study_data, tmp_path):
    frame = nli_frame(40, split=["train"] * 30 + ["test"] * 10)
    frame.write_csv(tmp_path / "own.csv")
    nli_frame(30, "bare").write_csv(tmp_path / "bare.csv")
    data, _ = study_data(
        "recipe: {method: zero-shot}\nevaluate: {on: [own, bare]}\n"
        "sets: {own: {file: own.csv}, bare: {file: bare.csv}}\n" + PATTERN
    )
    assert {name: testset.frame.height for name, testset in data.testsets.items()} == {"own": 10, "bare": 30}


def test_a_test_set_that_is_all_trained_on(study_data, tmp_path):
    train = nli_frame(40, "train")
    data, _ = study_data(own_sets(tmp_path, nli_frame(30), train, train.with_columns(id=pl.lit("x") + pl.col("id"))))
    with pytest.raises(InputError, match="other: every test item is also a training item, so none is left"):
        _ = data.testsets


def test_too_few_items_to_train_on(study_data, tmp_path):
    text = own_sets(tmp_path, nli_frame(30), nli_frame(6, "train"), nli_frame(9, "other"))
    data, (run,) = study_data(text)
    with pytest.raises(InputError, match=r"own: .*draw at most 6"):
        data.training(run)


def test_levels_share_nothing_with_the_test(study_data):
    data, runs = study_data(levels("levels: 3, examples: 10"))
    assert [run.train_level for run in runs] == [0, 1, 2]
    tested = data.testsets["chains"].frame
    assert tested.group_by("level").len()["len"].to_list() == [20] * 3
    drawn = [data.training(run).frame for run in runs]
    assert [frame.height for frame in drawn] == [10, 10, 10]
    for level, frame in enumerate(drawn):
        assert set(frame["level"]) == {level}
        assert not set(frame["item"]) & set(tested["item"])
        assert not texts(frame) & texts(tested)
        assert not texts(frame) & texts(data.testsets["negation"].frame)
    assert drawn[0]["difficulty"].max() < drawn[2]["difficulty"].min()
    assert any(note.startswith("chains: 3 levels") for note in data.notes)


def test_halves_of_several_sets_are_held_out_from_one_another(study_data, tmp_path):
    first = nli_frame(80, "own", hard=list(range(80)))
    second = nli_frame(80, "other", hard=list(range(80)))
    # Every text of the first set is in the second, too.
    shared = pl.concat([second, first.with_columns(id=pl.lit("copy-") + pl.col("id"))])
    first.write_csv(tmp_path / "a.csv")
    shared.write_csv(tmp_path / "b.csv")
    data, runs = study_data(
        "train: {set: [a, b], difficulty: {column: hard}, levels: 2, examples: 8}\nrecipe: {epochs: 1}\n"
        "evaluate: {on: [a, b]}\nsets: {a: {file: a.csv}, b: {file: b.csv}}\n" + PATTERN
    )
    pools = [texts(split.train) for split in data._splits.values()]
    for testset in data.testsets.values():
        assert testset.frame.height
        assert all(not texts(testset.frame) & pool for pool in pools)
    assert {run.train_set for run in runs} == {"a", "b"}
    assert any("dropped" in note for note in data.notes)


def test_strategies_draw_from_the_train_halves(study_data):
    every = "[easy, hard, middle, full, centred, spiral, curriculum, anti-curriculum]"
    data, runs = study_data(levels(f"levels: 3, train_levels: [], strategies: {every}, examples: 24"))
    assert len(runs) == 8
    half = set(data._splits["chains"].train["item"])
    tested = set(data.testsets["chains"].frame["item"])
    drawn = {run.strategy: data.training(run).frame for run in runs}
    for frame in drawn.values():
        assert frame["item"].n_unique() == 24
        assert set(frame["item"]) <= half
        assert not set(frame["item"]) & tested
    assert drawn["easy"]["difficulty"].mean() < drawn["full"]["difficulty"].mean() < drawn["hard"]["difficulty"].mean()
    assert drawn["curriculum"]["difficulty"].is_sorted()
    assert drawn["anti-curriculum"]["difficulty"].is_sorted(descending=True)
    kept = {run.strategy for run in runs if data.keeps_order(run)}
    assert kept == {"spiral", "curriculum", "anti-curriculum"}


@pytest.mark.parametrize(("order", "kept"), [("shuffled", False), ("rising", True), ("falling", True)])
def test_an_order_of_the_study_replaces_that_of_the_strategy(study_data, order, kept):
    data, runs = study_data(levels(f"levels: 2, strategies: [full, curriculum], examples: 24, order: {order}"))
    assert len(runs) == 4
    for run in runs:
        assert data.keeps_order(run) is kept
        difficulty = data.training(run).frame["difficulty"]
        assert difficulty.len() == 24
        if kept:
            assert difficulty.is_sorted(descending=order == "falling")


def test_a_plain_run_keeps_no_order(study_data):
    data, runs = study_data(PLAIN + EVALUATE)
    assert not data.keeps_order(runs[0])


def test_nothing_is_trained(study_data):
    data, (run,) = study_data("recipe: {method: zero-shot}\n" + EVALUATE)
    assert run.train_set is None
    assert data.testsets["plain"].frame.height == 40
    assert data.testsets["plain"].shift == "domain"
    assert data.notes == ()


def test_a_registered_file_that_is_only_tested_on_keeps_all_its_items(study_data, tmp_path, monkeypatch):
    rows = [
        {"id": i, "premise": f"P {i}.", "hypothesis": f"H {i}.", "label": ("entailment", "not_entailment")[i % 2]}
        for i in range(60)
    ]
    for name in ("hans", "paws"):
        pl.DataFrame(rows).with_columns(pl.col("premise") + f" {name}").write_csv(tmp_path / f"{name}.csv")
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path))
    data, _ = study_data("train: {set: paws, examples: 4}\nrecipe: {steps: 2}\nevaluate: {on: [paws, hans]}")
    assert data.testsets["hans"].frame.height == 60
    assert 15 < data.testsets["paws"].frame.height < 45


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


def by_level(levels=4, **difficulty):
    return Train(set=["own"], difficulty=difficulty or {"column": "steps"}, levels=levels)


def test_levels_are_halved(tmp_path):
    split = split_levels(pool(), by_level(), tmp_path, 0)
    assert split.levels == [0, 1, 2, 3]
    assert not set(split.train["item"]) & set(split.test["item"])
    assert len(split.train) + len(split.test) == 120
    both = pl.concat([split.train, split.test])
    edges = both.group_by("level").agg(low=pl.col("steps").min(), high=pl.col("steps").max()).sort("level")
    assert edges["low"].to_list()[1:] > edges["high"].to_list()[:-1]
    for side in (split.train, split.test):
        assert side.group_by("level").len()["len"].to_list() == [15] * 4
    assert "4 levels" in split.notes[-1]


def test_halves_depend_on_the_seed_and_on_no_order(tmp_path):
    first = split_levels(pool(), by_level(), tmp_path, 0)
    shuffled = pool()
    turned = Loaded("own", "in-domain", TASK, shuffled.frame.reverse(), "")
    assert split_levels(turned, by_level(), tmp_path, 0).train["item"].to_list() == first.train["item"].to_list()
    assert split_levels(pool(), by_level(), tmp_path, 1).train["item"].to_list() != first.train["item"].to_list()


def test_low_values_may_be_hard(tmp_path):
    up, down = (split_levels(pool(), by_level(column="steps", hard_is=how), tmp_path, 0) for how in ("high", "low"))
    easiest = [pl.concat([h.train, h.test]).filter(pl.col("level") == 0)["steps"].max() for h in (up, down)]
    assert easiest[0] < 60 <= easiest[1]


def test_training_examples_are_of_one_level_and_balanced(tmp_path):
    split = split_levels(pool(), by_level(), tmp_path, 0)
    for level in split.levels:
        examples = split.draw_train(level, 8, seed=1)
        assert examples.height == 8
        assert set(examples["level"]) == {level}
        assert set(examples["item"]) <= set(split.train["item"])
        assert examples["label"].value_counts()["count"].to_list() == [4, 4]
        assert examples.equals(split.draw_train(level, 8, seed=1))
    with pytest.raises(InputError, match=r"own, level 2: has 15 items to train on .* and 16 are needed"):
        split.draw_train(2, 16, seed=1)


def test_test_items_are_as_many_of_every_level(tmp_path):
    split = split_levels(pool(), by_level(), tmp_path, 0)
    drawn = split.draw_test(40, 0)
    assert drawn.group_by("level").len()["len"].to_list() == [10] * 4
    assert drawn.equals(split.draw_test(40, 0))
    assert drawn["item"].is_sorted()
    assert split.draw_test(None, 0).height == 60
    assert split.draw_test(4, 0).height == 8


def test_texts_that_occur_twice_are_not_on_both_sides(tmp_path):
    # Every text occurs twice, under two names and once with a space after it.
    space = pl.when(pl.int_range(120) % 2 == 0).then(pl.lit(" ")).otherwise(pl.lit(""))
    twice = pool(premise=pl.format("premise {}{}", pl.int_range(120) // 2, space), hypothesis=pl.lit("the same"))
    split = split_levels(twice, by_level(), tmp_path, 0)
    shown = [set(side["premise"].str.strip_chars()) for side in (split.train, split.test)]
    assert split.test.height > 0
    assert not shown[0] & shown[1]
    assert any("whose texts are those of training items" in note for note in split.notes)


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
        (
            lambda: (pool(), by_level(column="hardness")),
            "own: has no column 'hardness' to take the difficulty from. Col",
        ),
        (lambda: (pool(steps=pl.lit("deep")), by_level()), "own: no item has a difficulty that is a number"),
        (lambda: (pool(steps=pl.lit(1.0)), by_level()), "give 1 levels, not 4; use another measure"),
        (lambda: (pool(steps=pl.int_range(120) % 3), by_level()), "have 3 different difficulties, .* use 3 or fewer"),
        (lambda: (pool(12), by_level()), "level 0, 1, 2, 3 has too few items to split"),
    ],
)
def test_what_cannot_be_split(tmp_path, given, message):
    data, wanted = given()
    with pytest.raises(InputError, match=message):
        split_levels(data, wanted, tmp_path, 0)


def test_items_without_a_difficulty_are_left_out(tmp_path):
    steps = pl.when(pl.int_range(120) < 20).then(None).otherwise(pl.col("steps"))
    split = split_levels(pool(steps=steps), by_level(), tmp_path, 0)
    assert split.train.height + split.test.height == 100
    assert split.notes[0] == "left out 20 of 120 items that have no difficulty"


@pytest.mark.parametrize("prefix", ["own-", ""])
def test_difficulty_from_a_calibration(tmp_path, prefix):
    rows = {"item": [f"{prefix}{i:04d}" for i in range(100)], "difficulty": [-float(i) for i in range(100)]}
    pl.DataFrame(rows).write_parquet(tmp_path / "calibration.parquet")
    split = split_levels(pool(), by_level(calibration="calibration.parquet"), tmp_path, 0)
    easiest = pl.concat([split.train, split.test]).filter(pl.col("level") == 0)["item"]
    assert easiest.min() == "own-0075"
    assert split.notes[0] == f"100 of the 100 items of {tmp_path / 'calibration.parquet'} are in the data"
    assert split.notes[1] == "left out 20 of 120 items that have no difficulty"


def test_a_calibration_of_other_items(tmp_path):
    pl.DataFrame({"item": ["a", "b", "c", "d"], "difficulty": [0.0, 1, 2, 3]}).write_csv(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"none of its 4 items is in own \(there: a, b, c; here: own-0000, own-0001"):
        split_levels(pool(), by_level(calibration="c.csv"), tmp_path, 0)
    pl.DataFrame({"item": ["a"], "hardness": [0.0]}).write_csv(tmp_path / "c.csv")
    with pytest.raises(InputError, match="is not a calibration, because it has no column 'difficulty'"):
        split_levels(pool(), by_level(calibration="c.csv"), tmp_path, 0)


def write_study(folder, runs, steps, seed=0):
    """Answers of checkpoints that improve, to items that get harder; all runs share step 0."""
    draw = np.random.default_rng(seed)
    store = StudyStore(folder)
    store.write_items("own", pool().frame.with_columns(shift=pl.lit("in-domain")))
    place = np.arange(120)
    first = None
    for run in range(runs):
        own = store.run(f"m-{run}")
        own.write_record(RunRecord("m", "own", seed=run, checkpoints=tuple(range(steps))))
        for step in range(steps):
            right = (draw.random(120) < 1 / (1 + np.exp(place / 20 - 3 - (step - steps / 2) / 4))).astype(np.float32)
            first = right if first is None else first
            right = first if step == 0 else right
            rows = {"testset": "own", "item": pool().frame["item"], "correct": right, "margin": right, "answer": "x"}
            own.write_part(step, pl.DataFrame(rows))
    (folder / "study.yaml").write_text("name: before\n")
    return folder


def test_difficulty_from_a_study(tmp_path):
    """Items that fewer checkpoints got right are harder."""
    write_study(tmp_path / "before", runs=1, steps=12)
    split = split_levels(pool(), by_level(levels=3, study="before"), tmp_path, 0)
    place = pl.concat([split.train, split.test]).with_columns(place=pl.col("item").str.slice(4).cast(pl.Int64))
    means = place.group_by("level").agg(pl.col("place").mean()).sort("level")["place"].to_list()
    assert means == sorted(means)
    assert means[2] - means[0] > 40
    assert "120 of the 120 items of study before are in the data" in split.notes[0]


def test_difficulty_from_a_study_is_what_calibrate_gives(tmp_path):
    """The study, its calibration file and the command agree to the last digit, also if runs share step 0."""
    calibration = breadth.calibrate(write_study(tmp_path / "before", runs=4, steps=5))
    assert calibration.subjects.height == 4 * 5 - 3
    calibration.items.write_parquet(tmp_path / "items.parquet")
    expected = dict(calibration.items.select("item", "difficulty").iter_rows())
    for source in ({"study": "before"}, {"calibration": "items.parquet"}):
        split = split_levels(pool(), by_level(levels=3, **source), tmp_path, 0)
        both = pl.concat([split.train, split.test])
        assert dict(both.select("item", "difficulty").iter_rows()) == expected
        shared = any("step 0" in note for note in split.notes)
        assert shared == ("study" in source)


def test_calibrate_levels_run_and_transfer_agree_on_every_item_of_gsm8k(shared_data, tmp_path):
    """552 questions with 534 different difficulties: ties, and sizes that do not divide, in one rule."""
    answers = breadth.open(shared_data / "responses" / "gsm8k_leaderboard.npz")
    calibration = breadth.calibrate(answers)
    calibration.items.write_parquet(tmp_path / "items.parquet")
    calibration.items.write_csv(tmp_path / "items.csv")
    expected = dict(calibration.items.select("item", "level").iter_rows())
    assert dict(breadth.levels(tmp_path / "items.csv").levels.select("item", "level").iter_rows()) == expected

    names = list(expected)
    own = Loaded("own", "in-domain", TASK, pool(len(names)).frame.with_columns(item=pl.Series(names)), "")
    split = split_levels(own, by_level(levels=10, calibration="items.parquet"), tmp_path, 0)
    assert dict(pl.concat([split.train, split.test]).select("item", "level").iter_rows()) == expected

    by_transfer = levels_for_transfer(answers, tmp_path / "items.parquet", 10)
    assert dict(zip(answers.item_names, by_transfer, strict=True)) == expected
    sizes = pl.Series(list(expected.values())).value_counts()["count"]
    assert (sizes.min(), sizes.max()) == (55, 56)
