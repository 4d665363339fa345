import random
import threading
import time

import pytest

from breadth.endpoints import Budget, BudgetSpentError, Client, Endpoint, Journal, KeptAnswer, Tokens, ask_all
from breadth.endpoints.protocol import Continued, Written
from breadth.errors import InputError
from breadth.records.store import StudyStore

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


ANSWERS = [
    KeptAnswer(Written("a", "chat", 1), 'line\nbreak \u2028 "quoted" é\x00', Tokens(5, 2)),
    KeptAnswer(Continued("b", " c"), [-0.1234567890123456, 0.0], Tokens(7, 1)),
    KeptAnswer(Written("d", "chat", 1), "", Tokens()),
]


@pytest.fixture
def run(tmp_path):
    own = StudyStore(tmp_path).run("r")
    own.folder.mkdir(parents=True)
    return own


def add(run, answers):
    journal = Journal(run)
    with journal.adding() as keep:
        for answer in answers:
            keep(answer)
    return journal


def test_what_is_added_is_read_again(run):
    add(run, ANSWERS[:1])
    add(run, ANSWERS[1:])
    journal = Journal(run)
    assert journal.values == {answer.question.key: answer.value for answer in ANSWERS}
    assert journal.tokens == (12, 3)
    assert journal.damaged == 0
    journal.clear()
    assert not Journal(run).values
    assert list(run.folder.iterdir()) == []


def test_an_answer_counts_once(run):
    journal = add(run, [*ANSWERS, *ANSWERS])
    assert journal.tokens == Journal(run).tokens == (12, 3)


def test_answers_are_forgotten(run):
    journal = add(run, ANSWERS)
    path = run.folder / "answers.jsonl"
    path.write_bytes(path.read_bytes() + b"torn")
    journal.forget({ANSWERS[1].question.key})
    left = {answer.question.key: answer.value for answer in (ANSWERS[0], ANSWERS[2])}
    assert journal.values == Journal(run).values == left
    assert journal.tokens == Journal(run).tokens == (5, 2)
    assert Journal(run).damaged == 0


def test_cut_anywhere_all_whole_lines_remain(run):
    add(run, ANSWERS)
    path = run.folder / "answers.jsonl"
    content = path.read_bytes()
    ends = [k for k, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content)):
        path.write_bytes(content[:length])
        journal = Journal(run)
        assert len(journal.values) == sum(end <= length for end in ends)
        # What comes after a torn line is on a line of its own.
        add(run, ANSWERS[-1:])
        assert ANSWERS[-1].question.key in Journal(run).values


def test_changed_lines_are_left_out(run):
    add(run, ANSWERS)
    path, chance = run.folder / "answers.jsonl", random.Random(3)
    content = path.read_bytes()
    whole = Journal(run).values
    for _ in range(300):
        place = chance.randrange(len(content))
        path.write_bytes(content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :])
        journal = Journal(run)
        assert all(whole.get(key) == value for key, value in journal.values.items())
