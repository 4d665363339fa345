"""What a server can do, found out with the first question of a test set before anything is asked in bulk.

Servers differ: some take plain text, some only messages; some give log-probabilities of a whole prompt, some of the
likeliest first tokens, some none. The first question is asked in one form after another until one is answered. Its
answer is kept like any other, and at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from breadth.datasets import ItemSet
from breadth.endpoints.address import Endpoint
from breadth.endpoints.client import FIRST_ATTEMPTS, UNSUPPORTED, Budget, Client, RefusedError
from breadth.endpoints.journal import Answer
from breadth.endpoints.protocol import Counted, FirstToken, Question, Value
from breadth.endpoints.testsets import AskedTestSet, Form, How, forms_of
from breadth.errors import InputError, listed, printable


class Kept(NamedTuple):
    """Values by the keys of their questions from earlier calls, and a function that keeps an answer for later ones."""

    values: Mapping[str, Value] = MappingProxyType({})
    add: Callable[[Answer], None] = lambda _: None


NOTHING = Kept()


class Connection:
    """One endpoint in one process: its client, answers to first questions, and forms that it does not support.

    ``notes`` say which forms were chosen instead.
    """

    def __init__(self, endpoint: Endpoint, budget: Budget | None = None) -> None:
        self.endpoint, self.client = endpoint, Client(endpoint, budget)
        self.answers: dict[str, Answer] = {}
        self.unsupported: dict[Form, str] = {}
        self.notes: list[str] = []
        self._models: list[str] | None = None
        self._looked = False

    def choose(self, testset: ItemSet, before: str = "", kept: Kept = NOTHING) -> AskedTestSet:
        """A test set in the best form that the server supports, or in the one in which it was begun.

        What is ``kept`` is not asked again; what is asked is kept at once.
        """
        forms = forms_of(testset.task, self.endpoint.api)
        tries: Iterable[AskedTestSet] = (
            AskedTestSet.make(testset, form, before) for form in forms if form not in self.unsupported
        )
        if kept.values:
            tries = sorted(tries, key=lambda asked: all(each.key not in kept.values for each in asked.questions[:1]))
        for asked in tries:
            reason = self._reason_against(asked.questions[0], kept) if asked.questions else None
            if reason is None:
                self._note(asked, forms)
                return asked
            self.unsupported[asked.form] = reason
        raise self._no_form(testset, forms)

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
        return self._several_tokens(question, value, kept) if isinstance(question, FirstToken) else None

    def _several_tokens(self, question: FirstToken, value: list[float | None], kept: Kept) -> str | None:
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
            self._look()
            self.answers[question.key] = self.client.ask(question, FIRST_ATTEMPTS)
        kept.add(self.answers[question.key])
        return self.answers[question.key].value

    def _look(self) -> None:
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
        names = [printable(name)[:100] for name in self._models or []]
        return f"it lists {listed(names)}" if names else "it lists none"

    def _note(self, asked: AskedTestSet, forms: list[Form]) -> None:
        """Say why the first form was not taken."""
        if asked.form == forms[0]:
            return
        reason = self.unsupported.get(forms[0], "as in the answers that are kept")
        if asked.form.how is How.WRITE:
            note = f"prompts are sent as chat messages, to which the server applies its chat template ({reason})"
        else:
            note = f"answers are compared by the {asked.form.most} likeliest first tokens of the server ({reason})"
        self.notes += [] if note in self.notes else [note]

    def _no_form(self, testset: ItemSet, forms: list[Form]) -> InputError:
        task, reasons = testset.task, dict.fromkeys(self.unsupported[form] for form in forms)
        why = "; ".join(reasons) or "chat messages have none for whole answers; leave out api"
        if task.generates:
            return InputError(f"{self.client.where}: {why}")
        return InputError(
            f"{self.client.where}: {testset.name} is of kind {task.kind}, which needs log-probabilities that the "
            f"server does not give ({why}); evaluate on sets of kind generate, or use one that gives them, such as vLLM"
        )


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
