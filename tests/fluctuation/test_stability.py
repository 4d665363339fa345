import io
import json

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import breadth
from breadth.datasets import simulate_scores, simulate_study
from breadth.errors import InputError
from breadth.fluctuation import NoiseSource, StabilityFlag, fluctuation_figure
from breadth.results import Answer, Question, State
from breadth.results.terminal import ShownTable


def scores(points, seeds=3, steps=41, items=None, sets=2, seed=0, curve=0.2):
    """Accuracies of every model's runs, whose fluctuation has so many points."""
    generator = np.random.default_rng(seed)
    frames = []
    for model, size in points.items():
        for run in range(seeds):
            rise = 0.55 + curve * (1 - np.exp(-3 * np.linspace(0, 1, steps)))
            share = np.clip(rise[:, None] + size / 100 * generator.standard_normal((steps, sets)), 0, 1)
            seen = share if items is None else generator.binomial(items, share) / items
            names = {f"set_{index}": seen[:, index] for index in range(sets)}
            frames.append(
                pl.DataFrame({"model": model, "run": f"{model}-{run}", "step": range(0, 16 * steps, 16), **names})
            )
    return pl.concat(frames)


def measure(frame, **options):
    return breadth.stability(frame, by="run", order="step", testsets="set_*", **options)


COUNTS = {"set_0": 2000, "set_1": 2000}


@pytest.fixture(scope="module")
def sharp():
    """One model that fluctuates sharply, one that does not."""
    return measure(scores({"sharp": 5, "calm": 1}, items=2000), item_counts=COUNTS)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stability")
    simulate_study(folder, runs=6, checkpoints=16, items=60, testsets=("plain", "chat", "negation"))
    return folder


def test_recovers_what_was_simulated(sharp):
    whole = {row["model"]: row for row in sharp.models.filter(pl.col("testset").is_null()).iter_rows(named=True)}
    for model, points in {"sharp": 5, "calm": 1}.items():
        assert whole[model]["runs"] == 3
        assert whole[model]["ci_low"] < points < whole[model]["ci_high"]
        assert whole[model]["sd"] == pytest.approx(points, rel=0.25)


def test_models_that_differ_are_told_apart(sharp):
    row = sharp.comparisons.filter(pl.col("testset").is_null()).row(0, named=True)
    assert (row["a"], row["b"], row["runs_a"]) == ("calm", "sharp", 3)
    assert row["q"] < 0.05
    assert row["ci_high"] < 0.5
    assert row["ratio"] == pytest.approx(0.2, rel=0.3)
    verdict = sharp.verdict()
    assert (verdict.state, verdict.question) == (State.YES, Question.FLUCTUATION)
    assert "sharp moves" in verdict.findings
    total = sharp.models.filter(pl.col("testset").is_null()).sort("sd_total")["sd_total"]
    least, most = (f"{1.96 * np.sqrt(2) * size:.2g} points" for size in total)
    assert verdict.answer == f"Up to {most}"
    assert most in verdict.reason
    assert f"calm, which moves least, it is {least}" in verdict.findings


def test_models_that_are_alike_are_not():
    found = 0
    for seed in range(20):
        result = measure(scores({"a": 3, "b": 3}, seed=seed), item_counts="none")
        found += result.comparisons.filter(pl.col("testset").is_null())["p"][0] < 0.05
    assert found <= 3


def test_noise_alone_is_no_fluctuation():
    found, answers = [], []
    for seed in range(20):
        result = measure(scores({"a": 0}, items=500, seed=seed), item_counts={"set_0": 500, "set_1": 500})
        found += (result.models["q"] < 0.05).to_list()
        answers.append(result.verdict().state)
    assert np.mean(found) <= 0.06
    assert State.YES not in answers


def test_large_test_sets_show_that_there_is_next_to_no_fluctuation():
    result = measure(scores({"a": 0}, items=50_000), item_counts={"set_0": 50_000, "set_1": 50_000})
    verdict = result.verdict()
    assert verdict.state is State.NO
    most = result.models.filter(pl.col("testset").is_not_null())["most"].median()
    assert verdict.answer == f"At most {most:.1f} points"
    assert most < 1


def test_unknown_noise_is_no_finding():
    result = measure(scores({"a": 3}), item_counts="none")
    assert result.noise is NoiseSource.UNKNOWN
    assert result.models["q"].null_count() == result.models.height
    assert result.verdict().state is State.OPEN
    assert "not known" in result.verdict().findings
    assert result.verdict().needed
    assert set(result.models["flag"]) == {StabilityFlag.NOISE_UNKNOWN}


def test_one_run_says_nothing_about_the_model():
    result = measure(scores({"a": 5}, seeds=1, items=2000), item_counts=COUNTS)
    assert result.models["ci_low"].null_count() == result.models.height
    assert result.models["least"].null_count() == 0
    assert result.comparisons.height == 0
    assert set(result.models["flag"]) == {StabilityFlag.ONE_RUN}
    assert "another run" in result.verdict().findings


def test_answers_tell_the_noise_of_a_change(study):
    result = breadth.stability(study)
    assert result.noise is NoiseSource.HALVES
    assert result.models["model"].n_unique() == 2
    assert result.noun == "model"
    cells = result.models.filter(pl.col("testset") == "chat")
    # Most of an item's answer is its own, so a change has less noise than fresh items would give.
    fresh = 100 * np.sqrt(0.25 / 60)
    assert (cells["sd_noise"] < 0.8 * fresh).all()
    assert result.runs.height == 6 * 4


def test_runs_without_a_model_are_taken_together_unless_told_otherwise():
    frame = simulate_scores(runs=4)
    together = breadth.stability(frame)
    assert together.models.filter(pl.col("testset") == "science")["runs"].to_list() == [4]
    alone = breadth.stability(frame, cluster="none")
    assert alone.models["model"].n_unique() == 4
    assert set(alone.models["runs"]) == {1}


def test_cluster_names_what_belongs_together():
    frame = scores({"a": 3, "b": 3}).with_columns(family=pl.lit("one"))
    assert measure(frame, cluster="family").models["model"].unique().to_list() == ["one"]
    with pytest.raises(InputError, match="nothing_like_it"):
        measure(frame, cluster="nothing_like_it")


def test_percentages_and_shares_give_the_same_points():
    frame = scores({"a": 3})
    percent = frame.with_columns(pl.col("set_0", "set_1") * 100)
    first, second = (measure(each, item_counts=COUNTS).models for each in (frame, percent))
    assert first["sd"].to_list() == pytest.approx(second["sd"].to_list())


def test_losses_are_not_in_points():
    frame = scores({"a": 3}).with_columns(val_loss=2 - pl.col("set_0"))
    result = breadth.stability(frame, by="run", order="step", testsets="set_0,set_1,val_loss", item_counts=COUNTS)
    units = dict(result.models.select("testset", "unit").iter_rows())
    assert units == {None: "points", "set_0": "points", "set_1": "points", "val_loss": "score"}
    loss = result.models.filter(pl.col("testset") == "val_loss").row(0, named=True)
    assert loss["sd"] == pytest.approx(0.03, rel=0.2)
    assert loss["q"] is None


def test_order_of_rows_and_name_of_runs_do_not_matter():
    frame = scores({"a": 3, "b": 1}, items=500)
    counts = {"set_0": 500, "set_1": 500}
    first, second = (
        measure(frame, item_counts=counts),
        measure(frame.sample(fraction=1, shuffle=True, seed=1), item_counts=counts),
    )
    assert first.models.sort("model", "testset").equals(second.models.sort("model", "testset"), null_equal=True)


def test_constant_scores_and_short_runs_have_flags():
    frame = scores({"a": 3}).with_columns(set_1=pl.lit(0.5))
    result = measure(frame, item_counts=COUNTS)
    row = result.models.filter(pl.col("testset") == "set_1").row(0, named=True)
    assert (row["sd"], row["flag"], row["p"]) == (0, StabilityFlag.CONSTANT, 1)
    short = measure(scores({"a": 3}, steps=5), item_counts=COUNTS)
    assert set(short.models["flag"]) == {StabilityFlag.TOO_FEW_CHECKPOINTS}
    assert not short.verdict().computed
    assert short.verdict().answer is Answer.UNKNOWN
    assert short.models["sd"].null_count() == short.models.height


def test_slower_swings_are_said():
    generator = np.random.default_rng(0)
    frame = scores({"a": 0.1}, steps=80)
    walk = np.cumsum(generator.standard_normal((frame.height, 2)), axis=0)
    frame = frame.with_columns(
        pl.Series("set_0", 0.5 + 0.01 * walk[:, 0] % 0.4), pl.Series("set_1", 0.5 + 0.01 * walk[:, 1] % 0.4)
    )
    result = measure(frame, item_counts="none")
    scales = result.scales.filter(pl.col("testset").is_null()).sort("distance")["sd"].to_list()
    assert scales[0] < scales[1] < scales[2]
    verdict = result.verdict()
    assert "slowly" in verdict.advice
    assert "the same between averages" not in verdict.facts, "averaging helps less than by half"


def test_other_distances_of_checkpoints_are_warned_about():
    frame = scores({"a": 3, "b": 3}).with_columns(
        step=pl.when(pl.col("model") == "a").then(pl.col("step") * 4).otherwise("step")
    )
    assert any("16" in line and "64" in line for line in measure(frame, item_counts="none").warnings)


def test_mistakes_are_named():
    frame = scores({"a": 3})
    with pytest.raises(InputError, match="set_9"):
        measure(frame, item_counts={"set_9": 10})
    with pytest.raises(InputError, match="at least 1"):
        measure(frame, item_counts={"set_0": 0})
    with pytest.raises(InputError, match="not an accuracy"):
        measure(frame.with_columns(pl.col("set_0") * 1000), item_counts=COUNTS)
    with pytest.raises(InputError, match="name it with order="):
        breadth.stability(frame, by="run", order="none", testsets="set_*")
    with pytest.raises(InputError, match="choose"):
        breadth.stability(frame, score="nonsense")


def test_tables_and_figure_show_every_model(sharp):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(*(ShownTable(shown) for shown in sharp.shown()))
    text = console.export_text()
    assert "sharp" in text
    assert "calm" in text
    assert json.dumps(fluctuation_figure(sharp.models).spec)
    assert "sharp" in json.dumps(sharp.figure().to_dict(validate=False))
    assert set(sharp.tables()) == {"models", "runs", "comparisons", "scales"}


def test_pythia(trajectory_data):
    """One run of every model: each fluctuates in some way, and nothing is said of a new run."""
    result = breadth.stability(trajectory_data / "pythia_zero_shot.csv")
    assert result.noise is NoiseSource.COUNTS
    assert result.models["model"].n_unique() == 16
    assert result.comparisons.height == 0
    assert result.models["ci_low"].null_count() == result.models.height
    known = result.models.drop_nulls("sd")
    assert (known["least"] <= known["most"]).all()
    assert (known["sd"] <= known["sd_total"] + 1e-9).all()


def test_what_to_average_and_which_differences_are_mere_movement():
    """Of checkpoints that only move, 95 of 100 pairs differ by no more than is said; means of four by half of it."""
    result = measure(scores({"a": 3}, seeds=6, steps=80, curve=0), item_counts="none")
    verdict = result.verdict()
    single = verdict.facts["largest difference between single checkpoints that may be mere movement"]
    averaged = verdict.facts["the same between averages"]
    assert f"{single:g} points" in verdict.reason
    assert f"{averaged:g} points" in verdict.advice
    assert single in result.shown()[0].frame["ignored"].to_list()
    values = 100 * scores({"a": 3}, seeds=6, steps=80, curve=0)["set_0"].to_numpy().reshape(6, 80)
    apart = np.abs(values[:3] - values[3:])
    means = np.abs(values.reshape(6, 20, 4).mean(axis=2)[:3] - values.reshape(6, 20, 4).mean(axis=2)[3:])
    assert np.mean(apart <= single) == pytest.approx(0.95, abs=0.03)
    assert np.mean(means <= averaged) == pytest.approx(0.95, abs=0.06)


def test_the_test_set_that_surely_moves_is_named():
    """One test set that moves beside one that does not."""
    frame = scores({"a": 4}, items=2000).with_columns(
        set_1=pl.Series(np.random.default_rng(3).binomial(2000, 0.7, 123) / 2000)
    )
    verdict = measure(frame, item_counts=COUNTS).verdict()
    assert verdict.state is State.MIXED
    assert "set_0" in verdict.findings
    assert "set_1" not in verdict.findings


def test_every_column_is_declared_and_losses_keep_their_digits(sharp):
    for name, frame in sharp.tables().items():
        assert set(frame.columns) <= {each for column in sharp.columns(name) for each in (column.name, column.high)}, (
            name
        )
    frame = scores({"a": 3}).with_columns(val_loss=2 - pl.col("set_0"))
    result = breadth.stability(frame, by="run", order="step", testsets="set_0,set_1,val_loss", item_counts=COUNTS)
    points, losses = result.shown()[:2]
    assert losses.frame["testset"].to_list() == ["val_loss"]
    size = next(column for column in losses.columns if column.name == "sd")
    assert float(size.text(losses.frame.row(0, named=True))) == pytest.approx(0.03, rel=0.2)
    assert points.frame["testset"][0] == "all test sets"


def test_every_number_in_a_verdict_stands_in_a_table_or_among_the_facts(sharp, study):
    for result in (sharp, breadth.stability(study), measure(scores({"a": 5}, seeds=1, steps=5), item_counts=COUNTS)):
        values = [*result.verdict().facts.values(), 0.95]
        for frame in result.tables().values():
            for name in frame.columns:
                if frame[name].dtype.is_numeric():
                    values += frame[name].drop_nulls().to_list()
        known = {round(abs(value), digits) for value in values for digits in (0, 1)} | {95.0}
        for number in result.verdict().numbers():
            assert float(number.replace(",", "")) in known, (number, result.verdict())
