"""A page that follows a study while it runs: standard library only, read-only, bound to this machine by default."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import threading
import time
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from breadth.errors import InputError
from breadth.records import RunRecord, RunStore, StudyStore, is_study
from breadth.reporting.data import ReportData
from breadth.reporting.pages import payload, render_html, render_template
from breadth.reporting.sections import build_report

#: A study is analysed again after at least this many seconds, and never for more than a third of the time.
LEAST_PAUSE = 3.0

#: A run is quiet if it has not written for this many times its usual pace, and for a minute at least.
QUIET = 10

#: A cluster whose driver has not written its status for this many seconds is not shown.
CLUSTER_QUIET = 60.0

#: Names of this machine to itself.
LOCAL = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Answer(NamedTuple):
    """What the server answers."""

    status: HTTPStatus
    kind: str
    text: str


MISSING = Answer(HTTPStatus.NOT_FOUND, "text/plain", "There is no such page.\n")


class LiveServer(ThreadingHTTPServer):
    """Serves the pages of a ``site``."""

    daemon_threads = True
    site: LiveSite


def view(directory: str | os.PathLike[str], *, host: str = "127.0.0.1", port: int = 8765) -> LiveServer:
    """A server of live pages for the study, or the studies, in ``directory``; call its ``serve_forever``.

    The directory need not exist yet: its page waits for a study. Port 0 chooses a free one. Nothing in the directory is
    changed.
    """
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is not a directory; name the directory of a study, or one that holds several")
    site = LiveSite(folder)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "breadth", ""
        timeout = 30

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            # A page elsewhere could point its own name at this machine; that would show in the Host header.
            requested = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname
            answer = Answer(HTTPStatus.FORBIDDEN, "text/plain", "This page is for this machine only.\n")
            if host not in LOCAL or requested in LOCAL:
                answer = site.answer(self.path)
            content = answer.text.encode()
            described = {"Content-Type": f"{answer.kind}; charset=utf-8", "Content-Length": str(len(content))}
            self.send_response(answer.status)
            for name, value in {**HEADERS, **described}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a page that polls every two seconds would fill the terminal."""

    try:
        server = LiveServer((host, port), Handler)
    except OSError as error:
        raise InputError(f"--port {port}: cannot be used ({error.strerror}); choose another") from error
    server.site = site
    return server


class LiveSite:
    """The studies in a directory: the directory itself if it is one, else those directly in it.

    Neither the directory nor a study in it need exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.given, self.folder = folder, folder.resolve()
        self._studies: dict[str, LiveStudy] = {}
        self._lock = threading.Lock()

    @property
    def single(self) -> bool:
        """Whether the directory itself is a study."""
        return is_study(self.folder)

    def names(self) -> list[str]:
        """Names of the studies that exist now. Links that lead out of the directory are not followed."""
        if self.single:
            return [self.folder.name]
        if not self.folder.is_dir():
            return []
        studies = (path for path in sorted(self.folder.iterdir()) if is_study(path))
        return [path.name for path in studies if path.resolve().parent == self.folder]

    def waiting(self) -> str:
        """What the pages wait for; empty if there is a study."""
        if self.names():
            return ""
        what = "holds no study yet" if self.folder.is_dir() else "does not exist yet"
        return f"{self.given} {what}. Start one with: breadth run STUDY --into {shlex.quote(str(self.given))}"

    def study(self, name: str) -> LiveStudy | None:
        """A study by its name; None for anything that is not one of ``names``."""
        if name not in self.names():
            return None
        with self._lock:
            return self._studies.setdefault(name, LiveStudy(self.folder if self.single else self.folder / name))

    def answer(self, address: str) -> Answer:
        """The answer for an address. Only the paths named here exist; files are never served."""
        split = urllib.parse.urlsplit(address)
        parts = [urllib.parse.unquote(part) for part in split.path.strip("/").split("/")]
        if parts == [""]:
            return self._front()
        study = self.study(parts[1]) if parts[0] == "study" and len(parts) in (2, 3) else None
        if study is None:
            return MISSING
        page = parts[2] if len(parts) == 3 else ""
        seen = urllib.parse.parse_qs(split.query).get("seen", [""])[0]
        try:
            return self._page(study, parts[1], page, seen)
        except InputError as error:
            if page:
                return Answer(HTTPStatus.CONFLICT, "application/json", json.dumps({"error": str(error)}))
            waiting = render_template("waiting.html", name=parts[1], reason=str(error))
            return Answer(HTTPStatus.OK, "text/html", waiting)

    def _front(self) -> Answer:
        waiting = self.waiting()
        if waiting:
            page = render_template("waiting.html", name=f"Waiting for {self.given}", reason=waiting)
            return Answer(HTTPStatus.OK, "text/html", page)
        if self.single:
            return self.answer(_link(self.folder.name))
        studies = [(name, study) for name in self.names() if (study := self.study(name)) is not None]
        rows = [{"name": name, "link": _link(name), **study.progress.state(None)} for name, study in studies]
        return Answer(HTTPStatus.OK, "text/html", render_template("studies.html", rows=rows, folder=self.folder.name))

    def _page(self, study: LiveStudy, name: str, page: str, seen: str) -> Answer:
        if page == "state.json":
            return Answer(HTTPStatus.OK, "application/json", json.dumps(study.state(seen), allow_nan=False))
        if page not in ("", "data.json", "main.html"):
            return MISSING
        version, data = study.data()
        if page == "data.json":
            return Answer(HTTPStatus.OK, "application/json", json.dumps(payload(data), allow_nan=False))
        if page == "main.html":
            return Answer(HTTPStatus.OK, "text/html", render_html(data, page=page))
        live = {"base": _link(name), "analysis": version, "list": "" if self.single else "/"}
        return Answer(HTTPStatus.OK, "text/html", render_html(data, live))


def _link(name: str) -> str:
    return f"/study/{urllib.parse.quote(name, safe='')}"


class LiveStudy:
    """The pages of one study. Progress and trajectories are read as they grow; the analysis runs in the background."""

    def __init__(self, folder: Path) -> None:
        self.progress = Progress(folder)
        self._lock, self._first = threading.Lock(), threading.Lock()
        self._analysed: tuple[str, ReportData] | None = None
        self._failure = ""
        self._next = 0.0
        self._busy = False

    def state(self, seen: str = "") -> dict[str, Any]:
        """Progress now, and the version of the analysis that the other pages show.

        Accuracies are omitted if the page has ``seen`` them: in a large study they are megabytes.
        """
        state = self.progress.state(seen)
        with self._lock:
            new = self._analysed is None or self._analysed[0] != state["fingerprint"]
            start = new and not self._busy and time.monotonic() >= self._next
            self._busy |= start
        if start:
            threading.Thread(target=self._analyse, args=(state["fingerprint"],), daemon=True).start()
        return state | {"analysis": self._analysed[0] if self._analysed else "", "failure": self._failure}

    def data(self) -> tuple[str, ReportData]:
        """The newest finished analysis and its version; waits for the first one."""
        with self._first:
            if self._analysed is None:
                self._analyse(self.progress.state(None)["fingerprint"])
        if self._analysed is None:
            raise InputError(self._failure or f"{self.progress.store.folder}: cannot be analysed yet")
        return self._analysed

    def _analyse(self, fingerprint: str) -> None:
        start = time.monotonic()
        try:
            self._analysed, self._failure = (fingerprint, build_report(self.progress.store.folder)), ""
        except InputError as error:
            self._failure = str(error)
        finally:
            spent = time.monotonic() - start
            with self._lock:
                self._busy, self._next = False, time.monotonic() + max(LEAST_PAUSE, 2 * spent)


class Progress:
    """How far a study has come, read from its store again and again; a checkpoint never changes and is read once."""

    def __init__(self, folder: Path) -> None:
        self.store = StudyStore(folder)
        self._scores: dict[str, list[dict[str, Any]]] = {}

    def state(self, seen: str | None = "") -> dict[str, Any]:
        """Progress of every run, and accuracy at every checkpoint unless ``seen`` is the fingerprint or None.

        The fingerprint changes whenever a checkpoint is added.
        """
        listed = [(run, run.parts()) for run in self.store.runs()]
        names = "\n".join(f"{run.name}/{name}" for run, parts in listed for name in parts.values())
        fingerprint = hashlib.sha256(names.encode()).hexdigest()[:16]
        runs, trajectories = [], []
        for run, parts in listed:
            try:
                record = run.record()
            except InputError:
                continue
            runs.append(_progress(run, record, parts))
            if seen is not None and fingerprint != seen:
                trajectories += [row for step, name in parts.items() for row in self._accuracy(run, record, step, name)]
        done, planned = sum(run["done"] for run in runs), sum(run["planned"] or run["done"] for run in runs)
        state = {
            "fingerprint": fingerprint,
            "runs": runs,
            "done": done,
            "planned": planned,
            "finished": done >= planned,
            "active": any(run["state"] == "running" for run in runs),
            "seconds_left": _seconds_left(runs),
            "cluster": _cluster(self.store),
        }
        return state if seen is None or fingerprint == seen else state | {"trajectories": trajectories}

    def _accuracy(self, run: RunStore, record: RunRecord, step: int, name: str) -> list[dict[str, Any]]:
        """Rows of the table ``trajectories`` for a checkpoint; none if its file is damaged."""
        key = f"{run.key}/{name}"
        if key not in self._scores:
            content, rows = run.read_sound(name), []
            if content is not None:
                part = pl.read_parquet(io.BytesIO(content), columns=["testset", "correct"])
                accuracy = pl.col("correct").cast(pl.Float64).mean().alias("accuracy")
                means = part.group_by("testset").agg(pl.len().alias("n"), accuracy)
                row = {"run": run.name, "step": step, "ci_low": None, "ci_high": None}
                row |= {key: getattr(record, key) for key in ("model", "train_set", "examples", "seed", "train_level")}
                rows = [row | mean for mean in means.sort("testset").to_dicts()]
            self._scores[key] = rows
        return self._scores[key]


def _progress(run: RunStore, record: RunRecord, parts: dict[int, str]) -> dict[str, Any]:
    planned = len(record.checkpoints) or None
    times = sorted(_modified(run.folder / name) for name in parts.values())
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
    # Between checkpoints, a run that trains still writes its log.
    latest = max(times[-1], _modified(run.folder / "log.jsonl", times[-1])) if times else time.time()
    quiet = time.time() - latest > max(60.0, QUIET * (pace or 0))
    finished = planned is not None and len(parts) >= planned
    log = _last_entry(run.folder / "log.jsonl")
    return {
        "run": run.name,
        "model": record.model,
        "done": len(parts),
        "planned": planned,
        "step": max(parts, default=None),
        "loss": log.get("loss"),
        "items_per_second": log.get("items_per_second"),
        "seconds_per_checkpoint": pace,
        "state": "finished" if finished else "waiting" if not parts else "quiet" if quiet else "running",
    }


def _cluster(store: StudyStore) -> dict[str, float] | None:
    """How the workers of a cluster are doing (``cluster.json``); None without one, or if its driver has stopped."""
    try:
        status = json.loads(store.store.read("cluster.json") or b"{}")
        values = {key: float(value) for key, value in status.items() if value is not None}
    except (ValueError, AttributeError, TypeError):
        return None
    return None if values.get("finished", 1.0) or time.time() - values.get("time", 0.0) > CLUSTER_QUIET else values


def _seconds_left(runs: list[dict[str, Any]]) -> float | None:
    """Checkpoints left times the mean pace, shared among the running ones; None without a pace or a plan."""
    paces = [run["seconds_per_checkpoint"] for run in runs if run["seconds_per_checkpoint"]]
    left = sum(max(0, (run["planned"] or run["done"]) - run["done"]) for run in runs)
    active = sum(run["state"] == "running" for run in runs)
    return left * sum(paces) / len(paces) / active if paces and active and left else None


def _modified(path: Path, otherwise: float | None = None) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time() if otherwise is None else otherwise


def _last_entry(path: Path) -> dict[str, Any]:
    """The numbers of the last whole line of a log, read from its end; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            return {key: value for key, value in entry.items() if isinstance(value, int | float)}
    return {}
