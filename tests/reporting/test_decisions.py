"""Sections Ranking and Advice: the numbers of the commands, where the data allow them."""

import numpy as np
import polars as pl

import breadth
from breadth.datasets import simulate_answers
from breadth.reporting import build_report
from breadth.reporting.pages import render_html, render_markdown


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


def texts(models, levels=2, items=8):
    """Answers of models to items with texts that must not become markup."""
    generator = np.random.default_rng(1)
    rows = [
        {
            "subject": model,
            "testset": "<i>hans</i>",
            "item": f"i{k}",
            "level": k % levels,
            "text": f"<script>alert({k})</script>",
            "correct": int(generator.random() < 0.5),
        }
        for model in models
        for k in range(items)
    ]
    return pl.DataFrame(rows)


def test_items_that_only_one_of_two_gets_right():
    frame = texts(["a", "b"], items=40)
    data = build_report(frame)
    answers = frame.pivot("subject", index=["testset", "level", "item"], values="correct")
    apart = answers.filter(pl.col("a") != pl.col("b"))
    table = data.table("differing")
    assert set(table["item"]) == set(apart["item"])
    assert set(table.filter(right="a")["item"]) == set(apart.filter(pl.col("a") == 1)["item"])
    shown = data.results["differing"]
    assert (shown.first, shown.second) == ("a", "b")
    (part,) = shown.parts
    assert part.first.number + part.second.number == apart.height
    assert [level.name for level in part.parts] == ["level 0", "level 1"]
    assert sum(level.first.number for level in part.parts) == part.first.number
    expected = {"panel": "items", "one": "a", "two": "b", "cell": "right-wrong", "testset": "<i>hans</i>"}
    assert part.first.panel == expected
    assert part.parts[1].second.panel == expected | {"cell": "wrong-right", "level": "1"}
    page = render_html(data)
    assert "&lt;script&gt;alert(" in page
    assert "<script>alert(" not in page
    assert "<i>hans" not in page
    assert "<script>" not in render_markdown(data)


def test_of_many_models_the_two_best_are_compared():
    answers = (np.random.default_rng(0).random((4, 300)) < np.array([[0.5], [0.9], [0.4], [0.8]])).astype(np.int8)
    data = build_report(answers)
    shown = data.results["differing"]
    assert (shown.first, shown.second) == ("3", "1")
    assert shown.parts[0].title == "all questions"
    assert contents(data)["ranking"].verdict.answer == "1"
    assert data.table("comparison").equals(breadth.compare(answers, "3", "1").cells)


def test_a_short_form_takes_twenty_models():
    answers = simulate_answers(40, 120).matrix
    data = build_report(answers)
    form = breadth.advise_items(answers, k=30)
    assert data.table("short_form_errors").equals(form.errors)
    assert data.table("short_form_items").equals(form.items)
    assert "short_form" in [figure.key for figure in contents(data)["advice"].figures]
    assert not build_report(answers[:19]).table("short_form_errors").height
