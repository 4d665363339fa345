from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation import carry_over
from breadth.correlation.carry_over import COLUMNS, _contradictions
from breadth.datasets import simulate_scores, simulate_study
from breadth.inference import benjamini_hochberg
from breadth.records.store import StudyStore
from breadth.results import Answer, as_chart
from breadth.sources import load_scores, open_study

NAMES = ("plain", "chat", "science", "negation", "numbers")


@pytest.fixture(scope="module")
def two(tmp_path_factory, change_record):
    """Two models, each trained on two sets; long enough for windows."""
    study = simulate_study(tmp_path_factory.mktemp("s") / "s", runs=8, checkpoints=24, testsets=NAMES, items=40)
    for name in study.runs[4:]:
        change_record(StudyStore(study.folder).run(name).folder / "run.json", train_set="chat")
    return open_study(study.folder)


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
    assert carried.verdict == result.verdict()
    assert carried.finding == str(result.verdict())
    details = result.details().split("\n\n")
    assert list(carried.paragraphs[: len(details)]) == details


def test_training_sets_have_controls_of_their_own(two):
    carried = carry_over(two)
    pairs, correlations = carried.tables["pairs"], carried.tables["correlations"]
    controls = correlations.select("train_set", "control").unique()
    assert dict(controls.iter_rows()) == {"plain": "plain", "chat": "chat"}
    chat = pairs.filter(pl.col("train_set") == "chat")
    assert "chat" not in {*chat["a"], *chat["b"]}
    assert "plain" in {*chat["a"], *chat["b"]}
    assert [text.split(":")[0] for text in carried.paragraphs[:2]] == ["Trained on chat", "Trained on plain"]
    runs = correlations.filter((pl.col("kind") == "corrected") & pl.col("run").is_not_null())
    both = runs.join(pairs, on=["run", "a", "b"])
    assert both.height == pairs.height
    known = both.drop_nulls("q")
    assert known.height > 0
    assert known["q"].to_list() == pytest.approx(known["q_right"].to_list())
    assert both["q_right"].null_count() == both["q"].null_count()
    assert carried.reasons == ()
    assert set(correlations["kind"]) == {"partial", "raw", "corrected"}
    assert correlations["panel"].str.contains(" · ").all()


def test_means_per_model_are_those_of_its_runs_alone(two):
    correlations = carry_over(two).tables["correlations"]
    model = two.subjects["model"][0]
    mine = (pl.col("model") == model) & (pl.col("train_set") == "plain")
    raw = {"control": "plain", "adjust": "none", "item_counts": "none"}
    for kind, options in (("corrected", {}), ("partial", {"item_counts": "none"}), ("raw", raw)):
        alone = breadth.correlate(two.select(mine), **options).heterogeneity
        means = correlations.filter(mine & (pl.col("kind") == kind) & pl.col("run").is_null())
        for ours, theirs in (("r", "r_mean"), ("ci_low", "ci_low"), ("ci_high", "ci_high")):
            mine_, theirs_ = (side.fill_null(9.0).to_list() for side in (means[ours], alone[theirs]))
            assert mine_ == pytest.approx(theirs_, abs=1e-12)
        assert means["k"].unique().to_list() == [2]


def test_a_single_run_keeps_its_own_intervals(tmp_path):
    study = simulate_study(tmp_path / "s", runs=2, checkpoints=12, testsets=NAMES, items=40)
    carried = carry_over(open_study(study.folder))
    correlations, pairs = carried.tables["correlations"], carried.tables["pairs"]
    assert list(correlations.columns) == list(COLUMNS)
    means = correlations.filter(pl.col("run").is_null() & pl.col("model").is_not_null(), kind="partial")
    assert sorted(means["ci_low"]) == sorted(pairs["ci_low"])
    assert correlations["panel"].str.contains(" · ").sum() == 0
    assert "windows" not in carried.tables
    assert "at least 20 checkpoints" in carried.reasons[-1]


def test_pooled_rows_are_the_means_over_all_runs(two):
    carried = carry_over(two)
    correlations, heterogeneity = carried.tables["correlations"], carried.tables["heterogeneity"]
    pooled = correlations.filter(pl.col("model").is_null() & (pl.col("kind") == "corrected"))
    assert pooled["panel"].unique(maintain_order=True).to_list() == ["all models · chat", "all models · plain"]
    for ours, theirs in (("r", "r_mean"), ("ci_low", "ci_low"), ("p", "p"), ("q", "q"), ("k", "k")):
        mine, means = (side.fill_null(9.0).to_list() for side in (pooled[ours], heterogeneity[theirs]))
        assert mine == pytest.approx(means, abs=1e-12)
    assert correlations["panel"][0].startswith("all models"), "the mean is the first panel"


def test_q_is_over_all_pairs_of_a_level(two):
    correlations = carry_over(two).tables["correlations"]
    level = [pl.col(name).is_null().alias(f"no_{name}") for name in ("model", "run")]
    for (kind, _, _), rows in correlations.group_by("kind", *level):
        expected = benjamini_hochberg(rows["p"].fill_null(float("nan")).to_numpy())
        assert rows["q"].fill_null(float("nan")).to_numpy() == pytest.approx(expected, nan_ok=True), kind
    known = correlations.drop_nulls("ci_low")
    excludes = (known["ci_low"] > 0) | (known["ci_high"] < 0)
    assert (known["p"] < 0.05).to_list() == excludes.to_list()


def test_training_sets_share_one_false_discovery_rate(two):
    result = breadth.correlate(two)
    assert list(result.parts) == ["chat", "plain"]
    for table in ("pairs", "heterogeneity"):
        whole = result.table(table)
        for name, part in result.parts.items():
            assert whole.filter(train_set=name)["q"].to_list() == part.table(table)["q"].to_list()
        expected = benjamini_hochberg(whole["p"].fill_null(float("nan")).to_numpy())
        assert whole["q"].to_numpy() == pytest.approx(expected, nan_ok=True)
    assert "the in-domain set of every run (chat and plain)" in result.verdict().reason


def test_contradictions_of_models_are_findings():
    rows = [("m", 0.5, 0.01), ("n", -0.5, 0.01), ("m", 0.5, 0.01), ("n", -0.5, 0.2)]
    frame = pl.DataFrame(rows, schema=["model", "r", "q"], orient="row").with_columns(
        a=pl.Series(["x", "x", "y", "y"]), b=pl.lit("z"), train_set=pl.lit("t"), kind=pl.lit("partial"),
        run=pl.lit(None, dtype=pl.String),
    )  # fmt: skip
    assert "x and z" in _contradictions(frame)
    assert "y and z" not in _contradictions(frame)
    assert not _contradictions(frame.tail(2))


def test_a_table_of_scores():
    scores = simulate_scores(runs=3, steps=24)
    source = load_scores(scores, "in_domain", by="run", order="step")
    carried = carry_over(source)
    assert carried.verdict == breadth.correlate(scores, control="in_domain", by="run", order="step").verdict()
    assert [figure.key for figure in carried.figures] == ["correlations", "agreement", "similarity", "windows"]
    assert carried.figures[1].title == "Do runs agree, after controlling for in_domain?"
    alone = carry_over(load_scores(scores.filter(run="run-00").drop("in_domain"), None, order="step"))
    assert "taken into account" not in alone.verdict.reason
    assert [figure.key for figure in alone.figures] == ["correlations", "windows"], "nobody to agree with"
    assert "name it with --control" in alone.reasons[0]
    assert alone.tables["correlations"]["kind"].unique().to_list() == ["raw"]
    assert alone.tables["correlations"]["panel"].unique().to_list() == ["all rows"]


def test_answers_without_runs(tmp_path):
    """Subjects that were evaluated once are correlated over subjects; the set marked in-domain is the control."""
    generator = np.random.default_rng(0)
    rows = [
        {"subject": f"m{i}", "testset": name, "item": f"{name}{j}", "correct": int(generator.random() < 0.3 + 0.02 * i)}
        for i in range(20) for name in NAMES[:4] for j in range(20)
    ]  # fmt: skip
    study = open_study(pl.DataFrame(rows))
    carried = carry_over(study)
    assert carried.verdict.computed
    assert "taken into account" not in carried.verdict.reason
    marked = replace(study, items=study.items.with_columns(
        shift=pl.when(pl.col("testset") == "plain").then(pl.lit("in-domain"))
    ))  # fmt: skip
    verdict = carry_over(marked).verdict
    assert "too few questions: once plain is taken into account" in verdict.reason
    assert 20 in verdict.facts.values(), "20 items tell next to nothing"


def test_many_runs_are_not_compared_with_each_other():
    carried = carry_over(load_scores(simulate_scores(runs=41, steps=12), "in_domain", by="run", order="step"))
    assert "similarity" not in carried.tables
    assert "how alike every two of 41 runs are" in " ".join(carried.reasons)
    first, second = carried.figures
    assert (first.key, second.key) == ("correlations", "agreement")
    assert "Shown: 11 of 41 runs, those with the strongest correlations." in first.caption
    assert len(dict(first.controls[-1].options)) == 42, "every run can be chosen"
    assert "strong dots on both sides of 0" in second.caption


def test_losses_are_turned_as_the_command_does():
    scores = simulate_scores(runs=2).rename({"science": "science_loss"})
    carried = carry_over(load_scores(scores, "in_domain", by="run", order="step"))
    assert carried.tables["pairs"].equals(breadth.correlate(scores, control="in_domain", by="run", order="step").pairs)


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
    assert carried.verdict.answer is Answer.UNKNOWN
    assert not carried.verdict.computed
    assert carried.tables == {}
    assert len(carried.reasons) == 1
    assert "at least 2 columns of scores besides the control" in carried.reasons[0]
    assert str(tmp_path) not in carried.reasons[0]
    single = carry_over(load_scores(simulate_scores(runs=2).select("run", "step", "science"), by="run", order="step"))
    assert (single.verdict.answer, single.verdict.computed) == (Answer.UNKNOWN, False)
    assert "only one test set" in single.verdict.reason
    assert single.verdict.advice
    few = carry_over(open_study(write_study(tmp_path / "few", [{"model": "m"}], steps=4)))
    assert few.tables == {}
    assert not few.verdict.computed
    assert "every run has too few checkpoints" in few.reasons[0]


def test_checkpoints_come_with_their_residuals_and_control(two):
    table, result = carry_over(two).tables["residuals"], breadth.correlate(two)
    columns = ["train_set", "run", "step", "testset", "score", "residual"]
    assert table.select(columns).equals(result.residuals.select(columns))
    scores = two.trajectories
    for row in table.sample(20, seed=0).iter_rows(named=True):
        own = scores.filter((pl.col("run") == row["run"]) & (pl.col("step") == row["step"]))
        assert row["control"] == own[row["train_set"]][0]
        assert row["score"] == own[row["testset"]][0]
        assert row["model"] == own["model"][0]


def test_checkpoints_of_a_table_of_scores_are_named_as_its_groups(monkeypatch):
    scores = simulate_scores(runs=3, steps=12)
    read = load_scores(scores, by="run", order="step", control="in_domain")
    result = carry_over(read)
    runs = set(result.tables["correlations"]["run"].drop_nulls())
    assert set(result.tables["residuals"]["run"]) == runs
    assert result.tables["residuals"]["control"].n_unique() == scores["in_domain"].n_unique()
    monkeypatch.setitem(carry_over.__globals__, "MOST_SCORES", 10)
    assert "residuals" not in carry_over(read).tables
