"""What readers see of correlations first, and what is declared of every frame."""

import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import breadth
from breadth.correlation.verdict import contradictions
from breadth.datasets import simulate_scores
from breadth.results.terminal import ShownTable


@pytest.fixture(scope="module")
def several():
    return breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step", windows=2)


def printed(shown, width):
    console = Console(width=width, file=io.StringIO())
    console.print(ShownTable(shown, width))
    return console.file.getvalue()


def test_several_runs_show_the_mean_of_every_pair_and_how_many_agree(several):
    shown = several.shown()[0]
    assert shown.frame.height == 15
    assert shown.frame["r_mean"].is_sorted(descending=True)
    both = shown.frame.select("a", "b", "r_mean").sort("a", "b")
    assert both.equals(several.heterogeneity.select("a", "b", "r_mean").sort("a", "b"))
    top = shown.frame.row(0, named=True)
    assert (top["reading"], top["agree"]) == ("together", "6 of 6")
    own = several.by_unit.filter(a=top["a"], b=top["b"])["r"]
    assert (top["lowest"], top["highest"]) == (own.min(), own.max())


def test_a_reading_follows_from_interval_and_disagreement(several):
    frame = several.shown()[0].frame
    opposed, contradictory = contradictions(several)
    assert opposed.height > 0
    assert (frame["reading"] == "mixed").sum() == contradictory
    together = frame.filter(reading="together")
    assert (together["q"] < 0.05).all()
    assert (together["r_mean"] > 0).all()


def test_a_table_without_groups_shows_its_pairs():
    result = breadth.correlate(simulate_scores(runs=1), control="in_domain", order="step")
    shown = result.shown()[0]
    assert shown.frame.height == 15
    assert "unit" not in shown.frame.columns
    assert "checkpoints" in [column.title for column in shown.columns]


def test_two_runs_are_shown_each_on_its_own():
    result = breadth.correlate(simulate_scores(runs=2), control="in_domain", by="run", order="step")
    shown = result.shown()[0]
    assert shown.frame["unit"].unique().sort().to_list() == ["run-00", "run-01"]
    assert shown.columns.columns[0].title == "run"
    alone = breadth.correlate(simulate_scores(runs=1), control="in_domain", by="run", order="step").shown()[0]
    assert "unit" not in [column.name for column in alone.columns]


def test_moderators_are_shown_and_named_in_the_verdict():
    frame = simulate_scores(runs=6).with_columns(examples=pl.col("run").str.tail(1).cast(pl.Int64) + 1)
    result = breadth.correlate(frame, control="in_domain", by="run", order="step", moderators="examples")
    shown = result.shown()[-1]
    assert shown.frame["moderator"].to_list() == ["examples"]
    assert shown.frame["compared"].to_list() == ["6 runs"]
    assert "examples" in result.verdict().findings


def test_every_column_of_every_frame_is_declared(several):
    for name, frame in several.tables().items():
        named = set()
        for column in several.columns(name):
            named |= {column.name, column.high}
        assert set(frame.columns) <= named, name
    with_noise = breadth.correlate(simulate_scores(runs=2), control="in_domain", by="run", order="step", robust=True)
    assert with_noise.columns("pairs").columns[0].name == "run"
    assert all(column.meaning for column in with_noise.columns("pairs").columns[1:])


@pytest.mark.parametrize("width", [100, 80])
def test_tables_fit_the_terminal(several, width):
    for shown in several.shown():
        text = printed(shown, width)
        assert max(len(line) for line in text.splitlines()) <= width


def test_long_names_stay_apart_in_the_terminal():
    """Names that differ only at their end, or only in the middle, are cut so that no two rows look alike."""
    names = [f"leaderboard_mmlu_pro_category_{kind}_5_shot" for kind in ("law", "history", "maths", "physics")]
    generator = np.random.default_rng(0)
    frame = pl.DataFrame(generator.standard_normal((120, 5)), schema=["m", *names])
    frame = frame.with_columns(run=pl.Series([f"a/long/path/of/a/run/seed-{i // 30}" for i in range(120)]))
    result = breadth.correlate(frame, control="m", by="run")
    text = printed(result.shown()[0], 80)
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if "──" in line)
    keys = [tuple(line.split()[:2]) for line in lines[start + 1 : start + 7]]
    assert len(set(keys)) == 6
