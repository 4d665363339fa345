"""What readers see of a frame follows from one declaration."""

import polars as pl
import pytest

from breadth.results import Column, Columns, Shown
from breadth.results.columns import FORMATS, columns_of

FRAME = pl.DataFrame(
    {"model": ["a", "b"], "gain": [0.0312, None], "low": [-0.01, None], "high": [0.07, None], "n": [1200, 3]},
)
COLUMNS = Columns(
    Column("model", priority=1, meaning="who"),
    Column("gain", format="points", header="points", meaning="after minus before"),
    Column("low", "high", format="points"),
    Column("n"),
    Column("absent"),
)


def test_cells_are_written_as_declared():
    shown = COLUMNS.present(FRAME)
    assert [column.title for column in shown] == ["model", "points", "95% interval", "n"]
    assert shown.rows(FRAME) == [["a", "+3.1", "-1.0 to +7.0", "1,200"], ["b", "-", "-", "3"]]
    assert shown.numeric(FRAME) == [False, True, True, True]


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("share", 0.534, "53%"), ("share1", 0.534, "53.4%"), ("percent", 0.534, "53.4"), ("points0", -0.034, "-3"),
        ("p", 0.0001, "<.001"), ("p", 0.04, ".040"), ("p", 1.0, "1"), ("flag", True, "yes"), ("+.2f", 1.0, "+1.00"),
        ("", 12345.6, "1.23e+04"), ("", 0.0, "0.000"), ("", True, "yes"), ("", ["a", "b"], "a, b"), ("", 1234, "1,234"),
        ("", float("nan"), "-"), ("share", None, "-"),
    ],
)  # fmt: skip
def test_formats(form, value, text):
    assert Column("x", format=form).text({"x": value}) == text


def test_columns_without_a_value_can_be_left_out():
    frame = FRAME.with_columns(gain=pl.lit(None, dtype=pl.Float64))
    assert [column.name for column in COLUMNS.filled(frame)] == ["model", "low", "n"]
    assert [column.name for column in COLUMNS.without("model", "n")] == ["gain", "low", "absent"]
    assert [column.name for column in columns_of(FRAME)] == FRAME.columns


def test_columns_document_themselves():
    documented = COLUMNS.documented()
    assert documented.row(1) == ("gain", "points", "after minus before")
    assert documented.row(2)[0] == "low, high"


def test_rows_beyond_the_most_are_counted():
    shown = Shown("", FRAME, COLUMNS.present(FRAME), most=1)
    assert len(shown.rows) == 1
    assert shown.left_out == 1
    assert Shown("", FRAME, COLUMNS).left_out == 0


def test_a_name_of_a_format_is_no_format_of_python():
    assert not any(name.startswith(("+", ".")) for name in FORMATS)
