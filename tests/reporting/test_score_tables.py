"""The report's tables from a table of scores."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from breadth.datasets import simulate_scores
from breadth.records import open_any
from breadth.reporting.score_tables import long_scores, score_tables


@pytest.fixture(scope="module")
def scores():
    return open_any(simulate_scores(runs=5, steps=12), by="run", order="step", control="in_domain")


def test_gains_are_means_over_runs_with_t_intervals(scores):
    gains = score_tables(scores)["gains"]
    frame = scores.frame.sort("run", "step")
    ends = frame.group_by("run", maintain_order=True).agg(pl.col("numbers").last() - pl.col("numbers").first())
    changes = ends["numbers"].to_numpy()
    row = gains.row(by_predicate=pl.col("testset") == "numbers", named=True)
    low, high = stats.t.interval(0.95, 4, changes.mean(), stats.sem(changes))
    assert row["gain"] == pytest.approx(changes.mean())
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(low), pytest.approx(high))
    assert row["p"] == pytest.approx(stats.ttest_1samp(changes, 0).pvalue)
    shifted = gains.filter(~pl.col("in_domain"))
    assert shifted["q"].to_list() == pytest.approx(stats.false_discovery_control(shifted["p"].to_numpy()).tolist())
    assert gains.filter("in_domain")["testset"].to_list() == ["in_domain"]
    assert gains.filter("in_domain")["q"].to_list() == [None]


def test_percentages_become_shares_and_losses_stay(scores):
    columns = [*scores.controls, *scores.testsets]
    whole = open_any(simulate_scores(runs=2, steps=5).with_columns(pl.col(columns) * 100), by="run", order="step")
    long, share, _ = long_scores(whole)
    assert share
    assert long["score"].max() <= 1
    losses = simulate_scores(runs=2, steps=5).with_columns(pl.col(columns) + 2)
    long, share, _ = long_scores(open_any(losses, by="run", order="step"))
    assert share  # 2 to 3 may be percent
    larger = losses.with_columns(pl.col(columns) * 100)
    long, share, _ = long_scores(open_any(larger, by="run", order="step", testsets=columns))
    assert not share
    assert long["score"].max() > 100


def test_a_model_column_names_models(scores):
    frame = simulate_scores(runs=4, steps=5)
    frame = frame.with_columns(model=pl.when(pl.col("run") < "run-02").then(pl.lit("a")).otherwise(pl.lit("b")))
    tables = score_tables(open_any(frame, by=["model", "run"], order="step", control="in_domain"))
    assert tables["runs"]["run"].to_list()[0] == "a / run-00"
    assert set(tables["gains"]["model"]) == {"a", "b"}
    assert tables["gains"]["ci_low"].null_count() == tables["gains"].height  # two runs are too few
    assert set(tables["trajectories"]["model"]) == {"a", "b"}


def test_without_an_order_there_are_no_gains():
    generator = np.random.default_rng(0)
    frame = pl.DataFrame({name: generator.random(30) for name in ("arc", "gsm8k", "mmlu")})
    tables = score_tables(open_any(frame))
    assert tables["gains"].height == 0
    assert "trajectories" not in tables
    assert tables["profile"].select("model", "testset", "when").rows()[0] == ("all rows", "arc", "after")


def test_missing_cells_and_constant_scores():
    frame = simulate_scores(runs=3, steps=4).with_columns(
        numbers=pl.lit(0.5), science=pl.when(pl.col("step") > 0).then(pl.col("science"))
    )
    gains = score_tables(open_any(frame, by="run", order="step", control="in_domain"))["gains"]
    constant = gains.row(by_predicate=pl.col("testset") == "numbers", named=True)
    assert (constant["gain"], constant["ci_low"], constant["p"]) == (0, None, None)
    assert gains.filter(pl.col("testset") == "science")["gain"].is_finite().all()
