"""A model behind an endpoint: where it is, and one question, one answer. Needs the ``endpoint`` extra.

Requests go over HTTP with retries, and errors are one message. The key is read from the environment when a client is
made, and is kept nowhere else. What a server sends is data: at most ``MOST_BYTES`` of it are read, for at most as long
as the time-out says (``exchange``), redirects are not followed, and its words reach a message only without control
characters, cut short and without the key.

Tries are counted here and not by ``urllib3.Retry``. That one decides before the body of a reply is read, but bodies are
cut, malformed, or hold an error under a good status. It sleeps where Ctrl-C must be able to end a wait. And what a
server asks of one thread must hold for all: benchmarks/LOG.md, "Libraries that were tried in place of own code".
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import uniform
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from breadth.endpoints.protocol import (
    KeptAnswer,
    MalformedError,
    NoLogprobsError,
    Question,
    error_words,
    model_ids,
    server_message,
    tokens_of,
)
from breadth.endpoints.redaction import Redactor
from breadth.errors import InputError, printable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool

    from breadth.endpoints.exchange import Exchange

#: The way to ask: plain text, messages, or plain text unless the server only takes messages.
Api = Literal["auto", "completions", "chat"]

#: Hosts of this machine: a key that is sent there without encryption stays here.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: Most bytes of a reply.
MOST_BYTES = 16 * 2**20

#: Most lists and objects in a reply; the log-probabilities of a prompt of 100,000 tokens have about as many.
MOST_CONTAINERS = 200_000

#: Requests per question before it is given up; fewer before a server has answered anything.
ATTEMPTS, FIRST_ATTEMPTS = 8, 3

#: Seconds to wait after the first failure, doubled after each, and the most; at random from half of it on.
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0

#: The longest wait that a server may ask for, in seconds.
MOST_PATIENCE = 900.0

#: Statuses that may pass, besides those of 500 and above; and those of 500 and above that do not.
PASSING, LASTING = (408, 425, 429), (501, 505)

#: Statuses that mean: the server does not know such requests or such values.
UNSUPPORTED = (400, 404, 405, 422, 501)

#: Most characters of a server's words in a message, and about how many are looked at for them.
MOST_WORDS, LOOKED_AT = 300, 4000

#: What to do about an error that may be gone later.
RESUMES = "the same command later resumes where it stopped"


@dataclass(frozen=True)
class Endpoint:
    """A model on a server that speaks the OpenAI-compatible protocol.

    ``url`` ends where ``/completions`` and ``/models`` begin, usually with ``/v1``. ``concurrency`` is the number of
    requests at a time, ``timeout`` the seconds after which one is given up; neither changes an answer.
    """

    url: str
    model: str
    api: Api = "auto"
    key_env: str | None = None
    concurrency: int = 16
    timeout: float = 300.0

    def identity(self) -> dict[str, str]:
        """What determines answers: the address, the name of the model there and the way to ask."""
        return {"url": self.url, "model": self.model, "api": self.api}

    def key(self) -> str:
        """The key from the environment; empty if none is needed."""
        if self.key_env is None:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise InputError(
                f"{self.url}: the environment variable {self.key_env}, which key_env names, is not set; put the key "
                f"there (export {self.key_env}=...) and run the same command again"
            )
        if not key.isascii() or not key.isprintable():
            raise InputError(f"{self.url}: the key in {self.key_env} has characters that a header cannot carry")
        return key


def url_problem(url: str) -> str | None:
    """What is wrong with the address of an endpoint; the address itself is not repeated, since it may hold a key."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "is not an address; write it as http://localhost:8000/v1"
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        return "is not an address; write it as http://localhost:8000/v1"
    if parts.username is not None or parts.query or parts.fragment:
        what = "a user or password" if parts.username is not None else "a query"
        return f"has {what}; give the plain address, and a key through key_env"
    if re.search(r"/(completions|models)/*$", parts.path):
        return "is the address of one request; leave out what follows /v1"
    return None


def key_env_problem(name: str) -> str | None:
    """Why a value is not the name of a variable; one that looks like a key is not repeated.

    >>> key_env_problem("MY_KEY") is None, key_env_problem("sk-4f9a") is None
    (True, False)
    """
    # Keys are long and have digits among small letters (hf_abc...123) or no underscores (AKIAIOSFODNN7EXAMPLE).
    has_digits = any(letter.isdigit() for letter in name)
    has_small_letters = any(letter.islower() for letter in name)
    looks_like_key = len(name) >= 16 and has_digits and (has_small_letters or "_" not in name)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not looks_like_key:
        return None
    return (
        "is not the name of an environment variable; never write a key into a study file: put it into a variable "
        "(export MY_KEY=...) and name that (key_env: MY_KEY)"
    )


def is_exposed(endpoint: Endpoint) -> bool:
    """Whether a key would travel over a network without encryption."""
    parts = urlsplit(endpoint.url)
    return endpoint.key_env is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK


class RefusedError(InputError):
    """A request that has no answer; ``status`` is 0 if a reply lacks what was asked for, and -1 without a reply.

    ``remedy`` is part of the message, but not of the ``reason``, which other messages quote. ``question`` is the one
    that such a reply was to answer.
    """

    question: Question | None = None

    def __init__(self, where: str, reason: str, status: int = 0, remedy: str = "") -> None:
        message = f"{where}: {reason}"
        if remedy:
            message += f"; {remedy}"
        super().__init__(message)
        self.reason, self.status = reason, status


class BudgetSpentError(Exception):
    """As many requests as allowed have been sent."""


class StoppedError(Exception):
    """Asking was stopped while a request waited for its next try."""


class _PassingError(Exception):
    """Something that may be gone at the next try; ``wait`` is what the server asks for, in seconds.

    ``status`` is 0 if there was no whole reply.
    """

    def __init__(self, reason: str, status: int = 0, wait: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.wait = status, wait


class Budget:
    """How many requests have been sent, and how many may be; retries count."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.spent = most, 0
        self._lock = threading.Lock()

    def take(self) -> None:
        """Count a request, unless none is left."""
        with self._lock:
            if self.most is not None and self.spent >= self.most:
                raise BudgetSpentError
            self.spent += 1


class Client:
    """Asks one endpoint, from any number of threads. ``stop`` ends the waits between tries."""

    def __init__(self, endpoint: Endpoint, budget: Budget | None = None) -> None:
        self.endpoint, self.budget = endpoint, budget or Budget()
        self.stop = threading.Event()
        self.retries = 0
        self._held_until = 0.0
        key = endpoint.key()
        self._redactor = Redactor(key)
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "breadth"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._pool, self._target, self._begin_exchange = _open_pool(endpoint)

    @property
    def where(self) -> str:
        """What messages call the endpoint."""
        return f"{self.endpoint.url} ({printable(self.endpoint.model)})"

    def ask(self, question: Question, attempts: int | None = None) -> KeptAnswer:
        """Ask until there is an answer; ``InputError`` if there is none after so many requests (``ATTEMPTS``)."""
        if attempts is None:
            attempts = ATTEMPTS
        content = json.dumps({"model": self.endpoint.model, **question.fields()}).encode()
        for attempt in range(1, attempts + 1):
            # Another thread may have been told to wait.
            self._wait(self._held_until - time.monotonic())
            self.budget.take()
            try:
                return self._ask_once(question, content)
            except NoLogprobsError as error:
                refused = RefusedError(self.where, str(error))
                refused.question = question
                raise refused from error
            except (_PassingError, MalformedError) as error:
                if attempt == attempts:
                    # No reply; a malformed one is none either.
                    status = -1
                    if isinstance(error, _PassingError) and error.status:
                        status = error.status
                    reason = f"{error}; gave up after {attempts} requests"
                    raise RefusedError(self.where, reason, status, RESUMES) from error
                self._wait_before_retry(error, attempt)
        raise AssertionError("no attempt was made")

    def _ask_once(self, question: Question, content: bytes) -> KeptAnswer:
        reply = self._request("POST", question.path, content)
        # Routers in front of several providers pass on an error of theirs with status 200; it may pass.
        said = self.quote(error_words(reply))
        if said:
            raise MalformedError(f"{said} (status 200)")
        value = question.read(reply)
        if isinstance(value, str):
            value = self._redactor.redact(value)
        return KeptAnswer(question, value, tokens_of(reply))

    def models(self) -> list[str] | None:
        """Names of the server's models; None if it does not list them. It must be there, though."""
        for attempt in range(1, FIRST_ATTEMPTS + 1):
            try:
                return model_ids(self._request("GET", "/models", None))
            except (MalformedError, RefusedError):
                return None
            except _PassingError as error:
                # A server with an error of its own is there; whether it answers, the first question shows.
                if error.status:
                    return None
                if attempt == FIRST_ATTEMPTS:
                    raise InputError(f"{self.where}: {error}; check the address, and whether it is running") from error
                self._wait_before_retry(error, attempt)
        return None

    def _request(self, method: str, path: str, content: bytes | None) -> dict[str, Any]:
        """Send a request; the reply if it is a JSON object and the status a good one."""
        status, headers, body = self._exchange(method, path, content)
        reply = _parse_reply(body)
        if status != 200:
            said = self.quote(server_message(reply) or body.decode("utf-8", "replace"))
            raise self._status_error(status, said, headers)
        if not isinstance(reply, dict):
            raise MalformedError(f"the reply is not a JSON object: {self.quote(body.decode('utf-8', 'replace'))}")
        return reply

    def _exchange(self, method: str, path: str, content: bytes | None) -> tuple[int, Any, bytes]:
        """Send a request: the status, the headers and the body of the reply, all within one deadline."""
        exchange, response = self._begin_exchange(self.endpoint.timeout, MOST_BYTES), None
        try:
            with exchange:
                response = self._pool.urlopen(
                    method, self._target + path, body=content, headers=self._headers, retries=False, redirect=False,
                    assert_same_host=False, preload_content=False,
                )  # fmt: skip
                return response.status, response.headers, _read_body(response)
        except BaseException as error:
            # A reply that was not read to its end leaves a connection that cannot be used again.
            if response is not None:
                response.close()
            reason = self._exchange_error(exchange, error)
            if reason is None:
                raise
            raise reason from error

    def _exchange_error(self, exchange: Exchange, error: BaseException) -> Exception | None:
        """Why there is no whole reply; None if it is not for the server. The exchange is asked before the error,
        because urllib3 has several errors for each reason."""
        from urllib3.exceptions import HTTPError, NewConnectionError, SSLError, TimeoutError

        if not isinstance(error, HTTPError | OSError):
            return None
        if exchange.is_too_large:
            return RefusedError(self.where, f"a reply has more than {MOST_BYTES / 2**20:.0f} MB", -1)
        if isinstance(error, NewConnectionError):
            return _PassingError("no server answers there")
        if exchange.is_late or isinstance(error, TimeoutError):
            return _PassingError(f"no whole answer within {self.endpoint.timeout:g} seconds")
        if isinstance(error, SSLError):
            return RefusedError(self.where, f"no secure connection ({self.quote(str(error))})", -1)
        return _PassingError("the connection was cut")

    def _status_error(self, status: int, said: str, headers: Any) -> Exception:
        """The error of a status."""
        words = f"status {status}"
        if said:
            words = f"{said} ({words})"
        if status in PASSING or (status >= 500 and status not in LASTING):
            wait = retry_after(headers.get("Retry-After"))
            # A quota that comes back tomorrow: better to end with a message than to sit there silently.
            if wait is not None and wait > MOST_PATIENCE:
                return RefusedError(self.where, f"asks to wait {wait / 60:,.0f} minutes: {words}", status, RESUMES)
            return _PassingError(words, status, wait)
        if status in (401, 403):
            if self.endpoint.key_env:
                key, remedy = f"the key in {self.endpoint.key_env}", "check the key"
            else:
                key, remedy = "a request without a key", "name its variable with key_env"
            return RefusedError(self.where, f"the server refuses {key}: {words}; {remedy}", status)
        if 300 <= status < 400:
            # Followed, a redirect would take the key to a server that the user has not named.
            target = self.quote(str(headers.get("Location", ""))) or "another address"
            reason = f"redirects to {target}, which is not followed; give the address that answers"
            return RefusedError(self.where, reason, status)
        return RefusedError(self.where, words, status)

    def _wait_before_retry(self, error: Exception, attempt: int) -> None:
        """Wait before the next try; what a server asks for holds for all threads."""
        self.retries += 1
        wait = min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * uniform(0.5, 1.0)
        if isinstance(error, _PassingError) and error.wait is not None:
            self._held_until = max(self._held_until, time.monotonic() + error.wait)
            wait *= 0.1  # so that the threads do not all come back at once
        self._wait(max(self._held_until - time.monotonic(), 0.0) + wait)

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and self.stop.wait(seconds):
            raise StoppedError

    def quote(self, text: str, most: int = MOST_WORDS) -> str:
        """Words of a server as a message may hold them: printable, in one line, without the key, cut short."""
        # Before control characters are replaced, because bytes of the key may be among what looks like one.
        text = self._redactor.beginning(text, LOOKED_AT)
        # And afterwards, because the rest may spell the key.
        text = self._redactor.redact(" ".join(printable(text).split()))
        if len(text) > most:
            return f"{text[:most]} ..."
        return text


def _parse_reply(body: bytes) -> Any:
    """What the JSON of a reply says; None if it is none, or too much."""
    # 16 MB of empty lists took 3.4 s, in which no other thread did anything, and 365 MB. Braces in a text count, too.
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def retry_after(value: str | None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, which gives seconds or a date.

    >>> retry_after("2.5"), retry_after("soon"), retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (2.5, None, 0.0)

    ``urllib3.Retry`` has the like, which refuses seconds with a fraction and those that are negative.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):  # the last: a year or a time zone of twenty digits
            return None
        # A date without a zone is in UTC.
        seconds = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    if math.isnan(seconds):
        return None
    return max(seconds, 0.0)


def _read_body(response: BaseHTTPResponse) -> bytes:
    """The body of a reply, in pieces as they arrive: the length that a header promises may be any number."""
    parts = []
    while True:
        # Not decoded: a few compressed bytes could fill the memory. We ask for plain text anyway.
        part = response.read1(2**16, decode_content=False)
        parts.append(part)
        # The second: all that was promised is there, which saves looking once more.
        if not part or response.length_remaining == 0:
            break
    response.release_conn()
    return b"".join(parts)


def _open_pool(endpoint: Endpoint) -> tuple[HTTPConnectionPool, str, type[Exchange]]:
    """Connections that are kept open, what requests are called there, and what limits each.

    If the environment names a proxy, they go through it; requests without encryption then have their whole address.
    """
    try:
        from breadth.endpoints.exchange import Exchange, open_pool
    except ImportError as error:
        raise InputError(
            "models behind an endpoint need urllib3; install with: pip install 'breadth[endpoint]'"
        ) from error
    parts = urlsplit(endpoint.url)
    target = parts.path
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        proxy = None
    elif parts.scheme == "http":
        target = endpoint.url
    return open_pool(endpoint.url, proxy, endpoint.concurrency, endpoint.timeout), target, Exchange
