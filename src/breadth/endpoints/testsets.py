"""The questions of a test set, in every form in which a server may be able to answer them, and scores from the answers.

Prompts are the same text as for a model on this machine, and the scores are computed by the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets import Choice, Generate, ItemSet, Pattern, Task
from breadth.endpoints.address import Api
from breadth.endpoints.protocol import Continued, FirstToken, Question, Value, Written
from breadth.errors import InputError
from breadth.lm import SCORES, choice_scores, pattern_scores, prompt_texts, written_scores


class How(StrEnum):
    """What a server must be able to do; the value says what it does."""

    WRITE = "writes text"
    ECHO = "gives the log-probability of every token of a prompt"
    TOP = "lists the likeliest first tokens with their log-probabilities"


class Form(NamedTuple):
    """A way to ask the questions of a test set; ``most`` is the length of the list of likeliest tokens."""

    api: Literal["completions", "chat"]
    how: How
    most: int = 0


_WRITING = (Form("completions", How.WRITE), Form("chat", How.WRITE))
_LISTING = tuple(Form(api, How.TOP, most) for api in ("completions", "chat") for most in (20, 5))


def forms_of(task: Task, api: Api) -> list[Form]:
    """The forms in which a set of this kind can be asked, the best first: log-probabilities of whole answers are exact,
    a list of likeliest tokens may leave an answer out."""
    if isinstance(task, Generate):
        forms: tuple[Form, ...] = _WRITING
    elif isinstance(task, Pattern | Choice):
        one_token = isinstance(task, Pattern) or task.continuation == "label"
        forms = (Form("completions", How.ECHO), *(_LISTING if one_token else ()))
    else:
        raise InputError(
            f"kind {task.kind!r} cannot be asked of a model behind an endpoint, only of one on this machine"
        )
    return [form for form in forms if api in ("auto", form.api)]


def answer_texts(task: Task, items: pl.DataFrame) -> list[list[str]]:
    """The texts that are compared after each prompt; none where the model writes."""
    if isinstance(task, Pattern):
        return [[words for _, words in task.answers]] * items.height
    if isinstance(task, Choice):
        return [[f" {text}" for text in task.option_texts(row)] for row in items.iter_rows(named=True)]
    return [[]] * items.height


@dataclass(frozen=True)
class AskedTestSet:
    """A test set as questions, item by item."""

    name: str
    task: Task
    items: pl.DataFrame
    form: Form
    questions: list[Question]

    @classmethod
    def make(cls, testset: ItemSet, form: Form, before: str = "") -> AskedTestSet:
        """The questions of a set in one form, with ``before`` (few-shot examples) in front of every prompt."""
        task, items = testset.task, testset.frame
        task.check_items(items)
        pairs = list(zip(prompt_texts(task, items, before), answer_texts(task, items), strict=True))
        questions: list[Question]
        if isinstance(task, Generate):
            questions = [Written(prompt, form.api, task.max_tokens, task.stop) for prompt, _ in pairs]
        elif form.how is How.ECHO:
            questions = [Continued(prompt, text) for prompt, texts in pairs for text in texts]
        else:
            questions = [FirstToken(prompt, form.api, tuple(texts), form.most) for prompt, texts in pairs]
        return cls(testset.name, task, items, form, questions)

    def scores(self, values: Mapping[str, Value]) -> pl.DataFrame:
        """testset, item, correct, margin and answer, from the answers by the keys of their questions."""
        answers = [values[question.key] for question in self.questions]
        if isinstance(self.task, Generate):
            scores = written_scores(self.task, self.items, answers)
        elif self.form.how is How.ECHO:
            scores = self._scored(np.array([total for total, _ in answers]))
        else:
            scores = self._listed_scores(answers)
        frame = scores.select(pl.col(name).cast(dtype) for name, dtype in SCORES.items())
        return self.items.select("testset", "item").hstack(frame)

    def notes(self, values: Mapping[str, Value]) -> list[str]:
        """What a user should know about these answers."""
        answers = [values[question.key] for question in self.questions]
        notes = []
        if self.form.how is How.ECHO and (merged := sum(int(merged) for _, merged in answers)):
            notes.append(f"{merged:,} of {len(answers):,} answers share a token with their prompt; it counts with them")
        if self.form.how is How.TOP:
            most = self.form.most
            some = sum(None in each for each in answers)
            none = sum(all(value is None for value in each) for each in answers)
            if some:
                notes.append(
                    f"for {some:,} of {len(answers):,} items not every answer is among the {most} likeliest tokens: "
                    f"they have no margin, and {none:,} of them, without any answer there, count as wrong"
                )
        return [f"{self.name}: {note}" for note in notes]

    def _scored(self, outputs: npt.NDArray[np.float64]) -> pl.DataFrame:
        if isinstance(self.task, Pattern):
            return pattern_scores(self.task, self.items, outputs.reshape(self.items.height, -1))
        assert isinstance(self.task, Choice)
        return choice_scores(self.task, self.items, outputs)

    def _listed_scores(self, answers: Sequence[Sequence[float | None]]) -> pl.DataFrame:
        """An answer that is not listed is less likely than all that are, but by how much is not known."""
        flat = np.array([-np.inf if value is None else value for each in answers for value in each])
        with np.errstate(invalid="ignore"):
            scores = self._scored(flat)
        some = pl.Series([None in each for each in answers])
        none = pl.Series([all(value is None for value in each) for each in answers])
        return scores.with_columns(
            margin=pl.when(some).then(None).otherwise(pl.col("margin")),
            answer=pl.when(none).then(None).otherwise(pl.col("answer")),
        )
