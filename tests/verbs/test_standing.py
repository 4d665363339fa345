import numpy as np
import polars as pl
import pytest
from scipy import stats

from breadth.records import read_matrix
from breadth.verbs.standing import by_level, crossed_mean, ends, in_domain_set, ordered_sets, profiles, wilson


def test_one_run_is_the_mean_of_its_items():
    answers = np.array([[1, 0, 1, 1, 0, 1, np.nan]], dtype=np.float32)
    found = crossed_mean(answers)
    low, high = stats.t.interval(0.95, 5, answers[0, :6].mean(), answers[0, :6].std(ddof=1) / np.sqrt(6))
    assert found["n_items"] == 6
    assert (found["low"], found["high"]) == pytest.approx((low, high))


def test_intervals_know_that_runs_differ():
    generator = np.random.default_rng(0)
    alike = np.repeat(generator.random((1, 400)) < 0.6, 4, axis=0).astype(float)
    apart = (generator.random((4, 400)) < np.array([0.4, 0.5, 0.7, 0.8])[:, None]).astype(float)
    width = [crossed_mean(answers)["high"] - crossed_mean(answers)["low"] for answers in (alike, apart)]
    assert width[1] > 2 * width[0]


@pytest.mark.parametrize("answers", [np.empty((2, 0)), np.ones((2, 1)), np.ones((2, 30))])
def test_no_interval_without_variation(answers):
    found = crossed_mean(answers)
    assert found["low"] is None
    assert found["estimate"] == (1 if answers.shape[1] else None)


def test_runs_without_answers_are_left_out():
    answers = np.array([[1.0, 0.0, 1.0, 1.0], [np.nan] * 4])
    found = crossed_mean(answers)
    assert (found["runs"], found["n_items"], found["estimate"]) == (1, 4, 0.75)
    assert crossed_mean(answers[1:])["estimate"] is None


def test_wilson():
    found = wilson(pl.DataFrame({"n": [40], "accuracy": [0.975]}))
    expected = stats.binomtest(39, 40).proportion_ci(method="wilson")
    assert found.select("ci_low", "ci_high").row(0) == pytest.approx(tuple(expected))


def test_sets_are_in_the_order_of_shifts(simulated_study):
    kinds = ordered_sets(read_matrix(simulated_study.folder))
    assert next(iter(kinds)) == "plain"
    assert list(kinds.values()) == sorted(
        kinds.values(), key=["in-domain", "domain", "style", "difficulty", "adversarial"].index
    )
    assert in_domain_set("plain", kinds) == "plain"
    assert in_domain_set("elsewhere", kinds) == "plain"
    assert in_domain_set("elsewhere", {"a": "domain"}) is None
    assert in_domain_set(None, kinds) is None


def test_gains_are_after_minus_before(simulated_study):
    study = read_matrix(simulated_study.folder)
    table, gains = profiles(study, ordered_sets(study))
    wide = table.pivot(on="when", index=["model", "testset"], values="accuracy").join(gains, on=["model", "testset"])
    assert (wide["after"] - wide["before"] - wide["gain"]).abs().max() < 1e-12
    assert gains.filter("in_domain")["testset"].unique().to_list() == ["plain"]
    assert table["chance"].is_between(0.5, 0.7).all()


def test_levels_share_out_the_items(simulated_study):
    study = read_matrix(simulated_study.folder)
    found = by_level(study, study.items["level"])
    after = found.filter((pl.col("when") == "after") & (pl.col("model") == "model-a")).sort("level")
    assert after["n_items"].sum() == study.items.height
    assert after["accuracy"].is_sorted(descending=True)
    assert ends(study)["checkpoints"].to_list() == [24] * 4
