"""Which files are refused, with file, row and remedy, and which are not."""

import polars as pl
import pytest

from breadth.datasets import load, load_own
from breadth.datasets.canonical import label_text, lined_up, map_labels, read_item_options, right_letter
from breadth.errors import InputError
from breadth.sources.tables import Table


def write(folder, pairs, name="mnli.parquet"):
    pairs.write_parquet(folder / name)
    return folder


def spoilt(pairs, column, row, value):
    cells = pairs[column].to_list()
    cells[row] = value
    return pairs.with_columns(pl.Series(column, cells, dtype=pairs.schema[column]))


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("premise", None, "column 'premise': the text is empty"),
        ("premise", "  \n", "column 'premise': the text is empty"),
        ("hypothesis", "a\0b", "column 'hypothesis': the text contains a NUL character"),
        ("label", None, "column 'label': the label is missing"),
        ("label", "maybe", r"column 'label': unknown label 'maybe'; the set has entailment, not_ent"),
    ],
)
def test_the_row_is_named(pairs, tmp_path, column, value, complaint):
    with pytest.raises(InputError, match=rf"mnli.parquet, row 5, {complaint}"):
        load("mnli", data=write(tmp_path, spoilt(pairs, column, 4, value)))


def test_more_such_rows_are_counted(pairs, tmp_path):
    twice = spoilt(spoilt(pairs, "premise", 4, ""), "premise", 9, "")
    with pytest.raises(InputError, match=r"row 5, .* \(1 more such row\)"):
        load("mnli", data=write(tmp_path, twice))


def test_empty_files(pairs, tmp_path):
    with pytest.raises(InputError, match="has no rows"):
        load("mnli", data=write(tmp_path, pairs.clear()))
    (tmp_path / "own.csv").write_text("")
    with pytest.raises(InputError, match=r"own.csv: is empty"):
        load_own("mine", file=tmp_path / "own.csv")
    with pytest.raises(InputError, match="no items are left, because the set excludes every label"):
        load("mnli", data=write(tmp_path, pairs.with_columns(label=pl.lit("neutral"))))


def test_one_label_measures_nothing(pairs, tmp_path):
    with pytest.raises(InputError, match="every item has the label 'entailment'"):
        load("mnli", data=write(tmp_path, pairs.filter(pl.col("label") == "entailment")))


def test_missing_columns_are_named(pairs, tmp_path):
    with pytest.raises(InputError, match=r"no column 'hypothesis' .*Did you mean hypotheses\?"):
        load("mnli", data=write(tmp_path, pairs.rename({"hypothesis": "hypotheses"})))
    with pytest.raises(InputError, match="no column 'label'"):
        load("mnli", data=write(tmp_path, pairs.drop("label")))
    with pytest.raises(InputError, match=r"column 'premise': contains List"):
        load("mnli", data=write(tmp_path, pairs.with_columns(pl.concat_list("premise"))))


def test_long_and_strange_texts_are_fine(pairs, tmp_path):
    texts = {0: "long " * 20_000, 2: "{braces} and \u202e\U0001f600 ''\"\r\n", 3: "nan"}
    for row, text in texts.items():
        pairs = spoilt(pairs, "premise", row, text)
    frame = load("mnli", "all", data=write(tmp_path, pairs)).frame
    assert set(texts.values()) <= set(frame["premise"])


def test_raw_labels_as_text():
    assert [label_text(value) for value in (1, 1.0, "1 ", True, 0.5)] == ["1", "1", "1", "true", "0.5"]
    table = Table(pl.DataFrame({"y": [1.0, -1.0]}), "t")
    assert map_labels(table, "y", {1: "yes", -1: None}) == ["yes", None]
    assert map_labels(table, "y", None) == ["1", "-1"]


def options(value, dtype=None):
    return read_item_options(Table(pl.DataFrame({"o": pl.Series([value], dtype=dtype)}), "quiz.jsonl"), "o")


@pytest.mark.parametrize("value", [["a", "b"], '["a", "b"]', "['a', 'b']"])
def test_lists_and_lists_as_text(value):
    assert options(value) == [["a", "b"]]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (["a"], "at least two options"),
        (["a", None], "at least two options"),
        (["a", " "], "an option is empty"),
        (["a", "b\0"], "NUL character"),
        ("a|b", r"is not a list of options; write it as"),
        ("[" * 5000, r"is not a list of options"),
        ([str(i) for i in range(27)], "has 27 options"),
    ],
)
def test_invalid_options_are_named_by_row(value, complaint):
    with pytest.raises(InputError, match=rf"quiz.jsonl, row 1, column 'o': .*{complaint}"):
        options(value)


def test_missing_column():
    with pytest.raises(InputError, match="no column 'choices'"):
        read_item_options(Table(pl.DataFrame({"choice": [["a", "b"]]}), "quiz"), "choices")


def test_the_correct_option_by_name_text_or_position():
    texts, names = ["ice", "3", "steam"], ["A", "B", "C"]
    assert [right_letter(value, texts, names, "") for value in ("C", "ice", 1, "3")] == ["C", "A", "B", "B"]
    assert right_letter("1", texts, ["1", "2", "3"], "") == "A"
    with pytest.raises(InputError, match="row 7: 'D' is not an option"):
        right_letter("D", texts, names, "row 7")
    with pytest.raises(InputError, match="is not an option"):
        right_letter("same", ["same", "same"], ["A", "B"], "")


def test_options_for_a_prompt():
    assert lined_up(["ice", "steam"]) == "A. ice\nB. steam"
