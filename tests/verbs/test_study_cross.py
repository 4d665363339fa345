import json

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records import StudyStore, read_study

COLUMNS = [
    "test_level", "n_items", "n_seeds", "accuracy", "baseline", "gain", "se", "ci_low", "ci_high", "p", "q",
]  # fmt: skip


def rise(run, of_set, level):
    """Gains fade with the distance between the level trained on and the level of the item."""
    at = run.get("train_level")
    return np.where(level < 0, 0.0, 1.0 if at is None else 2.0 - np.abs(level - at))


def level_runs(model="m", seeds=(0, 1)):
    return [{"model": model, "seed": seed, "train_level": k} for seed in seeds for k in range(3)]


@pytest.fixture(scope="module")
def by_level(write_study, tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("levels"), level_runs(), steps=3, levels=3, items=300, rise=rise)


@pytest.fixture(scope="module")
def both(write_study, tmp_path_factory):
    runs = [
        *level_runs(),
        *({"model": "m", "seed": seed, "strategy": name} for seed in (0, 1) for name in ("easy", "full")),
    ]
    return write_study(tmp_path_factory.mktemp("both"), runs, steps=3, levels=3, items=60, rise=rise)


def test_last_checkpoints_against_step_0(by_level):
    found = breadth.cross(by_level)
    assert found.cells.columns == ["train_level", *COLUMNS]
    assert found.cells["train_level"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.cells["n_seeds"].unique().to_list() == [2]
    assert found.cells["n_items"].sum() == 3 * 300, "items of the set trained on, and no others"
    answers = read_study(by_level).answers().filter(testset="home", level=2)
    row = found.cells.filter(train_level=1, test_level=2).row(0, named=True)
    assert row["accuracy"] == pytest.approx(answers.filter(step=32, train_level=1)["correct"].mean())
    assert row["baseline"] == pytest.approx(answers.filter(step=0)["correct"].mean())
    assert found.effects["estimate"][0] < 0
    assert found.strategies is None
    assert found.warnings == ()


def test_the_untrained_model_is_counted_once(by_level):
    """The matrix is the same as from a table with a single untrained model."""
    answers = read_study(by_level).answers().filter(testset="home")
    trained = answers.filter(pl.col("step") == 32)
    start = answers.filter((pl.col("step") == 0) & (pl.col("run") == answers["run"][0]))
    start = start.with_columns(train_level=pl.lit(None, dtype=pl.Int64))
    assert breadth.cross(pl.concat([trained, start])).cells.equals(breadth.cross(by_level).cells)


def test_how_much_pairing_helped(by_level):
    found = breadth.cross(by_level)
    assert 0.4 < found.pairing < 1
    assert f"are {found.pairing:.2f} times what they would be unpaired" in found.summary()


def test_levels_and_strategies(both):
    found = breadth.cross(both)
    assert found.by == "train_level"
    assert found.strategies.by == "strategy"
    assert found.strategies.cells.columns == ["strategy", *COLUMNS]
    assert found.strategies.cells["strategy"].unique(maintain_order=True).to_list() == ["easy", "full"]
    alone = breadth.cross(both, by="strategy")
    assert alone.cells.equals(found.strategies.cells)
    assert alone.strategies is None
    assert found.cells.filter(pl.col("n_seeds") != 2).is_empty()
    with pytest.raises(InputError, match="choose train_level or strategy"):
        breadth.cross(both, by="model")


def test_a_table_with_both_kinds_of_training(both):
    answers = read_study(both).answers().filter(testset="home")
    start = answers.filter((pl.col("step") == 0) & (pl.col("run") == answers["run"][0]))
    start = start.with_columns(pl.lit(None, dtype=pl.Int64).alias("train_level"), pl.lit("").alias("strategy"))
    table = pl.concat([answers.filter(step=32), start], how="diagonal_relaxed")
    assert breadth.cross(table).cells.equals(breadth.cross(both).cells)


def test_one_of_several_models(write_study, tmp_path):
    folder = write_study(tmp_path, [*level_runs("m"), *level_runs("n")], steps=2, levels=3, rise=rise)
    with pytest.raises(InputError, match="has 2 values of model; choose one with --model: m, n"):
        breadth.cross(folder)
    with pytest.raises(InputError, match=r"has model mm\. Did you mean m\? There are: m, n"):
        breadth.cross(folder, model="mm")
    found = breadth.cross(folder, model="n")
    answers = read_study(folder).answers().filter(testset="home", model="n", step=0, level=0)
    assert found.cells["baseline"][0] == pytest.approx(answers["correct"].mean())
    with pytest.raises(InputError, match="choose from a study"):
        breadth.cross(pl.DataFrame({"item": [1]}), model="n")


def test_one_of_several_sizes(write_study, tmp_path):
    runs = [{**run, "shots": shots} for run in level_runs() for shots in (8, 16)]
    folder = write_study(tmp_path, runs, steps=2, levels=3)
    with pytest.raises(InputError, match="choose one with --shots: 8, 16"):
        breadth.cross(folder)
    assert breadth.cross(folder, shots=16).cells.height == 9


def test_levels_from_a_calibration(by_level):
    calibration = breadth.calibrate(by_level, testset="home")
    assert breadth.cross(by_level, calibration, levels=4).cells["test_level"].max() == 3


def test_unfinished_runs_are_left_out(write_study, tmp_path):
    runs = level_runs(seeds=(0, 1, 2))
    runs[-1]["checkpoints"] = [0, 16, 32]
    folder = write_study(tmp_path, runs, steps=2, levels=3, rise=rise)
    found = breadth.cross(folder)
    assert "1 run is not finished: m-home-8-2-2 at step 16 of 32" in found.warnings[0]
    assert found.cells.filter(train_level=2)["n_seeds"].unique().to_list() == [2]
    assert found.cells.filter(train_level=1)["n_seeds"].unique().to_list() == [3]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ([{"model": "m"}], {"levels": 3}, "no run was trained by level or strategy"),
        (level_runs(), {}, "its items have no level; name a calibration"),
        ([{**run, "checkpoints": [64]} for run in level_runs()], {"levels": 3}, "has reached its last checkpoint"),
        ([*level_runs(), {**level_runs()[0], "name": "again"}], {"levels": 3}, "another recipe"),
        (
            [{**run, "train_set": "elsewhere"} for run in level_runs()],
            {"levels": 3},
            "was trained on but not evaluated",
        ),
    ],
)
def test_clear_errors(write_study, tmp_path, runs, options, message):
    with pytest.raises(InputError, match=message):
        breadth.cross(write_study(tmp_path, runs, steps=2, **options))


def test_no_step_0(write_study, tmp_path):
    zero = {"model": "m", "method": "zero-shot", "seed": None, "steps": 1, "name": "zero"}
    folder = write_study(tmp_path, [*level_runs(), zero], steps=2, levels=3, rise=rise)
    before = breadth.cross(folder).cells
    store = StudyStore(folder)
    for run in store.runs():
        if run.name != "zero":
            run.parts()[0].unlink()
    assert breadth.cross(folder).cells.equals(before), "the zero-shot run is the untrained model"
    store.run("zero").parts()[0].unlink()
    with pytest.raises(InputError, match=r"the model before training \(step 0\) has not been evaluated"):
        breadth.cross(folder)


def test_a_start_is_said_and_the_zero_shot_run_does_not_stand_in_for_it(write_study, tmp_path):
    """Where runs begin with a model that has learnt already, the untrained one is no baseline."""
    zero = {"model": "m", "method": "zero-shot", "seed": None, "steps": 1, "name": "zero"}
    folder = write_study(tmp_path, [*level_runs(), zero], steps=2, levels=3, rise=rise)
    for path in folder.glob("runs/*/run.json"):
        if path.parent.name != "zero":
            spec = json.loads(path.read_text())
            path.write_text(json.dumps({**spec, "start": {"shots": 1200, "lr": None, "epochs": None}}))
    assert "the model has learnt from 1,200 examples by then" in breadth.cross(folder).warnings[-1]
    for run in StudyStore(folder).runs():
        if run.name != "zero":
            run.parts()[0].unlink()
    with pytest.raises(InputError, match=r"the model before training \(step 0\) has not been evaluated"):
        breadth.cross(folder)
