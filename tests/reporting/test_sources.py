"""`breadth report` on whatever a person has."""

import json

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers, simulate_scores
from breadth.errors import InputError
from breadth.irt import Calibration
from breadth.records.study import Study
from breadth.reporting import build_report, read_as, read_source
from breadth.sources import ScoreTable


@pytest.fixture(scope="module")
def answers():
    matrix = simulate_answers(30, 40).matrix
    rows = [(f"m{i}", "arc" if j < 20 else "boolq", f"q{j}", int(matrix[i, j])) for i in range(30) for j in range(40)]
    return pl.DataFrame(rows, schema=["model", "task", "question_id", "is_correct"], orient="row")


def keys(data):
    return [section.key for section in data.contents]


def test_a_table_of_scores(tmp_path):
    simulate_scores(runs=4).write_csv(tmp_path / "scores.csv")
    data = build_report(tmp_path / "scores.csv")
    assert isinstance(data.source, ScoreTable)
    assert set(keys(data)) == {"overview", "training", "carry_over", "stability", "advice", "methods"}
    assert "4 runs (run) x 41 steps (step)" in " ".join(read_as(data.source))
    assert data.table("pairs").height == 4 * 15


def test_a_table_of_answers(tmp_path, answers):
    answers.write_csv(tmp_path / "answers.csv")
    data = build_report(tmp_path / "answers.csv")
    assert isinstance(data.source, Study)
    assert data.testsets == ["arc", "boolq"]
    assert set(keys(data)) == {"overview", "ranking", "carry_over", "difficulty", "advice", "items", "methods"}
    assert (keys(data)[0], keys(data)[-1]) == ("overview", "methods")
    assert read_as(data.source)


def test_logs_of_other_tools(tmp_path):
    np.savez(tmp_path / "answers.npz", R=simulate_answers(12, 20).matrix)
    breadth.export(tmp_path / "answers.npz", to="eee", out=tmp_path / "logs")
    data = build_report(tmp_path / "logs")
    assert isinstance(data.source, Study)
    assert data.source.matrix.shape == (12, 20)


def test_checkpoints_with_their_scores(tmp_path):
    for run in ("one", "two"):
        folder = tmp_path / "runs" / run
        folder.mkdir(parents=True)
        history = [
            {"step": 10 * k, "eval_mnli_accuracy": 0.5 + 0.01 * k, "eval_hans_accuracy": 0.5, "eval_rte_accuracy": 0.6}
            for k in range(12)
        ]
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": 110, "log_history": history}))
    source = read_source(tmp_path / "runs")
    assert isinstance(source, ScoreTable)
    assert source.by == ("run",)
    assert set(source.controls) | set(source.testsets) == {"mnli", "hans", "rte"}


def test_a_calibration(tmp_path):
    breadth.calibrate(simulate_answers(60, 30).matrix).save(tmp_path / "items.parquet")
    data = build_report(tmp_path / "items.parquet")
    assert isinstance(data.source, Calibration)
    assert keys(data) == ["difficulty", "methods"]
    assert read_as(data.source) == ("a calibration of 30 items (1PL)",)


def test_tables_in_files_that_might_be_logs(tmp_path, answers):
    answers.write_ndjson(tmp_path / "answers.jsonl")
    assert isinstance(read_source(tmp_path / "answers.jsonl"), Study)
    rows = [f"| m{i} | {50 + i} | {60 - i} | {40 + 2 * i} |" for i in range(8)]
    (tmp_path / "table.md").write_text("| model | arc | gsm8k | mmlu |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    assert set(read_source(tmp_path / "table.md").testsets) == {"arc", "gsm8k", "mmlu"}


def test_frames_and_arrays(answers):
    assert isinstance(read_source(answers), Study)
    assert isinstance(read_source(simulate_answers(12, 15).matrix), Study)
    assert isinstance(read_source(simulate_scores(runs=2)), ScoreTable)


def test_options_settle_what_columns_stand_for():
    frame = simulate_scores(runs=3).rename({"run": "who", "step": "when", "in_domain": "home"})
    source = read_source(frame, by="who", order="when", control="home", testsets="s*,numbers")
    assert (source.by, source.order, source.controls) == (("who",), "when", ("home",))
    assert source.testsets == ("science", "numbers")


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file or directory"):
        read_source(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"Looked for"):
        read_source(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(InputError, match="weights of models, but no scores or answers"):
        read_source(tmp_path)


@pytest.mark.parametrize("kind", ["html", "md", "json"])
def test_every_format_of_every_source(tmp_path, kind, answers):
    simulate_scores(runs=3, steps=15).write_csv(tmp_path / "scores.csv")
    answers.write_csv(tmp_path / "answers.csv")
    breadth.calibrate(simulate_answers(60, 30).matrix).save(tmp_path / "items.parquet")
    for name in ("scores.csv", "answers.csv", "items.parquet"):
        written = breadth.report(tmp_path / name, out=tmp_path / f"{name}.{kind}")
        assert written.stat().st_size > 500


def test_a_page_is_titled_after_its_directory(tmp_path, answers, monkeypatch):
    folder = tmp_path / "my-models"
    folder.mkdir()
    answers.write_csv(folder / "answers.csv")
    monkeypatch.chdir(folder)
    assert build_report(".").headings[0] == "my-models"
    assert build_report(folder).headings[0] == "my-models"
    assert build_report("answers.csv").headings[0] == "answers.csv"
