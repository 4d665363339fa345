import polars as pl
import pytest

from breadth.errors import InputError

PATTERN = (
    "pattern: '{premise} Question: {hypothesis} Yes or No?'\nanswers: {entailment: ' Yes', contradiction: ' No'}\n"
)

PLAIN = "train: {set: plain, shots: [16, 32], seeds: [0, 1]}\nrecipe: {epochs: 1}\n"
EVALUATE = "evaluate: {on: [plain, negation], items: 40}\n"
OWN = "train: {set: own, shots: 8}\nrecipe: {epochs: 1}\nevaluate: {on: [own, other]}\n" + PATTERN


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


def test_the_same_items_for_every_run_and_every_time(materials):
    first, runs = materials(PLAIN + EVALUATE)
    again, _ = materials(PLAIN + EVALUATE)
    assert {name: testset.frame.height for name, testset in first.testsets.items()} == {"plain": 40, "negation": 40}
    for name, testset in first.testsets.items():
        assert testset.frame.equals(again.testsets[name].frame)
    other, _ = materials(PLAIN + EVALUATE.replace("items: 40", "items: 40, seed: 1"))
    assert not other.testsets["plain"].frame.equals(first.testsets["plain"].frame)
    for run in runs:
        assert first.training(run).frame.equals(again.training(run).frame)
    assert len({tuple(first.training(run).frame["item"]) for run in runs}) == 4


def test_more_shots_contain_fewer(materials):
    found, runs = materials(PLAIN + EVALUATE)
    drawn = {(run.shots, run.seed): set(found.training(run).frame["item"]) for run in runs}
    assert {key: len(items) for key, items in drawn.items()} == {(16, 0): 16, (16, 1): 16, (32, 0): 32, (32, 1): 32}
    assert drawn[16, 0] < drawn[32, 0]
    assert drawn[16, 0] != drawn[16, 1]


def test_test_and_training_items_share_nothing(materials):
    found, runs = materials(PLAIN + "evaluate: {on: [plain, negation]}")
    for run in runs:
        training = found.training(run).frame
        for testset in found.testsets.values():
            assert not set(training["item"]) & set(testset.frame["item"])
            assert not texts(training) & texts(testset.frame)


def test_what_is_trained_on_is_in_domain(materials):
    found, runs = materials(PLAIN + EVALUATE)
    assert found.testsets["plain"].shift == "in-domain"
    assert set(found.testsets["plain"].frame["shift"]) == {"in-domain"}
    assert found.testsets["negation"].shift != "in-domain"
    assert found.training(runs[0]).shift == "in-domain"
    elsewhere, _ = materials(PLAIN.replace("set: plain", "set: negation") + EVALUATE)
    assert elsewhere.testsets["negation"].shift == "in-domain"
    assert elsewhere.testsets["plain"].shift == "domain"
    assert set(elsewhere.testsets["plain"].frame["shift"]) == {"domain"}


def test_own_sets(materials, tmp_path):
    train = nli_frame(40, "train")
    # Items of the training file under other names, once with a space more.
    copied = train[:2].with_columns(id=pl.lit("x") + pl.col("id"), premise=pl.col("premise") + " ")
    other = pl.concat([nli_frame(20, "other"), copied])
    found, (run,) = materials(own_sets(tmp_path, nli_frame(30), train, other))
    assert found.testsets["own"].frame.height == 30
    assert found.testsets["own"].shift == "in-domain"
    assert found.testsets["other"].shift == "style"
    assert found.testsets["other"].frame.height == 20
    assert found.notes == ("other: 2 test items, whose texts are in the training data, left out",)
    training = found.training(run)
    assert training.frame.height == 8
    assert training.task.answers == (("entailment", " Yes"), ("contradiction", " No"))
    assert training.frame["premise"].str.starts_with("train premise").all()
    assert training.frame["label"].value_counts()["count"].to_list() == [4, 4]


def test_an_own_file_with_splits_is_tested_on_its_test_split(materials, tmp_path):
    frame = nli_frame(40, split=["train"] * 30 + ["test"] * 10)
    frame.write_csv(tmp_path / "own.csv")
    nli_frame(30, "bare").write_csv(tmp_path / "bare.csv")
    found, _ = materials(
        "recipe: {method: zero-shot}\nevaluate: {on: [own, bare]}\n"
        "sets: {own: {file: own.csv}, bare: {file: bare.csv}}\n" + PATTERN
    )
    assert {name: testset.frame.height for name, testset in found.testsets.items()} == {"own": 10, "bare": 30}


def test_a_test_set_that_is_all_trained_on(materials, tmp_path):
    train = nli_frame(40, "train")
    found, _ = materials(own_sets(tmp_path, nli_frame(30), train, train.with_columns(id=pl.lit("x") + pl.col("id"))))
    with pytest.raises(InputError, match="other: every test item is also a training item, so none is left"):
        _ = found.testsets


def test_too_few_items_to_train_on(materials, tmp_path):
    text = own_sets(tmp_path, nli_frame(30), nli_frame(6, "train"), nli_frame(9, "other"))
    found, (run,) = materials(text)
    with pytest.raises(InputError, match=r"own: .*ask for 6 or fewer"):
        found.training(run)


def test_levels_share_nothing_with_the_test(materials):
    found, runs = materials(levels("levels: 3, shots: 10"))
    assert [run.train_level for run in runs] == [0, 1, 2]
    tested = found.testsets["chains"].frame
    assert tested.group_by("level").len()["len"].to_list() == [20] * 3
    drawn = [found.training(run).frame for run in runs]
    assert [frame.height for frame in drawn] == [10, 10, 10]
    for level, frame in enumerate(drawn):
        assert set(frame["level"]) == {level}
        assert not set(frame["item"]) & set(tested["item"])
        assert not texts(frame) & texts(tested)
        assert not texts(frame) & texts(found.testsets["negation"].frame)
    assert drawn[0]["difficulty"].max() < drawn[2]["difficulty"].min()
    assert any(note.startswith("chains: 3 levels") for note in found.notes)


def test_halves_of_several_sets_are_held_out_from_one_another(materials, tmp_path):
    first = nli_frame(80, "own", hard=list(range(80)))
    second = nli_frame(80, "other", hard=list(range(80)))
    # Every text of the first set is in the second, too.
    shared = pl.concat([second, first.with_columns(id=pl.lit("copy-") + pl.col("id"))])
    first.write_csv(tmp_path / "a.csv")
    shared.write_csv(tmp_path / "b.csv")
    found, runs = materials(
        "train: {set: [a, b], difficulty: {column: hard}, levels: 2, shots: 8}\nrecipe: {epochs: 1}\n"
        "evaluate: {on: [a, b]}\nsets: {a: {file: a.csv}, b: {file: b.csv}}\n" + PATTERN
    )
    pools = [texts(halves.train) for halves in found._halves.values()]
    for testset in found.testsets.values():
        assert testset.frame.height
        assert all(not texts(testset.frame) & pool for pool in pools)
    assert {run.train_set for run in runs} == {"a", "b"}
    assert any("left out" in note for note in found.notes)


def test_strategies_draw_from_the_train_halves(materials):
    every = "[easy, hard, middle, full, centred, spiral, curriculum, anti-curriculum]"
    found, runs = materials(levels(f"levels: 3, train_levels: [], strategies: {every}, shots: 24"))
    assert len(runs) == 8
    half = set(found._halves["chains"].train["item"])
    tested = set(found.testsets["chains"].frame["item"])
    drawn = {run.strategy: found.training(run).frame for run in runs}
    for frame in drawn.values():
        assert frame["item"].n_unique() == 24
        assert set(frame["item"]) <= half
        assert not set(frame["item"]) & tested
    assert drawn["easy"]["difficulty"].mean() < drawn["full"]["difficulty"].mean() < drawn["hard"]["difficulty"].mean()
    assert drawn["curriculum"]["difficulty"].is_sorted()
    assert drawn["anti-curriculum"]["difficulty"].is_sorted(descending=True)
    kept = {run.strategy for run in runs if found.keeps_order(run)}
    assert kept == {"spiral", "curriculum", "anti-curriculum"}


@pytest.mark.parametrize(("order", "kept"), [("shuffled", False), ("rising", True), ("falling", True)])
def test_an_order_of_the_study_replaces_that_of_the_strategy(materials, order, kept):
    found, runs = materials(levels(f"levels: 2, strategies: [full, curriculum], shots: 24, order: {order}"))
    assert len(runs) == 4
    for run in runs:
        assert found.keeps_order(run) is kept
        difficulty = found.training(run).frame["difficulty"]
        assert difficulty.len() == 24
        if kept:
            assert difficulty.is_sorted(descending=order == "falling")


def test_a_plain_run_keeps_no_order(materials):
    found, runs = materials(PLAIN + EVALUATE)
    assert not found.keeps_order(runs[0])


def test_nothing_is_trained(materials):
    found, (run,) = materials("recipe: {method: zero-shot}\n" + EVALUATE)
    assert run.train_set is None
    assert found.testsets["plain"].frame.height == 40
    assert found.testsets["plain"].shift == "domain"
    assert found.notes == ()


def test_a_registered_file_that_is_only_tested_on_keeps_all_its_items(materials, tmp_path, monkeypatch):
    rows = [
        {"id": i, "premise": f"P {i}.", "hypothesis": f"H {i}.", "label": ("entailment", "not_entailment")[i % 2]}
        for i in range(60)
    ]
    for name in ("hans", "paws"):
        pl.DataFrame(rows).with_columns(pl.col("premise") + f" {name}").write_csv(tmp_path / f"{name}.csv")
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path))
    found, _ = materials("train: {set: paws, shots: 4}\nrecipe: {steps: 2}\nevaluate: {on: [paws, hans]}")
    assert found.testsets["hans"].frame.height == 60
    assert 15 < found.testsets["paws"].frame.height < 45
