"""Many questions at once: threads that ask, and keep each answer before they ask the next question."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from breadth.endpoints.client import BudgetSpentError, Client, StoppedError
from breadth.endpoints.journal import Answer
from breadth.endpoints.protocol import Question

#: Seconds between two looks at the progress, and at Ctrl-C, which the system may have told another thread about.
LOOK = 0.1


def ask_all(
    client: Client, questions: Sequence[Question], keep: Callable[[Answer], None], progress: Callable[[], None]
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

    def __init__(self, client: Client, waiting: deque[Question], keep: Callable[[Answer], None]) -> None:
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
                answer = self.client.ask(question)
                with self._lock:
                    if self._open:
                        self.keep(answer)
        except StoppedError:
            return
        except BaseException as error:
            with self._lock:
                if self.error is None or isinstance(self.error, BudgetSpentError):
                    self.error = error
            self.stop.set()

    def close(self) -> None:
        """Nothing is asked or kept from now on."""
        self.stop.set()
        with self._lock:
            self._open = False
