"""A page that follows a study while it runs: read-only, bound to this machine by default. Needs the ``view`` extra.

Starlette and uvicorn serve it. A page is rendered once per change and has an ETag, so a poll that finds nothing new
costs next to nothing; the first page does not wait for the analysis of a large study.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from breadth.boundary import first_line
from breadth.errors import InputError
from breadth.records import is_announced, is_imported, is_study
from breadth.reporting.data import ReportData
from breadth.reporting.pages import payload, render_html, render_template, script_source
from breadth.reporting.progress import Progress
from breadth.reporting.sections import build_report

#: A study is analysed again after at least this many seconds, and never for more than a third of the time.
LEAST_PAUSE = 3.0

#: Seconds for which the first page waits for the first analysis; after that a page says that it is on its way.
FIRST_WAIT = 1.5

#: Names of this machine to itself, and how a request may write them.
LOCAL = ("127.0.0.1", "localhost", "::1")
_LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)

#: What is said of a directory that was a study when it was last looked at.
_GONE = "was removed or moved, or is no study any more"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class HttpAnswer(NamedTuple):
    """What the server answers: content and headers, made once."""

    status: HTTPStatus
    content: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, status: HTTPStatus, kind: str, text: str, scripts: str = "'none'") -> HttpAnswer:
        """An answer with its ETag; ``scripts`` are those that may run, for its policy."""
        content = text.encode(errors="backslashreplace")  # as in a report that is a file
        headers = {
            **HEADERS,
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Security-Policy": _POLICY.format(scripts=scripts),
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        }
        return cls(status, content, headers)


MISSING = HttpAnswer.of(HTTPStatus.NOT_FOUND, "text/plain", "There is no such page.\n")
FORBIDDEN = HttpAnswer.of(HTTPStatus.FORBIDDEN, "text/plain", "This page is for this machine only.\n")


class LiveServer:
    """Serves the pages of a ``site`` on a socket that is bound already."""

    def __init__(self, site: LiveSite, bound: socket.socket, local: bool) -> None:
        import uvicorn

        self.site, self._socket = site, bound
        self.server_address: tuple[str, int] = bound.getsockname()[:2]
        config = uvicorn.Config(
            _application(site, local), log_config=None, access_log=False, lifespan="off", server_header=False,
            timeout_graceful_shutdown=1, ws="none",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()

    def serve_forever(self) -> None:
        """Serve until ``shutdown`` or Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ended.set()

    def shutdown(self) -> None:
        """Stop serving, and wait until that is done."""
        self._server.should_exit = True
        self._ended.wait(10)

    def server_close(self) -> None:
        """Close the socket."""
        self._socket.close()


def view(
    directory: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    warn: Callable[[str], None] | None = None,
) -> LiveServer:
    """A server of live pages for the study, or the studies, in ``directory``; call its ``serve_forever``.

    The directory need not exist yet: its page waits for a study. Port 0 chooses a free one. Nothing in the directory is
    changed. ``warn`` is told once why a study cannot be analysed, which its page says as well.
    """
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the live page needs {' and '.join(missing)}; install with: pip install 'breadth[view]'")
    folder = Path(directory)
    if os.path.exists(folder) and not folder.is_dir():
        raise InputError(f"{folder}: is not a directory; name the directory of a study, or one that holds several")
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port {port}: a port is a number from 0 to 65535")
    try:
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=kind, backlog=2048)
    except OSError as error:
        # Python adds the address to the reason.
        reason = str(error.strerror).split(" (while ")[0]
        raise InputError(f"--port {port}: cannot be used ({reason}); choose another") from error
    return LiveServer(LiveSite(folder, warn), bound, host in LOCAL)


def _application(site: LiveSite, local: bool) -> Any:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answered(request: Request) -> Response:
        # A page elsewhere could point its own name at this machine; that would show in the Host header.
        hosts = request.headers.getlist("host")
        if local and not (len(hosts) == 1 and _LOCAL_HOST.fullmatch(hosts[0])):
            answer = FORBIDDEN
        else:
            path, query = request.scope["raw_path"].decode("latin-1"), request.scope["query_string"].decode("latin-1")
            answer = await run_in_threadpool(site.answer, path, query)
        if answer.status == HTTPStatus.OK and request.headers.get("if-none-match") == answer.headers["ETag"]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=answer.headers)
        return Response(answer.content, answer.status, answer.headers)

    return Starlette(routes=[Route("/{path:path}", answered, methods=["GET", "HEAD"])])


class LiveSite:
    """The studies in a directory: the directory itself if it is one, else those directly in it.

    Neither the directory nor a study in it need exist yet.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None] | None = None) -> None:
        self.given, self.folder, self._warn = folder, folder.resolve(), warn
        self._studies: dict[str, LiveStudy] = {}
        self._lock = threading.Lock()

    @property
    def single(self) -> bool:
        """Whether the directory itself is a study."""
        try:
            return _is_known(self.folder)
        except InputError:  # the system does not let us look; the page of the study says so
            return True

    def names(self) -> list[str]:
        """Names of the studies that exist now. Links that lead out of the directory are not followed."""
        if self.single:
            return [self.folder.name]
        if not self.folder.is_dir():
            return []
        try:
            there = sorted(self.folder.iterdir())
        except OSError as error:
            raise InputError(f"{self.given}: cannot be read ({error.strerror}); make it readable") from error
        names = []
        for path in there:
            with suppress(InputError):  # a directory of somebody else, which we may not look into
                if _is_known(path) and path.resolve().parent == self.folder:
                    names.append(path.name)
        return names

    def waiting(self) -> str:
        """What the pages wait for; empty if there is a study."""
        if self.names():
            return ""
        start = f"Start one with: breadth run STUDY --into {shlex.quote(str(self.given))}"
        if self._studies:
            return f"{self.given} {_GONE}. {start}"
        begun = "A study that was started appears once its data are read; one of checkpoints, once they are timed."
        if (self.folder / "study.yaml").is_file():
            return f"{self.given} holds a study file, but no run has begun. {begun}"
        what = "holds no study yet" if self.folder.is_dir() else "does not exist yet"
        return f"{self.given} {what}. {begun} {start}"

    def without_checkpoints(self) -> list[str]:
        """Why the page of a study has no report yet, for each that waits for its first checkpoint."""
        waiting = []
        for name in self.names():
            study = self.study(name)
            if study is not None:
                waiting.append(study.summary().get("waiting", ""))
        return [reason for reason in waiting if reason]

    def study(self, name: str) -> LiveStudy | None:
        """A study by its name; None for anything that is not one of ``names``."""
        if name not in self.names():
            return None
        with self._lock:
            if name not in self._studies:
                folder = self.folder if self.single else self.folder / name
                self._studies[name] = LiveStudy(folder, self._warn)
            return self._studies[name]

    def answer(self, path: str, query: str = "") -> HttpAnswer:
        """The answer for a path. Only those named here exist; files are never served."""
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if parts == [""]:
            return self._front()
        if parts[0] != "study" or len(parts) not in (2, 3):
            return MISSING
        page = parts[2] if len(parts) == 3 else ""
        seen = urllib.parse.parse_qs(query).get("seen", [""])[0]
        study = None
        try:
            study = self.study(parts[1])
            if study is not None:
                return self._page(study, parts[1], page, seen)
            if parts[1] not in self._studies:
                return MISSING
            reason = f"{self._studies[parts[1]].folder} {_GONE}"
        except InputError as error:
            reason = str(error)
        except Exception as error:  # of a page that cannot be made; the others are served on
            if study is None:
                raise
            reason = study.report_failure(error)
        return _not_now(page, parts[1], reason)

    def _front(self) -> HttpAnswer:
        try:
            waiting = self.waiting()
        except InputError as error:
            waiting = str(error)
        if waiting:
            return _not_now("", f"Waiting for {self.given}", waiting)
        if self.single:
            return self.answer(_link(self.folder.name))
        rows = []
        for name in self.names():
            study = self.study(name)
            if study is not None:
                rows.append({"name": name, "link": _link(name), **study.summary()})
        page = render_template("studies.html", rows=rows, folder=self.folder.name)
        return HttpAnswer.of(HTTPStatus.OK, "text/html", page)

    def _page(self, study: LiveStudy, name: str, page: str, seen: str) -> HttpAnswer:
        if page == "state.json":
            state = study.state(seen)
            return study.made(f"{page} {seen}", state, lambda: json.dumps(state, allow_nan=False))
        if page not in ("", "data.json", "main.html"):
            return MISSING
        version, data = study.data()
        if page == "data.json":
            return study.made(page, version, lambda: json.dumps(payload(data), allow_nan=False))
        if page == "main.html":
            return study.made(page, version, lambda: render_html(data, page=page), "text/html")
        live = {"base": _link(name), "analysis": version, "list": "" if self.single else "/"}
        return study.made(page, version, lambda: render_html(data, live), "text/html", script_source(live=True))


def _is_known(folder: Path) -> bool:
    """Whether a directory is a study, or one that is being prepared."""
    return is_study(folder) or is_announced(folder)


def _not_now(page: str, name: str, reason: str) -> HttpAnswer:
    """The answer where there is no page for a reason that may pass: a page that asks again, or an error for scripts."""
    if page:
        return HttpAnswer.of(HTTPStatus.CONFLICT, "application/json", json.dumps({"error": reason}))
    return HttpAnswer.of(HTTPStatus.OK, "text/html", render_template("waiting.html", name=name, reason=reason))


def _link(name: str) -> str:
    return f"/study/{urllib.parse.quote(name, safe='')}"


class LiveStudy:
    """The pages of one study. Progress and trajectories are read as they grow; the analysis runs in the background."""

    def __init__(self, folder: Path, warn: Callable[[str], None] | None = None) -> None:
        self.progress = Progress(folder)
        self._warn, self._warned = warn, ""
        self._lock, self._first = threading.Lock(), threading.Event()
        self._analysed: tuple[str, ReportData] | None = None
        self._failure = ""
        # The files of the study when it was last analysed; after a failure it is tried again when they change.
        self._tried_files = ""
        self._next = 0.0
        self._busy = False
        self._made: dict[str, tuple[object, HttpAnswer]] = {}

    @property
    def folder(self) -> Path:
        """The directory of the study."""
        return self.progress.store.folder

    def summary(self) -> dict[str, Any]:
        """Progress for the list of studies; where even that cannot be read, the list shows why."""
        try:
            state = self.progress.state(None, now=False)
            return {"failure": self._failure, "waiting": self._waiting(state), **state}
        except Exception as error:
            return {"failure": self.report_failure(error), "run_count": "", "done": 0, "planned": 0}

    def _waiting(self, state: dict[str, Any]) -> str:
        """Why there is nothing to analyse yet; empty if there is a checkpoint, or for an import, which has none."""
        if state["done"] or is_imported(self.folder):
            return ""
        if state["run_count"]:
            doing = "is at its first run; the report appears with the first checkpoint"
        else:
            doing = "is preparing the study: it loads its models and times a few batches of each"
        return (
            f"{self.folder}: no checkpoint has been evaluated yet. `breadth run` {doing}. If none is at work there, "
            "start it again"
        )

    def state(self, seen: str = "") -> dict[str, Any]:
        """Progress now, and the version of the analysis that the other pages show.

        Accuracies are omitted if the page has ``seen`` them: in a large study they are megabytes.
        """
        state = self.progress.state(seen, now=False)
        if not self._waiting(state) and (self._analysed is None or self._analysed[0] != state["fingerprint"]):
            self._start()
        return state | {"analysis": self._analysed[0] if self._analysed else "", "failure": self._failure}

    def data(self) -> tuple[str, ReportData]:
        """The newest finished analysis and its version; the first one is waited for, but not for long."""
        waiting = self._waiting(self.progress.state(None, now=False))
        if waiting:
            raise InputError(waiting)
        if self._analysed is None:
            self._start()
            self._first.wait(FIRST_WAIT)
        if self._analysed is None:
            known = self.progress.known
            analysed = f"{self.folder}: is being analysed; the report appears when that is done"
            raise InputError(self._failure or f"{analysed}{f'. {known}' if known else ''}")
        return self._analysed

    def made(
        self,
        page: str,
        version: object,
        make: Callable[[], str],
        kind: str = "application/json",
        scripts: str = "'none'",
    ) -> HttpAnswer:
        """The answer for a page, made once for each version."""
        known = self._made.get(page)
        if known is None or known[0] != version:
            if len(self._made) > 20:  # pages of fingerprints that nobody asks for any more
                self._made.clear()
            known = self._made[page] = (version, HttpAnswer.of(HTTPStatus.OK, kind, make(), scripts))
        return known[1]

    def report_failure(self, error: BaseException) -> str:
        """Why a page or the analysis failed, in words for the page; told once."""
        folder = self.folder
        if isinstance(error, InputError):
            reason = str(error)
        else:
            what = f"{type(error).__name__}: {first_line(error)}"
            reason = f"{folder}: cannot be analysed ({what}); `breadth report {shlex.quote(str(folder))}` says more"
        if reason != self._warned:
            self._warned = reason
            if self._warn is not None:
                self._warn(reason)
        return reason

    def _start(self) -> None:
        """Analyse in the background, unless that is under way or was done a moment ago."""
        with self._lock:
            if self._busy or time.monotonic() < self._next:
                return
            self._busy = True
        threading.Thread(target=self._analyse, daemon=True).start()

    def _analyse(self) -> None:
        """Analyse the study, unless that failed for the files as they are; whatever goes wrong is kept to be shown."""
        start = time.monotonic()
        folder = self.folder
        try:
            files = _files_stamp(folder)
            if self._failure and files == self._tried_files:
                return
            self._tried_files = files
            fingerprint = self.progress.state(None)["fingerprint"]
            self._analysed, self._failure = (fingerprint, build_report(folder)), ""
        except BaseException as error:  # a panic of a Rust library is none of Python's usual exceptions
            self._failure = self.report_failure(error)
        finally:
            spent = time.monotonic() - start
            with self._lock:
                self._busy, self._next = False, time.monotonic() + max(LEAST_PAUSE, 2 * spent)
            self._first.set()


def _files_stamp(folder: Path) -> str:
    """Changes when the files of a study do; logs and the status of a cluster, which are no answers, do not count."""
    seen = hashlib.sha256()
    for pattern in ("*", "items/*", "runs/*/*"):
        for path in sorted(folder.glob(pattern)):
            if path.name in ("log.jsonl", "cluster.json"):
                continue
            try:
                status = path.stat()
            except OSError:  # it was removed meanwhile
                continue
            # The time of the last change of anything, permissions included: a file may be readable again.
            stamp = f"{path}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0{status.st_size}\n"
            seen.update(stamp.encode(errors="surrogateescape"))
    return seen.hexdigest()
