import shutil
import sqlite3

import pytest

from breadth import InputError
from breadth.importers.reading import LogFile
from breadth.importers.score_files import Reading
from breadth.importers.trackers import (
    is_mlflow,
    is_mlruns,
    is_wandb,
    read_mlflow,
    read_mlruns,
    read_wandb,
)


def mlflow(path, notes=None):
    file = LogFile.look(path)
    assert is_mlflow(file)
    return list(read_mlflow(file, Reading([] if notes is None else notes)))


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
    assert notes == [f"{database}: is in use; values that are only in mlflow.db-wal are not read"]


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
    file = LogFile.look(path)
    assert is_mlruns(file)
    return list(read_mlruns(file, Reading([])))


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
    with pytest.raises(InputError, match="accuracy, line 2: is not 'time value step'; the file is damaged"):
        mlruns(metric)


def test_lines_of_numbers_elsewhere_are_not_mlruns(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1794815636649 0.5 0\n")
    assert not is_mlruns(LogFile.look(path))


def wandb(path, notes=None):
    file = LogFile.look(path)
    assert is_wandb(file)
    return list(read_wandb(file, Reading([] if notes is None else notes)))


def test_real_wandb_export(shared_data):
    notes = []
    scores = wandb(shared_data / "logs/trajectories/wandb/nanoGPT_wandb_export.csv", notes)
    assert len({score.run for score in scores}) == 8
    assert {score.name for score in scores} == {"train/loss"}
    first = next(score for score in scores if score.run.name == "gpt2_last_char_to_char1729642919.4054031")
    assert (first.step, first.value) == (0, 25.48284149169922)
    assert notes == []


@pytest.fixture
def export(tmp_path):
    def write(*lines):
        path = tmp_path / "wandb_export.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_names_of_runs_may_hold_a_dash(export):
    path = export('"Step","a - b - eval/acc","a - b - eval/acc__MIN","a - b - eval/acc__MAX"', '"1","0.5","0.5","0.5"')
    (score,) = wandb(path)
    assert (score.run.name, score.name, score.step, score.value) == ("a - b", "eval/acc", 1, 0.5)


def test_exports_that_were_saved_again_have_no_quotes(export):
    assert [score.value for score in wandb(export("Step,a - acc,b - acc", "0,0.25,0.5"))] == [0.25, 0.5]


def test_grouped_and_thinned_charts_are_said_to_be_so(export):
    notes = []
    wandb(export('"epoch","lr: 1 - acc","lr: 1 - acc__MIN","lr: 1 - acc__MAX"', '"0.5","0.5","0.4","0.6"'), notes)
    assert "is the x axis of the chart, 'epoch'" in notes[0]
    assert "minima and maxima differ from the values" in notes[1]


def test_steps_of_a_chart_over_epochs_are_not_its_spread(export):
    head = '"epoch","a - _step","a - _step__MIN","a - _step__MAX","a - acc","a - acc__MIN","a - acc__MAX"'
    notes = []
    wandb(export(head, '"1","5","1","9","0.5","0.5","0.5"'), notes)
    assert len(notes) == 1
    assert "is the x axis" in notes[0]


def test_runs_of_one_name_are_numbered(export):
    notes = []
    scores = wandb(export('"Step","a - acc","a - acc","b - acc"', '"0","0.1","0.2","0.3"'), notes)
    assert [score.run[:2] for score in scores] == [("a", ()), ("a", ("(2)",)), ("b", ())]
    assert "several runs are called 'a'; they are numbered" in notes[0]


def test_empty_cells_are_missing(export):
    assert [score.value for score in wandb(export('"Step","a - acc","b - acc"', '"0","","0.3"', '"1","NaN",""'))] == [
        0.3
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"1","0.5"', "line 3: has 2 of 3 fields"),
        ('"Monday","1","2"', "line 3: 'Monday' in column 'Step' is not a number"),
    ],
)
def test_damaged_exports(export, line, message):
    with pytest.raises(InputError, match=message):
        wandb(export('"Step","a - acc","b - acc"', '"0","0.2","0.3"', line))


def test_exports_that_are_no_text(tmp_path):
    path = tmp_path / "w.csv"
    path.write_bytes(b'"Step","a - acc"\n"0","\xff"\n')
    with pytest.raises(InputError, match="cannot be read as CSV"):
        wandb(path)


@pytest.mark.parametrize(
    "content", ["", "Step,acc\n1,2\n", '{"a - b": 1}', "a - b", "model - x\n", "Text, with - a dash\nand more\n"]
)
def test_other_tables_are_not_exports(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    assert not is_wandb(LogFile.look(path))
