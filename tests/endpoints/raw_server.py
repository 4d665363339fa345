"""A server on loopback that sends whatever bytes a test chooses, piece by piece, with or without encryption."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from ..serving import text_reply


def reply_bytes(body=None, head="", status="200 OK", content=None):
    """A whole reply: a status, the lines of ``head`` and a body, with the right length unless ``head`` has one."""
    if content is None:
        content = json.dumps(text_reply("4") if body is None else body).encode()
    if "content-length" not in head.lower() and "transfer-encoding" not in head.lower():
        head += f"Content-Length: {len(content)}\r\n"
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def endlessly(beginning, piece, pause=0.0):
    """Pieces without end."""
    yield beginning
    while True:
        yield piece
        time.sleep(pause)


class RawServer:
    """Answers each POST with the bytes that ``pieces(request)`` yields, and closes the connection afterwards unless
    they are one whole reply (bytes). ``requests`` are the heads and bodies that came, without those for ``/models``,
    which ``models()`` answers.
    """

    def __init__(self, pieces, context=None, models=lambda: reply_bytes({"data": [{"id": "stub"}]})):
        self.pieces, self.context, self.models, self.requests = pieces, context, models, []
        self.connections, self.closed = 0, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True
        self.listener.close()

    def _accept(self):
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        # What a client does to a connection that it has given up is no failure of the test.
        with contextlib.suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as file:
                while self._answer(connection, file):
                    pass

    def _answer(self, connection, file):
        head = []
        while (line := file.readline()).strip():
            head.append(line.decode())
        if not head:
            return False
        lengths = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")]
        body = file.read(lengths[0]) if lengths else b""
        if head[0].startswith("GET"):
            pieces = self.models()
        else:
            self.requests.append((head, body))
            pieces = self.pieces(head, body)
        if isinstance(pieces, bytes):
            connection.sendall(pieces)
            return True
        for piece in pieces:
            if self.closed:
                break
            connection.sendall(piece)
        return False


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The settings of a server with encryption on loopback, and the file of its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("certificate")
    key, file = str(folder / "key.pem"), str(folder / "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", file],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context, file
