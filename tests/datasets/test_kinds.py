"""The built-in scoring kinds: what they ask for, what completes a prompt, what is refused."""

import polars as pl
import pytest

from breadth.datasets import KINDS, Choice, Generate, Pattern, answer_problems, answer_warnings, extract
from breadth.errors import InputError

ROW = {"question": " Which? ", "options": ["one", "two"], "option_labels": ["A", "B"], "label": "B"}
PATTERN = Pattern("{premise}?", (("yes", " Yes"), ("no", " No")))


def test_every_kind_is_registered_by_its_word():
    assert {kind: task.kind for kind, task in KINDS.items()} == {kind: kind for kind in KINDS}
    assert [KINDS[kind] for kind in ("pattern", "choice", "generate")] == [Pattern, Choice, Generate]


def test_the_correct_completion():
    assert PATTERN.completion_of({"label": "no"}) == " No"
    assert Choice("{question}", "label").completion_of(ROW) == " B"
    assert Choice("{question}", "text").completion_of(ROW) == " two"
    assert Generate("{question}", "(.*)", completion="question").completion_of(ROW) == "  Which? "


def test_fields_of_a_prompt():
    choice = Choice("{question}\n{choices}")
    assert choice.fields == ("question",)
    assert choice.texts == ("question", "options")
    assert choice.prompt_fields(ROW) == {"question": "Which?", "choices": "A. one\nB. two"}
    generate = Generate("{question}\n{choices}", "(.)")
    assert generate.texts == generate.fields == ("question", "choices")
    assert generate.prompt_fields({"question": "Why?", "choices": "A. x\n"}) == {"question": "Why?", "choices": "A. x"}


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        (Pattern("Well?", PATTERN.answers), r"s: pattern 'Well\?' has no field; write column names in braces"),
        (Pattern("{a}", PATTERN.answers, shorten="b"), r"s: shorten is 'b', which is not a field of the pattern \(a\)"),
        (Pattern("{a}", PATTERN.answers[:1]), "s: give answers for at least two labels"),
        (
            Pattern("{a}", (("x", " A"), ("y", " A"))),
            "s: answers must differ and must not be empty; they are ' A', ' A'",
        ),
        (Choice("{choices}"), "has no field"),
        (Generate("{a}", "("), r"s: extract '\(' is not a regular expression"),
        (Generate("{a}", "a"), "s: extract 'a' has no group"),
    ],
)
def test_tasks_that_cannot_work(task, complaint):
    with pytest.raises(InputError, match=complaint):
        task.check("s")


def test_items_that_cannot_be_scored():
    items = pl.DataFrame([{"item": "q-0", **ROW}])
    Choice("{question}").check_items(items)
    with pytest.raises(InputError, match="kind choice needs the column 'option_labels'; columns: item"):
        Choice("{question}").check_items(items.drop("option_labels"))
    with pytest.raises(InputError, match="item 'q-0': has 2 options with labels A, B, and the label 'C'"):
        Choice("{question}").check_items(items.with_columns(label=pl.lit("C")))


def test_answers_are_checked():
    def places(answers):
        return [(".".join(problem.place), problem.message.split(";")[0]) for problem in answer_problems(answers)]

    assert places({"a": " Yes", "b": " No"}) == []
    assert places({"a": " Yes"}) == [("answers", "needs at least two labels with their answers")]
    assert places({"a": " Yes", "b": " "}) == [("answers.b", "the answer is empty")]
    assert places({"a": " Yes", "b": "Yes", "c": " No"}) == [("answers", "two labels have the answer 'Yes'")]
    assert [warning.place for warning in answer_warnings({"a": "Yes", "b": " No"}, "{x}?")] == [("answers", "a")]
    assert list(answer_warnings({"a": "Yes", "b": "No"}, "{x}? ")) == []


def test_extraction():
    assert extract(r"####\s*(\S+)", "#### 1 then #### 2") == "2"
    assert extract(r"####\s*(\S+)", "no such thing") is None
    assert extract("b", "abc") == "b"
    assert extract(r"(maybe)|(no)", "yes or no") == "no"
    with pytest.raises(InputError, match=r"extract '\(': is not a regular expression"):
        extract("(", "x")
