"""Where a model behind an endpoint is: its address, its name there, and the variable that holds the key.

The key itself is read from the environment when a client is made, and is kept nowhere else.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from breadth.errors import InputError

#: The way to ask: plain text, messages, or plain text unless the server only takes messages.
Api = Literal["auto", "completions", "chat"]

#: Hosts of this machine: a key that is sent there without encryption stays here.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    digits, lower = any(letter.isdigit() for letter in name), any(letter.islower() for letter in name)
    if _VARIABLE.fullmatch(name) and not (len(name) >= 16 and digits and (lower or "_" not in name)):
        return None
    return (
        "is not the name of an environment variable; never write a key into a study file: put it into a variable "
        "(export MY_KEY=...) and name that (key_env: MY_KEY)"
    )


def is_exposed(endpoint: Endpoint) -> bool:
    """Whether a key would travel over a network without encryption."""
    parts = urlsplit(endpoint.url)
    return endpoint.key_env is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK
