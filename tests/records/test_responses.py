import numpy as np
import pandas as pd
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records import read_responses

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
        found = read_responses(source)
        assert found.subjects == ("m1", "m2"), source
        assert found.items == ("a", "b", "c")
        assert found.matrix.dtype == np.int8
        assert found.matrix.tolist() == R.tolist()
        assert found.warnings == ()


def test_row_labels_are_no_items(tmp_path):
    pd.DataFrame({"a": [1, 0], "b": [0, 1]}).to_csv(tmp_path / "t.csv")
    assert read_responses(tmp_path / "t.csv").items == ("a", "b")
    found = read_responses(LONG.rename({"subject": "model"}).with_row_index("index"))
    assert found.matrix.tolist() == R.tolist()


def test_arrays_and_shares():
    found = read_responses(np.array([[1.0, np.nan], [0.25, 0.0]]))
    assert found.matrix.dtype == np.float64
    assert found.subjects == ("0", "1")
    assert read_responses(np.array([[True, False]])).matrix.tolist() == [[1, 0]]
    assert read_responses(found) is found


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
    found = read_responses(long)
    assert found.subjects == ("r / 0", "r / 1")
    assert found.items == ("s / 1", "t / 1")


def test_a_turned_npz_is_turned_back(tmp_path):
    np.savez(tmp_path / "r.npz", R=R.T, models=np.array(["m1", "m2"]), items=np.array(["a", "b", "c"]))
    found = read_responses(tmp_path / "r.npz")
    assert found.matrix.tolist() == R.tolist()
    assert "wrong way round" in found.warnings[0]
    assert found.transposed().matrix.shape == (3, 2)


def test_items_that_look_like_models_are_warned_about():
    frame = pl.DataFrame({"question": ["q1", "q2"], "meta-llama/Llama-3-8B": [1, 0], "Qwen/Qwen2-7B": [0, 1]})
    assert "look like models" in read_responses(frame).warnings[0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.array([[1, 2], [0, 1]]), r"subject '0' \(row 1\), item '1': 2 is no answer"),
        (np.array([[1.0, -0.5]]), "-0.5 is no answer"),
        (np.zeros(3), "subjects x items"),
        (np.array([["x"]]), "holds numbers"),
        (pl.concat([LONG, LONG.head(1)]), r"row 1: subject 'm1' answers item 'a' more than once"),
        (LONG.drop("subject"), "no column 'subject'"),
        (LONG.with_columns(item=pl.lit(None, dtype=pl.String)), "subject or item is empty"),
        (pl.DataFrame({"model": ["m"], "name": ["x"]}), "no column holds answers"),
        (pl.concat([WIDE, WIDE]), "subject 'm1' occurs more than once"),
        (WIDE.with_columns(a=pl.Series(["1", "wrong"])), "row 2, column 'a': 'wrong' is not a number"),
    ],
)
def test_bad_answers(source, message):
    with pytest.raises(InputError, match=message):
        read_responses(source)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.arange(3)}, "found 0"),
        ({"R": R, "models": np.array(["m1", "m2", "m3", "m4"])}, "4 subject names for 2 subjects"),
        ({"R": R, "items": np.array(["a", "a", "b"])}, "item 'a' occurs more than once"),
        ({"R": R, "items": np.array([None, "a", "b"], dtype=object)}, "can run code"),
        ({"R": R.astype(str)}, "not numbers"),
        ({"R": R * 5}, "is no answer"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "r.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_responses(tmp_path / "r.npz")


def test_corrupt_missing_and_empty(tmp_path):
    (tmp_path / "r.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="truncated or no NPZ"):
        read_responses(tmp_path / "r.npz")
    with pytest.raises(InputError, match="no such file"):
        read_responses(tmp_path / "none.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no table of answers"):
        read_responses(tmp_path / "empty")
