"""A try ends at its deadline, whatever of it is slow; servers are real, with and without encryption and proxies."""

import contextlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from breadth.endpoints import Client, Endpoint, RefusedError, exchange
from breadth.endpoints import client as http
from breadth.endpoints.exchange import Exchange, TooManyBytesError
from breadth.endpoints.protocol import Written

from ..serving import Server, text_reply, writes
from .raw_server import RawServer, endlessly, reply_bytes

QUESTION = Written("2 + 2 =", "completions", 4)

#: Seconds of a try, and what it may take besides.
TIMEOUT, LITTLE = 0.6, 1.0

SLOW = {
    "the first byte": lambda: endlessly(b"", b"", 0.1),
    "the status line": lambda: endlessly(b"HTTP/1.1 200 ", b"O", 0.1),
    "one header after the other": lambda: endlessly(b"HTTP/1.1 200 OK\r\n", b"X-Wait: 1\r\n", 0.1),
    "a header without end": lambda: endlessly(b"HTTP/1.1 200 OK\r\nX-Wait: ", b"1", 0.1),
    "informational replies": lambda: endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
    "the body": lambda: endlessly(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{", b" ", 0.1),
    "chunks": lambda: endlessly(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.1),
    "the size of a chunk": lambda: endlessly(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0", 0.1),
    "what follows the chunks": lambda: endlessly(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Wait: 1\r\n", 0.1
    ),
}


def seconds_until_given_up(url):
    """Ask once; the seconds until the time-out is reported."""
    asking, began = Client(Endpoint(url, "stub", timeout=TIMEOUT)), time.monotonic()
    with pytest.raises(RefusedError, match=r"no whole answer within 0\.6 seconds") as caught:
        asking.ask(QUESTION, attempts=1)
    assert caught.value.status == -1
    return time.monotonic() - began


@pytest.mark.parametrize("what", SLOW)
def test_whatever_is_slow_ends_at_the_deadline(what):
    with RawServer(lambda *_: SLOW[what]()) as server:
        assert TIMEOUT - 0.1 < seconds_until_given_up(server.url) < TIMEOUT + LITTLE


@pytest.mark.parametrize("what", ["one header after the other", "the body"])
def test_encryption_ends_at_the_deadline(what, certificate, monkeypatch):
    context, file = certificate
    monkeypatch.setenv("SSL_CERT_FILE", file)
    with RawServer(lambda *_: SLOW[what](), context) as server:
        assert TIMEOUT - 0.1 < seconds_until_given_up(server.url) < TIMEOUT + LITTLE


def test_questions_over_an_encrypted_connection_that_is_kept(certificate, monkeypatch):
    context, file = certificate
    monkeypatch.setenv("SSL_CERT_FILE", file)
    with RawServer(lambda *_: reply_bytes(), context) as server:
        asking = Client(Endpoint(server.url, "stub", timeout=5))
        assert [asking.ask(QUESTION).value for _ in range(3)] == ["4"] * 3
        assert server.connections == 1


def test_a_certificate_that_nobody_signed_is_refused(certificate):
    with RawServer(lambda *_: reply_bytes(), certificate[0]) as server:
        with pytest.raises(RefusedError, match="no secure connection"):
            Client(Endpoint(server.url, "stub", timeout=5)).ask(QUESTION)
        assert server.requests == []


def test_a_handshake_that_never_ends():
    """A server that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        took = seconds_until_given_up(f"https://127.0.0.1:{silent.getsockname()[1]}/v1")
    assert TIMEOUT - 0.1 < took < TIMEOUT + LITTLE


def test_a_server_that_does_not_read(monkeypatch):
    """Sending the request is part of the try."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        asking, began = Client(Endpoint(url, "stub", timeout=TIMEOUT)), time.monotonic()
        with pytest.raises(RefusedError, match=r"no whole answer within 0\.6 seconds"):
            asking.ask(Written("a" * 2**24, "completions", 4), attempts=1)
        assert time.monotonic() - began < TIMEOUT + LITTLE


def test_a_proxy_that_never_opens_the_tunnel(monkeypatch):
    with RawServer(lambda *_: SLOW["one header after the other"]()) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        assert seconds_until_given_up("https://example.invalid/v1") < TIMEOUT + LITTLE
        assert proxy.requests[0][0][0].startswith("CONNECT example.invalid:443 ")


def relay(connection, target):
    """Pass bytes between two sockets until one of them ends."""
    with contextlib.suppress(OSError), connection, target:
        while True:
            ready, _, _ = select.select([connection, target], [], [], 10)
            for source in ready:
                content = source.recv(2**16)
                if not content:
                    return
                (target if source is connection else connection).sendall(content)


def test_questions_through_a_tunnel(certificate, monkeypatch):
    """CONNECT, then encryption, both within the time."""
    context, file = certificate
    with RawServer(lambda *_: reply_bytes(), context) as server, socket.create_server(("127.0.0.1", 0)) as proxy:

        def serve():
            connection, _ = proxy.accept()
            assert connection.recv(2**16).startswith(b"CONNECT ")
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(connection, socket.create_connection(("127.0.0.1", server.port)))

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("SSL_CERT_FILE", file)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        assert Client(Endpoint(server.url, "stub", timeout=5)).ask(QUESTION).value == "4"


def test_every_try_on_a_connection_that_is_kept_has_its_own_time():
    """Four tries of 0.3 s on one connection take longer than the time-out, and none is late."""

    def slowly(path, body):
        time.sleep(0.3)
        return text_reply("4")

    with Server(slowly) as server:
        asking = Client(Endpoint(server.url, "stub", timeout=0.9))
        for _ in range(4):
            assert asking.ask(QUESTION, attempts=1).value == "4"


def test_a_late_reply_does_not_answer_the_next_question():
    """The connection of a try that was given up is not used again."""
    late = threading.Event()

    def pieces(head, body):
        if b"first" in body:
            late.wait(0.9)
            return reply_bytes(text_reply("late"))
        return reply_bytes(text_reply("in time"))

    with RawServer(pieces) as server:
        asking = Client(Endpoint(server.url, "stub", timeout=0.4))
        with pytest.raises(RefusedError):
            asking.ask(Written("first", "completions", 4), attempts=1)
        late.set()
        time.sleep(0.1)
        assert asking.ask(Written("second", "completions", 4), attempts=1).value == "in time"


def test_ctrl_c_ends_a_slow_reply_at_once():
    code = (
        "import sys\n"
        "from breadth.endpoints import Client, Endpoint\n"
        "from breadth.endpoints.protocol import Written\n"
        "print('asking', flush=True)\n"
        "Client(Endpoint(sys.argv[1], 'stub', timeout=60)).ask(Written('p', 'completions', 4))\n"
    )
    with RawServer(lambda *_: SLOW["one header after the other"]()) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 30
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 2**16),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 2**16 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n" * 1000),
    ],
)
def test_all_bytes_of_a_reply_are_counted(beginning, piece, monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 2**20)
    with RawServer(lambda *_: endlessly(beginning, piece)) as server:
        with pytest.raises(RefusedError, match="a reply has more than 1 MB") as caught:
            Client(Endpoint(server.url, "stub", timeout=20)).ask(QUESTION)
        assert caught.value.status == -1
        assert len(server.requests) == 1


def test_addresses_that_do_not_answer_share_the_time(monkeypatch):
    """A name with several addresses, none of which takes a connection: their queues are full."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        time.sleep(0.1)
        each = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(exchange.socket, "getaddrinfo", lambda *_, **__: [each] * 5)
        assert seconds_until_given_up(f"http://several.invalid:{port}/v1") < TIMEOUT + LITTLE


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".invalid"])
def test_a_name_without_an_address(host):
    with pytest.raises(RefusedError, match="no server answers there"):
        Client(Endpoint(f"http://{host}/v1", "stub", timeout=5)).ask(QUESTION, attempts=1)


def test_what_is_left_of_an_exchange():
    with Exchange(100.0, 10) as whole:
        assert 99 < whole.seconds_left() <= 100
        whole.count(10)
        assert not whole.is_too_large
        with pytest.raises(TooManyBytesError):
            whole.count(1)
        assert whole.is_too_large
    late = Exchange(0.0, 10)
    assert late.is_late
    with pytest.raises(TimeoutError):
        late.seconds_left()


def test_a_good_server_is_answered_in_time():
    with Server(writes()) as server:
        assert Client(Endpoint(server.url, "stub", timeout=5)).ask(QUESTION).value == "4"
