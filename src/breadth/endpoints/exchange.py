"""One try to get a reply, within one deadline and one number of bytes, whatever the server does.

urllib3 limits the time between two pieces of a reply, not that of the whole: a server that sent one header line every
half second was never given up. Here every read, write and handshake gets the time that is left of the try, and what it
received is counted: connecting, proxies, headers and body alike. The sockets ask the exchange of their thread, because
a connection that is kept open serves one try after another, from any thread.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context

#: Seconds to wait for a connection to one address of a server.
CONNECT = 10.0

#: Seconds by which an exchange may be late.
LATE = 0.05


class _Current(threading.local):
    """The exchange of each thread; None outside of one."""

    exchange: Exchange | None = None


_CURRENT = _Current()


class TooManyBytesError(OSError):
    """A server sends more than a reply may have."""


class Exchange:
    """What is left of one try: until when, and how many bytes a server may still send."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self.ends, self.bytes_left = time.monotonic() + seconds, most_bytes

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.ends

    @property
    def is_too_large(self) -> bool:
        """Whether the server has sent more than it may."""
        return self.bytes_left < 0

    def seconds_left(self) -> float:
        """Seconds for the next operation; ``TimeoutError`` if there are none."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for this exchange is up")
        return left

    def count(self, received: int) -> None:
        """Count bytes that were received."""
        self.bytes_left -= received
        if self.bytes_left < 0:
            raise TooManyBytesError("more bytes than a reply may have")

    def __enter__(self) -> Exchange:
        """From now on, what the sockets of this module do in this thread is limited."""
        _CURRENT.exchange = self
        return self

    def __exit__(self, *_: object) -> None:
        """The exchange is over."""
        _CURRENT.exchange = None


def _limit_time(sock: socket.socket) -> Exchange | None:
    """Give a socket the time that is left of this thread's exchange, if it is in one."""
    exchange = _CURRENT.exchange
    if exchange is not None:
        left, current = exchange.seconds_left(), sock.gettimeout()
        # Setting a time lets another thread run, and did so often enough to cost a quarter of the throughput. At the
        # first operations of a try, urllib3 has just set the whole time.
        if current is None or not left <= current <= left + LATE:
            sock.settimeout(left)
    return exchange


class LimitedSocket(socket.socket):
    """A connection without encryption."""

    def recv(self, *arguments: Any) -> bytes:  # noqa: D102
        exchange = _limit_time(self)
        received = super().recv(*arguments)
        if exchange is not None:
            exchange.count(len(received))
        return received

    def recv_into(self, *arguments: Any, **options: Any) -> int:  # noqa: D102
        exchange = _limit_time(self)
        received = super().recv_into(*arguments, **options)
        if exchange is not None:
            exchange.count(received)
        return received

    def sendall(self, *arguments: Any) -> None:
        """The time that is set holds for all that is sent, not for each part of it."""
        _limit_time(self)
        super().sendall(*arguments)


class LimitedTLSSocket(ssl.SSLSocket):
    """A connection with encryption; bytes are counted as they are after decryption."""

    def recv(self, *arguments: Any, **options: Any) -> bytes:  # noqa: D102
        exchange = _limit_time(self)
        received = super().recv(*arguments, **options)
        if exchange is not None:
            exchange.count(len(received))
        return received

    def recv_into(self, *arguments: Any, **options: Any) -> int:  # noqa: D102
        exchange = _limit_time(self)
        received = super().recv_into(*arguments, **options)
        if exchange is not None:
            exchange.count(received)
        return received

    def send(self, *arguments: Any, **options: Any) -> int:
        """Also each part of what ``sendall`` is given."""
        _limit_time(self)
        return super().send(*arguments, **options)

    def do_handshake(self, *arguments: Any, **options: Any) -> None:  # noqa: D102
        _limit_time(self)
        super().do_handshake(*arguments, **options)


def _connect(connection: HTTPConnection) -> LimitedSocket:
    """A socket that is connected to one of the addresses of a host.

    urllib3 has the like, which gives every address the whole time to connect.
    """
    exchange = _CURRENT.exchange
    failure: OSError = OSError("the host has no address")
    try:
        # A name has no time-out: the system's resolver has one of its own, of seconds.
        addresses = socket.getaddrinfo(connection.host.strip("[]"), connection.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the second: a label of more than 63 letters
        raise NewConnectionError(connection, f"the host has no address: {error}") from error
    for family, kind, protocol, _, address in addresses:
        sock = None
        try:
            sock = LimitedSocket(family, kind, protocol)
            for option in connection.socket_options or ():
                sock.setsockopt(*option)
            seconds = CONNECT
            if exchange is not None:
                seconds = min(CONNECT, exchange.seconds_left())
            sock.settimeout(seconds)
            sock.connect(address)
            return sock
        except OSError as error:
            failure = error
            if sock is not None:
                sock.close()
        except BaseException:
            if sock is not None:
                sock.close()
            raise
    if isinstance(failure, TimeoutError):
        raise ConnectTimeoutError(connection, "no connection in time") from failure
    raise NewConnectionError(connection, str(failure)) from failure


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _TLSConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def _tls_context() -> ssl.SSLContext:
    """The settings of urllib3, certificates of the system, and sockets of this module."""
    context = create_urllib3_context()
    context.load_default_certs()
    context.sslsocket_class = LimitedTLSSocket
    return context


def open_pool(url: str, proxy: str | None, size: int, seconds: float) -> urllib3.HTTPConnectionPool:
    """Connections to a server that are kept open, whose sockets obey the exchange of the thread that uses them."""
    options: dict[str, Any] = {"maxsize": size, "timeout": seconds}
    if url.startswith("https:"):
        options["ssl_context"] = _tls_context()
    if proxy is None:
        manager = urllib3.PoolManager(**options)
    else:
        if proxy.startswith("https:"):
            options["proxy_ssl_context"] = _tls_context()
        manager = urllib3.ProxyManager(proxy, **options)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
    return manager.connection_from_url(url)
