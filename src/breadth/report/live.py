"""A page that follows a study while it runs: standard library only, read only, bound to this machine by default."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.records import is_study
from breadth.report.contents import Gathered
from breadth.report.pages import asset, payload, render_html, render_main, template
from breadth.report.progress import Follower

#: A study is analysed again at most this often, and never for more than a third of the time.
LEAST_PAUSE = 3.0

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}

Gather = Callable[[Path], Gathered]


class LiveStudy:
    """One study's pages. Progress and trajectories are read as they grow; the analysis follows in the background."""

    def __init__(self, folder: Path, gather: Gather) -> None:
        """Follow the study in ``folder``; ``gather`` analyses it."""
        self.folder = folder
        self.follower = Follower(folder)
        self._gather = gather
        self._lock, self._first = threading.Lock(), threading.Lock()
        self._analysed: tuple[str, Gathered] | None = None
        self._failure = ""
        self._next = 0.0
        self._busy = False

    def state(self, seen: str = "") -> dict[str, Any]:
        """Progress now, and the version of the analysis that the other pages show.

        Accuracies are left out where the page has ``seen`` them: in a large study they are megabytes.
        """
        found = self.follower.state(answers=self.follower.fingerprint() != seen)
        self._refresh(found["fingerprint"])
        return found | {"analysis": self._analysed[0] if self._analysed else "", "failure": self._failure}

    def gathered(self) -> tuple[str, Gathered]:
        """The newest finished analysis; the first one is waited for."""
        with self._first:
            if self._analysed is None:
                self._analyse(self.follower.fingerprint())
        if self._analysed is None:
            raise InputError(self._failure or f"{self.folder}: cannot be analysed yet")
        return self._analysed

    def _refresh(self, fingerprint: str) -> None:
        """Analyse in the background when there is something new and enough time has passed."""
        with self._lock:
            new = self._analysed is None or self._analysed[0] != fingerprint
            if self._busy or not new or time.monotonic() < self._next:
                return
            self._busy = True
        threading.Thread(target=self._analyse, args=(fingerprint,), daemon=True).start()

    def _analyse(self, fingerprint: str) -> None:
        start = time.monotonic()
        try:
            self._analysed, self._failure = (fingerprint, self._gather(self.folder)), ""
        except InputError as error:
            self._failure = str(error)
        finally:
            spent = time.monotonic() - start
            with self._lock:
                self._busy, self._next = False, time.monotonic() + max(LEAST_PAUSE, 2 * spent)


class LiveSite:
    """The studies below a directory: the directory itself if it is one, else those directly in it."""

    def __init__(self, folder: Path, gather: Gather) -> None:
        """Serve what is in ``folder``; ``gather`` analyses a study."""
        self.folder = folder.resolve()
        self._gather = gather
        self._known: dict[str, LiveStudy] = {}
        self._lock = threading.Lock()
        self.single = is_study(self.folder)

    def names(self) -> list[str]:
        """Names of the studies there are now. A link that leads out of the directory is none of them."""
        if self.single:
            return [self.folder.name]
        inside = (path for path in sorted(self.folder.iterdir()) if is_study(path))
        return [path.name for path in inside if path.resolve().parent == self.folder]

    def study(self, name: str) -> LiveStudy | None:
        """A study by its name; None for anything that is not one of ``names``."""
        if name not in self.names():
            return None
        with self._lock:
            folder = self.folder if self.single else self.folder / name
            return self._known.setdefault(name, LiveStudy(folder, self._gather))

    def answer(self, address: str) -> tuple[HTTPStatus, str, str]:
        """Status, content type and text for an address. Only the paths named here exist; files are never served."""
        split = urllib.parse.urlsplit(address)
        parts = [urllib.parse.unquote(part) for part in split.path.strip("/").split("/")]
        if parts == [""]:
            return self._front()
        study = self.study(parts[1]) if parts[0] == "study" and len(parts) in (2, 3) else None
        if study is None:
            return _missing()
        page = parts[2] if len(parts) == 3 else ""
        seen = urllib.parse.parse_qs(split.query).get("seen", [""])[0]
        try:
            return self._page(study, parts[1], page, seen)
        except InputError as error:
            if page:
                return HTTPStatus.CONFLICT, "application/json", json.dumps({"error": str(error)})
            return HTTPStatus.OK, "text/html", self._waiting(parts[1], str(error))

    def _front(self) -> tuple[HTTPStatus, str, str]:
        rows = []
        for name in self.names():
            study = self.study(name)
            if study is not None:
                rows.append({"name": name, "link": _link(name), **study.follower.state(answers=False)})
        page = template("studies.html").render(rows=rows, style=asset("report.css"), folder=self.folder.name)
        return HTTPStatus.OK, "text/html", page

    def _page(self, study: LiveStudy, name: str, page: str, seen: str) -> tuple[HTTPStatus, str, str]:
        if page == "state.json":
            return HTTPStatus.OK, "application/json", json.dumps(study.state(seen), allow_nan=False)
        if page not in ("", "data.json", "main.html"):
            return _missing()
        version, gathered = study.gathered()
        if page == "data.json":
            return HTTPStatus.OK, "application/json", json.dumps(payload(gathered), allow_nan=False)
        if page == "main.html":
            return HTTPStatus.OK, "text/html", render_main(gathered)
        live = {"base": _link(name), "analysis": version, "list": "" if self.single else "/"}
        return HTTPStatus.OK, "text/html", render_html(gathered, live)

    def _waiting(self, name: str, reason: str) -> str:
        return str(template("waiting.html").render(name=name, reason=reason, style=asset("report.css")))


def make_server(folder: Path, gather: Gather, host: str = "127.0.0.1", port: int = 8765) -> ThreadingHTTPServer:
    """A server that is ready to ``serve_forever``; port 0 chooses a free one."""
    site = LiveSite(folder, gather)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "breadth", ""
        timeout = 30

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            # A page elsewhere could have its own name point to this machine; it would show in the Host header.
            if host in LOCAL and _hostname(self.headers.get("Host", "")) not in LOCAL:
                status, kind, text = HTTPStatus.FORBIDDEN, "text/plain", "This page answers on this machine only.\n"
            else:
                status, kind, text = site.answer(self.path)
            content = text.encode()
            self.send_response(status)
            for name, value in {
                **HEADERS,
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(content)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: a page that asks every two seconds would fill the terminal."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise InputError(f"--port {port}: cannot be used ({error.strerror}); choose another") from error
    server.daemon_threads = True
    return server


#: Names of this machine to itself.
LOCAL = ("127.0.0.1", "localhost", "::1")


def _hostname(header: str) -> str:
    return urllib.parse.urlsplit(f"//{header}").hostname or ""


def _link(name: str) -> str:
    return f"/study/{urllib.parse.quote(name, safe='')}"


def _missing() -> tuple[HTTPStatus, str, str]:
    return HTTPStatus.NOT_FOUND, "text/plain", "There is no such page.\n"
