"""Tables on narrow terminals: a number is printed whole or not at all, and names can be told apart."""

import io
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import breadth
from breadth.results import Column, Columns, Shown
from breadth.results.terminal import ShownTable, distinct_names

WIDTHS = (100, 80, 60)


def printed(shown, width):
    console = Console(width=width, file=io.StringIO())
    console.print(ShownTable(shown, width))
    return console.file.getvalue()


def rows_of(text):
    """Headers and rows as a reader sees them: cells are at least two blanks apart."""
    lines = text.splitlines()
    rule = next(index for index, line in enumerate(lines) if "──" in line)
    end = next(index for index in range(rule + 1, len(lines) + 1) if index == len(lines) or not lines[index].strip())
    return [re.split(" {2,}", line.strip()) for line in (lines[rule - 1], *lines[rule + 1 : end])]


def check_numbers(shown, width):
    """Assert that printed numbers are whole, that nothing is wider than it may be, and that the note names the rest."""
    text = printed(shown, width)
    assert max(map(len, text.splitlines())) <= width
    headers, *rows = rows_of(text)
    usual = [column for column in shown.columns if column.priority < 4]
    right = dict(zip(shown.columns, shown.columns.numeric(shown.frame), strict=True))
    kept = [column for column in usual if column.title in headers]
    note = " ".join(text.split("Not shown for lack of room: ")[1].split()) if len(kept) < len(usual) else ""
    assert ("lack of room" in text) == (len(kept) < len(usual))
    assert all(column.title in note for column in usual if column not in kept)
    assert any(right[column] for column in kept)
    for row, values in zip(rows, shown.frame.head(shown.most).iter_rows(named=True), strict=True):
        cells = " ".join(row)
        for column in kept:
            if right[column]:
                assert column.text(values) in cells
    return text


@pytest.fixture(scope="module")
def results():
    """Results of many kinds, with long names."""
    generator = np.random.default_rng(0)
    sets = [f"eval/{name}/accuracy" for name in ("hans_lexical_overlap", "hans_subsequence", "anli", "paws", "wnli")]
    scores = pl.DataFrame(generator.random((160, 6)), schema=["mnli", *sets])
    scores = scores.with_columns(run=pl.Series([f"a-long-name-of-a-run/seed-{i // 40}" for i in range(160)]))
    models = [f"an-organisation/a-model-{size}B-base" for size in (1, 3, 13, 32)]
    right = generator.random(1200) < np.repeat([0.4, 0.5, 0.6, 0.7], 300)
    answers = pl.DataFrame({
        "model": np.repeat(models, 300), "testset": np.tile(np.repeat(sets[:3], 100), 4),
        "item": np.tile([f"i{i}" for i in range(300)], 4), "correct": right,
    })  # fmt: skip
    ability, difficulty = generator.standard_normal((120, 1)), generator.standard_normal(40)
    matrix = (generator.random((120, 40)) < 1 / (1 + np.exp(difficulty - ability))).astype(float)
    fit = breadth.calibrate(matrix)
    return [
        breadth.correlate(scores, control="mnli", by=[]),
        breadth.correlate(scores, control="mnli", by="run"),
        breadth.stability(scores.with_columns(step=pl.int_range(40).repeat_by(1).explode().len().over("run"))
                          .with_columns(step=pl.int_range(pl.len()).over("run")), by="run", order="step"),
        breadth.compare(answers, *models[:2], margin=0.05),
        breadth.compare(answers, *models),
        breadth.rank(answers),
        fit,
        breadth.profile(matrix[:3], fit),
        breadth.advise_power(answers),
        breadth.advise_items(matrix, k=10),
        breadth.advise_together(answers),
    ]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_is_whole_in_tables_of_results(results, width):
    for result in results:
        for shown in result.shown():
            check_numbers(shown, width)


def test_every_result_declares_its_columns_with_a_meaning(results):
    for result in results:
        for name in result.tables():
            assert result.COLUMNS.get(name), (type(result).__name__, name)
            missing = [column.name for column in result.COLUMNS[name] if not column.meaning]
            assert missing == [], (type(result).__name__, name)
            frame = result.table(name)
            unknown = [column.name for column in result.COLUMNS[name] if column.name not in frame.columns]
            assert not frame.height or len(unknown) < len(list(result.COLUMNS[name])), (type(result).__name__, name)


def test_every_result_prints_on_a_screen(results):
    for result in results:
        assert len(str(result).splitlines()) <= 40, type(result).__name__


NAMES = st.text("abcdefgh/-._0123456789", min_size=1, max_size=60)


@given(st.data(), st.integers(1, 3), st.integers(1, 9), st.integers(1, 5), st.sampled_from([40, 60, 80, 100]))
def test_every_number_is_whole_in_any_table(data, names, numbers, height, width):
    frame = {}
    for index in range(names):
        frame[f"name {index}"] = data.draw(st.lists(NAMES, min_size=height, max_size=height, unique=True))
    for index in range(numbers):
        values = st.integers(-(10**6), 10**9)
        frame[f"number {index}"] = data.draw(st.lists(values, min_size=height, max_size=height))
    columns = [Column(name, priority=data.draw(st.integers(1, 3)), format="d" * (name[1] == "u")) for name in frame]
    shown = Shown("A title", pl.DataFrame(frame), Columns(*columns))
    text = printed(shown, width)
    headers, *rows = rows_of(text)
    for column in columns:
        if column.title in headers and column.name.startswith("number"):
            place = headers.index(column.title)
            assert [row[place] for row in rows] == [str(value) for value in frame[column.name]]


def narrow(columns, width=60, rows=1):
    """A table of one row whose numbers have as many digits as the columns say."""
    frame = {name: ["7" * size] * rows if size < 0 else [10 ** (size - 1)] * rows for name, size, _ in columns}
    shown = Shown("", pl.DataFrame(frame), Columns(*(Column(n, priority=p, format="d") for n, _, p in columns)))
    return " ".join(printed(shown, width).split())


def test_the_least_important_columns_are_left_out_first():
    columns = [("alpha", 14, 1), ("beta", 14, 3), ("gamma", 14, 2), ("delta", 14, 2)]
    assert "lack of room: beta." in narrow(columns)
    assert "lack of room: beta and delta." in narrow(columns, 40)
    assert "lack of room" not in narrow(columns[:2])


def test_columns_for_files_and_pages_are_not_printed():
    assert "beta" not in narrow([("alpha", 4, 1), ("beta", 4, 4)])


def test_a_common_prefix_is_cut_first():
    frame = pl.DataFrame({"a": ["eval/hans", "eval/hans"], "b": ["eval/anli", "eval/paws"], "n": [10**26, 10**26]},
                         schema_overrides={"n": pl.Float64})  # fmt: skip
    shown = Shown("", frame, Columns(Column("a"), Column("b"), Column("n", format=".0f")))
    assert [row[:2] for row in rows_of(printed(shown, 48))[1:]] == [["…hans", "…anli"], ["…hans", "…paws"]]
    assert "eval/hans" in printed(shown, 100)


def test_sentences_are_cut_before_names():
    row = {"name": ["a-model-of-twenty-five-ch"], "note": ["from a place with a rather long address"], "n": [135]}
    shown = Shown("", pl.DataFrame(row), Columns(Column("name"), Column("note", words=True), Column("n")))
    text = printed(shown, 60)
    assert "a-model-of-twenty-five-ch" in text
    assert "from a place w" in text
    assert "address" not in text


def test_numbers_within_names_are_not_cut_in_two():
    names = ["allenai/OLMo-2-1124-7B", "allenai/OLMo-2-1124-13B", "allenai/OLMo-2-0325-32B"]
    assert list(distinct_names(names, 16).values()) == ["allenai/OLMo-…7B", "allenai/OLMo…13B", "allenai/OLMo…32B"]


def test_rows_that_are_not_printed_are_counted():
    frame = pl.DataFrame({"n": range(1000)})
    assert "970 more rows" in printed(Shown("", frame, Columns(Column("n"))), 80)


def test_a_table_without_rows_is_printed():
    frame = pl.DataFrame({"model": [], "n": []}, schema={"model": pl.String, "n": pl.Int64})
    assert "model" in printed(Shown("", frame, Columns(Column("model"), Column("n"))), 60)


def test_what_is_worth_noticing_is_bold():
    frame = pl.DataFrame({"n": [1, 2], "found": [True, False]})
    console = Console(width=60, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(ShownTable(Shown("", frame, Columns(Column("n", bold="found")))))
    text = console.file.getvalue()
    assert "\x1b[1m1" in text
    assert "\x1b[1m2" not in text
