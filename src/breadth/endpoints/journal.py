"""Answers as they come: an append-only file beside the parts of a run, so that no answer is paid for twice.

Every line begins with its own checksum. A torn line, which a killed process leaves, is asked again; so is a line that
was changed. When all questions of a run are answered, its part is written and the journal deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from breadth.endpoints.protocol import Question, Tokens, Value
from breadth.records import RunStore, checksum

NAME = "answers.jsonl"


class Answer(NamedTuple):
    """What is kept of the reply to a question."""

    question: Question
    value: Value
    tokens: Tokens


class Journal:
    """The answers of one run so far, by the key of the question; ``tokens`` counts those of all answers."""

    def __init__(self, run: RunStore) -> None:
        self.run = run
        self.values: dict[str, Value] = {}
        self.tokens = Tokens()
        self.damaged = 0
        for line in (run.store.read(self._key) or b"").split(b"\n"):
            self._read(line)

    @property
    def path(self) -> str:
        """Where the file is."""
        return str(self.run.folder / NAME)

    @property
    def _key(self) -> str:
        return f"{self.run.key}/{NAME}"

    @contextmanager
    def adding(self) -> Iterator[Callable[[Answer], None]]:
        """A function that writes an answer to the file."""
        with self.run.store.appending(self._key) as append:

            def add(answer: Answer) -> None:
                question, value, tokens = answer
                body = json.dumps([question.key, value, *tokens], ensure_ascii=False).encode()
                append(checksum(body).encode() + b" " + body)
                self._count(question.key, value, tokens)

            yield add

    def add(self, answer: Answer) -> None:
        """Write one answer to the file."""
        with self.adding() as add:
            add(answer)

    def clear(self) -> None:
        """Delete the file: the answers are in the part now."""
        self.run.store.delete(self._key)

    def _read(self, line: bytes) -> None:
        seal, _, body = line.partition(b" ")
        if seal != checksum(body).encode():
            self.damaged += bool(line)
            return
        key, value, *tokens = json.loads(body)
        self._count(key, value, Tokens(*tokens))

    def _count(self, key: str, value: Value, tokens: Tokens) -> None:
        if key not in self.values:
            self.values[key] = value
            self.tokens = Tokens(self.tokens.read + tokens.read, self.tokens.written + tokens.written)
