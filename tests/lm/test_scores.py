import signal
import threading

import numpy as np
import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Pattern
from breadth.lm import scores
from breadth.lm.scores import choice_scores, cut_at_stop, pattern_scores, same_answer, written_scores

ITEMS = pl.DataFrame({"item": ["a", "b", "c"], "label": ["yes", "no", "no"]})


def test_log_odds_among_the_answers():
    task = Pattern("{q}", (("yes", " Yes"), ("no", " No"), ("maybe", " Maybe")))
    frame = pattern_scores(task, ITEMS, np.array([[2.0, 0.0, 0.0], [1.0, 3.0, 3.0], [5.0, 1.0, 0.0]]))
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]  # a tie counts as wrong
    assert frame["answer"].to_list() == ["yes", "no", "yes"]
    assert frame["margin"][0] == pytest.approx(2 - np.log(2))


def test_options_by_their_length():
    rows = {"item": ["a"], "label": ["A"], "options": [["four", "forty four"]], "option_labels": [["A", "B"]]}
    items, outputs = pl.DataFrame(rows), np.array([-6.0, -7.0])
    assert choice_scores(Choice("{q}"), items, outputs)["answer"].to_list() == ["A"]
    by_length = choice_scores(Choice("{q}", normalise=True), items, outputs)
    assert by_length["answer"].to_list() == ["B"]
    assert by_length["margin"][0] == pytest.approx(-6 / 4 + 7 / 10)


def test_what_is_written():
    frame = written_scores(Generate("{q}", r"(\w+)\s*\Z"), ITEMS, ["well, YES", "yes", ""])
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]
    assert frame["answer"].to_list() == ["well, YES", "yes", ""]
    assert frame["margin"].to_list() == [None, None, None]


def test_the_first_stop_string_ends_a_text():
    assert cut_at_stop("a; b. c", (".", ";")) == "a"
    assert cut_at_stop("abc", ("x",)) == cut_at_stop("abc", ()) == "abc"


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        ("1,200.0", "1200", True),
        ("$5", "5", True),
        ("-$5.50", "-5.5", True),
        ("it is 7.", "7", True),
        ("10-3", "3", True),
        ("-3", "3", False),
        ("none", "3", False),
        ("3", "none", False),
        ("0.1", "0.10", True),
        ("9007199254740993", "9007199254740992", False),
        (None, "3", False),
    ],
)
def test_numbers(given, wanted, same):
    assert same_answer(given, wanted, "number") is same


def test_texts():
    assert same_answer(" New  York.", "new york", "exact")
    assert not same_answer("York", "New York", "exact")


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        (r"\frac{1}{2}", "0.5", True),
        (r"x^2+2x+1", r"(x+1)^2", True),
        (r"\frac12", r"\frac13", False),
        (r"\boxed{3}", "3", True),
        ("$5$", "5", True),
        (r"\frac{", "5", False),
        ("", "5", False),
        ("a word", "5", False),
    ],
)
def test_formulas(given, wanted, same):
    assert same_answer(given, wanted, "math") is same


def test_formulas_in_a_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(same_answer(r"\frac{2}{4}", r"\frac{1}{2}", "math")))
    thread.start()
    thread.join(30)
    assert results == [True]


def test_a_formula_that_would_take_too_long(monkeypatch):
    monkeypatch.setattr(scores, "MATH_SECONDS", 1)
    before = signal.getsignal(signal.SIGALRM)
    assert not same_answer(r"9^{9^{9^{9^{9}}}} - 1", r"7^{8^{9^{9^{9}}}}", "math")
    assert signal.getsignal(signal.SIGALRM) is before
