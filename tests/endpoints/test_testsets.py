from dataclasses import dataclass

import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Pattern, Task
from breadth.endpoints import AskedTestSet, Form, How, forms_of
from breadth.errors import InputError

YES_NO = Pattern("{q}?", (("yes", " Yes"), ("no", " No")))
TEXTS, LETTERS = Choice("{q}"), Choice("{q}", continuation="label")
SUMS = Generate("{q}=", r"(\d+)", "number", max_tokens=5, stop=("\n",))


@dataclass
class Set:
    task: Task
    frame: pl.DataFrame
    name: str = "s"


def a_set(task, **columns):
    frame = pl.DataFrame({"item": ["i0", "i1", "i2"], "testset": "s", "q": ["a", "b", "c"], **columns})
    return Set(task, frame)


OPTIONS = {"options": [["four", "five"]] * 3, "option_labels": [["A", "B"]] * 3, "label": ["A", "B", "A"]}


def test_forms():
    assert [form.how for form in forms_of(SUMS, "auto")] == [How.WRITE] * 2
    assert [form.api for form in forms_of(SUMS, "chat")] == ["chat"]
    assert [form.how for form in forms_of(TEXTS, "auto")] == [How.ECHO]
    for task in (YES_NO, LETTERS):
        assert [form.how for form in forms_of(task, "auto")] == [How.ECHO, *[How.TOP] * 4]
        assert [form.most for form in forms_of(task, "chat")] == [20, 5]
    assert forms_of(TEXTS, "chat") == []

    class Other(Generate):
        kind = "other"

    assert forms_of(Other("{q}", "(.)"), "chat")  # a kind that writes, too

    class Unknown(Task):
        kind = "unknown"
        from_keys = completion_of = None

    Unknown.__abstractmethods__ = frozenset()
    with pytest.raises(InputError, match="kind 'unknown' cannot be asked of a model behind an endpoint"):
        forms_of(Unknown("{q}"), "auto")


def test_questions():
    written = AskedTestSet.make(a_set(SUMS, label=["1", "2", "3"]), Form("chat", How.WRITE), "Q\n\n")
    assert [question.prompt for question in written.questions] == ["Q\n\na=", "Q\n\nb=", "Q\n\nc="]
    assert (written.questions[0].max_tokens, written.questions[0].stop) == (5, ("\n",))
    echoed = AskedTestSet.make(a_set(YES_NO, label=["yes", "no", "no"]), Form("completions", How.ECHO))
    assert [question.continuation for question in echoed.questions] == [" Yes", " No"] * 3
    texts = AskedTestSet.make(a_set(TEXTS, **OPTIONS), Form("completions", How.ECHO))
    assert [question.continuation for question in texts.questions[:2]] == [" four", " five"]
    letters = AskedTestSet.make(a_set(LETTERS, **OPTIONS), Form("chat", How.TOP, 5))
    assert letters.questions[0].answers == (" A", " B")


def test_a_field_that_the_data_does_not_have():
    with pytest.raises(InputError, match=r"the pattern uses \{other\}, which is not a column"):
        AskedTestSet.make(a_set(Generate("{other}", "(.)"), label=["1", "2", "3"]), Form("chat", How.WRITE))


def scored(asked, answers):
    return asked.scores(dict(zip((question.key for question in asked.questions), answers, strict=True)))


def test_scores_of_echoed_answers():
    asked = AskedTestSet.make(a_set(YES_NO, label=["yes", "no", "no"]), Form("completions", How.ECHO))
    answers = [[-1.0, 0.0], [-2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0], [-2.0, 0.0], [-1.0, 1.0]]
    frame = scored(asked, answers)
    assert frame["item"].to_list() == ["i0", "i1", "i2"]
    assert frame["correct"].to_list() == [1.0, 0.0, 1.0]
    assert frame["margin"].to_list() == [1.0, -1.0, 1.0]
    values = dict(zip((question.key for question in asked.questions), answers, strict=True))
    assert asked.notes(values) == ["s: 3 of 6 answers share a token with their prompt; it counts with them"]


@pytest.mark.parametrize("task", [YES_NO, LETTERS], ids=["pattern", "choice"])
def test_answers_that_are_not_listed(task):
    """What is listed decides; a margin needs both; an item without any answer is wrong."""
    columns = {"label": ["yes", "no", "no"]} if task is YES_NO else OPTIONS
    asked = AskedTestSet.make(a_set(task, **columns), Form("chat", How.TOP, 5))
    answers = [[-1.0, None], [-1.0, -3.0], [None, None]]
    frame = scored(asked, answers)
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]
    assert frame["margin"].to_list() == [None, -2.0, None]
    assert frame["answer"].to_list() == [*(["yes"] * 2 if task is YES_NO else ["A"] * 2), None]
    values = dict(zip((question.key for question in asked.questions), answers, strict=True))
    (note,) = asked.notes(values)
    assert "for 2 of 3 items not every answer is among the 5 likeliest tokens" in note
    assert "1 of them, without any answer there, count as wrong" in note


def test_scores_of_texts():
    asked = AskedTestSet.make(a_set(SUMS, label=["1", "2", "3"]), Form("chat", How.WRITE))
    frame = scored(asked, ["1", "so 3", ""])
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]
    assert frame["answer"].to_list() == ["1", "so 3", ""]
