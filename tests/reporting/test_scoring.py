from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.records import open_study
from breadth.reporting import ReportData
from breadth.reporting.accuracy import score_profile
from breadth.reporting.scores import answer_shares, changes_table


def test_shares_of_three_answers_come_from_what_was_said(write_study, tmp_path):
    folder = write_study(tmp_path / "study", [{"model": "m"}], steps=2)
    study = open_study(folder)
    labels = pl.Series("label", ["a", "b", "c"] * 60)
    changed = replace(study, items=study.items.with_columns(labels))
    parts = study.responses.collect().with_columns(answer=pl.Series(["a", "a", "b"] * 120))
    for name, path in study._parts:
        parts.filter(subject=name).drop("subject").write_parquet(path)
    shares = answer_shares(ReportData(changed).described).filter(step=0, testset="home")
    assert shares.select("answer", "share", "n").rows() == [
        ("a", pytest.approx(2 / 3), 60), ("b", pytest.approx(1 / 3), 60), ("c", 0, 60),
    ]  # fmt: skip
    table = breadth.scores(changed)
    assert table.scores["auc"].is_null().all()
    assert table.scores["balanced"].is_not_null().all()
    assert "auc is not defined for" in table.summary()


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
