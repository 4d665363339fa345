import numpy as np
import polars as pl
import pytest
from scipy import stats

from breadth.records import open_study
from breadth.reporting.accuracy import accuracy_profile, crossed_mean, model_accuracy_by_level


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
    profile, gains = accuracy_profile(open_study(simulated_study.folder))
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
