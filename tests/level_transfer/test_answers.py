import json
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.level_transfer import trained_groups
from breadth.records.store import StudyStore
from breadth.sources import open_study

COLUMNS = [
    "test_level", "n_items", "n_seeds", "accuracy", "baseline", "gain", "se", "ci_low", "ci_high", "p", "q", "flag",
]  # fmt: skip


def rise(run, of_set, level):
    """Gains fade with the distance between the level trained on and the level of the item."""
    at = run.get("train_level")
    return np.where(level < 0, 0.0, 1.0 if at is None else 2.0 - np.abs(level - at))


def level_runs(model="m", seeds=(0, 1)):
    return [{"model": model, "seed": seed, "train_level": k} for seed in seeds for k in range(3)]


def long_table(folder):
    """A study's directory as one long table: what is known about subject and item beside every answer."""
    study = open_study(folder)
    answers = study.responses.select("subject", "testset", "item", "correct").collect()
    answers = answers.join(study.subjects, on="subject", maintain_order="left")
    about = study.items.select("testset", "item", *(name for name in ("level",) if name in study.items.columns))
    return answers.join(about, on=["testset", "item"], maintain_order="left")


def delete_parts(folder, step, keep="zero"):
    """Remove the answers of one step from every run but ``keep``."""
    for run in StudyStore(folder).runs():
        if run.name != keep:
            run.part_path(step).unlink()


@pytest.fixture(scope="module")
def by_level(write_study, tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("levels"), level_runs(), steps=3, levels=3, items=300, rise=rise)


@pytest.fixture(scope="module")
def both_kinds(write_study, tmp_path_factory):
    """Some runs train by level, others by strategy."""
    strategies = [{"model": "m", "seed": seed, "strategy": name} for seed in (0, 1) for name in ("easy", "full")]
    folder = tmp_path_factory.mktemp("both")
    return write_study(folder, [*level_runs(), *strategies], steps=3, levels=3, items=60, rise=rise)


@pytest.fixture
def untrained():
    """The rows of step 0 of one run, as a table names the untrained model."""

    def select(answers):
        start = answers.filter((pl.col("step") == 0) & (pl.col("run") == answers["run"][0]))
        return start.with_columns(pl.lit(None, dtype=pl.Int64).alias("train_level"), pl.lit("").alias("strategy"))

    return select


def test_last_checkpoints_against_step_0(by_level):
    result = breadth.transfer(by_level)
    assert result.cells.columns == ["train_level", *COLUMNS]
    assert result.cells["train_level"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert result.cells["n_seeds"].unique().to_list() == [2]
    assert result.cells["n_items"].sum() == 3 * 300, "items of the set trained on, and no others"
    answers = long_table(by_level).filter(testset="home", level=2)
    row = result.cells.filter(train_level=1, test_level=2).row(0, named=True)
    assert row["accuracy"] == pytest.approx(answers.filter(step=32, train_level=1)["correct"].mean())
    assert row["baseline"] == pytest.approx(answers.filter(step=0)["correct"].mean())
    assert result.effects["estimate"][0] < 0
    assert result.strategies is None
    assert result.warnings == ()


def test_the_untrained_model_is_counted_once(by_level, untrained):
    """The matrix is the same as from a table with a single untrained model."""
    answers = long_table(by_level).filter(testset="home")
    table = pl.concat([answers.filter(pl.col("step") == 32), untrained(answers)])
    assert breadth.transfer(table).cells.equals(breadth.transfer(by_level).cells)


def test_a_study_as_one_table_gives_the_same(by_level, both_kinds):
    """Without run records, a run's last checkpoint is the last one in the table."""
    for folder in (by_level, both_kinds):
        table = long_table(folder).filter(testset="home").drop("subject", "method", "train_set")
        for one, other in zip(
            breadth.transfer(table).tables().values(), breadth.transfer(folder).tables().values(), strict=True
        ):
            assert one.equals(other)


def test_open_studies_and_directories_are_the_same(both_kinds):
    one, other = breadth.transfer(open_study(both_kinds)), breadth.transfer(both_kinds)
    assert all(table.equals(other.tables()[name]) for name, table in one.tables().items())


def test_a_table_with_both_kinds_of_training(both_kinds, untrained):
    answers = long_table(both_kinds).filter(testset="home")
    table = pl.concat([answers.filter(step=32), untrained(answers)], how="diagonal_relaxed")
    assert breadth.transfer(table).cells.equals(breadth.transfer(both_kinds).cells)


def test_folds_answer_different_items(by_level, untrained):
    """Subjects with the same condition and seed are one model, as long as they answer different items."""
    answers = long_table(by_level).filter(testset="home")
    table = pl.concat([answers.filter(step=32), untrained(answers)], how="diagonal_relaxed")
    table = table.drop("subject", "run", "step")
    folds = table.with_columns(fold=pl.col("item").str.slice(-1).cast(pl.Int64) % 2)
    assert breadth.transfer(folds).cells.equals(breadth.transfer(table).cells)


def test_one_of_several_models(write_study, tmp_path):
    folder = write_study(tmp_path, [*level_runs("m"), *level_runs("n")], steps=2, levels=3, rise=rise)
    with pytest.raises(InputError, match="has 2 values of model; choose one with model=: m, n"):
        breadth.transfer(folder)
    with pytest.raises(InputError, match=r"has model mm\. Did you mean m\? Values: m, n"):
        breadth.transfer(folder, model="mm")
    result = breadth.transfer(folder, model="n")
    table = long_table(folder).filter(testset="home")
    before = table.filter(model="n", step=0, level=0)
    assert result.cells["baseline"][0] == pytest.approx(before["correct"].mean())
    assert trained_groups(open_study(folder)) == [
        {"model": model, "train_set": "home", "examples": 8} for model in ("m", "n")
    ]
    assert breadth.transfer(table, model="n").cells.equals(result.cells), "the options choose from a table, too"
    with pytest.raises(InputError, match=r"both answer item .* choose with model="):
        breadth.transfer(table)
    with pytest.raises(InputError, match="no column 'examples'"):
        breadth.transfer(table.drop("examples"), model="n", examples=8)


def test_one_of_several_sizes(write_study, tmp_path):
    runs = [{**run, "examples": examples} for run in level_runs() for examples in (8, 16)]
    folder = write_study(tmp_path, runs, steps=2, levels=3)
    with pytest.raises(InputError, match="choose one with examples=: 8, 16"):
        breadth.transfer(folder)
    assert breadth.transfer(folder, examples=16).cells.height == 9


def test_a_table_may_name_its_models_by_what_they_were_trained_on(by_level, untrained):
    answers = long_table(by_level).filter(testset="home")
    table = pl.concat([answers.filter(step=32), untrained(answers)], how="diagonal_relaxed").drop("subject")
    named = table.with_columns(model=pl.format("m-{}", pl.col("train_level").cast(pl.String).fill_null("base")))
    assert trained_groups(open_study(named)) == [{}]
    assert breadth.transfer(named).cells.equals(breadth.transfer(by_level).cells)


def test_groups_of_a_study_without_levels(write_study, tmp_path):
    folder = write_study(tmp_path, [{"model": "m"}], steps=2)
    assert trained_groups(open_study(folder)) == []


def test_levels_from_a_calibration(by_level):
    calibration = breadth.calibrate(by_level, testset="home")
    assert breadth.transfer(by_level, calibration, levels=4).cells["test_level"].max() == 3


def test_levels_of_a_calibration_whose_names_hold_the_test_set(write_study, tmp_path):
    """Where ids repeat between test sets, a calibration of the whole study puts the test set in front."""
    folder = write_study(tmp_path, level_runs(), steps=2, levels=3, rise=rise)
    items = (
        open_study(folder).items.filter(testset="home").select("testset", "item", pl.col("level").alias("difficulty"))
    )
    tables = [
        items.select("item", "difficulty"),
        items.select(pl.concat_str("testset", "item", separator=" / ").alias("item"), "difficulty"),
    ]
    for table in tables:
        table.write_parquet(tmp_path / "calibration.parquet")
        named = breadth.transfer(folder, tmp_path / "calibration.parquet", levels=3)
        assert named.cells.equals(breadth.transfer(folder).cells)
    table.with_columns(pl.lit("x").alias("item")).write_parquet(tmp_path / "calibration.parquet")
    with pytest.raises(InputError, match="none of its 180 items is in the calibration"):
        breadth.transfer(folder, tmp_path / "calibration.parquet")


def test_the_set_marked_in_domain_stands_in_for_the_training_set(write_study, tmp_path):
    runs = [{**run, "train_set": "home-train"} for run in level_runs()]
    folder = write_study(tmp_path, runs, steps=2, levels=3, rise=rise)
    with pytest.raises(InputError, match="home-train was trained on but not evaluated"):
        breadth.transfer(folder)
    study = open_study(folder)
    shift = pl.when(pl.col("testset") == "home").then(pl.lit("in-domain")).otherwise("shift").alias("shift")
    marked = replace(study, items=study.items.with_columns(shift))
    assert breadth.transfer(marked).cells["n_items"].sum() == 3 * 60


def test_unfinished_runs_are_left_out(write_study, tmp_path):
    runs = level_runs(seeds=(0, 1, 2))
    runs[-1]["checkpoints"] = [0, 16, 32]
    folder = write_study(tmp_path, runs, steps=2, levels=3, rise=rise)
    result = breadth.transfer(folder)
    assert "1 run is not finished and left out: m-home-8-2-2 at step 16 of 32" in result.warnings[0]
    assert result.cells.filter(train_level=2)["n_seeds"].unique().to_list() == [2]
    assert result.cells.filter(train_level=1)["n_seeds"].unique().to_list() == [3]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ([{"model": "m"}], {"levels": 3}, "no model was trained by level or strategy"),
        (level_runs(), {}, "its items have no level"),
        ([{**run, "checkpoints": [64]} for run in level_runs()], {"levels": 3}, "has reached its last checkpoint"),
        (
            [*level_runs(), {**level_runs()[0], "name": "again"}],
            {"levels": 3},
            "again and m-home-8-0-0|different recipes",
        ),
        (
            [{**run, "train_set": "elsewhere"} for run in level_runs()],
            {"levels": 3},
            "was trained on but not evaluated",
        ),
    ],
)
def test_clear_errors(write_study, tmp_path, runs, options, message):
    with pytest.raises(InputError, match=message):
        breadth.transfer(write_study(tmp_path, runs, steps=2, **options))


ZERO_SHOT = {"model": "m", "method": "zero-shot", "seed": None, "steps": 1, "name": "zero"}


def test_no_step_0(write_study, tmp_path):
    folder = write_study(tmp_path, [*level_runs(), ZERO_SHOT], steps=2, levels=3, rise=rise)
    before = breadth.transfer(folder).cells
    delete_parts(folder, 0)
    assert breadth.transfer(folder).cells.equals(before), "the zero-shot run is the untrained model"
    shutil.rmtree(folder / "runs" / "zero")
    with pytest.raises(InputError, match=r"the model before training \(step 0\) has not been evaluated"):
        breadth.transfer(folder)


def test_a_start_is_mentioned_and_no_zero_shot_run_stands_in_for_it(write_study, tmp_path, change_record):
    """Where runs start from a trained model, the untrained one is not the baseline."""
    folder = write_study(tmp_path, [*level_runs(), ZERO_SHOT], steps=2, levels=3, rise=rise)
    for path in folder.glob("runs/*/run.json"):
        if path.parent.name != "zero":
            change_record(path, start={"examples": 1200, "lr": None, "epochs": None})
    assert "start from a model trained on 1,200 examples" in breadth.transfer(folder).warnings[-1]
    delete_parts(folder, 0)
    with pytest.raises(InputError, match=r"the model before training \(step 0\) has not been evaluated"):
        breadth.transfer(folder)


def test_strategies_take_the_place_of_levels(levels_study, tmp_path, change_record):
    folder = shutil.copytree(levels_study.folder, tmp_path / "s")
    for path in folder.glob("runs/*/run.json"):
        level = json.loads(path.read_text())["train_level"]
        change_record(path, train_level=None, strategy=f"way{level}")
    result = breadth.transfer(folder, model="model-a")
    assert result.by == "strategy"
    assert result.cells["strategy"].unique(maintain_order=True).to_list() == ["way0", "way1", "way2"]
    assert result.effects.is_empty()
    assert result.strategies is None
