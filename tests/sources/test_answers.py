import numpy as np
import pandas as pd
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.sources import open_study

R = np.array([[1, 0, -1], [0, 1, 1]], dtype=np.int8)
LONG = pl.DataFrame(
    {"subject": ["m1", "m1", "m2", "m2", "m2"], "item": ["a", "b", "a", "b", "c"], "correct": [1, 0, 0, 1, 1]}
)
WIDE = pl.DataFrame({"model": ["m1", "m2"], "a": [1, 0], "b": [0, 1], "c": [None, 1]})


def forms(tmp_path):
    np.savez(tmp_path / "r.npz", R=R, models=np.array(["m1", "m2"]), items=np.array(["a", "b", "c"]))
    WIDE.write_csv(tmp_path / "wide.csv")
    LONG.write_parquet(tmp_path / "long.parquet")
    parts = tmp_path / "parts"
    parts.mkdir()
    LONG.head(2).write_parquet(parts / "1.parquet")
    LONG.tail(3).write_csv(parts / "2.csv")
    pandas = pd.DataFrame({"model": ["m1", "m2"], "a": [1.0, 0.0], "b": [0, 1], "c": [np.nan, 1]})
    return [tmp_path / "r.npz", tmp_path / "wide.csv", tmp_path / "long.parquet", parts, WIDE, LONG, pandas]


def test_every_form_gives_the_same_matrix(tmp_path):
    for source in forms(tmp_path):
        study = open_study(source)
        assert study.subject_names == ("m1", "m2"), source
        assert study.item_names == ("a", "b", "c")
        assert study.matrix.dtype == np.int8
        assert study.matrix.tolist() == R.tolist()
        assert study.warnings == ()


def test_row_labels_are_no_items(tmp_path):
    pd.DataFrame({"a": [1, 0], "b": [0, 1]}).to_csv(tmp_path / "t.csv")
    assert open_study(tmp_path / "t.csv").item_names == ("a", "b")
    study = open_study(LONG.rename({"subject": "model"}).with_row_index("index"))
    assert study.matrix.tolist() == R.tolist()


def test_arrays_and_shares():
    study = open_study(np.array([[1.0, np.nan], [0.25, 0.0]]))
    assert study.matrix.dtype == np.float64
    assert study.subject_names == ("0", "1")
    assert open_study(np.array([[True, False]])).matrix.tolist() == [[1, 0]]
    assert open_study(study) is study


def test_checkpoints_are_subjects_and_test_sets_keep_items_apart():
    long = pl.DataFrame(
        {
            "run": ["r", "r", "r", "r"],
            "step": [0, 0, 1, 1],
            "testset": ["s", "t", "s", "t"],
            "item": ["1", "1", "1", "1"],
            "correct": [0, 1, 1, 1],
        }
    )
    study = open_study(long)
    assert study.subject_names == ("r / 0", "r / 1")
    assert study.item_names == ("s / 1", "t / 1")


def test_a_turned_npz_is_turned_back(tmp_path):
    np.savez(tmp_path / "r.npz", R=R.T, models=np.array(["m1", "m2"]), items=np.array(["a", "b", "c"]))
    study = open_study(tmp_path / "r.npz")
    assert study.matrix.tolist() == R.tolist()
    assert "transposed" in study.warnings[0]


def test_items_that_look_like_models_are_warned_about():
    frame = pl.DataFrame({"prompt": ["q1", "q2"], "meta-llama/Llama-3-8B": [1, 0], "Qwen/Qwen2-7B": [0, 1]})
    assert "look like models" in open_study(frame).warnings[0]


def test_a_table_with_a_row_per_question_is_turned():
    frame = pl.DataFrame({"question": ["q1", "q2", "q3"], "gpt-x": [1, 0, 1], "gpt-y": [0, 1, None]})
    study = open_study(frame)
    assert study.subject_names == ("gpt-x", "gpt-y")
    assert study.item_names == ("q1", "q2", "q3")
    assert study.matrix.tolist() == [[1, 0, 1], [0, 1, -1]]
    assert study.reading.lines() == ("2 subjects (model) x 3 items, transposed",)


def test_names_of_other_tools():
    other = LONG.rename({"subject": "model_name", "item": "question_id", "correct": "is_correct"})
    study = open_study(other.with_columns(pl.col("is_correct").cast(pl.Boolean), task=pl.lit("nli")))
    assert study.subject_names == ("m1", "m2")
    assert study.testsets == ["nli"]
    assert study.matrix.tolist() == R.tolist()
    assert study.reading.lines() == (
        "2 models (model_name) x 3 items (question_id) of 1 test set (task); right or wrong: is_correct",
        "wrong? rename columns to model, step, testset, item, correct",
    )
    assert open_study(LONG).reading.lines() == (), "nothing was guessed"


@pytest.mark.parametrize("name", ["checkpoint", "revision", "train_set", "train_level"])
def test_one_column_of_text_names_the_subjects(name):
    study = open_study(LONG.rename({"subject": name}))
    assert study.subject_names == ("m1", "m2")
    assert study.matrix.tolist() == R.tolist()


@pytest.mark.parametrize("blank", [None, "", " "])
@pytest.mark.parametrize("names", [["subject"], ["model"], ["model", "step"], ["run"], ["checkpoint"], ["a", "seed"]])
def test_rows_without_a_subject_are_refused(names, blank):
    frame = LONG.with_columns(subject=pl.Series(["m1", "m1", blank, "m2", "m2"])).rename({"subject": names[0]})
    keys = [pl.lit(None, dtype=pl.Int64).alias(name) for name in names[1:]]
    with pytest.raises(InputError, match="row 3: subject, test set or item is empty"):
        open_study(frame.with_columns(keys))


def test_a_seed_a_step_or_a_model_beside_its_run_may_be_empty():
    names = pl.col("subject").alias("model")
    final = open_study(LONG.select(names, "item", "correct", step=pl.Series([10, 10, None, None, None])))
    assert final.subject_names == ("m1 / 10", "m2")
    assert final.matrix.tolist() == R.tolist()
    run = open_study(LONG.rename({"subject": "run"}).with_columns(model=pl.Series(["x", "x", None, None, None])))
    assert run.subject_names == ("m1 / x", "m2")
    for name in ("train_set", "strategy"):
        untrained = open_study(LONG.select("item", "correct", pl.Series(name, ["x", "x", None, None, None])))
        assert untrained.matrix.tolist() == R.tolist()


def test_checkpoints_of_a_wide_table_are_subjects():
    frame = pl.DataFrame({"model": ["m", "m", "n"], "step": [0, 10, 0], "a": [1, 0, 1], "b": [0, 1, 1]})
    assert open_study(frame).subject_names == ("m / 0", "m / 10", "n / 0")
    with pytest.raises(InputError, match="looks like scores of checkpoints"):
        open_study(frame.with_columns(a=pl.Series([0.3, 0.4, 0.5])))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.array([[1, 2], [0, 1]]), r"subject '0' \(row 1\), item '1': 2 is not an answer"),
        (np.array([[1.0, -0.5]]), "-0.5 is not an answer"),
        (np.zeros(3), "subjects x items"),
        (np.array([["x"]]), "holds numbers"),
        (pl.concat([LONG, LONG.head(1)]), r"row 1: subject 'm1' answers item 'a' more than once"),
        (LONG.drop("subject"), "no column 'subject'"),
        (LONG.with_columns(item=pl.lit(None, dtype=pl.String)), "subject, test set or item is empty"),
        (LONG.with_columns(correct=pl.Series([1, 0, 1, 3, 1])), "row 4: subject 'm2', item 'b': 3 is not an answer"),
        (pl.DataFrame({"model": ["m"], "name": ["x"]}), "no column holds answers"),
        (pl.concat([WIDE, WIDE]), "subject 'm1' occurs more than once"),
        (pl.concat([WIDE, WIDE]).with_columns(step=pl.lit(1)), "looks like scores of checkpoints.*breadth correlate"),
        (LONG.drop("item"), r"no column 'item' \(which item"),
        (WIDE.with_columns(a=pl.Series(["1", "wrong"])), "row 2, column 'a': 'wrong' is not a number"),
    ],
)
def test_bad_answers(source, message):
    with pytest.raises(InputError, match=message):
        open_study(source)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.arange(3)}, "found 0"),
        ({"R": R, "models": np.array(["m1", "m2", "m3", "m4"])}, "models has 4 names for 2 rows"),
        ({"R": R, "items": np.array(["a", "a", "b"])}, "item 'a' occurs more than once"),
        ({"R": R, "items": np.array([None, "a", "b"], dtype=object)}, "can run code"),
        ({"R": R.astype(str)}, "of numbers, found 0"),
        ({"R": R * 5}, "is not an answer"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "r.npz", **arrays)
    with pytest.raises(InputError, match=message):
        open_study(tmp_path / "r.npz")


def test_corrupt_missing_and_empty(tmp_path):
    (tmp_path / "r.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="cannot be read as NPZ"):
        open_study(tmp_path / "r.npz")
    with pytest.raises(InputError, match="no such file"):
        open_study(tmp_path / "none.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing to read"):
        open_study(tmp_path / "empty")


def test_columns_that_describe_subjects_and_items_come_along():
    long = LONG.with_columns(
        family=pl.col("subject").replace({"m1": "x", "m2": "y"}),
        text=pl.col("item").str.to_uppercase(),
        answer=pl.Series(["yes", "no", "no", "yes", "no"]),
        margin=pl.Series([1.0, -1.0, -2.0, 2.0, None]),
    )
    study = open_study(long)
    assert study.subjects.to_dict(as_series=False) == {"subject": ["m1", "m2"], "family": ["x", "y"]}
    assert study.items["text"].to_list() == ["A", "B", "C"]
    assert "answer" not in study.items.columns, "it differs between subjects"
    np.testing.assert_array_equal(study.margin, [[1, -1, np.nan], [-2, 2, np.nan]])
    assert study.select(pl.col("family") == "y").subject_names == ("m2",)


def test_a_matrix_may_name_its_test_sets(tmp_path):
    np.savez(tmp_path / "r.npz", R=R, models=["m1", "m2"], items=["a", "b", "c"], testset=["s", "s", "t"])
    study = open_study(tmp_path / "r.npz")
    assert study.testsets == ["s", "t"]
    assert study.select(testset="t").subject_names == ("m2",), "m1 answered nothing there"


def write_matrices(folder):
    """Two test sets with the same subjects in another order, and items of the same name."""
    folder.mkdir()
    pl.DataFrame({"model": ["m1", "m2"], "a": [1, 0], "b": [0, None]}).write_csv(folder / "snli.csv")
    np.savez(folder / "hans.npz", R=np.array([[1, 1, 0], [0, 0, -1]]), models=["m2", "m1"], items=["a", "x", "y"])
    return folder


def test_a_directory_of_matrices_has_a_test_set_per_file(tmp_path):
    study = open_study(write_matrices(tmp_path / "sets"))
    assert study.testsets == ["hans", "snli"]
    assert study.item_names == ("hans / a", "hans / x", "hans / y", "snli / a", "snli / b")
    assert study.subject_names == ("m2", "m1")
    assert study.matrix.tolist() == [[1, 1, 0, 0, -1], [0, 0, -1, 1, 0]]
    assert study.warnings == ()
    assert study.select(testset="snli").matrix.tolist() == [[0, -1], [1, 0]]
    pl.DataFrame({"model": ["m1", "m3"], "z": [1.0, 0.5]}).write_csv(tmp_path / "sets" / "more.csv")
    wider = open_study(tmp_path / "sets")
    assert wider.subject_names == ("m2", "m1", "m3")
    np.testing.assert_array_equal(wider.matrix[:, 3], [np.nan, 1, 0.5])
    folder = tmp_path / "sets"
    assert wider.warnings == (
        f"{folder}: hans lacks 1 of 3 subjects, whose answers there are missing: m3",
        f"{folder}: more lacks 1 of 3 subjects, whose answers there are missing: m2",
        f"{folder}: snli lacks 1 of 3 subjects, whose answers there are missing: m3",
    )


def test_matrices_that_name_no_subjects_or_their_own_test_sets(tmp_path):
    for name, size in (("a", 2), ("b", 3)):
        np.savez(tmp_path / f"{name}.npz", R=np.ones((4, size), np.int8), testset=[f"{name}1"] * size)
    study = open_study(tmp_path)
    assert study.testsets == ["a1", "b1"]
    assert study.matrix.shape == (4, 5)
    assert "rows of equal number are taken as one subject" in study.warnings[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("more.csv", "model,z\nm7,1\nm8,0\n", r"no subject of more \(m7, m8\) occurs in another file"),
        ("more.csv", "z\n1\n0\n", "because more does not name the subjects; add a column subject"),
        ("snli.tsv", "model\tz\nm1\t1\n", "two files hold the test set 'snli'; keep one"),
        ("more.csv", "model,points\nm1,7\nm2,13\n", r"more.csv: subject 'm1' \(row 1\), item 'points': 7"),
        ("more.csv", "model,size\nm1,7\nm2,13\n", "more.csv: no column holds answers"),
        ("more.csv", "model,z\nm1,1\nm1,0\n", "more.csv: subject 'm1' occurs more than once"),
        ("more.csv", "", "more.csv: is empty"),
    ],
)
def test_bad_directories_of_matrices(tmp_path, name, content, message):
    folder = write_matrices(tmp_path / "sets")
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        open_study(folder)


@pytest.mark.parametrize("names", [{}, {"item": "doc_id", "correct": "is_correct"}])
def test_long_tables_in_a_directory_go_before_matrices(tmp_path, names):
    folder = write_matrices(tmp_path / "sets")
    LONG.rename(names).write_csv(folder / "long.csv")
    assert open_study(folder).matrix.tolist() == R.tolist()


def test_a_directory_of_matrices_is_calibrated_and_correlated(tmp_path):
    import breadth

    generator = np.random.default_rng(0)
    ability = generator.standard_normal((60, 1))
    for name in ("one", "two", "three"):
        right = generator.random((60, 15)) < 1 / (1 + np.exp(generator.standard_normal(15) - ability))
        columns = {f"q{j}": right[:, j].astype(int) for j in range(15)}
        pl.DataFrame({"model": [f"m{i}" for i in range(60)], **columns}).write_csv(tmp_path / f"{name}.csv")
    assert breadth.calibrate(tmp_path).items.height == 45
    part = breadth.calibrate(tmp_path, testset="two")
    assert part.items["item"].to_list() == [f"q{j}" for j in range(15)]
    pairs = breadth.correlate(tmp_path, control="one", adjust="linear").pairs
    assert set(pairs["a"]) | set(pairs["b"]) == {"two", "three"}


def test_a_matrix_may_hold_labels(tmp_path):
    np.savez(tmp_path / "r.npz", R=R, label=["Yes", "No", "Yes"])
    assert open_study(tmp_path / "r.npz").items["label"].to_list() == ["Yes", "No", "Yes"]
