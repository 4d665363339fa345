import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records import read_responses
from breadth.verbs.items import ITEM_COLUMNS


@pytest.fixture(scope="module")
def study(write_study, tmp_path_factory):
    runs = [{"model": model, "seed": seed} for model in ("small", "owner/large") for seed in (0, 1)]
    runs = [{**run, "name": f"{run['model'].split('/')[-1]}-s{run['seed']}"} for run in runs]
    return write_study(tmp_path_factory.mktemp("study"), runs, steps=6, levels=3)


def test_checkpoints_are_subjects(study):
    found = breadth.calibrate(study)
    assert found.items.columns == [*ITEM_COLUMNS, "testset", "label"]
    assert found.items["testset"].value_counts().sort("testset")["count"].to_list() == [60, 60, 60]
    assert set(found.items["label"]) == {"Yes", "No"}
    # Step 0 of the second run of a model is that of the first.
    assert found.subjects.height == 4 * 6 - 2
    assert "large-s1/0" not in found.subjects["subject"].to_list()
    assert any(line.startswith("2 of 24 checkpoints are the same model") for line in found.warnings)
    assert any("22 subjects are checkpoints of 4 runs" in line and "too small" in line for line in found.warnings)
    abilities = found.subjects.filter(pl.col("subject").str.starts_with("small-s0/"))
    assert abilities["ability"][0] < abilities["ability"][-1]


def test_one_testset(study, tmp_path):
    found = breadth.calibrate(study, testset="away")
    assert found.items["testset"].unique().to_list() == ["away"]
    assert found.items.height == 60
    found.save(tmp_path / "c.parquet")
    assert breadth.Calibration.load(tmp_path / "c.parquet").items.columns[-2:] == ["testset", "label"]
    with pytest.raises(InputError, match=r"no test set 'awey'\. Did you mean away"):
        breadth.calibrate(study, testset="awey")


def test_a_testset_of_a_table(study, tmp_path):
    table = read_responses(study)
    long = pl.DataFrame(
        {"subject": ["a", "b"] * 20, "item": [f"{i // 2}" for i in range(40)], "correct": [0, 1, 1] * 13 + [0]}
    )
    long = long.with_columns(
        testset=pl.when(pl.col("item").str.len_chars() == 1).then(pl.lit("x")).otherwise(pl.lit("y"))
    )
    assert breadth.calibrate(long, testset="x").items.height == 10
    with pytest.raises(InputError, match="no column 'testset'"):
        breadth.calibrate(long.drop("testset"), testset="x")
    with pytest.raises(InputError, match="--testset needs"):
        breadth.calibrate(table, testset="x")


def test_ids_that_repeat_between_sets(write_study, tmp_path):
    from breadth.records import StudyStore

    store = StudyStore(tmp_path)
    for name in ("a", "b"):
        store.write_items(name, pl.DataFrame({"item": ["1", "2"], "testset": name, "label": [name, name]}))
    answers = pl.DataFrame({"testset": ["a", "a", "b", "b"], "item": ["1", "2"] * 2, "margin": 0.0, "answer": "x"})
    run = store.run("r")
    run.write_spec({"model": "m"})
    for step, correct in enumerate([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]]):
        run.write_part(step, answers.with_columns(correct=pl.Series(correct)))
    items = breadth.calibrate(tmp_path).items
    assert items.select("item", "testset", "label").rows()[0] == ("a / 1", "a", "a")
    assert items["label"].to_list() == ["a", "a", "b", "b"]


def subjects(profile):
    return profile.levels["subject"].unique(maintain_order=True).to_list()


def test_profiles_of_first_and_last_checkpoints(study):
    found = breadth.profile(study)
    assert subjects(found) == [
        f"{run}/{step}" for run in ("large-s0", "large-s1", "small-s0", "small-s1") for step in (0, 80)
    ]
    assert found.levels["level"].unique().sort().to_list() == [0, 1, 2]
    assert found.levels["expected"].is_null().all()
    assert "60 of 180 items are in a level; the others are left out" in found.warnings
    gain = found.differences.filter((pl.col("subject_1") == "small-s0/80") & (pl.col("subject_2") == "small-s0/0"))
    assert gain.filter(pl.col("level").is_null())["difference"].item() > 0, "later minus earlier"
    assert found.figure().to_dict()


def test_levels_are_those_of_the_items(study):
    found = breadth.profile(study, subjects="small-s0/80").levels
    answers = breadth.records.read_answers(study).frame.filter(subject="small-s0/80", level=1)
    assert found.filter(level=1)["accuracy"].item() == pytest.approx(answers["correct"].mean())


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("small-s1", ["small-s1/0", "small-s1/80"]),
        ("owner/large", ["large-s0/0", "large-s0/80", "large-s1/0", "large-s1/80"]),
        ("owner/large/last", ["large-s0/80", "large-s1/80"]),
        ("*-s0/32", ["large-s0/32", "small-s0/32"]),
        (["small-s0/last", "small-s0/first"], ["small-s0/80", "small-s0/0"]),
        ("small-s0/16,small-s1/16", ["small-s0/16", "small-s1/16"]),
        ("small-s0/*", [f"small-s0/{16 * k}" for k in range(6)]),
    ],
)
def test_subjects_by_run_model_and_step(study, wanted, expected):
    assert subjects(breadth.profile(study, subjects=wanted)) == expected


def test_profiles_with_a_calibration(study):
    calibration = breadth.calibrate(study)
    found = breadth.profile(study, calibration, "small-*/last", levels=4)
    assert found.levels.height == 2 * 4
    assert found.levels["expected"].is_not_null().all()


def test_bad_requests(study, write_study, tmp_path):
    with pytest.raises(InputError, match=r"no run, model or checkpoint fits 'smoll-s0'\. Did you mean small-s0"):
        breadth.profile(study, subjects="smoll-s0")
    folder = write_study(tmp_path, [{"model": "m"}], steps=2)
    with pytest.raises(InputError, match="its items have no level; name a calibration"):
        breadth.profile(folder)
