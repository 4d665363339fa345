import threading
import time

import pytest

from breadth.endpoints import Budget, BudgetSpentError, Client, Endpoint, ask_all
from breadth.endpoints.protocol import Written
from breadth.errors import InputError

from ..serving import Server, fault, prompt_of, text_reply, writes

QUESTIONS = [Written(f"question {k}", "completions", 4) for k in range(40)]


def asked(client, questions=QUESTIONS):
    kept = {}
    error = None
    try:
        ask_all(client, questions, lambda each: kept.update({each.question.prompt: each.value}), lambda: None)
    except Exception as raised:
        error = raised
    return kept, error


def test_every_question_is_answered_once():
    with Server(writes(lambda prompt: prompt.upper())) as server:
        kept, error = asked(Client(Endpoint(server.url, "stub", concurrency=8)))
    assert error is None
    assert kept == {question.prompt: question.prompt.upper() for question in QUESTIONS}
    assert len(server.asked) == 40


def test_no_more_at_a_time_than_allowed():
    def slow(path, body):
        time.sleep(0.02)
        return text_reply("4")

    with Server(slow) as server:
        asked(Client(Endpoint(server.url, "stub", concurrency=5)))
    assert 2 <= server.most_busy <= 5


def test_faults_of_all_kinds_lose_nothing():
    kinds = [fault(429, headers={"Retry-After": "0"}), fault(500), fault(cut=True), fault(raw=b"{"), fault(503)]
    with Server(writes(), faults=kinds * 6) as server:
        kept, error = asked(Client(Endpoint(server.url, "stub", concurrency=6)))
    assert error is None
    assert len(kept) == 40
    assert len(server.asked) == 70


def test_an_error_ends_it_but_answers_under_way_are_kept():
    ready = threading.Barrier(4)

    def answer(path, body):
        if prompt_of(body) in {f"question {k}" for k in range(4)}:
            ready.wait(10)
        if prompt_of(body) == "question 2":
            return fault(400, {"detail": "too long"})
        time.sleep(0.2)
        return text_reply("4")

    with Server(answer) as server:
        kept, error = asked(Client(Endpoint(server.url, "stub", concurrency=4)))
    assert isinstance(error, InputError)
    assert "too long" in str(error)
    assert {"question 0", "question 1", "question 3"} <= set(kept)
    assert len(server.asked) < 12


def test_the_budget_ends_it():
    with Server(writes()) as server:
        client = Client(Endpoint(server.url, "stub", concurrency=4), Budget(17))
        kept, error = asked(client)
    assert isinstance(error, BudgetSpentError)
    assert len(kept) == len(server.asked) == 17


def test_ctrl_c_stops_at_once_and_keeps_what_came():
    released = threading.Event()

    def answer(path, body):
        if int(prompt_of(body).split()[1]) >= 10:
            released.wait(30)
        return text_reply("4")

    kept = []

    def progress():
        if len(kept) >= 10:
            raise KeyboardInterrupt

    with Server(answer) as server:
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ask_all(Client(Endpoint(server.url, "stub", concurrency=12)), QUESTIONS, kept.append, progress)
        assert time.monotonic() - started < 20  # it does not wait for those that hang
        assert {answer.question.prompt for answer in kept} >= {f"question {k}" for k in range(10)}
        count = len(kept)
        released.set()
        time.sleep(0.3)
    assert len(kept) == count  # what comes later is not kept: the file is closed by then


def test_progress_is_told_at_the_end():
    kept, seen = [], []
    with Server(writes()) as server:
        ask_all(Client(Endpoint(server.url, "stub")), QUESTIONS, kept.append, lambda: seen.append(len(kept)))
    assert seen[-1] == 40


def test_a_bug_keeps_its_traceback():
    class Broken(Written):
        def read(self, reply):
            raise ZeroDivisionError

    with Server(writes()) as server:
        _, error = asked(Client(Endpoint(server.url, "stub")), [Broken("p", "completions", 1)])
    assert isinstance(error, ZeroDivisionError)


def test_a_client_that_was_stopped_can_be_asked_again():
    """Another form is tried after an error, and its first request may have to wait, too."""
    with Server(writes(), faults=[fault(400)]) as server:
        client = Client(Endpoint(server.url, "stub", concurrency=1))
        assert isinstance(asked(client)[1], InputError)
        server.faults = [fault(500)]
        assert client.ask(QUESTIONS[0]).value == "4"
