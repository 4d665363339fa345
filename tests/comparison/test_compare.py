"""``compare`` on tables and studies: who is compared, which cells there are, what is refused."""

import re

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.comparison import By, Within, final_groups
from breadth.comparison.comparison import NEITHER, NOT_DECIDED
from breadth.comparison.groups import ONE_RUN_EACH, guessed_testsets
from breadth.errors import InputError
from breadth.results import Answer, Question, State
from breadth.sources import open_study


def table(generator, models=("a", "b"), seeds=1, items=200, testsets=("x", "y", "z"), lift=0.15):
    luck = generator.random(items)
    rows = []
    for k, model in enumerate(models):
        for seed in range(seeds):
            own = np.where(generator.random(items) < 0.5, generator.random(items), luck)
            rows.append(
                pl.DataFrame(
                    {
                        "model": model,
                        "seed": seed,
                        "item": [f"i{j}" for j in range(items)],
                        "testset": np.array(testsets)[np.arange(items) % len(testsets)],
                        "passage": np.arange(items) // 5,
                        "level": np.arange(items) % 4,
                        "correct": (own < 0.5 + k * lift).astype(int),
                    }
                )
            )
    return pl.concat(rows)


def test_cells_add_up_and_q_covers_them_all():
    result = breadth.compare(table(np.random.default_rng(0)), "a", "b")
    cells = result.cells
    assert cells["by"].to_list() == ["all"] + ["testset"] * 3 + ["level"] * 4
    whole = cells.row(0, named=True)
    for by in (By.TESTSET, By.LEVEL):
        part = cells.filter(pl.col("by") == by)
        assert part["n_items"].sum() == whole["n_items"] == 200
        assert part["only_second"].sum() == whole["only_second"]
        assert (part["difference"] * part["n_items"]).sum() / 200 == pytest.approx(whole["difference"])
    assert (cells["q"] >= cells["p"]).all()
    assert result.items.height == whole["only_first"] + whole["only_second"]
    assert "one run each" in result.details()


def test_the_answer_is_the_better_one_and_both_orders_say_the_same():
    frame = table(np.random.default_rng(0))
    verdict, backwards = (breadth.compare(frame, *names).verdict() for names in (("a", "b"), ("b", "a")))
    assert verdict.question == Question.BETTER
    assert (verdict.answer, verdict.state) == (backwards.answer, backwards.state) == ("b", State.YES)
    # Who is ahead is said in words: no number has a sign.
    for said in (verdict, backwards):
        assert not re.search(r"[+−-]\d", said.reason)
        assert {"a", "b"} <= set(re.findall(r"\w+", said.reason))
    assert verdict.numbers() == backwards.numbers()
    row = breadth.compare(frame, "a", "b").cells.row(0, named=True)
    for number in (row["difference"], row["ci_low"], row["ci_high"]):
        assert f"{100 * number:.1f}" in verdict.numbers()
    assert verdict.facts["questions"] == 200


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("items", [12, 60, 400])
def test_interval_test_and_answer_never_disagree(items, seeds):
    for seed in range(12):
        frame = table(np.random.default_rng(seed), items=items, seeds=seeds, lift=0.04 * (seed % 4))
        result = breadth.compare(frame, "a", "b")
        row = result.cells.row(0, named=True)
        excludes = row["ci_low"] > 0 or row["ci_high"] < 0
        assert excludes == (row["q"] < 0.05)
        assert row["q"] == row["p"]
        verdict = result.verdict()
        if excludes:
            assert verdict.answer == ("b" if row["difference"] > 0 else "a")
            assert verdict.state in (State.YES, State.MIXED)
        else:
            assert verdict.answer in (NEITHER, NOT_DECIDED, Answer.MIXED)
        half = (row["ci_high"] - row["ci_low"]) / 2
        if verdict.answer == NEITHER:
            # A difference of 5 points would have been seen.
            assert half < 0.05


def test_five_items_answered_alike_are_not_enough():
    answers = np.tile(np.array([1, 0, 1, 1, 0], dtype=np.int8), (2, 1))
    verdict = breadth.compare(answers).verdict()
    assert (verdict.answer, verdict.state) == (NOT_DECIDED, State.OPEN)
    assert int(verdict.facts["questions that would be enough"].replace(",", "")) > 100


def test_better_overall_and_worse_on_one_test_set_is_both_said():
    items = 600
    worse = np.arange(items) < 100
    better = np.arange(items) >= 100
    generator = np.random.default_rng(0)
    rows = []
    for model, shares in {"a": np.where(worse, 0.8, 0.5), "b": np.where(better, 0.7, 0.4)}.items():
        correct = (generator.random(items) < shares).astype(int)
        testset = np.where(worse, "x", "y")
        rows.append(pl.DataFrame({"subject": model, "item": np.arange(items), "testset": testset, "correct": correct}))
    verdict = breadth.compare(pl.concat(rows), "a", "b").verdict()
    assert (verdict.answer, verdict.state) == ("b", State.MIXED)
    assert re.search(r"\ba\b.* x ", verdict.findings)


def test_each_is_ahead_somewhere_and_nobody_overall():
    generator = np.random.default_rng(0)
    rows = []
    for model, shares in {"a": (0.8, 0.4, 0.5), "b": (0.4, 0.8, 0.5)}.items():
        for name, share in zip(("x", "y", "z"), shares, strict=True):
            correct = (generator.permutation(200) < 200 * share).astype(int)
            rows.append(pl.DataFrame({"subject": model, "item": np.arange(200), "testset": name, "correct": correct}))
    verdict = breadth.compare(pl.concat(rows), "a", "b").verdict()
    assert verdict.answer is Answer.MIXED
    assert {"a", "b", "x", "y"} <= set(re.findall(r"\w+", verdict.reason))


def test_as_many_questions_as_are_said_to_be_enough_are_enough():
    generator = np.random.default_rng(0)
    verdict = breadth.compare(table(generator, items=150, lift=0.0)).verdict()
    needed = int(verdict.facts["questions that would be enough"].replace(",", ""))
    seen = []
    for seed in range(60):
        row = breadth.compare(table(np.random.default_rng(seed), items=needed, lift=0.05)).cells.row(0, named=True)
        seen.append(row["p"] < 0.05)
    assert 0.65 < np.mean(seen) < 0.95


def test_where_runs_vary_most_runs_are_asked_for():
    generator = np.random.default_rng(1)
    parts = []
    for model in "ab":
        for seed in range(3):
            correct = (generator.random(3000) < 0.6 + generator.normal(0, 0.05)).astype(int)
            parts.append(pl.DataFrame({"model": model, "seed": seed, "item": np.arange(3000), "correct": correct}))
    facts = breadth.compare(pl.concat(parts)).verdict().facts
    assert int(facts["runs that would be enough"]) > 3
    assert "questions that would be enough" not in facts


def test_several_models_have_a_winner_candidates_or_none():
    generator = np.random.default_rng(0)

    def compared(*shares):
        answers = (generator.random((len(shares), 800)) < np.array(shares)[:, None]).astype(np.int8)
        names = [str(k) for k in range(len(shares))]
        return breadth.compare(answers, *names)

    winner = compared(0.5, 0.9, 0.6).verdict()
    assert (winner.answer, winner.state) == ("1", State.YES)
    two = compared(0.7, 0.7, 0.3).verdict()
    assert two.answer is Answer.MIXED
    assert two.reason.startswith("0 and 1 ")
    assert compared(0.7, 0.7, 0.7).verdict().state is State.OPEN
    same = np.tile((generator.random(5000) < 0.5).astype(np.int8), (3, 1))
    assert breadth.compare(same, "0", "1", "2").verdict().state is State.NO


def test_the_hardest_questions_are_called_that():
    generator = np.random.default_rng(0)
    level = np.arange(1000) % 4
    parts = []
    for model in "ab":
        share = np.where((level == 3) & (model == "b"), 0.9, 0.5)
        correct = (generator.random(1000) < share).astype(int)
        parts.append(pl.DataFrame({"subject": model, "item": np.arange(1000), "level": level, "correct": correct}))
    verdict = breadth.compare(pl.concat(parts)).verdict()
    assert verdict.answer == "b"
    assert "the hardest quarter" in verdict.findings
    assert "b" in verdict.advice.split()


def test_tables_have_their_columns_declared():
    result = breadth.compare(table(np.random.default_rng(0)), margin=0.05)
    for name, frame in result.tables().items():
        declared = {column.name for column in result.COLUMNS[name]}
        assert {"difference", "ci_low"} <= declared or name == "items"
        assert declared <= {*frame.columns, "within"}
    shown = result.shown()[0]
    assert shown.frame["where"].to_list()[:2] == ["all questions", "x"]
    assert shown.frame["sure"][0]
    several = breadth.compare(table(np.random.default_rng(0), models="abc"), "a", "b", "c")
    assert several.shown()[0].frame.height == 3


def test_one_run_each_is_about_these_models():
    one = breadth.compare(table(np.random.default_rng(0)), "a", "b")
    assert ONE_RUN_EACH in one.verdict().needed
    two = breadth.compare(table(np.random.default_rng(0), seeds=2), "a", "b")
    assert ONE_RUN_EACH not in str(two.verdict())
    # Answers of models about which nothing is known: no recipe that another run could have.
    answers = (np.random.default_rng(0).random((2, 100)) < 0.6).astype(np.int8)
    assert ONE_RUN_EACH not in str(breadth.compare(answers).verdict())


def test_shares_do_not_differ_by_more_than_1():
    generator = np.random.default_rng(0)
    frame = table(generator, items=40, seeds=2, lift=0.45, testsets=("x", "y", "z", "w"))
    frame = frame.with_columns(pl.when(pl.col("model") == "b").then(1).otherwise(pl.col("correct")).alias("correct"))
    result = breadth.compare(frame, "a", "b")
    for column in ("difference", "ci_low", "ci_high"):
        assert result.cells[column].drop_nulls().is_between(-1, 1).all()
    for column in ("ci_low", "ci_high", "predict_low", "predict_high"):
        assert result.testsets[column].is_between(-1, 1).all()


def test_groups_of_one_name_are_told_apart():
    # Values that are missing in different columns gave one name to two ways of training.
    rows = []
    for train_set, method in (("mnli", None), (None, "mnli")):
        rows += [{"model": "opt", "seed": seed, "train_set": train_set, "method": method} for seed in (0, 1)]
    subjects = pl.DataFrame(rows, schema_overrides={"train_set": pl.String, "method": pl.String})
    frame = subjects.join(pl.DataFrame({"item": range(30), "correct": [0, 1] * 15}), how="cross")
    groups = final_groups(open_study(frame))
    names = [group.name for group in groups]
    assert len(set(names)) == len(names) == 2
    assert {len(group.rows) for group in groups} == {2}


def test_all_runs_of_a_model_are_one_side():
    result = breadth.compare(table(np.random.default_rng(1), seeds=3))
    assert result.cells.select("runs_first", "runs_second").unique().row(0) == (3, 3)
    assert "and runs are treated" in result.details()
    one = breadth.compare(table(np.random.default_rng(1), seeds=3), "a / 0", "b")
    assert one.cells.select("runs_first", "runs_second").row(0) == (1, 3)


def test_clusters_widen_the_interval():
    frame = table(np.random.default_rng(2), items=400)
    bad = pl.when((pl.col("passage") % 3 == 0) & (pl.col("model") == "b")).then(0).otherwise("correct")
    frame = frame.with_columns(bad.cast(pl.Int64).alias("correct"))
    plain, clustered = (breadth.compare(frame, cluster=cluster).cells["se"][0] for cluster in (None, "passage"))
    assert clustered > 1.3 * plain


def test_a_new_test_set_is_predicted_from_three_on():
    sets = [f"t{k}" for k in range(6)]
    result = breadth.compare(table(np.random.default_rng(3), testsets=sets, items=1200))
    row = result.testsets.row(0, named=True)
    assert row["predict_low"] < row["ci_low"] < row["difference"] < row["ci_high"] < row["predict_high"]
    verdict = result.verdict()
    assert f"{100 * row['predict_low']:.1f}" in verdict.numbers()
    assert "b" in verdict.findings.split()
    two = breadth.compare(table(np.random.default_rng(3), testsets=sets[:2])).testsets.row(0, named=True)
    assert two["ci_low"] is not None
    assert two["predict_low"] is None


def test_margin():
    generator = np.random.default_rng(7)
    frame = table(generator, items=3000, lift=0)
    cells = breadth.compare(frame, margin=0.1).cells
    assert cells["within"][0] == Within.EQUIVALENT
    verdict = breadth.compare(frame, margin=0.1).verdict()
    assert (verdict.answer, verdict.state) == (NEITHER, State.NO)
    assert "10" in verdict.numbers()
    assert breadth.compare(table(generator, lift=0.3), margin=0.1).cells["within"][0] == Within.BETTER
    assert breadth.compare(table(generator, lift=-0.3), margin=0.1).cells["within"][0] == Within.WORSE


def test_worse_is_one_sentence_or_none():
    frame = table(np.random.default_rng(5), lift=-0.25)
    result = breadth.compare(frame)
    said = result.worse(0.02)
    assert said.startswith("b is worse than a")
    assert not re.search(r"[+−-]\d", said)
    assert f"{-100 * result.cells['difference'][0]:.1f}" in said
    assert "on x" in result.worse(0.02, "x,y")
    assert result.worse(0.9) is None
    assert breadth.compare(frame, "b", "a").worse(0.02) is None
    with pytest.raises(InputError, match=r"there is no test set w\. .*Test sets: x, y, z"):
        result.worse(0.02, ["w"])


def test_items_that_are_not_shared_are_left_out_and_counted():
    frame = table(np.random.default_rng(6)).filter((pl.col("model") == "a") | (pl.col("item") > "i5"))
    result = breadth.compare(frame)
    assert result.cells["n_items"][0] < 200
    assert "items that not both answered are left out" in result.warnings[0]


def test_levels_of_the_others_where_none_are_stored():
    answers = (np.random.default_rng(7).random((30, 200)) < np.linspace(0.1, 0.9, 200)).astype(np.int8)
    result = breadth.compare(answers, "0", "1")
    share = result.cells.filter(pl.col("by") == By.LEVEL)["accuracy_first"]
    assert share.len() == 5
    assert share[0] > share[-1]
    assert By.LEVEL not in breadth.compare(answers[:10], "0", "1").cells["by"].to_list()


def test_a_study_compares_last_checkpoints(levels_study):
    result = breadth.compare(levels_study.folder, "model-a / train_level 0", "model-a / train_level 1")
    assert result.cells["runs_first"][0] == 2
    mixed = breadth.compare(levels_study.folder, "model-a", "model-b")
    assert "differ in train_level and are taken as repeats" in mixed.warnings[-1]


@pytest.mark.parametrize(
    ("frame", "names", "options", "message"),
    [
        (
            {"subject": ["a", "b"], "item": ["i", "j"], "correct": [1, 0]},
            *((), {}, r"a and b share 0 of 2 items: a answered 1 \(i\); b answered 1 \(j\)"),
        ),
        (None, ("a", "c"), {}, "nothing is called 'c'"),
        (None, ("a",), {}, "name at least two"),
        (None, ("a", "a"), {}, "named twice"),
        (None, (), {"cluster": "passag"}, "there is no column 'passag'.* Did you mean passage"),
        (None, (), {"margin": 1.5}, "margin= is 1.5"),
    ],
)  # fmt: skip
def test_what_is_refused(frame, names, options, message):
    source = table(np.random.default_rng(0)) if frame is None else pl.DataFrame(frame)
    with pytest.raises(InputError, match=message):
        breadth.compare(source, *names, **options)


def test_identical_models_have_an_interval_and_no_finding():
    answers = np.tile((np.random.default_rng(0).random(100) < 0.5).astype(np.int8), (2, 1))
    row = breadth.compare(answers).cells.row(0, named=True)
    assert row["ci_low"] < 0 < row["ci_high"]
    assert row["p"] == 1


def test_figure_has_a_row_per_cell():
    chart = breadth.compare(table(np.random.default_rng(0), models="abc"), "a", "b", "c").figure().to_dict()
    assert len(chart["datasets"]["cells"]) == 24


def test_test_sets_at_chance_are_named():
    generator = np.random.default_rng(0)
    rows = [
        {"subject": who, "testset": name, "item": k, "label": "ab"[k % 2], "correct": int(generator.random() < share)}
        for who, shares in {"one": (0.5, 0.9), "two": (0.45, 0.8)}.items()
        for name, share in zip(("wnli", "mnli"), shares, strict=True)
        for k in range(200)
    ]
    warnings = breadth.compare(pl.DataFrame(rows), "one", "two").warnings
    assert [text for text in warnings if text.startswith("on wnli no model does better than always giving")]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_groups_without_answers_do_not_hide_test_sets_at_chance():
    rows = [
        {"subject": who, "testset": name, "item": k, "label": "ab"[k % 2], "correct": k // 2 % 2}
        for who, name in (("one", "mnli"), ("two", "mnli"), ("two", "wnli"))
        for k in range(200)
    ]
    study = open_study(pl.DataFrame(rows))
    groups = final_groups(study)
    assert guessed_testsets(study, groups) == ["mnli", "wnli"]
    assert guessed_testsets(study, groups[:1]) == ["mnli"]


def test_subjects_that_a_pattern_matches_are_repeats_and_part_of_a_name_is_looked_up():
    answers = np.random.default_rng(0).random((4, 100)) < 0.6
    frame = pl.DataFrame(answers.astype(int), schema=[f"q{k}" for k in range(100)])
    frame = frame.with_columns(subject=pl.Series(["gpt-4o-05", "gpt-4o-11", "llama-7", "llama-9"]))
    result = breadth.compare(frame, "gpt*", "llama*")
    assert "gpt*: matches 2 subjects, which are taken as repeats of one model" in result.warnings
    with pytest.raises(InputError, match=r"nothing is called 'GPT-4o'\. Names with it: gpt-4o-05, gpt-4o-11"):
        breadth.compare(frame, "GPT-4o", "llama-7")
    with pytest.raises(InputError, match="the data name no test sets"):
        breadth.compare(frame, "llama-7", "llama-9").worse(0.02, "hans")
