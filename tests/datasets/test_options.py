import polars as pl
import pytest

from breadth.datasets.options import lined_up, read_options, right_letter
from breadth.errors import InputError
from breadth.records import Table


def options(value, dtype=None):
    return read_options(Table(pl.DataFrame({"o": pl.Series([value], dtype=dtype)}), "quiz.jsonl"), "o")


@pytest.mark.parametrize("value", [["a", "b"], '["a", "b"]', "['a', 'b']"])
def test_lists_and_lists_as_text(value):
    assert options(value) == [["a", "b"]]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (["a"], "two options or more"),
        (["a", None], "two options or more"),
        (["a", " "], "an option is empty"),
        (["a", "b\0"], "NUL character"),
        ("a|b", r"is no list of options; write it as"),
        ("[" * 5000, r"is no list of options"),
        ([str(i) for i in range(27)], "has 27 options"),
    ],
)
def test_what_is_no_list_of_options_is_named_by_row(value, complaint):
    with pytest.raises(InputError, match=rf"quiz.jsonl, row 1, column 'o': .*{complaint}"):
        options(value)


def test_missing_column():
    with pytest.raises(InputError, match="no column 'choices'"):
        read_options(Table(pl.DataFrame({"choice": [["a", "b"]]}), "quiz"), "choices")


def test_the_right_option_by_name_text_or_position():
    texts, names = ["ice", "3", "steam"], ["A", "B", "C"]
    assert [right_letter(said, texts, names, "") for said in ("C", "ice", 1, "3")] == ["C", "A", "B", "B"]
    assert right_letter("1", texts, ["1", "2", "3"], "") == "A"
    with pytest.raises(InputError, match="row 7: 'D' is none of the options"):
        right_letter("D", texts, names, "row 7")
    with pytest.raises(InputError, match="is none of the options"):
        right_letter("same", ["same", "same"], ["A", "B"], "")


def test_options_for_a_prompt():
    assert lined_up(["ice", "steam"]) == "A. ice\nB. steam"
