"""Answers as they come: an append-only file beside the parts of a run, so that no answer is paid for twice.

Every line begins with its own checksum. A torn line, which a killed process leaves, is asked again; so is a line that
was changed. When all questions of a run are answered, its part is written and the journal deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

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

    def forget(self, keys: Container[str]) -> None:
        """Remove the answers to some questions, and damaged lines, from the file."""
        lines = (self.run.store.read(self._key) or b"").split(b"\n")
        self.values.clear()
        self.tokens = Tokens()
        left = [line for line in lines if (answer := _parsed(line)) is not None and answer[0] not in keys]
        self.run.store.write(self._key, b"".join(line + b"\n" for line in left))
        for line in left:
            self._read(line)

    def clear(self) -> None:
        """Delete the file: the answers are in the part now."""
        self.run.store.delete(self._key)

    def _read(self, line: bytes) -> None:
        answer = _parsed(line)
        if answer is None:
            self.damaged += bool(line)
            return
        key, value, *tokens = answer
        self._count(key, value, Tokens(*tokens))

    def _count(self, key: str, value: Value, tokens: Tokens) -> None:
        if key not in self.values:
            self.values[key] = value
            self.tokens = Tokens(self.tokens.read + tokens.read, self.tokens.written + tokens.written)


def _parsed(line: bytes) -> list[Any] | None:
    """The key of a question, its value and tokens; None if the line is torn or was changed."""
    seal, _, body = line.partition(b" ")
    return list(json.loads(body)) if seal == checksum(body).encode() else None
