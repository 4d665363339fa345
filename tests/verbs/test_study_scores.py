import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records import StudyStore, read_answers
from breadth.verbs.frames import CORRECTED_COLUMNS, PAIR_COLUMNS

SETS = ("home", "away", "abroad", "far")
ZERO = {
    "model": "m",
    "method": "zero-shot",
    "train_set": None,
    "seed": None,
    "shots": None,
    "steps": 1,
    "name": "m-zero",
}


@pytest.fixture(scope="module")
def plain(write_study, tmp_path_factory):
    runs = [{"model": "m", "seed": seed} for seed in (0, 1)]
    few = {"model": "m", "method": "few-shot", "steps": 1, "name": "m-few"}
    return write_study(tmp_path_factory.mktemp("plain"), [*runs, few, ZERO], SETS)


@pytest.fixture(scope="module")
def two(write_study, tmp_path_factory):
    runs = [{"model": "m", "seed": seed, "train_set": name} for seed in (0, 1) for name in ("home", "away")]
    return write_study(tmp_path_factory.mktemp("two"), runs, SETS)


def test_the_train_set_is_the_control(plain):
    found = breadth.correlate(plain)
    assert found.pairs.columns == ["run", *PAIR_COLUMNS, *CORRECTED_COLUMNS]
    assert found.trajectories.controls == ("home",)
    assert found.trajectories.order == "step"
    assert set(found.trajectories.facets) == {"away", "abroad", "far"}
    assert found.pairs["n"].unique().to_list() == [12]
    answers = read_answers(plain).frame.filter(pl.col("run").str.starts_with("m-home"))
    by_hand = breadth.correlate(
        answers.select("run", "step", "testset", "item", "correct"), control="home", by="run", order="step"
    )
    assert found.pairs.equals(by_hand.pairs)
    assert found.pairs["r_corrected"].is_not_null().any() or found.pairs["note"].str.contains("not corrected").any()


def test_runs_without_a_course_are_left_out_and_said(plain, write_study, tmp_path):
    found = breadth.correlate(plain)
    assert "2 runs without training or with a single checkpoint left out: m-few, m-zero" in found.warnings
    assert found.pairs["run"].n_unique() == 2
    with pytest.raises(InputError, match="no run was trained and evaluated at two checkpoints"):
        breadth.correlate(write_study(tmp_path, [ZERO]))


def test_options_of_a_table_hold_for_a_study(plain):
    found = breadth.correlate(plain, control="far", facets="a*,home", windows=2, regressor="linear")
    assert found.trajectories.controls == ("far",)
    assert set(found.trajectories.facets) == {"away", "abroad", "home"}
    assert found.windows.height == 2 * found.pairs.height
    assert breadth.correlate(plain, regressor="none").trajectories.controls == ()
    with pytest.raises(InputError, match="Did you mean step"):
        breadth.correlate(plain, order="stepp")
    with pytest.raises(InputError, match="Add --by run"):
        breadth.correlate(plain, by="model")


def test_several_train_sets_have_their_own_controls(two):
    found = breadth.correlate(two, windows=2)
    assert found.pairs.columns[:4] == ["train_set", "run", "a", "b"]
    assert found.by == ("train_set", "run")
    alone = breadth.correlate(two, facets="abroad,far,away").pairs
    assert alone.filter(train_set="away").height == 2, "the control is no facet of its own part"
    for name, other in (("home", "away"), ("away", "home")):
        rows = found.pairs.filter(train_set=name)
        assert name not in {*rows["a"], *rows["b"]}
        assert other in {*rows["a"], *rows["b"]}
        assert rows["run"].str.contains(name).all()
    assert found.heterogeneity.columns[0] == found.similarity.columns[0] == found.windows.columns[0] == "train_set"
    assert found.residuals.columns[:3] == ["train_set", "run", "step"]
    assert found.heterogeneity.height == 6
    assert "Trained on away: " in found.summary()
    assert found.figure().to_dict()


def test_q_is_over_all_train_sets(two):
    from breadth.stats import benjamini_hochberg

    found = breadth.correlate(two)
    assert found.pairs["q"].to_list() == pytest.approx(benjamini_hochberg(found.pairs["p"].to_numpy()).tolist())
    assert pl.concat([part.pairs["q"] for part in found.parts.values()]).equals(found.pairs["q"])


def test_too_few_checkpoints_are_noted(write_study, tmp_path):
    runs = [{"model": "m", "seed": 0, "steps": 6}, {"model": "m", "seed": 1}]
    found = breadth.correlate(write_study(tmp_path, runs))
    (line,) = found.warnings
    assert line.startswith("1 of 2 runs have too few checkpoints: at most 6, and the regressor gam needs 8")
    assert "--regressor linear needs 5" in line
    assert found.pairs.filter(run="m-home-8-0")["note"].to_list() == ["6 complete rows; the regressor needs 8"]
    assert found.pairs.filter(run="m-home-8-1")["r"].is_not_null().all()


def test_a_constant_set_is_noted(write_study, tmp_path):
    folder = write_study(tmp_path, [{"model": "m"}], SETS)
    run = StudyStore(folder).run("m-home-8-0")
    for step, path in run.parts().items():
        part = run.read_part(path)
        path.unlink()
        run.write_part(step, part.with_columns(pl.when(testset="far").then(1.0).otherwise("correct").alias("correct")))
    notes = breadth.correlate(folder).pairs.filter(b="far")["note"]
    assert notes.to_list() == ["far is constant"] * 2


def test_unfinished_and_damaged_runs_are_said(write_study, tmp_path):
    folder = write_study(tmp_path, [{"model": "m", "checkpoints": [0, 640]}, {"model": "m", "seed": 1}])
    path = StudyStore(folder).run("m-home-8-1").parts()[16]
    path.write_bytes(path.read_bytes()[:-1])
    warnings = " ".join(breadth.correlate(folder).warnings)
    assert "1 run is not finished: m-home-8-0 at step 176 of 640" in warnings
    assert "its checksum is wrong" in warnings


def test_a_train_set_that_was_not_evaluated(write_study, tmp_path):
    folder = write_study(tmp_path, [{"model": "m", "train_set": "elsewhere"}])
    with pytest.raises(InputError, match=r"elsewhere was trained on but not evaluated.*--control \(abroad, away, home"):
        breadth.correlate(folder)
    assert breadth.correlate(folder, control="home").pairs.height == 1


@pytest.mark.parametrize("verb", [breadth.correlate, breadth.calibrate, breadth.cross, breadth.profile])
def test_no_study(verb, tmp_path):
    with pytest.raises(InputError, match="runs/ and items/"):
        verb(tmp_path)
    (tmp_path / "items").mkdir()
    (tmp_path / "study.yaml").write_text("name: x\n")
    with pytest.raises(InputError, match="no checkpoint has been evaluated yet"):
        verb(tmp_path)


@pytest.mark.parametrize("verb", [breadth.correlate, breadth.calibrate, breadth.cross, breadth.profile])
def test_damaged_parts_reach_every_verb(verb, write_study, tmp_path):
    runs = [{"model": "m", "seed": seed, "train_level": k} for seed in (0, 1) for k in range(2)]
    folder = write_study(tmp_path, runs, steps=3, levels=2)
    path = StudyStore(folder).run("m-home-8-0-0").parts()[16]
    path.write_bytes(path.read_bytes()[:-1])
    assert any("its checksum is wrong" in line for line in verb(folder).warnings)
