import random

import pytest

from breadth.endpoints import Answer, Journal, Tokens
from breadth.endpoints.protocol import Continued, Written
from breadth.records import StudyStore

ANSWERS = [
    Answer(Written("a", "chat", 1), 'line\nbreak \u2028 "quoted" é\x00', Tokens(5, 2)),
    Answer(Continued("b", " c"), [-0.1234567890123456, 0.0], Tokens(7, 1)),
    Answer(Written("d", "chat", 1), "", Tokens()),
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
