import polars as pl
import pytest

from breadth.datasets import simulate_scores
from breadth.results import Question


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    frame = simulate_scores(runs=6)
    model = pl.when(pl.col("run") < "run-03").then(pl.lit("first")).otherwise(pl.lit("second"))
    frame.with_columns(model=model).write_csv(path)
    return path


def test_answer_tables_and_files(breadth, table, tmp_path):
    counts = "negation=2000,science=2000"
    out = breadth(
        "stability", table, "--item-counts", counts, "--out", tmp_path / "models.csv", "--figure", tmp_path / "f.html"
    )
    assert max(map(len, out.stdout.splitlines()[:-5])) <= 100
    assert Question.FLUCTUATION in out.stdout
    assert "first" in out.stdout
    assert "second" in out.stdout
    assert "--control" not in out.stderr
    names = {"models.csv", "models.runs.csv", "models.comparisons.csv", "models.scales.csv", "f.html"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert set(pl.read_csv(tmp_path / "models.csv")["model"]) == {"first", "second"}


def test_bad_input_is_one_message_with_exit_code_2(breadth, table):
    out = breadth("stability", table, "--item-counts", "nothing=100", ok=False)
    assert out.returncode == 2
    assert "nothing" in out.stderr
    out = breadth("stability", table, "--item-counts", "negation", ok=False)
    assert out.returncode == 2
    assert "NAME=NUMBER" in out.stderr
    out = breadth("stability", table, "--cluster", "colour", ok=False)
    assert out.returncode == 2
    assert "colour" in out.stderr


def test_too_few_checkpoints_end_with_exit_code_2(breadth, tmp_path):
    simulate_scores(runs=2, steps=5).write_csv(tmp_path / "short.csv")
    out = breadth("stability", tmp_path / "short.csv", ok=False)
    assert out.returncode == 2
    assert "Not enough data" in out.stdout
