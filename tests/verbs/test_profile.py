import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.datasets import simulate_answers
from breadth.errors import InputError
from breadth.records import Responses


@pytest.fixture(scope="module")
def data():
    truth = simulate_answers(200, 60, missing=0.1)
    return Responses(truth.matrix, tuple(f"m{i}" for i in range(200)), tuple(f"q{j}" for j in range(60)))


@pytest.fixture(scope="module")
def calibration(data):
    return breadth.calibrate(data, model="2pl")


def test_accuracy_with_wilsons_interval(data, calibration):
    found = breadth.profile(data, calibration, ["m3"], levels=4).levels
    level = calibration.levels(4)["level"].to_numpy()
    for row in found.iter_rows(named=True):
        answers = data.matrix[3][(level == row["level"]) & (data.matrix[3] >= 0)]
        theirs = stats.binomtest(int(answers.sum()), len(answers)).proportion_ci(method="wilson")
        assert row["n"] == len(answers)
        assert row["accuracy"] == pytest.approx(answers.mean())
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_differences_are_paired_and_add_up(data, calibration):
    found = breadth.profile(data, calibration, "m3,m5", levels=4).differences
    both = (data.matrix[3] >= 0) & (data.matrix[5] >= 0)
    one, two = data.matrix[3][both], data.matrix[5][both]
    whole = found.filter(pl.col("level").is_null()).row(0, named=True)
    theirs = stats.ttest_rel(one, two)
    assert whole["n"] == both.sum()
    assert whole["difference"] == pytest.approx(one.mean() - two.mean())
    assert whole["p"] == pytest.approx(theirs.pvalue)
    interval = theirs.confidence_interval()
    assert (whole["ci_low"], whole["ci_high"]) == pytest.approx((interval.low, interval.high))
    parts = found.filter(pl.col("level").is_not_null())
    assert parts["share"].sum() == pytest.approx(1)
    assert (parts["difference"] * parts["n"]).sum() == pytest.approx(whole["difference"] * whole["n"])


def test_default_subjects_are_spread_over_ability(data, calibration):
    found = breadth.profile(data, calibration)
    assert found.levels["subject"].n_unique() == 5
    means = found.levels.group_by("subject", maintain_order=True).agg(pl.col("accuracy").mean())["accuracy"]
    assert means[0] < means[4]
    assert found.differences.select("subject_1", "subject_2").unique().height == 10
    assert found.figure().to_dict()


def test_items_outside_the_calibration_are_left_out(data, calibration):
    more = Responses(
        np.column_stack([data.matrix, np.ones(200, dtype=np.int8)]), data.subjects, (*data.items, "unknown")
    )
    found = breadth.profile(more, calibration, ["m1"], levels=3)
    assert "60 of 61 items" in found.warnings[0]
    assert found.levels["n"].sum() == (data.matrix[1] >= 0).sum()
    with pytest.raises(InputError, match="no subject nobody"):
        breadth.profile(data, calibration, "nobody")
    with pytest.raises(InputError, match=r"no subject M199x\. Did you mean m199"):
        breadth.profile(data, calibration, "m3,M199x")


def test_identical_subjects_do_not_differ(calibration, data):
    twins = Responses(np.repeat(data.matrix[:1], 2, axis=0), ("a", "b"), data.items)
    found = breadth.profile(twins, calibration, ["a", "b"]).differences
    assert (found["difference"] == 0).all()
    assert found["p"].is_null().all()
    assert found["share"].is_null().all()
