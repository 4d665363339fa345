"""A test set as questions, in the best form that a server supports, and scores from the answers.

Prompts are the same text as for a model on this machine, and the scores are computed by the same functions. Servers
differ: some take plain text, some only messages; some give log-probabilities of a whole prompt, some of the likeliest
first tokens, some none. Before anything is asked in bulk, the first question of a set is asked in one form after
another until one is answered. Its answer is kept like any other, and at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets import Choice, Generate, ItemSet, Pattern, Task
from breadth.endpoints.client import FIRST_ATTEMPTS, UNSUPPORTED, Api, Budget, Client, Endpoint, RefusedError
from breadth.endpoints.protocol import Continued, Counted, FirstToken, KeptAnswer, Question, Value, Written
from breadth.errors import InputError, listed
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
        forms = (Form("completions", How.ECHO),)
        # Whole options have several tokens, of which a list of first tokens says nothing.
        if isinstance(task, Pattern) or task.continuation == "label":
            forms += _LISTING
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
        # One question an item, except for echoed answers: there each answer is one.
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
        if self.form.how is How.ECHO:
            merged = sum(int(shares_token) for _, shares_token in answers)
            if merged:
                notes.append(
                    f"{merged:,} of {len(answers):,} answers share a token with their prompt; it counts with them"
                )
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
        flat = [value for each in answers for value in each]
        with np.errstate(invalid="ignore"):  # margins between two that are not listed, which are dropped below
            scores = self._scored(np.array([-np.inf if value is None else value for value in flat]))
        some = pl.Series([None in each for each in answers])
        none = pl.Series([all(value is None for value in each) for each in answers])
        return scores.with_columns(
            margin=pl.when(some).then(None).otherwise(pl.col("margin")),
            answer=pl.when(none).then(None).otherwise(pl.col("answer")),
        )


class Kept(NamedTuple):
    """Values by the keys of their questions from earlier calls, and a function that keeps an answer for later ones."""

    values: Mapping[str, Value] = MappingProxyType({})
    add: Callable[[KeptAnswer], None] = lambda _: None


NOTHING = Kept()


class Connection:
    """One endpoint in one process: its client, answers to first questions, and forms that it does not support.

    ``notes`` say which forms were chosen instead.
    """

    def __init__(self, endpoint: Endpoint, budget: Budget | None = None) -> None:
        self.endpoint, self.client = endpoint, Client(endpoint, budget)
        self.answers: dict[str, KeptAnswer] = {}
        self.unsupported: dict[Form, str] = {}
        self.notes: list[str] = []
        self._models: list[str] | None = None
        self._looked = False

    def choose(self, testset: ItemSet, before: str = "", kept: Kept = NOTHING) -> AskedTestSet:
        """A test set in the best form that the server supports, or in the one in which it was begun.

        What is ``kept`` is not asked again; what is asked is kept at once.
        """
        forms = forms_of(testset.task, self.endpoint.api)
        # Made one by one: for most servers the first form is the one, and large sets have many questions.
        tries: Iterable[AskedTestSet] = (
            AskedTestSet.make(testset, form, before) for form in forms if form not in self.unsupported
        )
        if kept.values:
            # The form in which the set was begun goes first, or its answers would be paid for again.
            tries = sorted(tries, key=lambda asked: not _is_begun(asked, kept))
        for asked in tries:
            reason = self._reason_against(asked.questions[0], kept) if asked.questions else None
            if reason is None:
                self._note(asked, forms)
                return asked
            self.unsupported[asked.form] = reason
        why = "; ".join(dict.fromkeys(self.unsupported[form] for form in forms))
        why = why or "chat messages have none for whole answers; leave out api"
        if testset.task.generates:
            raise InputError(f"{self.client.where}: {why}")
        raise InputError(
            f"{self.client.where}: {testset.name} is of kind {testset.task.kind}, which needs log-probabilities that "
            f"the server does not give ({why}); evaluate on sets of kind generate, or use one that gives them, such as "
            "vLLM"
        )

    def _reason_against(self, question: Question, kept: Kept) -> str | None:
        """Why the server does not answer such a question; None if it does."""
        try:
            value = self._ask(question, kept)
        except RefusedError as error:
            # Some servers fail, or cut the connection, where they should refuse. One that has answered anything else is
            # not down, and the message says what happened.
            fails = error.status in (500, -1) and bool(self.answers or self.unsupported)
            if error.status not in (0, *UNSUPPORTED) and not fails:
                raise
            if error.status and self._models is not None and self.endpoint.model not in self._models:
                raise InputError(f"{self.client.where}: the server has no such model; {self._available()}") from error
            return error.reason
        if isinstance(question, FirstToken):
            return self._reason_against_first_tokens(question, value, kept)
        return None

    def _reason_against_first_tokens(self, question: FirstToken, value: list[float | None], kept: Kept) -> str | None:
        """Why answers cannot be scored by their first token: the server counts more tokens in one than that."""
        plain = self._ask(Counted(question.prompt, question.way), kept)
        for answer, logprob in zip(question.answers, value, strict=True):
            tokens = self._ask(Counted(question.prompt + answer, question.way), kept) - plain
            if plain and tokens > 1:
                return f"the answer {answer!r} has {tokens} tokens, and only first tokens have log-probabilities"
            if not plain and logprob is None:
                return f"the answer {answer!r} is not among the likeliest tokens, and the server does not count tokens"
        return None

    def _ask(self, question: Question, kept: Kept) -> Any:
        if question.key in kept.values:
            return kept.values[question.key]
        if question.key not in self.answers:
            self._list_models()
            self.answers[question.key] = self.client.ask(question, FIRST_ATTEMPTS)
        kept.add(self.answers[question.key])
        return self.answers[question.key].value

    def _list_models(self) -> None:
        """Ask for the list of models once, which costs nothing: is the server there, does it take the key?"""
        if self._looked:
            return
        self._models, self._looked = self.client.models(), True
        if self._models is not None and self.endpoint.model not in self._models:
            self.notes.append(
                f"{self.client.where}: is not in the server's list of models; make sure that it is the one that "
                f"answers ({self._available()})"
            )

    def _available(self) -> str:
        if not self._models:
            return "it lists none"
        # The names are a server's words, and may be as long as it likes.
        names = [self.client.quote(name, 100) for name in self._models]
        return f"it lists {listed(names)}"

    def _note(self, asked: AskedTestSet, forms: list[Form]) -> None:
        """Say why the first form was not taken."""
        if asked.form == forms[0]:
            return
        # It was not tried if earlier answers are in another form.
        reason = self.unsupported.get(forms[0], "as in the answers that are kept")
        if asked.form.how is How.WRITE:
            note = f"prompts are sent as chat messages, to which the server applies its chat template ({reason})"
        else:
            note = f"answers are compared by the {asked.form.most} likeliest first tokens of the server ({reason})"
        if note not in self.notes:
            self.notes.append(note)


def _is_begun(asked: AskedTestSet, kept: Kept) -> bool:
    """Whether the first question of a set is answered already; a set without questions counts as begun."""
    return not asked.questions or asked.questions[0].key in kept.values


class Connections:
    """The endpoints of a study in one process; all share one budget."""

    def __init__(self, max_requests: int | None = None) -> None:
        self.budget = Budget(max_requests)
        self._open: dict[Endpoint, Connection] = {}

    def of(self, endpoint: Endpoint) -> Connection:
        """The connection to an endpoint."""
        if endpoint not in self._open:
            self._open[endpoint] = Connection(endpoint, self.budget)
        return self._open[endpoint]
