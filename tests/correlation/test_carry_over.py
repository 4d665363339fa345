import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation import carry_over, pool
from breadth.correlation.carry_over import COLUMNS
from breadth.datasets import simulate_study
from breadth.inference import benjamini_hochberg
from breadth.records import StudyStore, open_study
from breadth.results import as_chart

NAMES = ("plain", "chat", "science", "negation", "numbers")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two models, each trained on two sets; long enough for windows."""
    study = simulate_study(tmp_path_factory.mktemp("s") / "s", runs=8, checkpoints=24, testsets=NAMES, items=40)
    for name in study.runs[4:]:
        path = StudyStore(study.folder).run(name).folder / "run.json"
        path.write_text(path.read_text().replace('"train_set": "plain"', '"train_set": "chat"'))
    return open_study(study.folder)


def test_pooling_equal_correlations_gives_their_value():
    z, se = np.arctanh(0.4), 0.2
    low, high = np.tanh(z - 1.96 * se), np.tanh(z + 1.96 * se)
    frame = pl.DataFrame({"a": ["x"] * 3, "b": ["y"] * 3, "r": [0.4] * 3, "ci_low": [low] * 3, "ci_high": [high] * 3})
    mean = pool(frame, ["a", "b"]).row(0, named=True)
    assert mean["k"] == 3
    assert mean["r"] == pytest.approx(0.4)
    # k - 1 = 2 degrees of freedom: half the width is 4.303 standard errors of the mean.
    assert np.arctanh(mean["ci_high"]) - z == pytest.approx(4.303 * se / np.sqrt(3), rel=1e-3)


def test_pooling_skips_what_is_not_known():
    frame = pl.DataFrame(
        {"a": ["x", "x", "z"], "r": [0.2, None, None], "ci_low": [-0.2, None, None], "ci_high": [0.5, None, None]}
    )
    means = pool(frame, ["a"])
    assert means["k"].to_list() == [1, 0]
    assert means["r"].to_list() == [pytest.approx(0.2), None]


@pytest.mark.parametrize("shared", [False, True])
def test_tables_are_those_of_the_command(two, shared, write_study, tmp_path):
    """Runs of one model share step 0 in a study that was run; simulated ones do not."""
    study = two
    if shared:
        runs = [{"model": model, "seed": seed} for model in "mn" for seed in range(3)]
        study = open_study(write_study(tmp_path, runs, ("home", "away", "abroad", "far", "near"), steps=20))
    carried = carry_over(study)
    result = breadth.correlate(study.folder, windows=2)
    for name in ("pairs", "heterogeneity", "similarity", "windows"):
        assert carried.tables[name].equals(result.table(name)), name
    assert carried.paragraphs == tuple(result.summary().split("\n\n"))


def test_training_sets_have_controls_of_their_own(two):
    carried = carry_over(two)
    pairs, correlations = carried.tables["pairs"], carried.tables["correlations"]
    controls = correlations.select("train_set", "control").unique()
    assert dict(controls.iter_rows()) == {"plain": "plain", "chat": "chat"}
    chat = pairs.filter(pl.col("train_set") == "chat")
    assert "chat" not in {*chat["a"], *chat["b"]}
    assert "plain" in {*chat["a"], *chat["b"]}
    assert [text.split(":")[0] for text in carried.paragraphs] == ["Trained on chat", "Trained on plain"]
    q = benjamini_hochberg(pairs["p"].to_numpy())
    runs = correlations.filter((pl.col("kind") == "partial") & pl.col("run").is_not_null())
    assert runs["q"].to_list() == pytest.approx(q.tolist())
    assert carried.reasons == ()
    assert set(correlations["kind"]) == {"partial", "raw", "corrected"}
    assert correlations["panel"].str.contains(" · ").all()


def test_means_per_model_are_those_of_its_runs_alone(two):
    correlations = carry_over(two).tables["correlations"]
    model = two.subjects["model"][0]
    mine = (pl.col("model") == model) & (pl.col("train_set") == "plain")
    for kind, options in (("partial", {}), ("raw", {"control": "plain", "adjust": "none"})):
        alone = breadth.correlate(two.select(mine), **options).heterogeneity
        means = correlations.filter(mine & (pl.col("kind") == kind) & pl.col("run").is_null())
        for ours, theirs in (("r", "r_mean"), ("ci_low", "ci_low"), ("ci_high", "ci_high")):
            assert means[ours].to_list() == pytest.approx(alone[theirs].to_list(), abs=1e-12)
        assert means["k"].unique().to_list() == [2]


def test_a_single_run_keeps_its_own_intervals(tmp_path):
    study = simulate_study(tmp_path / "s", runs=2, checkpoints=12, testsets=NAMES, items=40)
    carried = carry_over(open_study(study.folder))
    correlations, pairs = carried.tables["correlations"], carried.tables["pairs"]
    assert list(correlations.columns) == list(COLUMNS)
    means = correlations.filter(pl.col("run").is_null() & (pl.col("kind") == "partial"))
    assert means["ci_low"].to_list() == pairs["ci_low"].to_list()
    assert correlations["panel"].str.contains(" · ").sum() == 0
    assert "windows" not in carried.tables
    assert "at least 20 checkpoints" in carried.reasons[-1]


def test_the_finding_counts_means_and_names_contradictions(two):
    carried = carry_over(two)
    means = carried.tables["correlations"].filter(pl.col("run").is_null() & (pl.col("kind") == "partial"))
    positive = (means["ci_low"] > 0).sum()
    assert f"{positive} of {means['ci_low'].count()} correlations between test sets" in carried.finding
    split = means.group_by("train_set", "a", "b").agg((pl.col("ci_low") > 0).any() & (pl.col("ci_high") < 0).any())
    words = "contradict each other on" if split["ci_low"].any() else "No two models contradict each other"
    assert words in carried.finding


def test_every_figure_can_be_drawn(two):
    carried = carry_over(two)
    assert [figure.key for figure in carried.figures] == ["correlations", "agreement", "similarity", "windows"]
    for figure in carried.figures:
        assert figure.table in carried.tables
        spec = as_chart(figure, tables=carried.tables).to_dict()
        assert spec["datasets"][figure.table]


def test_reasons_are_given(tmp_path, write_study):
    study = simulate_study(tmp_path / "s", runs=1, checkpoints=12, testsets=("plain", "chat"), items=20)
    carried = carry_over(open_study(study.folder))
    assert carried.finding.startswith("Undecided")
    assert carried.tables == {}
    assert len(carried.reasons) == 1
    assert "at least 2 columns of scores besides the control" in carried.reasons[0]
    assert str(tmp_path) not in carried.reasons[0]
    few = carry_over(open_study(write_study(tmp_path / "few", [{"model": "m"}], steps=4)))
    assert few.tables == {}
    assert "every run has too few checkpoints" in few.reasons[0]
