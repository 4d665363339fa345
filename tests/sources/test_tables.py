import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from breadth.errors import InputError
from breadth.results.table_writing import latex_table, markdown_table, write_table
from breadth.sources.tables import read_table

FRAME = pl.DataFrame({"run": ["a", "b", "c"], "x": [0.1, None, 0.3], "n": [1, 2, 3]})


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_round_trip(tmp_path, ending):
    path = write_table(FRAME, tmp_path / f"t{ending}")
    assert_frame_equal(read_table(path).frame, FRAME)
    assert [p.name for p in tmp_path.iterdir()] == [f"t{ending}"], "no temporary file is left"


def test_tables_for_readers(tmp_path):
    assert write_table(FRAME, tmp_path / "t.md").read_text() == markdown_table(FRAME) + "\n"
    assert write_table(FRAME, tmp_path / "t.tex").read_text() == latex_table(FRAME) + "\n"
    assert len(list(tmp_path.iterdir())) == 2, "no temporary file is left"


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


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["84.3%", "**81**", "7e-1"], [84.3, 81.0, 0.7]),
        (["84.3 ± 0.4", "81.2 (0.3)", "0.7 [0.6, 0.8]"], [84.3, 81.2, 0.7]),
        (["84.3*", ".5†", "—"], [84.3, 0.5, None]),
        (["84,3", "0,75", "-1,5"], [84.3, 0.75, -1.5]),
        (["12,345", "1,234,567", "999"], [12345.0, 1234567.0, 999.0]),
        (["84,321", "60,112", "9,876"], [84.321, 60.112, 9.876]),
        (["12,345", "20,000"], [12345.0, 20000.0]),
        (["True", "FALSE", ""], [1.0, 0.0, None]),
        (["C", "I", "P"], [1.0, 0.0, 0.5]),
        (["correct", "incorrect", "correct"], [1.0, 0.0, 1.0]),
        (["resolved", "unresolved", "n/a"], [1.0, 0.0, None]),
    ],
)
def test_numbers_in_text(cells, numbers):
    assert read_table(pl.DataFrame({"x": cells})).numbers("x").to_list() == numbers


@pytest.mark.parametrize("cells", [["1", "wrong"], ["0.7 or so", "0.5"], ["yes", "true"], ["1.0.2", "0.3"]])
def test_what_is_not_a_number_is_named(cells):
    with pytest.raises(InputError, match="is not a number"):
        read_table(pl.DataFrame({"x": cells})).numbers("x")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("semicolons.csv", "run;x;n\na;0,1;1\nb;;2\nc;0,3;3\n"),
        ("tabs.csv", "run\tx\tn\na\t0.1\t1\nb\t\t2\nc\t0.3\t3\n"),
        ("mark.csv", "\ufeffrun,x,n\na,0.1,1\nb,,2\nc,0.3,3\n"),
        ("rows.json", '[{"run": "a", "x": 0.1, "n": 1}, {"run": "b", "n": 2}, {"run": "c", "x": 0.3, "n": 3}]'),
        ("columns.json", '{"run": ["a", "b", "c"], "x": [0.1, null, 0.3], "n": [1, 2, 3]}'),
        (
            "pandas.json",
            '{"run": {"0": "a", "1": "b", "2": "c"}, "x": {"0": 0.1, "1": null, "2": 0.3},'
            ' "n": {"0": 1, "1": 2, "2": 3}}',
        ),
        (
            "split.json",
            '{"columns": ["run", "x", "n"], "index": [0, 1, 2],'
            ' "data": [["a", 0.1, 1], ["b", null, 2], ["c", 0.3, 3]]}',
        ),
        (
            "table.md",
            "Results\n\n| run | x | n |\n|:---|---:|---:|\n| a | 0.1 | 1 |\n| b | | 2 |\n| c | 0.3 | 3 |\n\nThe end.\n",
        ),
    ],
)
def test_ways_to_write_a_table(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert_frame_equal(read_table(path).frame, FRAME, check_dtypes=name != "table.md")


def test_row_names_of_r(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"run","x"\n"1","a",0.1\n"2","b",0.2\n')
    assert read_table(path).frame.to_dict(as_series=False) == {"": [1, 2], "run": ["a", "b"], "x": [0.1, 0.2]}


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
        ("cut.csv", b'a,b,c\n1,2,3\n\n"two\nlines",2,3\n4,5', r"line 6: has 2 of 3 fields.*truncated"),
        ("long.csv", b'a,b\n1,"2\n"\n4,5,6\n', r"long.csv, line 4: has 3 fields, and the header 2; remove"),
        ("title.csv", b"Our results,,\na,b,c\n1,2,3\n", r"title.csv, line 1: is a title.* delete it"),
        ("comment.csv", b"# made in May\na,b,c\n1,2,3\n", r"comment.csv, line 1: is a title.* delete it"),
        ("utf16.csv", "a,b\n1,2\n".encode("utf-16")[:-1], r"utf16.csv: is not UTF-16-LE text.*save it as UTF-8"),
        ("latin.csv", "a,b\n1,é\n".encode("latin-1"), r"latin.csv: is not UTF-8 text.*save it as UTF-8"),
        ("bad.parquet", b"PAR1 not really", "cannot be read as PARQUET"),
        ("bad.npz", b"PK\x03\x04 cut off", "cannot be read as NPZ"),
        ("bad.jsonl", b'{"a": 1}\n{"a": ', "cannot be read as JSONL"),
        ("bad.json", b'[{"a": 1}, {"a": ', "cannot be read as JSON"),
        ("log.json", b'{"results": {"arc": {"acc": 0.3}}, "config": 3}', "is not a table.*`breadth import`"),
        ("empty.json", b"[]", "is not a table"),
        ("text.md", b"# No table\n", "holds no tables; keep one"),
        ("two.md", b"|a|\n|--|\n|1|\n\n|b|\n|--|\n|1|\n", "holds 2 tables that differ"),
        ("table.xlsx", b"x", r"cannot tell the format from '\.xlsx'"),
    ],
)
def test_unreadable_files_name_themselves(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert name in str(caught.value)


def test_text_in_utf_16_is_read_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "utf16.csv"
    path.write_text("a,b\n1,é\n", encoding="utf-16")
    assert read_table(path).frame.rows() == [(1, "é")]


def test_bytes_in_parquet_are_text(tmp_path):
    path = tmp_path / "bytes.parquet"
    pl.DataFrame({"a": [b"x", "é".encode(), None], "b": [b"x", b"\xff", None]}).write_parquet(path)
    assert read_table(path).frame.to_dict(as_series=False) == {"a": ["x", "é", None], "b": ["x", "\\xff", None]}


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
    endings = r"\.csv, \.tsv, \.parquet, \.jsonl, \.json, \.md, \.tex"
    with pytest.raises(InputError, match=rf"cannot tell the format from '\.doc'; use {endings}$"):
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


def test_thousands_beside_a_decimal_comma(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("step;a;b\n900;59,2;1.234,5\n1.000;60,9;12,5\n1.100;61,9;0,5\n")
    frame = read_table(path).frame
    assert frame["step"].to_list() == [900, 1000, 1100]
    assert frame["b"].to_list() == [1234.5, 12.5, 0.5]
    path.write_text("step;a;n\n1;0.592;1,234\n2;0.609;2,500\n")
    assert read_table(path).frame["a"].to_list() == [0.592, 0.609]


MARKED = pl.DataFrame(
    {"test_set": ["a|b", "<i>&"], "r": [0.12345, None], "p": [1e-9, 12345.6], "n": [3, 4]},
    schema_overrides={"r": pl.Float64},
)


def test_latex():
    assert latex_table(MARKED).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"test\_set & r & p & n \\",
        r"\midrule",
        r"a|b & 0.123 & 1e-09 & 3 \\",
        r"\textless{}i\textgreater{}\& &  & 1.23e+04 & 4 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_shows_text_as_it_is():
    assert markdown_table(pl.DataFrame({"x": ["*a*\nb"]})).splitlines()[-1] == r"| \*a\* b |"
