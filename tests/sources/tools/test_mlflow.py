import shutil
import sqlite3

import pytest

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import ScoreOptions
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.mlflow import MlflowDatabase, MlflowFolder


def read(source, path, notes=None):
    file = SourceFile.look(path)
    assert source.detect(file).has_scores
    return list(source.read_scores(file, ScoreOptions([] if notes is None else notes)))


def mlflow(path, notes=None):
    return read(MlflowDatabase(), path, notes)


def test_real_mlflow_database(shared_data):
    scores = mlflow(shared_data / "logs/trajectories/mlflow_made/mlflow.db")
    assert {(score.run.name, score.run.model) for score in scores} == {
        ("Default/alpha", "m-alpha"),
        ("Default/beta", "m-beta"),
    }
    assert {score.name for score in scores} == {"eval/hans/accuracy", "eval_mnli_accuracy", "loss"}
    assert {score.step for score in scores} == {0, 10, 20, 30, 40}
    assert len(scores) == 30


@pytest.fixture
def database(shared_data, tmp_path):
    path = tmp_path / "mlflow.db"
    shutil.copy(shared_data / "logs/trajectories/mlflow_made/mlflow.db", path)
    path.chmod(0o644)
    return path


def change(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_deleted_runs_and_values_that_are_no_numbers_are_not_read(database):
    before = len(mlflow(database))
    change(
        database,
        "UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'beta'",
        "UPDATE metrics SET is_nan = 1 WHERE key = 'loss' AND step = 0",
        "UPDATE metrics SET value = 1.7976931348623157e308 WHERE key = 'loss' AND step = 10",
    )
    assert {score.run.name for score in mlflow(database)} == {"Default/alpha"}
    assert len(mlflow(database)) == before // 2 - 2


def test_other_databases_hold_nothing(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE metrics (x)")
    assert mlflow(path) == []


def test_a_database_in_use_is_said_to_be(database):
    database.with_name("mlflow.db-wal").write_bytes(b"x")
    notes = []
    mlflow(database, notes)
    (note,) = notes
    assert str(database) in note
    assert "mlflow.db-wal" in note


def test_damaged_databases(database):
    change(database, "ALTER TABLE metrics RENAME COLUMN is_nan TO other")
    with pytest.raises(InputError, match=r"mlflow.db: cannot be read as an MLflow database \(no such column"):
        mlflow(database)
    whole = database.read_bytes()
    for damaged in (whole[:5000], whole.replace(b"metrics", b"metr\x82cs")):
        database.write_bytes(damaged)
        with pytest.raises(InputError, match=r"mlflow.db: cannot be read as an MLflow database"):
            mlflow(database)


@pytest.fixture
def metric(tmp_path):
    """A file of one metric in MLflow's folder layout."""
    folder = tmp_path / "mlruns" / "7" / "0123456789abcdef"
    path = folder / "metrics" / "eval" / "hans" / "accuracy"
    path.parent.mkdir(parents=True)
    path.write_text("1794815636649 0.5 0\n1794815636650 0.75 10\n1794815636651 nan 20\n")
    (folder / "meta.yaml").write_text("lifecycle_stage: active\nrun_name: 'alpha'\n")
    (folder.parent / "meta.yaml").write_text("name: tuning\n")
    (folder / "params").mkdir()
    (folder / "params" / "model").write_text("org/m")
    return path


def mlruns(path):
    return read(MlflowFolder(), path)


def test_mlruns(metric):
    assert [(score.name, score.step, score.value) for score in mlruns(metric)] == [
        ("eval/hans/accuracy", 0, 0.5),
        ("eval/hans/accuracy", 10, 0.75),
    ]
    assert mlruns(metric)[0].run == ("tuning/alpha", ("01234567",), "org/m")


def test_mlruns_without_names_and_deleted_ones(metric):
    folder = metric.parents[3]
    (folder / "meta.yaml").write_text("")
    (folder.parent / "meta.yaml").unlink()
    assert mlruns(metric)[0].run.name == "7/0123456789abcdef"
    (folder / "meta.yaml").write_text("lifecycle_stage: deleted\n")
    assert mlruns(metric) == []


def test_damaged_mlruns(metric):
    metric.write_text("1794815636649 0.5 0\nwords\n")
    with pytest.raises(InputError, match="accuracy, line 2"):
        mlruns(metric)


def test_lines_of_numbers_elsewhere_are_not_mlruns(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1794815636649 0.5 0\n")
    assert MlflowFolder().detect(SourceFile.look(path)) is None


@pytest.mark.parametrize("line", ["x 0.5 0", "1794815636649 0.5 first", "1794815636649"])
def test_lines_of_another_kind(metric, line):
    metric.write_text(f"1794815636649 0.5 0\n{line}\n")
    with pytest.raises(InputError, match="accuracy, line 2"):
        mlruns(metric)


def test_lines_without_a_step_are_those_of_old_versions(metric):
    metric.write_text("1794815636649 0.5\n")
    assert [(score.step, score.value) for score in mlruns(metric)] == [(0, 0.5)]


def test_steps_and_values_of_wrong_types_are_not_read(database):
    before = len(mlflow(database))
    change(
        database,
        "UPDATE metrics SET step = 'one' WHERE key = 'loss' AND step = 0",
        "UPDATE metrics SET value = 'high' WHERE key = 'loss' AND step = 10",
        "UPDATE metrics SET timestamp = 'late' WHERE key = 'loss' AND step = 20",
    )
    assert len(mlflow(database)) == before - 4
