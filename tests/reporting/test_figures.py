"""Figures of the report: which panels there are, what they show, and that they stay readable with many models."""

import html
import re
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from breadth.reporting import build_report
from breadth.reporting.figures import LEAST_RUNS, MOST_PANELS, MOST_TALL, profile_figure, trajectory_figure
from breadth.results import as_chart, write_figure
from breadth.results.figures import MODEL_COLOURS, THEMES


@pytest.fixture(scope="module")
def data(simulated_study):
    return build_report(simulated_study.folder)


def drawn(figure, data, path, **params):
    """The figure as SVG, with parameters set as a reader would."""
    for param in figure.spec["params"] if params else []:
        param["value"] = params.get(param["name"], param["value"])
    return write_figure(as_chart(figure, tables=data.tables), path / "figure.svg", "x").read_text()


def marks(picture, role="point"):
    """What a screen reader hears of every mark, as a dictionary."""
    labels = re.findall(f'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="{role}"', picture)
    return [dict(part.partition(": ")[::2] for part in html.unescape(label).split("; ")) for label in labels]


def table_data(models=2, testsets=3, steps=3, runs=1, answers=True, chance=0.5):
    """What the figures need of a report, with scores that rise with the number of the model."""
    names = [f"model-{k:02d}" for k in range(models)]
    sets = ["home", *(f"away-{k:02d}" for k in range(testsets - 1))]
    measure = "accuracy" if answers else "score"
    rows = [
        {
            "run": f"{model}/{run}", "model": model, "train_set": "home" if answers else None, "step": 10 * step,
            "testset": testset, measure: 0.3 + 0.5 * k / models + 0.02 * step + 0.01 * run,
        }
        for k, model in enumerate(names) for run in range(runs) for testset in sets for step in range(steps)
    ]  # fmt: skip
    trajectories = pl.DataFrame(rows)
    ends = trajectories.filter(pl.col("step").is_in([0, 10 * steps - 10]))
    when = pl.when(pl.col("step") == 0).then(pl.lit("before")).otherwise(pl.lit("after")).alias("when")
    keys = ["model", "train_set", "testset", "shift", "when"]
    profile = (
        ends.with_columns(when, shift=pl.lit("domain"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col(measure).mean(), runs=pl.len(), n_items=pl.lit(40), chance=pl.lit(chance, dtype=pl.Float64))
        .with_columns(ci_low=pl.col(measure) - 0.1, ci_high=pl.col(measure) + 0.1)
    )
    if answers:
        others = {name: pl.lit(None, dtype=pl.Float64) for name in ("auc", "auc_low", "auc_high", "share")}
        trajectories = trajectories.with_columns(
            ci_low=pl.col(measure) - 0.1, ci_high=pl.col(measure) + 0.2, n=pl.lit(40), answer=pl.lit(None), **others
        )
    ends = trajectories.group_by("run", "model", maintain_order=True)
    own = ends.agg(first_step=pl.col("step").min(), checkpoints=pl.col("step").n_unique())
    tables = {"trajectories": trajectories, "profile": profile, "runs": own}
    return SimpleNamespace(
        tables=tables, table=tables.__getitem__, models=names, testsets=sets, comparable=sets, others=(),
        has_runs=True, has_answers=answers,
        shifts={name: None if name != "home" else "in-domain" for name in sets}, measure=measure, share=True,
        measure_words=measure, value_format=".1%",
    )  # fmt: skip


def test_the_mean_of_shifted_sets_comes_first_then_the_in_domain_set(data):
    figure = trajectory_figure(data)
    titles = ["mean of 7 shifted sets", "plain (in-domain)", *data.testsets[1:]]
    assert figure.spec["facet"]["sort"] == titles
    assert figure.spec["usermeta"]["panels"] == len(titles)


def test_the_mean_and_its_interval(data, tmp_path):
    dots = marks(drawn(trajectory_figure(data), data, tmp_path))
    table = data.table("trajectories")
    assert len(dots) == table.height + table.filter(pl.col("testset") == "plain").height, "a mean per run and step"
    run, step = table["run"][0], 16 * 10
    rows = table.filter((pl.col("run") == run) & (pl.col("step") == step))
    away = rows.filter(pl.col("testset") != "plain")
    chosen = [dot for dot in dots if dot["run"] == run and dot["step"] == str(step)]
    mean, plain = (next(dot for dot in chosen if dot["test set"] == name) for name in ("null", "plain"))
    error = (away["accuracy"] - away["ci_low"]).to_numpy()
    assert mean["accuracy"] == f"{away['accuracy'].mean():.1%}"
    assert mean["from"] == f"{away['accuracy'].mean() - np.sqrt((error**2).sum()) / len(error):.1%}"
    own = rows.filter(pl.col("testset") == "plain")
    assert (plain["from"], plain["to"]) == (f"{own['ci_low'][0]:.1%}", f"{own['ci_high'][0]:.1%}")


def test_chance_is_a_dashed_line_where_it_is_known(data, tmp_path):
    panels = len(data.testsets) + 1
    for measure, lines in (("accuracy", panels), ("auc", panels), ("share", 0)):
        picture = drawn(trajectory_figure(data), data, tmp_path, measure=measure)
        assert picture.count('stroke-dasharray="4,3"') == lines, measure
    unknown = table_data(chance=None)
    assert "Dashed" not in trajectory_figure(unknown).caption
    assert 'stroke-dasharray="4,3"' not in drawn(trajectory_figure(unknown), unknown, tmp_path)


def test_runs_can_be_chosen(data, tmp_path):
    run = data.table("trajectories")["run"][0]
    assert {dot["run"] for dot in marks(drawn(trajectory_figure(data), data, tmp_path, shown=[run]))} == {run}


def test_the_caption_says_what_a_band_is(data):
    assert "Band: 95% interval" in trajectory_figure(data).caption


def test_bands_of_scores_need_several_runs(tmp_path):
    few = trajectory_figure(table_data(runs=LEAST_RUNS - 1, answers=False))
    assert "Band" not in few.caption
    assert "area" not in str(few.spec)
    data = table_data(runs=LEAST_RUNS, answers=False)
    several = trajectory_figure(data)
    assert "Band: 95% interval with the runs as a sample." in several.caption
    assert "4.3027" in str(several.spec), "the quantile of t for three runs"
    assert drawn(several, data, tmp_path).count('aria-roledescription="area mark"') == 2 * 4


def test_one_shifted_set_has_no_mean():
    figure = trajectory_figure(table_data(testsets=2))
    assert figure.spec["facet"]["sort"] == ["home (in-domain)", "away-00"]


def test_a_set_that_is_in_domain_for_some_runs():
    data = table_data()
    data.tables["trajectories"] = data.tables["trajectories"].with_columns(
        train_set=pl.when(model="model-00").then(pl.lit("away-00")).otherwise("train_set")
    )
    titles = trajectory_figure(data).spec["facet"]["sort"]
    assert titles == [
        "mean of 3 shifted sets", "home (in-domain for some runs)", "away-00 (in-domain for some runs)", "away-01",
    ]  # fmt: skip


def test_more_models_than_hues_share_one_grey(tmp_path):
    data = table_data(models=MODEL_COLOURS + 1, testsets=4)
    figure = trajectory_figure(data)
    assert [control.name for control in figure.controls] == ["picked"]
    tokens = {token for token in THEMES["light"] if token in str(figure.spec) and token.startswith("@model")}
    assert tokens == {"@model0"}, "the hue of the model that is picked"
    assert THEMES["light"]["@model0"] not in drawn(figure, data, tmp_path)
    assert THEMES["light"]["@model0"] in drawn(figure, data, tmp_path, picked="model-03")


def test_profiles_begin_with_the_mean_and_the_best_model(data, tmp_path):
    figure = profile_figure(data)
    means = data.table("profile").filter(when="after").group_by("model").agg(pl.col("accuracy").mean())
    best = means.sort("accuracy", descending=True)["model"].to_list()
    assert figure.spec["facet"]["sort"] == ["mean of 2 models", *best]
    dots = [dot for dot in marks(drawn(figure, data, tmp_path)) if dot["model"] == "null"]
    rows = data.table("profile").filter(testset="science", when="after")
    science = next(dot for dot in dots if dot["test set"] == "science" and dot["when"] == "after")
    assert science["accuracy"] == f"{rows['accuracy'].mean():.0%}"
    assert (science["from"], science["to"]) == (f"{rows['ci_low'].mean():.1%}", f"{rows['ci_high'].mean():.1%}")


def test_a_mean_has_no_interval_where_a_model_has_none(tmp_path):
    data = table_data()
    data.tables["profile"] = data.tables["profile"].with_columns(
        ci_low=pl.when(model="model-00", testset="home").then(None).otherwise("ci_low")
    )
    dots = marks(drawn(profile_figure(data), data, tmp_path))
    unknown = {(dot["model"], dot["test set"]) for dot in dots if dot["from"] == "null"}
    assert unknown == {("null", "home"), ("model-00", "home")}


@pytest.mark.parametrize(("testsets", "panels"), [(3, MOST_PANELS), (MOST_TALL + 18, MOST_PANELS // 2)])
def test_many_models_are_a_selection(testsets, panels, tmp_path):
    data = table_data(models=20, testsets=testsets)
    figure = profile_figure(data)
    titles = figure.spec["facet"]["sort"]
    assert len(titles) == panels
    assert (titles[0], titles[1], titles[-1]) == ("mean of 20 models", "model-19", "model-00")
    assert f"shown: {panels - 1} of 20, evenly spread." in figure.caption
    picture = drawn(figure, data, tmp_path)
    height = int(re.search(r'height="(\d+)"', picture)[1])
    assert height < 1700
    assert {dot["model"] for dot in marks(picture)} == {"null", *titles[1:]}


def test_one_model_has_no_mean():
    figure = profile_figure(table_data(models=1))
    assert figure.spec["facet"]["sort"] == ["model-00"]
    assert "best" not in figure.caption


def test_panels_name_the_training_set_where_a_model_has_several(tmp_path):
    data = table_data()
    rows = data.tables["profile"]
    data.tables["profile"] = pl.concat([rows, rows.filter(model="model-00").with_columns(train_set=pl.lit(None))])
    figure = profile_figure(data)
    panels = ["mean of 2 models", "model-01 · home", "model-00 · home", "model-00 · untrained"]
    assert figure.spec["facet"]["sort"] == panels
    assert all(f">{name}<" in drawn(figure, data, tmp_path) for name in panels)


def test_a_kind_of_shift_of_any_name_stands_below_its_test_set(tmp_path):
    data = table_data()
    data.shifts = {"home": "in-domain", "away-00": 'market <regime> & "crash"', "away-01": "user group"}
    picture = html.unescape(drawn(profile_figure(data), data, tmp_path))
    assert all(f">{shift}<" in picture for shift in data.shifts.values())


def test_names_of_any_kind_can_be_drawn(tmp_path):
    name = """it's a "test" \\ set"""
    data = table_data()
    data.tables = {
        key: frame.with_columns(pl.col("testset").replace("away-00", name)) if "testset" in frame.columns else frame
        for key, frame in data.tables.items()
    }
    data.table = data.tables.__getitem__
    data.testsets[1] = name
    data.shifts = {"home": "in-domain", name: "don't know", "away-01": None}
    for figure in (profile_figure(data), trajectory_figure(data)):
        assert f">{name}<" in html.unescape(drawn(figure, data, tmp_path)), figure.key


def lines(picture):
    """The steps and values of every line of a picture, as a screen reader does not hear them: from its paths."""
    return re.findall(r'aria-roledescription="line mark"[^>]*? d="([^"]*)"', picture)


def test_a_mean_is_over_the_same_runs_at_every_step(tmp_path):
    """Runs at steps of their own, one 30 points above the other: their mean must not jump between them."""
    data = table_data(models=1, testsets=1, runs=2, steps=9, answers=False)
    rows = data.tables["trajectories"].with_columns(score=pl.lit(0.3) + 0.3 * pl.col("run").str.ends_with("1"))
    even = (pl.col("step") % 20 == 0) | pl.col("run").str.ends_with("0")
    data.tables["trajectories"] = rows.filter(even)
    figure = trajectory_figure(data)
    paths = lines(drawn(figure, data, tmp_path))
    heights = [{point.split(",")[1] for point in re.findall(r"[ML]([^ML]*)", path)} for path in paths]
    assert len(heights) == 3, "two runs and their mean"
    assert all(len(height) == 1 for height in heights), "every line is level"
    assert min(len(re.findall("[ML]", path)) for path in paths) == 5, "steps that both have"


def test_a_run_with_one_checkpoint_does_not_end_the_mean(tmp_path):
    data = table_data(models=1, testsets=1, runs=3, steps=5, answers=False)
    rows = data.tables["trajectories"]
    data.tables["trajectories"] = rows.filter((pl.col("step") == 0) | ~pl.col("run").str.ends_with("2"))
    lengths = [len(re.findall("[ML]", path)) for path in lines(drawn(trajectory_figure(data), data, tmp_path))]
    assert sorted(lengths)[-3:] == [5, 5, 5]


def test_a_band_of_shares_stays_within_0_and_1(tmp_path):
    data = table_data(models=1, testsets=1, runs=3, steps=3, answers=False)
    run = pl.col("run").str.tail(1).cast(pl.Float64)
    data.tables["trajectories"] = data.tables["trajectories"].with_columns(score=(0.2 + 0.4 * run).clip(0, 1))
    spec = trajectory_figure(data).spec
    ends = [step for layer in spec["spec"]["layer"] for step in layer.get("transform", []) if step.get("as") == "low"]
    assert ends[-1]["calculate"].startswith("max(0,")
    data.share = False
    assert "max(0," not in str(trajectory_figure(data).spec)


def test_a_mean_over_models_leaves_out_those_that_begin_elsewhere(tmp_path):
    data = table_data(models=3)
    late = pl.when(model="model-02").then(114_000).otherwise("first_step").alias("first_step")
    data.tables["runs"] = data.tables["runs"].with_columns(late)
    figure = profile_figure(data)
    assert figure.spec["facet"]["sort"] == ["mean of 2 models", "model-02", "model-01", "model-00"]
    assert "without model-02" in figure.caption
    dots = [dot for dot in marks(drawn(figure, data, tmp_path)) if dot["test set"] == "home"]
    rows = data.tables["profile"].filter(pl.col("model") != "model-02", testset="home", when="after")
    mean = next(dot for dot in dots if dot["model"] == "null" and dot["when"] == "after")
    assert mean["accuracy"] == f"{rows['accuracy'].mean():.0%}"
    assert {dot["model"] for dot in dots} == {"null", "model-00", "model-01", "model-02"}


def test_a_loss_is_not_drawn_among_accuracies(tmp_path):
    data = table_data(models=2, testsets=3)
    data.others, data.comparable = ("away-01",), ["home", "away-00"]
    for figure in (profile_figure(data), trajectory_figure(data)):
        assert {dot["test set"] for dot in marks(drawn(figure, data, tmp_path))} <= {"home", "away-00", "null"}
