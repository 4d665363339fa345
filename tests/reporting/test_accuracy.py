import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.records import open_study
from breadth.reporting import ReportData
from breadth.reporting.accuracy import (
    answer_shares,
    bias_words,
    crossed_mean,
    model_accuracy_by_level,
    score_profile,
)


def test_one_run_is_the_mean_of_its_items():
    answers = np.array([[1, 0, 1, 1, 0, 1, np.nan]], dtype=np.float32)
    mean = crossed_mean(answers, "gain")
    interval = stats.t.interval(0.95, 5, answers[0, :6].mean(), answers[0, :6].std(ddof=1) / np.sqrt(6))
    assert mean["n_items"] == 6
    assert (mean["ci_low"], mean["ci_high"]) == pytest.approx(interval)


def test_intervals_include_the_variation_between_runs():
    generator = np.random.default_rng(0)
    alike = np.repeat(generator.random((1, 400)) < 0.6, 4, axis=0).astype(float)
    apart = (generator.random((4, 400)) < np.array([0.4, 0.5, 0.7, 0.8])[:, None]).astype(float)
    narrow, wide = crossed_mean(alike, "accuracy"), crossed_mean(apart, "accuracy")
    assert wide["ci_high"] - wide["ci_low"] > 2 * (narrow["ci_high"] - narrow["ci_low"])


@pytest.mark.parametrize("answers", [np.empty((2, 0)), np.ones((2, 1)), np.ones((2, 30))])
def test_no_interval_without_variation(answers):
    mean = crossed_mean(answers, "accuracy")
    assert mean["ci_low"] is None
    assert mean["accuracy"] == (1 if answers.shape[1] else None)


def test_runs_without_answers_are_left_out():
    answers = np.array([[1.0, 0.0, 1.0, 1.0], [np.nan] * 4])
    mean = crossed_mean(answers, "accuracy")
    assert (mean["runs"], mean["n_items"], mean["accuracy"]) == (1, 4, 0.75)
    assert crossed_mean(answers[1:], "accuracy")["accuracy"] is None


def test_an_accuracy_stays_within_its_bounds():
    answers = np.array([[1, 1, 1, 1, 0, 1]], dtype=float)
    assert crossed_mean(answers, "gain")["ci_high"] > 1
    assert crossed_mean(answers, "accuracy")["ci_high"] == 1
    assert crossed_mean(1 - answers, "accuracy")["ci_low"] == 0


def test_gains_are_after_minus_before(simulated_study):
    profile, gains = score_profile(open_study(simulated_study.folder))
    wide = profile.pivot(on="when", index=["model", "testset"], values="accuracy").join(gains, on=["model", "testset"])
    assert (wide["after"] - wide["before"] - wide["gain"]).abs().max() < 1e-12
    assert gains.filter("in_domain")["testset"].unique().to_list() == ["plain"]
    assert profile["chance"].is_between(0.5, 0.7).all()
    assert profile["testset"].unique(maintain_order=True)[0] == "plain", "the in-domain set comes first"


def test_levels_partition_the_items(simulated_study):
    study = open_study(simulated_study.folder)
    table = model_accuracy_by_level(study, study.items["level"], ["model-b", "model-a"])
    after = table.filter((pl.col("when") == "after") & (pl.col("model") == "model-a")).sort("level")
    assert after["n_items"].sum() == study.items.height
    assert after["accuracy"].is_sorted(descending=True)
    assert table["model"].unique(maintain_order=True).to_list() == ["model-b", "model-a"]


def pair_of_checkpoints(sensitivity, lean, runs=2, items=200, seed=0, noise=0.3):
    """Runs of one model from before to after training, on the set chat: a change of sensitivity, and a lean to no."""
    generator = np.random.default_rng(seed)
    first = np.arange(items) % 2 == 0
    persistent, parts = generator.normal(size=items), []
    for run in range(runs):
        for step in (0, 100):
            odds = np.where(first, 1, -1) * (1 + sensitivity * (step > 0)) + persistent + lean * (step > 0)
            margin = np.where(first, 1, -1) * (odds + noise * generator.normal(size=items))
            columns = {"item": [f"i{i}" for i in range(items)], "label": np.where(first, "no", "yes")}
            frame = pl.DataFrame(columns | {"margin": margin, "correct": margin > 0})
            parts.append(frame.with_columns(testset=pl.lit("chat"), run=pl.lit(f"r{run}"), step=pl.lit(step)))
    return pl.concat(parts).with_columns(model=pl.lit("m"), train_set=pl.lit("plain"))


def test_a_change_of_accuracy_that_is_one_of_bias_is_named():
    result = breadth.scores(pair_of_checkpoints(sensitivity=0.0, lean=1.4))
    row = result.changes.row(0, named=True)
    assert row["accuracy_high"] < 0
    assert row["auc_low"] < 0 < row["auc_high"]
    assert (row["answer"], row["says_more"], row["flag"]) == ("no", "no", "bias")
    assert re.fullmatch(
        r"Accuracy of m on chat fell by \d+ points, but what it can tell apart did not clearly change \(area under the "
        r"ROC curve [+−]\d+ points?, [+−]\d+ to [+−]\d+\); it says no more often\.",
        bias_words(result.changes, result.scores)[0],
    )
    assert "it says no more often" in result.summary()


@pytest.mark.parametrize(
    ("sensitivity", "lean"),
    [(1.0, 0.0), (-0.9, 0.0), (-0.8, 1.2), (0.0, 0.0)],
    ids=["gain of sensitivity", "loss of sensitivity", "both", "neither"],
)
def test_a_change_of_sensitivity_is_not_called_bias(sensitivity, lean):
    for seed in range(5):
        result = breadth.scores(pair_of_checkpoints(sensitivity, lean, seed=seed))
        assert result.changes["flag"].to_list() == [None]
        assert "more often" not in result.summary()


def test_bias_is_not_called_where_sensitivity_may_have_changed_as_much():
    """Where the interval of the area covers 0 and the change of accuracy alike, nothing is known about sensitivity."""
    unknown = 0
    for seed in range(40):
        frame = pair_of_checkpoints(-0.4, 1.5, runs=1, items=40, seed=seed, noise=1.5)
        row = breadth.scores(frame).changes.row(0, named=True)
        moved = row["accuracy_high"] < 0 < row["share_low"] and row["auc_low"] <= 0 <= row["auc_high"]
        if moved and row["auc_low"] <= row["accuracy"]:
            unknown += 1
            assert row["flag"] is None
    assert unknown > 2


def test_the_paired_interval_of_an_area_covers():
    covered = []
    for seed in range(200):
        row = breadth.scores(pair_of_checkpoints(0.0, 1.0, runs=1, items=80, seed=seed)).changes.row(0, named=True)
        covered.append(row["auc_low"] <= 0 <= row["auc_high"])
    assert 0.9 <= np.mean(covered) <= 0.99


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
