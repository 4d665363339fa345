import numpy as np
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.sources.tables import read_table

R = np.array([[1, 0, -1], [0, 1, 1]], dtype=np.int8)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_wide_matrix(tmp_path):
    path = save(tmp_path / "m.npz", R=R, models=np.array(["m1", "m2"]), items=np.array(["a", "b", "c"]), step=[5, 6])
    frame = read_table(path).frame
    assert frame.columns == ["run", "step", "a", "b", "c"]
    assert frame["c"].to_list() == [None, 1.0]
    assert frame["run"].to_list() == ["m1", "m2"]


def test_item_matrix_becomes_answers(tmp_path):
    path = save(tmp_path / "m.npz", R=R, models=["m1", "m2"], items=["a", "b", "c"], testset=["s", "s", "t"])
    frame = read_table(path).frame
    assert frame.columns == ["run", "testset", "item", "correct"]
    assert frame.height == 5, "the missing answer is left out"
    assert frame.filter(pl.col("item") == "c")["correct"].to_list() == [1.0]


def test_rows_without_names_are_numbered(tmp_path):
    frame = read_table(save(tmp_path / "m.npz", S=R.astype(float), testsets=["a", "b", "c"])).frame
    assert frame["run"].to_list() == ["0", "1"]
    assert frame["c"].to_list() == [-1.0, 1.0], "-1 is a number in a real matrix"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.arange(3)}, "found 0"),
        ({"R": R, "Q": R}, "found 2"),
        ({"R": R.astype(str), "items": ["a", "b", "c"]}, "of numbers, found 0"),
        ({"R": R, "items": ["a", "a", "c"]}, "not unique"),
        ({"R": R, "items": np.array(["a", None, 3], dtype=object)}, "can run code"),
    ],
)
def test_bad_matrices(tmp_path, arrays, message):
    path = save(tmp_path / "m.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_real_leaderboard_matrix(shared_data):
    frame = read_table(shared_data / "responses" / "bigcodebench.npz").frame
    assert frame.shape == (153, 1141)
