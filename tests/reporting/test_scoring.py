from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import breadth
from breadth.records.store import StudyStore
from breadth.reporting import ReportData
from breadth.reporting.accuracy import score_profile
from breadth.reporting.scoring import answer_shares, swings
from breadth.results import Answer, Question, State
from breadth.sources import open_study


def test_shares_of_three_answers_come_from_what_was_said(write_study, tmp_path):
    folder = write_study(tmp_path / "study", [{"model": "m"}], steps=2)
    study = open_study(folder)
    parts = study.responses.collect().with_columns(answer=pl.Series(["a", "a", "b"] * 120))
    for subject, run, step in study.subjects.select("subject", "run", "step").iter_rows():
        own = StudyStore(folder).run(run)
        own.part_path(step).unlink()
        own.write_part(step, parts.filter(subject=subject).drop("subject"))
    study = open_study(folder)
    changed = replace(study, items=study.items.with_columns(pl.Series("label", ["a", "b", "c"] * 60)))
    shares = answer_shares(ReportData(changed).described).filter(step=0, testset="home")
    assert shares.select("answer", "share", "n").rows() == [
        ("a", pytest.approx(2 / 3), 60), ("b", pytest.approx(1 / 3), 60), ("c", 0, 60),
    ]  # fmt: skip
    table = breadth.scores(changed)
    assert table.scores["auc"].is_null().all()
    assert table.scores["balanced"].is_not_null().all()
    assert "auc is not defined for" in table.details()


def test_a_final_model_without_a_step_is_no_checkpoint(write_study, tmp_path):
    study = open_study(write_study(tmp_path / "study", [{"model": "m"}], steps=3))
    steps = study.subjects["step"].to_list()
    unplaced = replace(study, subjects=study.subjects.with_columns(step=pl.Series([*steps[:-1], None])))
    ends = ReportData(unplaced).described.ends.sort("run")
    assert ends["checkpoints"].to_list() == [2, 1]
    assert ends["run"][1] == f"{ends['run'][0]} (no step)"


def test_scores_of_a_study(simulated_study):
    study = open_study(simulated_study.folder)
    result = breadth.scores(study)
    assert list(result.tables()) == ["scores", "changes", "answers"]
    assert result.scores.height == study.subjects.height * len(study.testsets)
    first = result.scores.row(0, named=True)
    row = study.subject_names.index(f"{first['run']}/{first['step']}")
    assert first["accuracy"] == pytest.approx(study.scores[0][row, study.testsets.index(first["testset"])])
    for name in ("accuracy", "auc", "dprime", "balanced", "logscore", "criterion", "share"):
        low, high = ("ci_low", "ci_high") if name == "accuracy" else (f"{name}_low", f"{name}_high")
        assert result.scores.select((pl.col(low) <= pl.col(name)) & (pl.col(name) <= pl.col(high))).to_series().all()
    total = result.answers.group_by("run", "step", "testset").agg(pl.col("share").sum())
    assert total["share"].to_numpy() == pytest.approx(np.ones(total.height))
    assert result.changes.equals(score_profile(study)[1])
    areas = score_profile(study, "auc")
    assert areas[0].columns[7] == "auc"
    assert areas[1]["gain"].to_numpy() == pytest.approx(result.changes["auc"].to_numpy())


def test_the_table_of_changes_says_which_sets_follow(simulated_study):
    result = breadth.scores(simulated_study.folder)
    changes = result.shown()[1].frame
    assert changes.height == result.changes.height
    assert {"in-domain"} < set(changes["follows_words"]) <= {"in-domain", "yes", "in part", "no", "undecided"}
    declared = {part for column in result.columns("scores") for part in (column.name, column.high)}
    assert set(result.scores.columns) - declared == {"examples", "seed", "train_level"}


def test_the_table_of_changes_of_one_run_says_so(simulated_study):
    study = open_study(simulated_study.folder)
    run = study.subjects["run"][0]
    result = breadth.scores(study.select(pl.col("run") == run))
    assert set(result.shown()[1].frame["follows_words"]) == {"in-domain", "one run"}
    assert "another run of the same recipe may differ" in result.details()


def leaning(sensitivity, lean, subjects=1, items=400):
    """Answers of subjects that were evaluated once, with the log-odds of the right answer."""
    generator = np.random.default_rng(0)
    sign = np.tile([1.0, -1.0], items // 2)
    frames = []
    for index in range(subjects):
        margin = sign * (sign * sensitivity + lean * (index + 1) + generator.normal(size=items))
        label = np.where(sign > 0, "no", "yes")
        rows = {"item": range(items), "label": label, "margin": margin, "correct": (margin > 0).astype(int)}
        frames.append(pl.DataFrame({"subject": f"m{index}", "testset": "t", **rows}))
    return pl.concat(frames)


def test_a_lean_that_costs_accuracy_is_found():
    verdict = breadth.scores(leaning(1.0, 2.0)).verdict()
    assert (verdict.answer, verdict.question) == (Answer.YES, Question.ANSWER_BIAS)
    scores = breadth.scores(leaning(1.0, 2.0)).scores.row(0, named=True)
    cost = 100 * (norm.cdf(scores["dprime"] / 2) - scores["balanced"])
    assert int(verdict.facts["points lost"].split()[0]) == pytest.approx(cost, abs=1.5)
    assert verdict.facts["share of the answer"] == f"{scores['share']:.0%}"
    assert "m0 says no" in verdict.reason
    assert breadth.scores(leaning(1.0, 0.0)).verdict().answer is Answer.NO
    some = breadth.scores(leaning(1.0, 0.3, subjects=3)).verdict()
    assert some.answer is Answer.MIXED
    assert "m2" in some.reason, "the worst is named"


def with_clear_areas(result):
    """Scores whose changes of auc are known well, as from a study with more runs."""
    ends = {"auc_low": pl.col("auc") - 0.01, "auc_high": pl.col("auc") + 0.01}
    changes = result.changes.filter(pl.col("auc").abs() > 0.02)
    return replace(result, changes=changes.with_columns(**ends))


def test_changes_through_training(simulated_study):
    result = with_clear_areas(breadth.scores(simulated_study.folder))
    verdict = result.verdict()
    found = result.found_changes
    assert found["found"].sum() > 0
    assert found.filter(~pl.col("found"))["flag"].null_count() == found.filter(~pl.col("found")).height
    assert (found["flag"] == "bias").sum() <= 0.1 * found["found"].sum()
    assert verdict.answer is Answer.NO
    largest = found.filter("found").sort(pl.col("auc").abs(), descending=True).row(0, named=True)
    assert all(name in verdict.reason for name in (largest["model"], largest["testset"]))
    assert f"{abs(100 * largest['auc']):.0f} points" in verdict.reason
    assert "50%" in verdict.findings, "auc is explained"
    changed = result.changes.with_columns(flag=pl.lit("bias"), p=pl.lit(1e-9), says_more=pl.lit("Yes"))
    leans = replace(result, changes=changed).verdict()
    assert leans.answer is Answer.YES
    assert "says Yes more often" in leans.reason
    assert leans.facts["other changes of leaning"] == changed["auc_low"].count() - 4
    assert "auc" in leans.advice
    half = changed.with_columns(flag=pl.when(pl.int_range(pl.len()) % 2 == 0).then("flag"))
    assert replace(result, changes=half).verdict().answer is Answer.MIXED
    open_ = result.changes.with_columns(auc_low=pl.lit(-0.5), auc_high=pl.lit(0.6), p=pl.lit(1e-9), flag=None)
    assert replace(result, changes=open_.cast({"flag": pl.String})).verdict().answer is Answer.UNKNOWN
    unclear = replace(result, changes=result.changes.with_columns(p=pl.lit(0.9), flag=pl.lit("bias")))
    assert unclear.verdict().answer is Answer.UNKNOWN


def test_a_lean_that_swings_on_the_way_is_not_overlooked(simulated_study):
    result = with_clear_areas(breadth.scores(simulated_study.folder))
    steady = result.scores.with_columns(share=pl.lit(0.5))
    wide = steady.with_columns(share=pl.when(pl.col("step") > 0).then(0.95).otherwise(0.05))
    unbiased = replace(result, changes=result.changes.with_columns(flag=pl.lit(None, dtype=pl.String)))
    assert replace(unbiased, scores=steady).verdict().answer is Answer.NO
    swinging = replace(unbiased, scores=wide).verdict()
    assert swinging.answer is Answer.MIXED
    assert "model-a" in swinging.findings
    assert (swinging.facts["swings from"], swinging.facts["swings to"]) == ("5%", "95%")


def test_without_labels_it_is_said_how_good_models_are():
    """What can be answered comes first; what a model can tell apart is not known."""
    table = leaning(1.0, 0.0).drop("label", "margin")
    result = breadth.scores(table)
    verdict, row = result.verdict(), result.scores.row(0, named=True)
    assert (verdict.question, verdict.state) == (Question.HOW_GOOD, State.YES)
    assert verdict.answer == f"{row['accuracy']:.0%}"
    assert (verdict.facts["from"], verdict.facts["to"]) == (f"{row['ci_low']:.0%}", f"{row['ci_high']:.0%}")
    assert "correct answer" in verdict.needed
    assert f"{row['n']} questions" in verdict.reason
    several = breadth.scores(leaning(1.0, 0.5, subjects=3).drop("label", "margin")).verdict()
    assert several.facts["models"] == 3
    assert all(name in str(several) for name in ("m0", "m1", "m2"))
    two_sets = pl.concat(
        [table, table.with_columns(testset=pl.lit("u"), correct=pl.lit(0).cast(table["correct"].dtype))]
    )
    guessing = breadth.scores(leaning(0.0, 0.0).drop("label", "margin")).verdict()
    assert (guessing.facts["guessing"], "guessing" in guessing.findings) == ("50%", True)
    both = breadth.scores(two_sets).verdict()
    assert both.facts["lowest"] == "0%"
    assert "u" in both.reason


def test_a_model_that_began_by_giving_neither_answer_is_not_praised(simulated_study):
    """Accuracy rises because the model answers at all, which says nothing about what it can tell apart."""
    result = breadth.scores(simulated_study.folder)
    row = result.answers.head(1)
    for share, answer in ((0.05, result.verdict().answer), (0.9, Answer.MIXED)):
        silent = row.with_columns(answer=pl.lit("neither"), share=pl.lit(share))
        verdict = replace(result, answers=pl.concat([result.answers, silent])).verdict()
        assert verdict.answer is answer
    assert "90%" in verdict.reason


def test_runs_that_differ_from_each_other_do_not_swing():
    def checkpoints(shares):
        rows = [
            {"run": run, "model": "m", "answer": "Yes", "step": step, "share": share}
            for run, own in shares.items()
            for step, share in enumerate(own)
        ]
        return pl.DataFrame(rows)

    assert swings(checkpoints({"a": [0.1, 0.1], "b": [0.9, 0.9]})).height == 0
    found = swings(checkpoints({"a": [0.1, 0.6], "b": [0.9, 0.2]}))
    assert found.rows() == [("m", "Yes", 0.2, 0.9)]


@pytest.mark.parametrize(("rare", "one", "changed"), [(4, False, False), (12, True, False), (40, True, True)])
def test_few_items_of_a_label_leave_no_interval_and_are_named(rare, one, changed):
    """Each checkpoint takes at least 5 items of the rarer label, a change at least 20."""
    generator = np.random.default_rng(0)
    label = np.array(["no"] * rare + ["yes"] * 100)
    parts = []
    for step in (0, 100):
        margin = 0.5 + step / 100 + generator.normal(size=len(label))
        columns = {"item": range(len(label)), "label": label, "margin": margin, "correct": margin > 0}
        parts.append(pl.DataFrame({"testset": "chat", "run": "r", "step": step, **columns}))
    result = breadth.scores(pl.concat(parts).with_columns(model=pl.lit("m"), train_set=pl.lit("plain")))
    scores, changes = result.scores, result.changes.row(0, named=True)
    assert scores["auc"].is_not_null().all()
    assert scores["auc_low"].is_not_null().all() == one
    assert scores["dprime_low"].is_not_null().all() == one
    assert set(scores["flag"]) == {None if one else "few_labels"}
    assert (changes["auc_low"] is not None) == changed
    assert (changes["flag"] == "few_labels") == (not changed)
    assert ("interval" in result.details()) == (not changed)
    assert (result.verdict().question is Question.HOW_GOOD) == (not changed)
