"""Sections Ranking and Advice: the numbers of the commands, where the data allow them."""

import numpy as np
import polars as pl

import breadth
from breadth.reporting import build_report


def contents(data):
    return {section.key: content for section, content in data.contents.items()}


def test_ranking_and_advice_are_those_of_the_commands():
    answers = (np.random.default_rng(0).random((5, 300)) < np.linspace(0.4, 0.8, 5)[:, None]).astype(np.int8)
    data = build_report(answers)
    assert data.table("ranks").equals(breadth.rank(answers).ranks)
    assert data.table("power_plan").equals(breadth.advise_power(answers).plan)
    assert data.table("together").equals(breadth.advise_together(answers).gains)
    assert str(contents(data)["ranking"].finding) == str(breadth.rank(answers).verdict())
    assert [figure.key for figure in contents(data)["advice"].figures] == ["power", "together"]


def test_two_models_are_compared_and_one_is_not_ranked():
    answers = (np.random.default_rng(0).random((2, 200)) < 0.6).astype(np.int8)
    data = build_report(answers)
    assert data.table("comparison").equals(breadth.compare(answers).cells)
    assert [figure.key for figure in contents(data)["ranking"].figures] == ["compare", "ranking"]
    alone = contents(build_report(answers[:1]))
    assert "ranking" not in alone
    assert "advice" not in alone


def test_models_that_share_no_items_say_why():
    frame = pl.DataFrame({"subject": ["a", "a", "b", "b"], "item": ["i", "j", "k", "l"], "correct": [1, 0, 1, 0]})
    content = contents(build_report(frame))["ranking"]
    assert "no item was answered by all 2 models" in content.absent[0]
