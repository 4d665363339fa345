import io
import shutil

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records.files import checksum
from breadth.records.store import RunRecord, StudyStore
from breadth.records.study import Study
from breadth.sources import load_scores, open_study

BLANK = {"margin": pl.lit(None), "answer": pl.lit(None)}


@pytest.fixture(scope="module")
def study(simulated_study):
    return open_study(simulated_study.folder)


@pytest.fixture(scope="module")
def sharing(write_study, tmp_path_factory):
    """Two models with three runs each, which share step 0."""
    runs = [{"model": model, "seed": seed} for model in ("small", "large") for seed in (0, 1, 2)]
    return write_study(tmp_path_factory.mktemp("study"), runs, steps=6)


def test_subjects_items_and_answers(sharing):
    study = breadth.open(sharing)
    assert study.matrix.shape == (36, 180)
    assert study.matrix.dtype == np.int8
    assert study.subjects.row(7, named=True) == {
        "subject": "large-home-8-1/16", "run": "large-home-8-1", "model": "large", "step": 16, "train_set": "home",
        "examples": 8, "seed": 1, "train_level": None, "strategy": None, "method": "lora",
    }  # fmt: skip
    assert study.items.columns[:2] == ["testset", "item"]
    assert study.runs["small-home-8-0"].checkpoints == (0, 16, 32, 48, 64, 80)
    long = study.responses
    assert isinstance(long, pl.LazyFrame)
    assert long.select(pl.len()).collect().item() == 36 * 180
    means = long.group_by("subject", "testset").agg(pl.col("correct").mean()).collect()
    row = means.filter(subject="small-home-8-2/80", testset="away")["correct"].item()
    assert row == study.scores[0][study.subject_names.index("small-home-8-2/80"), study.testsets.index("away")]


def test_a_long_table_of_the_same_answers_is_the_same_study(study):
    long = study.responses.collect().join(study.subjects, on="subject", maintain_order="left")
    table = open_study(long)
    assert (table.subject_names, table.item_names) == (study.subject_names, study.item_names)
    assert (table.matrix == study.matrix).all()
    by_run = [load_scores(source, "plain", by="run", order="step") for source in (study, long)]
    assert by_run[0].frame.equals(by_run[1].frame)
    np.testing.assert_allclose(by_run[0].halves, by_run[1].halves, atol=1e-12)


def test_trajectories_are_a_table_that_correlate_reads(study):
    table = study.trajectories
    assert table.columns[:3] == ["subject", "run", "model"]
    assert table.columns[-8:] == study.testsets
    options = {"control": "plain", "by": "run", "order": "step"}
    here, there = (breadth.correlate(source, **options).pairs for source in (study, table))
    assert here.select("run", "a", "b", "r", "ci_low", "ci_high").equals(
        there.select("run", "a", "b", "r", "ci_low", "ci_high")
    )


def test_split_halves_follow_the_seed(study):
    again, other = (load_scores(study, "plain", by="run", order="step", seed=seed).halves for seed in (0, 1))
    first = load_scores(study, "plain", by="run", order="step").halves
    assert (first == again).all()
    assert not (first == other).all()


def test_step_0_that_runs_share_counts_once(sharing):
    study = open_study(sharing)
    once = study.distinct()
    assert study.subjects.height - once.subjects.height == 4
    assert once.subjects.filter(step=0)["run"].to_list() == ["large-home-8-0", "small-home-8-0"]
    assert "4 of 36 checkpoints repeat" in once.warnings[0]
    assert once.distinct() is once


def test_a_part_of_a_study(study):
    part = study.select(pl.col("model") == "model-a", testset="science")
    assert part.testsets == ["science"]
    assert part.subjects["model"].unique().to_list() == ["model-a"]
    assert set(part.runs) == set(part.subjects["run"])
    assert part.responses.select(pl.len()).collect().item() == part.matrix.size
    with pytest.raises(InputError, match=r"no test set 'scence'\. Did you mean science"):
        study.select(testset="scence")


def test_first_and_last_checkpoints_and_what_is_planned(tmp_path, write_study):
    write_study(tmp_path, [{"model": "m"}, {"model": "n", "steps": 3, "checkpoints": (0, 16, 32, 48)}], steps=4)
    study = open_study(tmp_path)
    assert study.ends.select("run", "first", "last", "last_step", "checkpoints").rows() == [
        ("m-home-8-0", 0, 3, 48, 4),
        ("n-home-8-0", 4, 6, 32, 3),
    ]
    assert study.planned == {"m-home-8-0": 48, "n-home-8-0": 48}
    assert study.unfinished == {"n-home-8-0": (32, 48)}


def test_known_kinds_of_shift_come_first_then_others_by_the_alphabet():
    kinds = {
        "a": "user group",
        "b": None,
        "c": "adversarial",
        "d": "time",
        "e": "in-domain",
        "f": "time",
        "g": "domain",
    }
    rows = {"item": list(kinds), "testset": list(kinds), "shift": list(kinds.values())}
    answers = Study("s", pl.DataFrame({"subject": ["m"]}), pl.DataFrame(rows), np.ones((1, len(kinds)), dtype=np.int8))
    assert list(answers.shifts) == ["e", "g", "c", "d", "f", "a", "b"]


def test_shifts_and_the_in_domain_set(study):
    assert next(iter(study.shifts)) == "plain"
    assert study.in_domain("science") == ("science",)
    assert study.in_domain("elsewhere") == ("plain",)
    assert study.in_domain(None) == ()


def test_damaged_parts_are_named_and_nothing_is_moved(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "study")
    path = StudyStore(folder).run(simulated_study.runs[0]).part_path(16)
    path.write_bytes(path.read_bytes()[:-7])
    before = sorted(str(entry) for entry in folder.rglob("*"))
    study = open_study(folder)
    assert "its checksum is wrong" in study.warnings[0]
    assert study.subjects.height == 4 * 24 - 1
    for verb in (breadth.correlate, breadth.calibrate):
        assert any("checksum" in line for line in verb(folder).warnings)
    assert sorted(str(entry) for entry in folder.rglob("*")) == before


def test_parts_with_other_items_shares_and_missing_answers(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"], "level": [3, 4]}))
    store.write_items("b", pl.DataFrame({"item": ["1"], "testset": ["b"], "shift": ["style"]}))
    run = store.run("r")
    run.write_record(RunRecord("m"))
    for step, sets, items, correct in (
        (0, ["a", "b"], ["1", "1"], [1.0, 0.0]),
        (1, ["b", "a"], ["1", "2"], [1.0, 0.5]),
    ):
        run.write_part(step, pl.DataFrame({"testset": sets, "item": items, "correct": correct}).with_columns(**BLANK))
    study = open_study(tmp_path)
    assert study.item_names == ("a / 1", "b / 1", "a / 2")
    assert study.items["level"].to_list() == [3, None, 4], "a level belongs to the item of its own test set"
    np.testing.assert_array_equal(study.correct, [[1, 0, np.nan], [np.nan, 1, 0.5]])
    assert study.scores[0].tolist() == [[1, 0], [0.5, 1]]
    assert study.select(testset="b").item_names == ("1",)


@pytest.mark.parametrize(
    "columns",
    [
        {"correct": ["yes", "no"]},
        {"correct": [[1], [0]]},
        {"margin": [b"\xff", b"\xfe"]},
        {"item": [[1], [2]]},
        {"item": ["1", "1"]},
        {"testset": pl.Series([None, None], dtype=pl.Struct({"x": pl.Int8}))},
    ],
    ids=str,
)
def test_a_part_with_a_right_checksum_and_wrong_columns_is_named(tmp_path, columns):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"]}))
    run = store.run("r")
    run.write_record(RunRecord("m"))
    good = {"testset": ["a", "a"], "item": ["1", "2"], "correct": [1, 0], "margin": [0.5, -0.5], "answer": ["x", "y"]}
    content = io.BytesIO()
    pl.DataFrame(good | columns).write_parquet(content)
    path = run.write_part_bytes(8, content.getvalue())
    for verb in (open_study, breadth.calibrate, breadth.report):
        with pytest.raises(InputError, match=path.name):
            verb(tmp_path)


@pytest.mark.parametrize("columns", [{"item": ["1", "1"]}, {"item": [[1], [2]]}], ids=str)
def test_items_with_a_right_checksum_and_wrong_columns_are_named(tmp_path, columns):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"]}))
    (path,) = (tmp_path / "items").iterdir()
    content = io.BytesIO()
    pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"]} | columns).write_parquet(content)
    path.unlink()
    changed = path.with_name(f"a.{checksum(content.getvalue())}.parquet")
    changed.write_bytes(content.getvalue())
    with pytest.raises(InputError, match=changed.name):
        store.read_items("a")


def test_no_study(tmp_path):
    with pytest.raises(InputError, match="nothing to read"):
        open_study(tmp_path)
    for name in ("runs", "items"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="no checkpoint has been evaluated"):
        open_study(tmp_path)


def test_an_unreadable_run_and_one_of_0_1(sharing, tmp_path):
    folder = shutil.copytree(sharing, tmp_path / "study")
    path = folder / "runs" / "small-home-8-0" / "run.json"
    content = path.read_text()
    path.write_text("{")
    with pytest.raises(InputError, match=r"run\.json: is not JSON"):
        open_study(folder)
    path.write_text(content.replace('"examples"', '"shots"'))
    with pytest.raises(InputError, match=r"written by breadth 0\.1"):
        open_study(folder)


def test_log_odds_without_bounds_do_not_become_infinite():
    answers = {"model": ["a", "a"], "item": ["q", "r"], "correct": [1, 0], "margin": [1e300, -1e300]}
    study = breadth.open(pl.DataFrame(answers))
    assert np.isfinite(study.margin).all()
    assert study.margin[0, 0] > 1e6
