import numpy as np
import polars as pl
import pytest

from breadth.datasets import simulate_study
from breadth.records import StudyStore, read_matrix
from breadth.stats import benjamini_hochberg
from breadth.verbs.carry_over import carry_over, pool
from breadth.verbs.standing import ordered_sets


def test_pooling_equal_correlations_gives_their_value():
    z, se = np.arctanh(0.4), 0.2
    low, high = np.tanh(z - 1.96 * se), np.tanh(z + 1.96 * se)
    frame = pl.DataFrame({"a": ["x"] * 3, "b": ["y"] * 3, "r": [0.4] * 3, "low": [low] * 3, "high": [high] * 3})
    found = pool(frame, ["a", "b"], "r", "low", "high").row(0, named=True)
    assert found["k"] == 3
    assert found["r"] == pytest.approx(0.4)
    # k - 1 = 2 degrees of freedom: half the width is 4.303 standard errors of the mean.
    assert np.arctanh(found["ci_high"]) - z == pytest.approx(4.303 * se / np.sqrt(3), rel=1e-3)


def test_pooling_skips_what_is_not_known():
    frame = pl.DataFrame(
        {"a": ["x", "x", "z"], "r": [0.2, None, None], "low": [-0.2, None, None], "high": [0.5, None, None]}
    )
    found = pool(frame, ["a"], "r", "low", "high")
    assert found["k"].to_list() == [1, 0]
    assert found["r"].to_list() == [pytest.approx(0.2), None]


def test_training_sets_have_controls_of_their_own(tmp_path):
    names = ("plain", "chat", "science", "negation")
    study = simulate_study(tmp_path / "s", runs=4, checkpoints=12, testsets=names, items=40)
    for name in study.runs[2:]:
        path = StudyStore(study.folder).run(name).folder / "run.json"
        path.write_text(path.read_text().replace('"train_set": "plain"', '"train_set": "chat"'))
    matrix = read_matrix(study.folder)
    tables, words, absent = carry_over(matrix, ordered_sets(matrix))
    controls = dict(tables["pairs"].select("train_set", "control").unique().iter_rows())
    assert controls == {"plain": "plain", "chat": "chat"}
    chat = tables["pairs"].filter(pl.col("train_set") == "chat")
    assert "chat" not in {*chat["a"], *chat["b"]}
    assert "plain" in {*chat["a"], *chat["b"]}
    assert words[0].startswith("Trained on ")
    q = benjamini_hochberg(tables["pairs"]["p"].to_numpy())
    assert tables["pairs"]["q"].to_list() == pytest.approx(q.tolist())
    runs = tables["correlations"].filter((pl.col("kind") == "partial") & pl.col("run").is_not_null())
    assert runs["q"].to_list() == pytest.approx(q.tolist())
    assert absent == []
    assert set(tables["correlations"]["kind"]) == {"partial", "raw", "corrected"}
    assert "windows" not in tables


def test_reasons_are_given(tmp_path):
    study = simulate_study(tmp_path / "s", runs=1, checkpoints=12, testsets=("plain", "chat"), items=20)
    matrix = read_matrix(study.folder)
    assert carry_over(matrix, ordered_sets(matrix))[2] == ["plain: fewer than two test sets besides the in-domain one"]
