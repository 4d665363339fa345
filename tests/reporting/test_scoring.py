import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import breadth
from breadth.records.store import StudyStore
from breadth.reporting import ReportData
from breadth.reporting.accuracy import score_profile
from breadth.reporting.scoring import answer_shares, changes_table, swings
from breadth.results import Answer
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
    assert "auc is not defined for" in table.summary()


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
    table = changes_table(result.changes)
    cells = [list(column.cells) for column in table.columns]
    assert len(cells[0]) == result.changes.height
    assert {"in-domain"} < set(cells[-1]) <= {"in-domain", "yes", "in part", "no", "undecided"}


def test_the_table_of_changes_of_one_run_says_so(simulated_study):
    study = open_study(simulated_study.folder)
    run = study.subjects["run"][0]
    result = breadth.scores(study.select(pl.col("run") == run))
    cells = list(changes_table(result.changes).columns[-1].cells)
    assert set(cells) == {"in-domain", "one run"}
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
    assert verdict.answer is Answer.NO
    assert verdict.reason == (
        "accuracy shows which answer models lean to: leaning to one answer costs at least 5 points of accuracy in 1 of "
        "1 case (subject x test set)."
    )
    scores = breadth.scores(leaning(1.0, 2.0)).scores.row(0, named=True)
    cost = 100 * (norm.cdf(scores["dprime"] / 2) - scores["balanced"])
    assert int(verdict.findings.split("costs ")[1].split()[0]) == pytest.approx(cost, abs=1.5)
    assert f"m0 on t says no in {scores['share']:.0%} of its answers" in verdict.findings
    assert breadth.scores(leaning(1.0, 0.0)).verdict().answer is Answer.YES
    assert breadth.scores(leaning(1.0, 0.3, subjects=3)).verdict().answer is Answer.DEPENDS


def test_changes_through_training(simulated_study):
    result = breadth.scores(simulated_study.folder)
    verdict = result.verdict()
    found = result.found_changes
    assert found["found"].sum() > 0
    assert found.filter(~pl.col("found"))["flag"].null_count() == found.filter(~pl.col("found")).height
    biased = (found["flag"] == "bias").sum()
    assert re.search(rf"\b{biased} of {found['found'].sum()} changes? of accuracy \(model x test set\)", verdict.reason)
    changed = result.changes.with_columns(flag=pl.lit("bias"), p=pl.lit(1e-9))
    assert replace(result, changes=changed).verdict().answer is Answer.NO
    unclear = replace(result, changes=result.changes.with_columns(p=pl.lit(0.9), flag=pl.lit("bias")))
    assert unclear.verdict().answer is Answer.UNKNOWN


def test_a_lean_that_swings_on_the_way_is_not_overlooked(simulated_study):
    result = breadth.scores(simulated_study.folder)
    steady = result.scores.with_columns(share=pl.lit(0.5))
    wide = steady.with_columns(share=pl.when(pl.col("step") > 0).then(0.95).otherwise(0.05))
    unbiased = replace(result, changes=result.changes.with_columns(flag=pl.lit(None, dtype=pl.String)))
    assert replace(unbiased, scores=steady).verdict().answer is Answer.YES
    swinging = replace(unbiased, scores=wide).verdict()
    assert swinging.answer is Answer.DEPENDS
    assert "the lean to an answer swings during training in model-a" in swinging.reason


def test_without_labels_nothing_is_known():
    table = leaning(1.0, 0.0).drop("label", "margin")
    verdict = breadth.scores(table).verdict()
    assert verdict.answer is Answer.UNKNOWN
    assert "what a model can tell apart is not known" in verdict.reason


def test_a_model_that_began_by_giving_neither_answer_is_not_praised(simulated_study):
    """Accuracy rises because the model answers at all, which says nothing about what it can tell apart."""
    result = breadth.scores(simulated_study.folder)
    row = result.answers.head(1)
    for share, answer in ((0.05, result.verdict().answer), (0.9, Answer.DEPENDS)):
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
    assert (result.verdict().answer is Answer.UNKNOWN) == (not changed)
