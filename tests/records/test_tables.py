import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from breadth.errors import InputError
from breadth.records import read_table, write_table

FRAME = pl.DataFrame({"run": ["a", "b", "c"], "x": [0.1, None, 0.3], "n": [1, 2, 3]})


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_round_trip(tmp_path, ending):
    path = write_table(FRAME, tmp_path / f"t{ending}")
    assert_frame_equal(read_table(path).frame, FRAME)
    assert [p.name for p in tmp_path.iterdir()] == [f"t{ending}"], "no temporary file is left"


def test_gzipped_csv(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(FRAME.write_csv().encode()))
    assert_frame_equal(read_table(path).frame, FRAME)


def test_pandas_frames_with_and_without_missing_cells():
    frame = pd.DataFrame({"run": ["a", "b", None], "x": [0.1, np.nan, 0.3], "n": [1, 2, 3]})
    expected = FRAME.with_columns(pl.Series("run", ["a", "b", None]))
    assert_frame_equal(read_table(frame).frame, expected)
    assert_frame_equal(read_table(frame.set_index("run")).frame, expected)


def test_lazy_frames_are_collected():
    assert_frame_equal(read_table(FRAME.lazy()).frame, FRAME)


def test_text_where_numbers_belong_names_the_cell(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("run,x\na,0.1\nb, n/a \nc,oops\nd,bad\n")
    table = read_table(path)
    with pytest.raises(InputError, match=r"t\.csv, row 3 \(line 4\), column 'x': 'oops' is not a number.*1 more"):
        table.numbers("x")


def test_blank_markers_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("run,x\na,0.1\nb,NA\nc,n/a\nd,nan\ne,\nf, 0.5 \n")
    assert read_table(path).numbers("x").to_list() == [0.1, None, None, None, None, 0.5]


def test_infinite_numbers_are_refused():
    with pytest.raises(InputError, match=r"row 2, column 'x'.*not a finite number"):
        read_table(pl.DataFrame({"x": [1.0, float("inf")]})).numbers("x")


def test_other_types_are_refused():
    with pytest.raises(InputError, match="not numbers"):
        read_table(pl.DataFrame({"x": [[1.0], [2.0]]})).numbers("x")
    with pytest.raises(InputError, match="not list"):
        read_table([1, 2])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"a,b\n", "has no rows"),
        ("cut.csv", b"a,b,c\n1,2,3\n4,5", r"line 3: has 2 of 3 fields.*truncated"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read as CSV"),
        ("bad.parquet", b"PAR1 not really", "cannot be read as PARQUET"),
        ("bad.npz", b"PK\x03\x04 cut off", "cannot be read as NPZ"),
        ("bad.jsonl", b'{"a": 1}\n{"a": ', "cannot be read as JSONL"),
        ("table.xlsx", b"x", r"cannot tell the format from '\.xlsx'"),
    ],
)
def test_unreadable_files_name_themselves(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert name in str(caught.value)


def test_a_truncated_parquet_names_itself(tmp_path):
    path = write_table(FRAME, tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"t\.parquet: cannot be read"):
        read_table(path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path)


def test_writing_where_one_cannot(tmp_path):
    with pytest.raises(InputError, match="there is no directory"):
        write_table(FRAME, tmp_path / "no" / "t.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written there"):
        write_table(FRAME, tmp_path / "d.csv")
    with pytest.raises(InputError, match=r"cannot tell the format from '\.doc'"):
        write_table(FRAME, tmp_path / "t.doc")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_table(FRAME, tmp_path / "t.csv")
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_csv", fail)
    with pytest.raises(InputError, match="No space left"):
        write_table(FRAME.head(1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
