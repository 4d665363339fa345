"""Replies of servers that are broken or mean no good, each in the middle of a real study: a result or one message.

A study of six questions is asked of a real server. It answers two of them, then sends the hostile reply to everything,
and at last answers well. Whatever it sent, the study ends soon, shows no key, keeps what it was answered and resumes.
"""

import base64
import gzip
import json
import logging
import resource
import sys
import time
import zlib
from typing import Any, NamedTuple
from urllib.parse import quote

import polars as pl
import pytest

from breadth.endpoints import Client, Endpoint
from breadth.endpoints import client as http
from breadth.errors import InputError
from breadth.execute import Events, run
from breadth.records import checksum

from ..serving import text_reply
from .raw_server import RawServer, endlessly, reply_bytes

KEY = "sk-a-Secret-key-1234"

#: Seconds of a try, tries, and what a study takes besides: two cores may be busy with other tests.
TIMEOUT, TRIES, BESIDES = 0.4, 2, 3.0

#: Megabytes that a study may take more than the ones before it.
MEMORY = 600

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BIG = 2**16


def headed(lines, content=None, status="200 OK"):
    """A reply with some lines in its head."""
    return reply_bytes(head=lines, content=content, status=status)


def raw(content):
    """A body of some bytes."""
    return reply_bytes(content=content)


def wait_for(value):
    """A server that has too much to do and says how long."""
    return headed(f"Retry-After: {value}\r\n", b"{}", "429 Too Many Requests")


def error(words, status="400 Bad Request"):
    """An error in words."""
    return reply_bytes({"error": {"message": words}}, status=status)


def redirect(target):
    """A redirect."""
    return headed(f"Location: {target}\r\n", b"", "307 Temporary Redirect")


def then_closed(content):
    """Some bytes, and the end of the connection."""
    yield content


def in_base64(text):
    return base64.b64encode(text.encode()).decode()


SLOW = {
    "silence": lambda: endlessly(b"", b"", 0.1),
    "a slow status": lambda: endlessly(b"HTTP/1.1 2", b"0", 0.1),
    "slow headers": lambda: endlessly(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", 0.1),
    "one slow header": lambda: endlessly(b"HTTP/1.1 200 OK\r\nA: ", b"b", 0.1),
    "a slow body": lambda: endlessly(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b" ", 0.1),
    "slow chunks": lambda: endlessly(CHUNKED, b"1\r\n \r\n", 0.1),
    "slow informational replies": lambda: endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
}

ENDLESS = {
    "endless headers": lambda: endlessly(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 1000),
    "an endless header": lambda: endlessly(b"HTTP/1.1 200 OK\r\nA: ", b"b" * BIG),
    "an endless status line": lambda: endlessly(b"HTTP/1.1 200 ", b"O" * BIG),
    "an endless body": lambda: endlessly(b"HTTP/1.1 200 OK\r\n\r\n", b" " * BIG),
    "endless chunks": lambda: endlessly(CHUNKED, b"10000\r\n" + b" " * BIG + b"\r\n"),
    "an endless size of a chunk": lambda: endlessly(CHUNKED, b"0" * BIG),
    "an endless extension of a chunk": lambda: endlessly(CHUNKED + b"1;", b"a" * BIG),
    "endless trailers": lambda: endlessly(CHUNKED + b"0\r\n", b"A: b\r\n" * 1000),
    "a flood of status 100": lambda: endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "a flood of status 103": lambda: endlessly(b"", b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * 1000),
}

FRAMING = {
    "a size of a chunk that is none": lambda: then_closed(CHUNKED + b"zz\r\n{}\r\n"),
    "a negative size of a chunk": lambda: then_closed(CHUNKED + b"-5\r\n{}\r\n"),
    "a huge size of a chunk": lambda: then_closed(CHUNKED + b"f" * 30 + b"\r\n{}\r\n"),
    "a short chunk": lambda: then_closed(CHUNKED + b"ff\r\n{}\r\n"),
    "no last chunk": lambda: then_closed(CHUNKED + b"2\r\n{}\r\n"),
    "chunks and a length": lambda: then_closed(headed("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", b"{}")),
    "a length that is too long": lambda: then_closed(headed("Content-Length: 999\r\n", b"{}")),
    "a length that is too short": lambda: then_closed(headed("Content-Length: 3\r\n", b'{"choices": []}')),
    "a negative length": lambda: then_closed(headed("Content-Length: -3\r\n", b"{}")),
    "two lengths": lambda: then_closed(headed("Content-Length: 2\r\nContent-Length: 3\r\n", b"{} ")),
    "a length in words": lambda: then_closed(headed("Content-Length: two\r\n", b"{}")),
    "a length of thirty digits": lambda: then_closed(headed(f"Content-Length: {10**30}\r\n", b"{}")),
    "HTTP/0.9": lambda: then_closed(b'{"choices": [{"text": "4"}]}'),
    "HTTP/9.9": lambda: then_closed(b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "a status below zero": lambda: then_closed(b"HTTP/1.1 -1 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "a status of words": lambda: then_closed(b"HTTP/1.1 fine OK\r\n\r\n{}"),
    "a header without a colon": lambda: then_closed(b"HTTP/1.1 200 OK\r\nno header at all\r\n\r\n{}"),
    "an early end": lambda: then_closed(b""),
    "an end in the head": lambda: then_closed(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "encryption on a plain port": lambda: then_closed(bytes.fromhex("1503030002022a") + b"\x16\x03\x01\x02\x00"),
    "bytes of no meaning": lambda: then_closed(bytes(range(256)) * 100),
}

STATUS = {
    "status 101": lambda: headed("Upgrade: h2c\r\nConnection: Upgrade\r\n", b"", "101 Switching Protocols"),
    "status 204": lambda: headed("", b"", "204 No Content"),
    "status 304": lambda: headed("", b"", "304 Not Modified"),
    "status 999": lambda: headed("", b"{}", "999 Request Denied"),
    "a redirect to a file": lambda: redirect("file:///etc/passwd"),
    "a redirect to itself": lambda: redirect("/v1/completions"),
    "a redirect to nowhere": lambda: headed("", b"", "302 Found"),
    "a redirect with the key": lambda: redirect(f"http://elsewhere.invalid/?key={quote(KEY)}&again={in_base64(KEY)}"),
    **{
        f"Retry-After: {value:.20}": lambda value=value: wait_for(value)
        for value in ("0", "-5", "nan", "inf", "1e999", "9" * 400, "soon", "Mon, 01 Jan 0001 00:00:00 GMT",
                      "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 2020 00:00:00 +9999", "\xff", "")
    },
}  # fmt: skip

BODIES = {
    "a bomb of gzip": lambda: headed("Content-Encoding: gzip\r\n", gzip.compress(b" " * 2**25)),
    "gzip that is none": lambda: headed("Content-Encoding: gzip\r\n", b"\x1f\x8b" + b"\0" * 99),
    "packed three times": lambda: headed("Content-Encoding: gzip, deflate, gzip\r\n", zlib.compress(b" " * 2**20)),
    "deep lists": lambda: raw(b"[" * 200_000),
    "deep objects": lambda: raw(b'{"a":' * 200_000),
    "deep choices": lambda: raw(b'{"choices":' + b"[" * 900 + b"]" * 900 + b"}"),
    "millions of empty lists": lambda: raw(b'{"choices": [' + b"[]," * 5_000_000 + b"[]]}"),
    "a number of a million digits": lambda: raw(b'{"choices": ' + b"9" * 1_000_000 + b"}"),
    "a million bytes of numbers": lambda: raw(b'{"choices": [' + b"1e999," * 200_000 + b"1]}"),
    "no number": lambda: raw(b'{"choices": NaN}'),
    "a text of 15 MB": lambda: reply_bytes({"choices": [{"text": "a" * 15 * 2**20}]}),
    "a text of 17 MB": lambda: reply_bytes({"choices": [{"text": "a" * 17 * 2**20}]}),
    "only a text": lambda: raw(b'"4"'),
    "nothing": lambda: raw(b""),
    "a list": lambda: raw(b"[]"),
    "UTF-16 without a mark": lambda: raw("{]".encode("utf-16-le")),
    "no UTF-8": lambda: raw(b'{"choices": [{"text": "\xff\xfe"}]}'),
    "HTML": lambda: raw(b"<html><script>alert(1)</script></html>" * 1000),
    "no choices": lambda: raw(b"{}"),
    "choices of null": lambda: raw(b'{"choices": null}'),
    "choices by name": lambda: raw(b'{"choices": {"0": {"text": "4"}}}'),
    "a choice of null": lambda: raw(b'{"choices": [null]}'),
    "a text of null": lambda: raw(b'{"choices": [{"text": null}]}'),
    "a text that is a number": lambda: raw(b'{"choices": [{"text": 4}]}'),
    "a text in parts": lambda: raw(b'{"choices": [{"text": ["4"]}]}'),
    "two choices": lambda: raw(b'{"choices": [{"text": "4", "index": 0}, {"text": "5", "index": 1}]}'),
    "one choice twice": lambda: raw(b'{"choices": [{"text": "4", "index": 0}, {"text": "5", "index": 0}]}'),
    "a thousand choices": lambda: reply_bytes({"choices": [{"text": "4"}] * 1000}),
    "the choice of another prompt": lambda: raw(b'{"choices": [{"text": "4", "index": 7}]}'),
    "an index that is a text": lambda: raw(b'{"choices": [{"text": "4", "index": "0"}]}'),
    "a list in place of a choice": lambda: raw(b'{"choices": [[{"text": "4"}]]}'),
    "a text that sixteen tokens cannot have": lambda: reply_bytes(text_reply("4 " * 40_000)),
    "a stream of events": lambda: raw(b'data: {"choices": [{"text": "4"}]}\n\ndata: [DONE]\n\n'),
    "a million names": lambda: raw(b"{" + b",".join(b'"%06d":1' % i for i in range(1_000_000)) + b"}"),
    "an error of an odd shape": lambda: raw(b'{"error": [{"message": {"message": 7}}]}'),
}

ECHOES = {
    "the key": lambda: error(f"no such key: {KEY}"),
    "the header": lambda: error(f"got Authorization: Bearer {KEY}", "401 Unauthorized"),
    "the key with status 200": lambda: error(f"no credits for {KEY.upper()}", "200 OK"),
    "the key in base64": lambda: error(in_base64(f"Bearer {KEY}"), "500 Internal Server Error"),
    "the key in base64 for addresses": lambda: error(
        base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="), "503 Busy"
    ),
    "the key in hexadecimal": lambda: error(KEY.encode().hex(), "404 Not Found"),
    "the key reversed": lambda: raw(KEY[::-1].encode()),
    "the key where words are cut": lambda: raw(b"a" * (http.MOST_WORDS - 10) + KEY.encode() * 3),
    "the key with codes": lambda: raw("".join(f"\\u{ord(letter):04x}" for letter in KEY).encode()),
    "the key with control characters": lambda: error("\x1b]0;" + KEY + "\x07\x1b[2J\u202e" * 2000),
    "the key over lines": lambda: error("\n".join(KEY[i : i + 5] for i in range(0, len(KEY), 5))),
    "the key letter by letter": lambda: error(" ".join(KEY), "401 Unauthorized"),
    "the key with zero bytes between": lambda: raw("\0".join(KEY).encode()),
    "the key in base64 over lines": lambda: error("\r\n".join(in_base64(KEY)[i : i + 9] for i in range(0, 36, 9))),
    "the bytes of the key": lambda: error(KEY.encode().hex(":")),
    "the key in a header that is none": lambda: then_closed(f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
    "the key as a length": lambda: then_closed(f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n{{}}".encode()),
    "the key in a redirect twice encoded": lambda: redirect(f"http://e/{quote(quote(f'<{KEY}>'))}"),
    "the key as the name of a status": lambda: headed("", b"", f"418 {KEY}"),
}

#: Replies that hold an answer, however odd the rest is; what the answer is.
ANSWERS = {
    "cookies": (lambda: headed("Set-Cookie: a=b; Domain=.com; Path=/\r\n" * 90), "4"),
    "the wrong type": (lambda: headed("Content-Type: image/png; charset=klingon\r\n"), "4"),
    "names that are there twice": (lambda: raw(b'{"choices": [], "choices": [{"text": "1", "text": "4"}]}'), "4"),
    "a mark before UTF-8": (lambda: raw(b'\xef\xbb\xbf{"choices": [{"text": "4"}]}'), "4"),
    "UTF-16": (lambda: raw('{"choices": [{"text": "4"}]}'.encode("utf-16")), "4"),
    "half a character": (lambda: raw(b'{"choices": [{"text": "4 \\ud800"}]}'), "4"),
    "control characters": (lambda: reply_bytes(text_reply("4 \0\x1b[m\u202e")), "4"),
    "usage of nonsense": (
        lambda: raw(b'{"choices": [{"text": "4"}], "usage": {"prompt_tokens": 1e999, "completion_tokens": [7]}}'), "4",
    ),
    "the key as an answer": (lambda: reply_bytes(text_reply(f"4 {KEY} {in_base64(KEY)} {KEY[::-1]}")), "4"),
    "the key over lines as an answer": (lambda: reply_bytes(text_reply("4 " + "\n".join(KEY))), "4"),
    "a reply that nobody asked for after it": (lambda: reply_bytes() + reply_bytes(text_reply("5")), "4"),
    "the name of another model": (lambda: reply_bytes({**text_reply("4"), "model": "another"}), "4"),
    "an end of no meaning": (
        lambda: raw(b'{"choices": [{"text": "4", "index": 0, "finish_reason": {"a": [1]}}]}'), "4",
    ),
    "two early replies before it": (lambda: b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + reply_bytes(), "4"),
}  # fmt: skip


def listing(logprobs):
    """A reply with log-probabilities of some shape."""
    return lambda: reply_bytes({"choices": [{"text": "x", "logprobs": logprobs}], "usage": {"prompt_tokens": 40}})


class OddValue(NamedTuple):
    """What every letter of an echoed prompt gets in place of a log-probability."""

    value: Any


LOGPROBS = {
    "tokens by name": listing({"tokens": {"a": 1}, "token_logprobs": [-1.0]}),
    "tokens that are numbers": listing({"tokens": [1, 2, 3], "token_logprobs": [None, -1.0, -1.0]}),
    "tokens of null": listing({"tokens": [None], "token_logprobs": [None]}),
    "fewer values than tokens": listing({"tokens": ["a", "b"], "token_logprobs": [None]}),
    "a text in place of a list": listing("-1.0"),
    "a list in place of an object": listing([-1.0]),
    "no log-probabilities": listing(None),
    **{
        f"values of {value!r:.12}": lambda value=value: OddValue(value)
        for value in (float("nan"), float("inf"), float("-inf"), 3.5, True, "-1.0", None, [-1.0], -(10**400), -1e308)
    },
}


class Seen(Events):
    """Everything that a user is told."""

    def __init__(self):
        self.words = []

    def note(self, text):
        """Keep a note."""
        self.words.append(text)

    def warn(self, text):
        """Keep a warning."""
        self.words.append(text)


class HostileServer(RawServer):
    """Answers two questions, then none well, until it is good."""

    def __init__(self, hostile, answer, good_first=2):
        super().__init__(self.choose)
        self.hostile, self.answer, self.left, self.good, self.answered = hostile, answer, good_first, False, set()

    def choose(self, head, body):
        """The next reply."""
        asked = json.loads(body)
        if self.good or self.left > 0:
            self.left -= 1
            self.answered.add(asked["prompt"])
            return reply_bytes(self.answer(asked))
        reply = self.hostile()
        if isinstance(reply, OddValue):
            return reply_bytes(echo(asked, reply.value))
        return reply


def echo(asked, value=-1.0):
    """The prompt, letter by letter, with the same value for each, and one letter more."""
    letters = [*asked["prompt"], "x"]
    logprobs = {"tokens": letters, "token_logprobs": [None, *[value] * (len(letters) - 1)]}
    return {"choices": [{"text": "x", "logprobs": logprobs}], "usage": {"prompt_tokens": len(letters) - 1}}


def write(asked):
    """The answer to every sum is 4."""
    return text_reply("4")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Write a study of six questions with a text to write, or of three with two answers each."""
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    monkeypatch.setattr(http, "ATTEMPTS", TRIES)
    rows = {"question": [f"{k} + {4 - k} =" for k in range(6)], "label": ["4"] * 6}
    pl.DataFrame(rows).write_csv(tmp_path / "sums.csv")
    rows = {"question": [f"Is {k} odd?" for k in range(3)], "options": [["Yes", "No"]] * 3, "answer": ["A"] * 3}
    pl.DataFrame(rows).write_parquet(tmp_path / "quiz.parquet")

    def write_study(url, on="sums"):
        path = tmp_path / "study.yaml"
        path.write_text(
            f"name: s\nmodels: {{endpoint: '{url}', model: stub, api: completions, concurrency: 2, "
            f"timeout: {TIMEOUT}, key_env: BREADTH_TEST_KEY}}\n"
            f"recipe: {{method: zero-shot}}\nevaluate: {{on: {on}}}\nsets:\n"
            "  sums: {file: sums.csv, kind: generate, label: label, metric: number, pattern: '{question}', "
            "max_tokens: 16}\n"
            "  quiz: {file: quiz.parquet, kind: choice, label: answer, options: options, normalise: true, "
            "pattern: '{question}'}\n"
        )
        return path

    return write_study


def run_once(path, folder):
    """Run a study: what the user is told, and the error that ended it."""
    events, failure, began = Seen(), None, time.monotonic()
    try:
        outcome = run(path, into=folder, events=events)
        events.words += [*outcome.failed.values(), *outcome.stopped.values(), *outcome.warnings]
    except InputError as error:
        failure = str(error)
        events.words.append(failure)
    return events.words, failure, time.monotonic() - began


def check_no_key(text):
    """No spelling of the key is in what is shown or kept, whatever stands between its letters."""
    letters = "".join(letter for letter in text.lower() if letter.isalnum() or letter == "-")
    assert KEY.lower() not in letters
    assert KEY.encode().hex() not in letters
    spellings = [KEY, KEY[::-1], KEY.encode().hex(), quote(KEY, safe=""), in_base64(KEY).rstrip("="),
                 in_base64(f"Bearer {KEY}")[10:30], base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
                 "".join(f"\\u{ord(letter):04x}" for letter in KEY)]  # fmt: skip
    for spelling in spellings:
        assert spelling.lower() not in text.lower()


def check_words(words):
    """What the user is told is short, in one line, printable and without the key."""
    for text in words:
        assert len(text) < 800
        assert text.isprintable()
        check_no_key(text)


def check_files(folder):
    """No key in any file; every line of a journal is whole and was an answer."""
    for file in folder.rglob("*"):
        if file.is_file():
            check_no_key(file.read_bytes().decode("utf-8", "replace"))
    values = []
    for journal in folder.glob("runs/*/answers.jsonl"):
        for line in journal.read_bytes().splitlines():
            seal, _, body = line.partition(b" ")
            assert seal.decode() == checksum(body)
            values.append(json.loads(body)[1])
    return values


def peak_memory():
    """Megabytes that this process took at most."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def attack(server, path, folder):
    """Run the study against the hostile server, check what must hold always, and return how it ended."""
    before = peak_memory()
    words, failure, seconds = run_once(path, folder)
    # The first question and those under way may each use up all their tries.
    assert seconds < 2 * TRIES * TIMEOUT + BESIDES
    assert peak_memory() - before < MEMORY
    check_words(words)
    values = check_files(folder)
    return failure, values


def resume(server, path, folder):
    """Run the study again against the same server, which now is good: nothing is asked twice that was answered."""
    answered = set(server.answered)
    server.good, server.answered = True, set()
    words, failure, _ = run_once(path, folder)
    check_words(words)
    check_files(folder)
    assert failure is None
    assert not answered & server.answered
    frame = pl.concat([pl.read_parquet(file) for file in folder.glob("runs/*/step-*.parquet")])
    assert not list(folder.glob("runs/*/answers.jsonl"))
    return frame


REFUSED = {**SLOW, **ENDLESS, **FRAMING, **STATUS, **BODIES, **ECHOES}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_reply_is_one_message(name, study, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with HostileServer(REFUSED[name], write) as server:
        path, folder = study(server.url), tmp_path / "s"
        failure, values = attack(server, path, folder)
        assert failure is not None
        assert "http://127.0.0.1" in failure
        assert values == ["4", "4"]
        frame = resume(server, path, folder)
    assert frame["answer"].to_list() == ["4"] * 6
    check_no_key(caplog.text)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_odd_reply_with_an_answer_is_a_result(name, study, tmp_path):
    hostile, answer = ANSWERS[name]
    with HostileServer(hostile, write) as server:
        path, folder = study(server.url), tmp_path / "s"
        failure, _ = attack(server, path, folder)
        assert failure is None
        frame = resume(server, path, folder)
    assert frame["correct"].to_list() == [1.0] * 6
    assert frame["answer"].str.starts_with(answer).all()


@pytest.mark.parametrize("name", LOGPROBS)
def test_log_probabilities_of_no_use_are_one_message(name, study, tmp_path):
    with HostileServer(LOGPROBS[name], echo) as server:
        path, folder = study(server.url, on="quiz"), tmp_path / "s"
        failure, values = attack(server, path, folder)
        assert failure is not None
        assert "http://127.0.0.1" in failure
        assert all(value[0] < 0 for value in values)
        frame = resume(server, path, folder)
    assert frame.height == 3
    assert frame["margin"].is_finite().all()


def test_a_redirect_to_another_server_does_not_reach_it(study, tmp_path):
    with RawServer(lambda *_: reply_bytes()) as other, HostileServer(lambda: redirect(other.url), write) as server:
        failure, _ = attack(server, study(server.url), tmp_path / "s")
        assert "is not followed" in failure
        assert other.connections == 0


@pytest.mark.parametrize("name", [*SLOW, *ENDLESS, *FRAMING, "deep lists", "millions of empty lists", "HTML"])
def test_hostile_lists_of_models(name, monkeypatch):
    """The first request of all, whose reply is not needed."""
    monkeypatch.setattr(http, "FIRST_ATTEMPTS", 1)
    with RawServer(lambda *_: reply_bytes(), models=REFUSED[name]) as server:
        began, message = time.monotonic(), ""
        try:
            models = Client(Endpoint(server.url, "stub", timeout=TIMEOUT)).models()
        except InputError as error:
            models, message = None, str(error)
        assert time.monotonic() - began < TIMEOUT + BESIDES
    assert models is None
    check_words([message])


def test_there_are_enough_of_them():
    assert len(REFUSED) + len(ANSWERS) + len(LOGPROBS) > 60
