import socket
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from breadth.endpoints import (
    Budget,
    BudgetSpentError,
    Client,
    Connection,
    Endpoint,
    RefusedError,
    is_exposed,
    key_env_problem,
    url_problem,
)
from breadth.endpoints import client as http
from breadth.endpoints.client import retry_after
from breadth.endpoints.protocol import Continued, Written
from breadth.errors import InputError

from ..serving import Server, fault, text_reply, writes

QUESTION = Written("2 + 2 =", "completions", 4)
KEY = "sk-a-secret-key-1234"


def client(server, **options):
    return Client(Endpoint(server.url, "stub", **options))


def test_a_question_is_answered():
    with Server(writes(" 4")) as server:
        answer = client(server).ask(QUESTION)
    assert (answer.value, answer.tokens) == (" 4", (7, 3))
    assert server.asked == [{"model": "stub", "prompt": "2 + 2 =", "max_tokens": 4, "temperature": 0}]


PASSING = {
    "429": fault(429, headers={"Retry-After": "0"}),
    "500": fault(500),
    "502": fault(502, raw=b"<html>Bad Gateway</html>"),
    "503": fault(503, headers={"Retry-After": "not a date"}),
    "529": fault(529),
    "cut": fault(cut=True),
    "malformed": fault(raw=b'{"choices": [{"te'),
    "nothing": fault(raw=b""),
    "a list": fault(raw=b"[1, 2]"),
    "deep": fault(raw=b"[" * 200_000),
    "no choices": fault(200, {"choices": []}),
    "an error with status 200": fault(200, {"error": {"message": "busy"}}),
    "not UTF-8": fault(raw=b'{"a": "\xff"}'),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again(name):
    with Server(writes(), faults=[PASSING[name]] * 2) as server:
        asking = client(server)
        assert asking.ask(QUESTION).value == "4"
    assert len(server.asked) == 3
    assert asking.retries == asking.budget.spent - 1 == 2


def test_time_outs():
    with Server(writes(), faults=[fault(hang=1.0)]) as server:
        assert client(server, timeout=0.3).ask(QUESTION).value == "4"
    with Server(writes(), faults=[fault(200, text_reply("late"), drip=400)]) as server:  # a byte every 50 ms
        assert client(server, timeout=0.4).ask(QUESTION).value == "4"


def test_it_gives_up_with_the_last_reason():
    with Server(writes(), faults=[fault(500, {"error": {"message": "out of \x1b[31mmemory"}})] * 20) as server:
        reason = r"out of \?\[31mmemory \(status 500\); gave up after 8 requests"
        with pytest.raises(RefusedError, match=rf"stub\): {reason}; the same command later resumes where") as caught:
            client(server).ask(QUESTION)
        assert caught.value.reason.endswith("requests")
        assert len(server.asked) == 8


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"message": f"no credits left for {KEY}\x1b", "code": 402}},
        {"error": f"no credits left for {KEY}\x1b", "choices": []},
        {"choices": [{"text": "", "error": {"message": f"no credits left for {KEY}\x1b"}}]},
    ],
)
def test_an_error_with_a_good_status_is_shown(reply, monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    with Server(writes(), faults=[fault(200, reply)] * 3) as server:
        with pytest.raises(
            RefusedError, match=r"no credits left for \[key\]\? \(status 200\); gave up after 3"
        ) as caught:
            client(server, key_env="BREADTH_TEST_KEY").ask(QUESTION, 3)
        assert caught.value.status == -1


def test_retry_after_is_honoured_by_all(monkeypatch):
    waits = []
    with Server(writes(), faults=[fault(429, headers={"Retry-After": "7"}), fault(503)]) as server:
        asking = client(server)
        monkeypatch.setattr(asking, "_wait", waits.append)
        asking.ask(QUESTION)
        # Before a request every thread waits for what the server asked of any of them.
        assert asking._held_until - time.monotonic() > 6
    assert max(waits) > 6.5
    monkeypatch.setattr(http, "MOST_PATIENCE", 5)
    patient = Server(writes(), faults=[fault(429, headers={"Retry-After": "3600"})])
    with patient as server, pytest.raises(RefusedError, match=r"asks to wait 60 minutes: .*; the same command later"):
        client(server).ask(QUESTION)


def test_waits_grow_and_are_not_all_the_same(monkeypatch):
    monkeypatch.setattr(http, "FIRST_WAIT", 0.5)
    runs = []
    for _ in range(2):
        waits = []
        with Server(writes(), faults=[fault(500)] * 7) as server:
            asking = client(server)
            monkeypatch.setattr(asking, "_wait", waits.append)
            asking.ask(QUESTION)
        runs.append([wait for wait in waits if wait > 0])
    for waits in runs:
        assert all(0.5 <= wait / min(0.5 * 2**k, 30.0) <= 1.0 for k, wait in enumerate(waits))
        assert len(waits) == 7
    assert runs[0] != runs[1]


def test_dates_to_wait_for():
    later = datetime.now(UTC) + timedelta(seconds=100)
    assert 95 < retry_after(format_datetime(later, usegmt=True)) < 101
    assert retry_after("-3") == retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert retry_after("nan") is retry_after("x" * 1000) is retry_after(None) is None
    year, zone = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Mon, 01 Jan 2020 00:00:00 +9999999999999999"
    assert retry_after(year) is retry_after(zone) is None


@pytest.mark.parametrize("status", [400, 404, 413, 422, 501])
def test_what_lasts_is_not_tried_again(status):
    with Server(writes(), faults=[fault(status, {"detail": "no such thing"})]) as server:
        with pytest.raises(RefusedError, match=rf"stub\): no such thing \(status {status}\)") as caught:
            client(server).ask(QUESTION)
        assert caught.value.status == status
        assert len(server.asked) == 1


def test_no_log_probabilities():
    with Server(writes()) as server, pytest.raises(RefusedError, match="has no log-probabilities") as caught:
        client(server).ask(Continued("p", " c"))
    assert caught.value.status == 0


def test_a_huge_reply_is_not_read(monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 2**20)
    huge = Server(writes(), faults=[fault(raw=b" " * 2**22)])
    with huge as server, pytest.raises(RefusedError, match="a reply has more than 1 MB"):
        client(server).ask(QUESTION)


def test_a_compressed_reply_is_not_unpacked():
    packed = fault(raw=b"\x1f\x8b" + b"\0" * 100, headers={"Content-Encoding": "gzip"})
    with Server(writes(), faults=[packed]) as server:
        assert client(server).ask(QUESTION).value == "4"


def test_redirects_are_not_followed(monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    with Server(writes()) as other, Server(writes(), faults=[fault(307, headers={"Location": other.url})]) as server:
        with pytest.raises(RefusedError, match=r"redirects to http://127\.0\.0\.1:\d+/v1, which is not followed"):
            client(server, key_env="BREADTH_TEST_KEY").ask(QUESTION)
        assert other.asked == []


def test_the_key_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    echo = fault(400, {"error": {"message": f"bad key Bearer {KEY}"}})
    with Server(writes(f"the key is {KEY}"), key=KEY) as server:
        asking = client(server, key_env="BREADTH_TEST_KEY")
        assert server.headers == []
        assert asking.ask(QUESTION).value == "the key is [key]"
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        server.faults = [echo]
        with pytest.raises(RefusedError, match=r"bad key Bearer \[key\]"):
            asking.ask(QUESTION)
    assert KEY not in repr(asking) + str(asking.endpoint)


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("encode", [str.upper, lambda key: key[::-1], lambda key: b64encode(key.encode()).decode()])
def test_a_key_that_comes_back_in_other_letters_is_not_shown(encode, status, monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    echo = fault(status, {"error": {"message": f"got {encode(KEY)}", "choices": []}})
    with Server(writes(lambda _: f"got {encode(KEY)}"), faults=[echo]) as server:
        asking = client(server, key_env="BREADTH_TEST_KEY")
        with pytest.raises(RefusedError, match=r"got \[key\]") as caught:
            asking.ask(QUESTION, attempts=1)
        assert encode(KEY) not in str(caught.value)
        assert asking.ask(QUESTION).value == "got [key]"


def test_a_key_as_the_name_of_a_model_is_not_shown(monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", KEY)
    with Server(writes(), models=(f"m-{KEY}", KEY[::-1] + "\x1b[31m" * 100)) as server:
        connection = Connection(Endpoint(server.url, "stub", key_env="BREADTH_TEST_KEY"))
        connection._list_models()
    (note,) = connection.notes
    assert "m-[key]" in note
    assert KEY[::-1] not in note
    assert "\x1b" not in note
    assert len(note) < 500


@pytest.mark.parametrize("status", [200, 307, 400, 401, 500])
def test_what_a_server_says_is_shown_in_a_few_words(status):
    words = "\x1b[31m\u202e\r\nhello " * 100_000
    faults = [fault(status, {"error": {"message": words}}), fault(status, raw=words.encode())]
    faults[0]["headers"]["Location"] = faults[1]["headers"]["Location"] = "http://elsewhere/" + "a" * 5000
    with Server(writes(), faults=faults) as server:
        for _ in faults:
            with pytest.raises(RefusedError) as caught:
                client(server).ask(QUESTION, attempts=1)
            assert len(str(caught.value)) < 600
            assert str(caught.value).isprintable()


def test_a_key_that_is_refused(monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", "another-key-5678")
    with Server(writes(), key=KEY) as server:
        with pytest.raises(RefusedError, match=r"refuses the key in BREADTH_TEST_KEY: .*; check the key"):
            client(server, key_env="BREADTH_TEST_KEY").ask(QUESTION)
        with pytest.raises(RefusedError, match=r"refuses a request without a key: .*; name its variable with key_env"):
            client(server).ask(QUESTION)
        assert client(server).models() is None
        assert len(server.asked) == 2


def test_models():
    with Server(writes(), models=("a", "b")) as server:
        assert client(server).models() == ["a", "b"]
    for broken in (fault(404), fault(500), fault(raw=b"<html>"), fault(200, {"models": []})):
        with Server(writes(), models=broken) as server:
            assert client(server).models() is None


def test_no_server():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(InputError, match=r"no server answers there; check the address, and whether it is running"):
        Client(Endpoint(f"http://127.0.0.1:{port}/v1", "stub")).models()


def test_the_budget_counts_every_request():
    with Server(writes(), faults=[fault(500)] * 2) as server:
        asking = Client(Endpoint(server.url, "stub"), Budget(4))
        asking.ask(QUESTION)
        asking.ask(QUESTION)
        with pytest.raises(BudgetSpentError):
            asking.ask(QUESTION)
        assert len(server.asked) == 4


def test_a_proxy_of_the_environment(monkeypatch):
    with Server(writes("by proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        asking = Client(Endpoint("http://example.invalid/v1", "stub"))
        with pytest.raises(RefusedError, match="404"):  # the proxy of the test takes the whole address for a path
            asking.ask(QUESTION)
        assert len(proxy.asked) == 1


def test_no_secure_connection_is_no_reply():
    """It says nothing about what the server can do."""
    with Server(writes()) as server, pytest.raises(RefusedError, match="no secure connection") as caught:
        Client(Endpoint(server.url.replace("http:", "https:"), "stub")).ask(QUESTION)
    assert caught.value.status == -1


@pytest.mark.parametrize(
    "url", ["http://localhost:8000/v1", "https://api.example.org/v1/", "http://[::1]:8000", "http://10.0.0.1/x/v1"]
)
def test_addresses(url):
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000/v1", "is not an address"),
        ("ftp://host/v1", "is not an address"),
        ("http:///v1", "is not an address"),
        ("http://host:eighty/v1", "is not an address"),
        ("http://ho st/v1", "is not an address"),
        ("http://[::1/v1", "is not an address"),
        ("http://me:secret@host/v1", "a user or password"),
        ("https://host/v1?key=secret", "a query"),
        ("http://host/v1/chat/completions", "leave out what follows /v1"),
        ("http://host/v1/models/", "leave out what follows /v1"),
    ],
)
def test_wrong_addresses_are_not_repeated(url, words):
    problem = url_problem(url)
    assert words in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    "name", ["MY_KEY", "OPENAI_API_KEY", "my_key", "KEY2", "AZURE_OPENAI_API_KEY_2", "TEAM_VLLM_3_KEY"]
)
def test_names_of_variables(name):
    assert key_env_problem(name) is None


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abc",
        "sk_live_51H8x9fRtU2b",
        "hf_abcDEFghiJKLmno123",
        "AKIAIOSFODNN7EXAMPLE",
        "my key",
        "",
        "4242",
        "ключ",
    ],
)
def test_keys_are_recognised_and_not_repeated(key):
    problem = key_env_problem(key)
    assert "never write a key into a study file" in problem
    assert not key or key not in problem


def test_the_key_comes_from_the_environment(monkeypatch):
    endpoint = Endpoint("http://localhost/v1", "m", key_env="BREADTH_TEST_KEY")
    monkeypatch.setenv("BREADTH_TEST_KEY", " abcd1234 \n")
    assert endpoint.key() == "abcd1234"
    assert "abcd1234" not in repr(endpoint)
    assert Endpoint("http://localhost/v1", "m").key() == ""
    monkeypatch.setenv("BREADTH_TEST_KEY", " ")
    with pytest.raises(InputError, match="BREADTH_TEST_KEY, which key_env names, is not set"):
        endpoint.key()
    monkeypatch.setenv("BREADTH_TEST_KEY", "abc\ndef")
    with pytest.raises(InputError, match="characters that a header cannot carry") as caught:
        endpoint.key()
    assert "def" not in str(caught.value)


def test_what_determines_answers():
    plain = Endpoint("http://localhost/v1", "m")
    assert plain.identity() == Endpoint("http://localhost/v1", "m", "auto", "K", 99, 1.0).identity()
    assert plain.identity() != Endpoint("http://localhost/v1", "m", "chat").identity()


def test_a_key_without_encryption():
    assert is_exposed(Endpoint("http://example.org/v1", "m", key_env="K"))
    for url, key_env in (
        ("https://example.org/v1", "K"),
        ("http://localhost:1/v1", "K"),
        ("http://example.org/v1", None),
    ):
        assert not is_exposed(Endpoint(url, "m", key_env=key_env))
