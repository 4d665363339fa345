"""Many questions at once, and a journal that keeps each answer as it comes, so that none is paid for twice.

The journal is an append-only file beside the parts of a run. Every line begins with its own checksum. A torn line,
which a killed process leaves, is asked again; so is a line that was changed. When all questions of a run are answered,
its part is written and the journal deleted.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from breadth.endpoints.client import BudgetSpentError, Client, StoppedError
from breadth.endpoints.protocol import KeptAnswer, Question, Tokens, Value
from breadth.records import RunStore, checksum

#: The file of a run.
NAME = "answers.jsonl"

#: Seconds between two looks at the progress, and at Ctrl-C, which the system may have told another thread about.
LOOK = 0.1


def ask_all(
    client: Client, questions: Sequence[Question], keep: Callable[[KeptAnswer], None], progress: Callable[[], None]
) -> None:
    """Ask questions, as many at a time as the endpoint allows.

    ``keep`` is called by one thread at a time, as soon as there is an answer; ``progress`` by this thread, now and then
    and at the end. After an error no new question is asked, but requests under way are waited for and their answers
    kept: they may have been paid for. ``KeyboardInterrupt`` does not wait. ``BudgetSpentError`` is raised when the
    budget ends it.
    """
    asking = _Asking(client, deque(questions), keep)
    count = min(client.endpoint.concurrency, len(questions))
    threads = [threading.Thread(target=asking.work, name=f"endpoint-{k}", daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK)
                progress()
    finally:
        asking.close()
    client.stop = threading.Event()  # no thread is left to stop, and the client may be asked again
    progress()
    if asking.error is not None:
        raise asking.error


class _Asking:
    """What the threads share."""

    def __init__(self, client: Client, waiting: deque[Question], keep: Callable[[KeptAnswer], None]) -> None:
        self.client, self.waiting, self.keep = client, waiting, keep
        self.stop = client.stop = threading.Event()
        self.error: BaseException | None = None
        self._lock, self._open = threading.Lock(), True

    def work(self) -> None:
        """Ask until nothing waits."""
        try:
            while self.waiting and not self.stop.is_set():
                try:
                    question = self.waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                # No lock here: this takes seconds, and is what the threads do at the same time.
                answer = self.client.ask(question)
                with self._lock:
                    if self._open:
                        self.keep(answer)
        except StoppedError:
            return
        except BaseException as error:
            with self._lock:
                # Another error says more than that the budget is spent.
                if self.error is None or isinstance(self.error, BudgetSpentError):
                    self.error = error
            self.stop.set()

    def close(self) -> None:
        """Nothing is asked or kept from now on."""
        self.stop.set()
        with self._lock:
            self._open = False


class Journal:
    """The answers of one run so far, by the key of the question, kept in the file ``path``; ``tokens`` counts all."""

    def __init__(self, run: RunStore) -> None:
        self.run, self.path, self._key = run, str(run.folder / NAME), f"{run.key}/{NAME}"
        self.values: dict[str, Value] = {}
        self.tokens = Tokens()
        self.damaged = 0
        for line in self._lines():
            self._read(line)

    @contextmanager
    def adding(self) -> Iterator[Callable[[KeptAnswer], None]]:
        """A function that writes an answer to the file."""
        with self.run.store.appending(self._key) as append:

            def add(answer: KeptAnswer) -> None:
                question, value, tokens = answer
                body = json.dumps([question.key, value, *tokens], ensure_ascii=False).encode()
                append(checksum(body).encode() + b" " + body)
                self._count(question.key, value, tokens)

            yield add

    def add(self, answer: KeptAnswer) -> None:
        """Write one answer to the file."""
        with self.adding() as add:
            add(answer)

    def forget(self, keys: Container[str]) -> None:
        """Remove the answers to some questions, and damaged lines, from the file."""
        lines = self._lines()
        self.values.clear()
        self.tokens = Tokens()
        left = []
        for line in lines:
            answer = _parse_line(line)
            if answer is not None and answer[0] not in keys:
                left.append(line)
        self.run.store.write(self._key, b"".join(line + b"\n" for line in left))
        for line in left:
            self._read(line)

    def clear(self) -> None:
        """Delete the file: the answers are in the part now."""
        self.run.store.delete(self._key)

    def _lines(self) -> list[bytes]:
        return (self.run.store.read(self._key) or b"").split(b"\n")

    def _read(self, line: bytes) -> None:
        if not line:  # after the last line break, or where a torn line was ended
            return
        answer = _parse_line(line)
        if answer is None:
            self.damaged += 1
            return
        key, value, *tokens = answer
        self._count(key, value, Tokens(*tokens))

    def _count(self, key: str, value: Value, tokens: Tokens) -> None:
        # An answer that is there twice counts once, and so do its tokens.
        if key in self.values:
            return
        self.values[key] = value
        self.tokens = Tokens(self.tokens.read + tokens.read, self.tokens.written + tokens.written)


def _parse_line(line: bytes) -> list[Any] | None:
    """The key of a question, its value and tokens; None if the line is torn or was changed."""
    seal, _, body = line.partition(b" ")
    if seal != checksum(body).encode():
        return None
    return list(json.loads(body))
