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
from breadth.comparison import cells_table, pair_differences_table, ranks_table
from breadth.correlation import correlations_table, groups_table, heterogeneity_table
from breadth.irt import items_table, levels_table, stability_table, subjects_table
from breadth.level_transfer import best_table, level_gains_table
from breadth.reporting import changes_table, checkpoint_scores_table
from breadth.results.terminal import distinct_names, make_table

WIDTHS = (100, 80, 60)


def printed(table, width):
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def rows_of(text):
    """Headers and rows as a reader sees them: cells are at least two blanks apart."""
    lines = text.splitlines()
    rule = next(index for index, line in enumerate(lines) if "──" in line)
    end = next(index for index in range(rule + 1, len(lines) + 1) if index == len(lines) or not lines[index].strip())
    return [re.split(" {2,}", line.strip()) for line in (lines[rule - 1], *lines[rule + 1 : end])]


def check_numbers(table, width):
    """Assert that the numbers that are printed are those of the table, and that the note names the others."""
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    headers, *rows = rows_of(text)
    numbers = table.columns[len(table.names) :]
    kept, left_out, seen = [], [], [name for name in headers if name in {str(column.header) for column in numbers}]
    for column in numbers:
        whole = len(kept) < len(seen) and str(column.header) == seen[len(kept)]
        (kept if whole else left_out).append(column)
    assert len(kept) == len(seen) >= 1
    for row, *cells in zip(rows, *(column.cells for column in kept), strict=True):
        assert row[-len(kept) :] == [str(cell).strip() for cell in cells]
    note = " ".join(text.split("Not shown for lack of room: ")[1].split()) if left_out else ""
    assert ("Not shown" in text) == bool(left_out or len(headers) < len(table.columns))
    assert all(str(column.header) in note for column in left_out)
    return text


@pytest.fixture(scope="module")
def tables():
    """Functions of a width that make tables of every kind with long names."""
    generator = np.random.default_rng(0)
    sets = [f"eval/{name}/accuracy" for name in ("hans_lexical_overlap", "hans_subsequence", "anli", "paws", "wnli")]
    scores = pl.DataFrame(generator.random((160, 6)), schema=["mnli", *sets])
    scores = scores.with_columns(run=pl.Series([f"a-long-name-of-a-run/seed-{i // 40}" for i in range(160)]))
    one, many = (breadth.correlate(scores, control="mnli", by=by) for by in ([], "run"))
    models = [f"an-organisation/a-model-{size}B-base" for size in (1, 3, 13, 32)]
    right = generator.random(1200) < np.repeat([0.4, 0.5, 0.6, 0.7], 300)
    answers = pl.DataFrame({
        "model": np.repeat(models, 300), "testset": np.tile(np.repeat(sets[:3], 100), 4),
        "item": np.tile([f"i{i}" for i in range(300)], 4), "correct": right,
    })  # fmt: skip
    pair, all_models = breadth.compare(answers, *models[:2], margin=0.05), breadth.compare(answers, *models)
    ranking = breadth.rank(answers)
    ability, difficulty = generator.standard_normal((120, 1)), generator.standard_normal(40)
    matrix = (generator.random((120, 40)) < 1 / (1 + np.exp(difficulty - ability))).astype(float)
    fit = breadth.calibrate(matrix)
    last = pl.DataFrame({
        "run": models, "model": models, "testset": sets[:4], "answer": ["entailment"] * 4, "step": [9] * 4,
        **{name: generator.standard_normal(4) for name in
           ("accuracy", "auc", "dprime", "criterion", "share", "balanced", "logscore")},
    })  # fmt: skip
    ends = {f"{name}_{end}": [-0.25] * 4 for name in ("accuracy", "auc") for end in ("low", "high")}
    changes = last.with_columns(in_domain=False, follows=pl.lit("in part"), auc_follows=pl.lit("in part"), **{
        name: pl.Series(values) for name, values in ends.items()})  # fmt: skip
    levels = range(12)
    gains = pl.DataFrame(
        [{"train_level": a, "test_level": b, "gain": (a - b) / 10, "q": 0.01} for a in levels for b in levels]
    )
    best = pl.DataFrame([
        {"test_level": level, "best": models[2], "second": models[3], "verdict": "undecided", "gain": 0.1, "lead": 0.02,
         "ci_low": -0.1, "ci_high": 0.3} for level in levels
    ])  # fmt: skip
    return {
        "pairs": lambda width: correlations_table(one.pairs, one.by, width),
        "pairs by run": lambda width: correlations_table(many.pairs, many.by, width),
        "groups": lambda width: groups_table(many.pairs, many.by, width),
        "heterogeneity": lambda width: heterogeneity_table(many.heterogeneity, width),
        "cells": lambda width: cells_table(pair.cells, width),
        "pairs of models": lambda width: pair_differences_table(all_models.cells, width),
        "ranks": lambda width: ranks_table(ranking, width),
        "items": lambda width: items_table(fit.items, width),
        "subjects": lambda width: subjects_table(fit.subjects, width),
        "levels": lambda width: levels_table(fit.levels(5), width),
        "stability": lambda width: stability_table(fit.level_stability(4, repeats=1), width),
        "scores": lambda width: checkpoint_scores_table(last, width),
        "changes": lambda width: changes_table(changes, width),
        "gains": lambda width: level_gains_table(gains, "train_level", width),
        "best": lambda width: best_table(best, width),
    }  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_is_whole_in_tables_of_results(tables, width):
    for name, make in tables.items():
        text = check_numbers(make(width), width)
        assert width < 100 or "Not shown" not in text, name


cell = st.text("0123456789.%+", min_size=1, max_size=14)


@given(
    numbers=st.lists(st.lists(cell, min_size=3, max_size=3), min_size=1, max_size=14),
    names=st.lists(st.lists(st.text("abc/-1", min_size=1, max_size=40), min_size=3, max_size=3), max_size=3),
    width=st.integers(60, 110),
)
def test_every_number_is_whole_in_any_table(numbers, names, width):
    headers = [f"number {index}" for index in range(len(numbers))]
    table = make_table("A title", [f"name {index}" for index in range(len(names))], headers, width)
    for row in zip(*names, *numbers, strict=True):
        table.add_row(*row)
    text = check_numbers(table, width)
    rows = rows_of(text)[1:]
    for index, column in enumerate(names):
        assert len({row[index] for row in rows}) == len(set(column)), "names can be told apart"


def narrow(names, numbers, **options):
    """A table of one row at 60 columns, whose cells are as wide as their numbers say."""
    table = make_table("A title", names, list(numbers), 60, **options)
    table.add_row(*(f"the {name}" for name in names), *("7" * size for size in numbers.values()))
    return check_numbers(table, 60)


def test_the_least_important_columns_are_left_out_and_as_few_as_needed():
    numbers = {"alpha": 12, "beta": 5, "gamma": 12, "delta": 12, "epsilon": 12}
    note = "Not shown for lack of room: epsilon. Widen the terminal to see all columns, or write them with --out FILE."
    assert note in " ".join(narrow(["model"], numbers).split())
    text = " ".join(narrow(["model"], numbers, least=["beta", "alpha"], in_file=False).split())
    assert text.endswith("Not shown for lack of room: alpha. Widen the terminal to see all columns.")
    assert "Not shown" not in narrow(["model"], {"alpha": 12, "beta": 12})


def test_columns_of_levels_are_called_levels():
    text = narrow(["model"], {str(level): 5 for level in range(9)}, what="level")
    assert "lack of room: levels 7 and 8." in text


def test_columns_with_the_same_header_are_told_apart():
    numbers = ["accuracy", "95% interval", "auc", "95% interval"]
    table = make_table("A title", ["model", "test set"], numbers, 60, least=["95% interval"])
    table.add_row("a-model-with-a-name", "a-test-set", "+0.12", "+0.10 +0.14", "+0.22", "+0.20 +0.24")
    assert "lack of room: 95% interval of auc." in printed(table, 60)


def test_a_common_prefix_is_cut_first():
    numbers = ["groups", "mean r", "95% interval", "new group", "I2", "same sign"]
    table = make_table("A title", ["a", "b"], numbers, 80)
    for a, b in (("eval/hans", "eval/anli"), ("eval/hans", "eval/paws")):
        table.add_row(a, b, "4", "+0.59*", "+0.17 +0.83", "-0.52 +0.96", "25%", "100%")
    assert [row[:2] for row in rows_of(printed(table, 80))[1:]] == [["…hans", "…anli"], ["…hans", "…paws"]]
    assert "eval/hans" in printed(make_table_like(table, 100), 100)


def make_table_like(table, width):
    """The same rows for another width."""
    headers = [str(column.header) for column in table.columns]
    other = make_table("A title", table.names, headers[len(table.names) :], width)
    for row in zip(*(column.cells for column in table.columns), strict=True):
        other.add_row(*row)
    return other


def test_texts_are_cut_before_names():
    table = make_table("Models", ["name", "source"], ["parameters"], 60, texts=["source"])
    table.add_row("a-model-of-twenty-five-ch", "from a place with a rather long address", "135M")
    assert "a-model-of-twenty-five-ch  from a place w" in printed(table, 60)


def test_numbers_within_names_are_not_cut_in_two():
    names = ["allenai/OLMo-2-1124-7B", "allenai/OLMo-2-1124-13B", "allenai/OLMo-2-0325-32B"]
    assert list(distinct_names(names, 16).values()) == ["allenai/OLMo-…7B", "allenai/OLMo…13B", "allenai/OLMo…32B"]


def test_a_table_without_rows_is_printed():
    table = make_table("A title", ["model"], [f"a rather long header {index}" for index in range(4)], 60)
    assert "lack of room: a rather long header 2 and a" in printed(table, 60)
