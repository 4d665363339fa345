"""Pairs that were never measured together: predicted where something predicts, and said to be unknown where not."""

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation.unmeasured import MEAN, Pairs, predict_pairs, unmeasured_words
from breadth.datasets import autoregressive


def test_what_other_test_sets_imply_is_found():
    """One factor: every pair is the product of two loadings, so the others imply a hidden one."""
    loadings = np.array([0.9, 0.2, 0.7, -0.5, 0.8, 0.4, -0.8, 0.6])
    a, b = np.triu_indices(8, 1)
    z = np.arctanh(loadings[a] * loadings[b])
    hidden = (a == 0) & (b == 6)
    predicted = predict_pairs(Pairs(z[~hidden], a[~hidden], b[~hidden], 8, None), a[hidden], b[hidden], None)
    assert predicted.basis == "other test sets"
    assert predicted.error < 0.5 * predicted.error_of_mean
    assert np.tanh(predicted.z[0]) == pytest.approx(-0.72, abs=0.25)
    assert predicted.z[0] - predicted.half < z[hidden][0] < predicted.z[0] + predicted.half


def test_kinds_predict_a_test_set_that_was_never_measured():
    generator = np.random.default_rng(0)
    codes = np.arange(9) % 3
    a, b = np.triu_indices(9, 1)
    same = (codes[a] == codes[b]).astype(float)
    z = 0.1 + 0.6 * same + 0.05 * generator.standard_normal(len(a))
    hidden = b == 8
    pairs = Pairs(z[~hidden], a[~hidden], b[~hidden], 9, same[~hidden])
    predicted = predict_pairs(pairs, a[hidden], b[hidden], same[hidden], new=True)
    assert "kinds" in predicted.basis
    assert (np.abs(predicted.z - z[hidden]) < predicted.half).all()
    assert predicted.error < 0.5 * predicted.error_of_mean


def test_pairs_without_a_pattern_cannot_be_predicted_and_intervals_cover():
    """A small version of benchmarks/moderators.py: pairs differ, and nothing says how."""
    generator = np.random.default_rng(1)
    a, b = np.triu_indices(7, 1)
    claimed, covered = [], []
    for _ in range(40):
        z = 0.3 + 0.25 * generator.standard_normal(len(a))
        hidden = np.arange(len(a)) % 5 == 0
        predicted = predict_pairs(Pairs(z[~hidden], a[~hidden], b[~hidden], 7, None), a[hidden], b[hidden], None)
        claimed.append(predicted.basis != MEAN.basis)
        covered += (np.abs(predicted.z - z[hidden]) <= predicted.half).tolist()
    assert np.mean(claimed) <= 0.2
    assert np.mean(covered) >= 0.9


def test_too_little_is_not_extrapolated():
    a, b = np.triu_indices(3, 1)
    assert predict_pairs(Pairs(np.array([0.1, 0.2, 0.3]), a, b, 4, None), np.array([0]), np.array([3]), None) is None


@pytest.fixture(scope="module")
def scores():
    """Two halves of the runs, each without one of six test sets that share a factor."""
    generator = np.random.default_rng(3)
    loadings = np.array([0.9, 0.3, 0.8, -0.6, 0.7, 0.5])
    matrix = np.outer(loadings, loadings)
    np.fill_diagonal(matrix, 1)
    moves = autoregressive(generator, 8, 60, matrix, 0.2)
    frame = pl.DataFrame({
        "run": np.repeat([f"r{index}" for index in range(8)], 60), "step": np.tile(np.arange(60), 8),
        **{f"set_{column}": 0.5 + 0.02 * moves[:, :, column].reshape(-1) for column in range(6)},
    })  # fmt: skip
    early = pl.col("run") < "r4"
    return frame.with_columns(set_0=pl.when(early).then(pl.col("set_0")), set_3=pl.when(~early).then(pl.col("set_3")))


OPTIONS = {"adjust": "none", "by": "run", "order": "step", "item_counts": "none"}


def test_pairs_of_runs_that_had_other_test_sets(scores):
    result = breadth.correlate(scores, **OPTIONS)
    row = result.unmeasured.row(0, named=True)
    assert result.unmeasured.height == 1
    assert (row["a"], row["b"]) == ("set_0", "set_3")
    assert row["ci_low"] < -0.54 < row["ci_high"]
    assert row["r_predicted"] < 0
    assert "1 pair of test sets was never measured together" in result.details()
    assert result.table("unmeasured").equals(result.unmeasured)


def test_a_new_test_set_is_one_that_only_kinds_name(scores):
    kinds = {f"set_{index}": "xy"[index % 2] for index in range(6)} | {"planned": "x"}
    frame = breadth.correlate(scores, kinds=kinds, **OPTIONS).unmeasured
    assert frame.filter(pl.col("b") == "planned").height == 6
    assert frame.height == 7
    assert frame["basis"].null_count() == 0


def test_nothing_is_said_where_every_pair_was_measured_or_none(scores):
    full = scores.drop("set_0", "set_3")
    assert breadth.correlate(full, **OPTIONS).unmeasured.height == 0
    constant = full.with_columns(set_1=pl.lit(0.5))
    assert breadth.correlate(constant, **OPTIONS).unmeasured.height == 0
    assert unmeasured_words(breadth.correlate(full.head(2), **OPTIONS).unmeasured) == ""


def test_real_correlations_of_hans_subcases_are_implied_by_the_others(trajectory_data):
    table = pl.read_csv(trajectory_data / "berts_of_a_feather.csv")
    sets = [name for name in table.columns if name[:3] in {"ln_", "sn_", "cn_"}]
    result = breadth.correlate(
        table, control="MNLI dev acc.", testsets=sets, by="none", order="none", adjust="linear", item_counts="none"
    )
    a, b = np.triu_indices(len(sets), 1)
    known = result.pairs["r"].is_not_null().to_numpy()
    z = np.arctanh(result.pairs["r"].fill_null(0).to_numpy())
    hidden = known & (np.arange(len(z)) % 7 == 0)
    rest = known & ~hidden
    predicted = predict_pairs(Pairs(z[rest], a[rest], b[rest], len(sets), None), a[hidden], b[hidden], None)
    assert predicted.basis == "other test sets"
    assert (np.abs(z[hidden] - predicted.z) <= predicted.half).mean() >= 0.85
    assert predicted.error < 0.7 * predicted.error_of_mean
