"""Runs every verb on an input in a child process, whose time and memory are watched from outside.

A child is forked from a process that has loaded the libraries but used none of their threads. If a verb takes too long
or too much memory, its child is killed, this is recorded, and another child goes on with the next verb.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds of the processor that a verb may take on a small file, and bytes by which its process may grow.
SECONDS = 20
MEMORY = 1 << 30

#: Seconds by the clock after which a verb is taken to wait for ever: it may share the processor with others.
PATIENCE = 90

#: Address space above what is in use: libraries reserve addresses that they never touch. It is a second line of
#: defence, for one allocation that is larger than the machine.
ADDRESSES = 12 << 30

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Finding:
    """What a verb did that is neither a result nor an ``InputError``.

    ``what`` is the type of an exception, or "hang", "memory", "crash", "empty message". ``frame`` is the innermost
    line of breadth, as module:function:line.
    """

    verb: str
    what: str
    frame: str
    message: str
    trace: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Findings with the same key are one; the number of the line is left out, because lines move."""
        return self.verb, self.what, self.frame.rpartition(":")[0]


@dataclass
class Outcome:
    """What became of a verb: its status is "ok", "refused" or "found"."""

    verb: str
    status: str
    seconds: float = 0.0
    grown: int = 0
    message: str = ""
    finding: Finding | None = None


Task = tuple[str, Callable[[], object]]


def load() -> None:
    """Load what verbs need, so that children share it; no thread of a library may start here."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import breadth
    import breadth.cli
    import breadth.cli.terminal

    for name in breadth.__all__:
        if name != "__version__":
            getattr(breadth, name)
    # What verbs import when they run: each child would do it again, and take longer for it than for the verb.
    import sqlite3  # noqa: F401

    import altair
    import scipy.stats  # noqa: F401
    import vl_convert

    import breadth.reporting.progress
    import breadth.sources.logs.importing
    import breadth.sources.tools
    import breadth.study

    for module in pkgutil.iter_modules(breadth.sources.tools.__path__):
        importlib.import_module(f"breadth.sources.tools.{module.name}")
    altair.Chart(altair.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q").to_dict()
    # Every page with a figure holds the same script, which takes seconds and threads to put together.
    script = _told_by_child(lambda: vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    vl_convert.javascript_bundle = lambda _: script
    gc.collect()
    gc.freeze()


def _told_by_child(call: Callable[[], str]) -> str:
    """What a function gives, worked out in a child process."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        try:
            with open(sending, "w") as file:
                file.write(call())
        finally:
            os._exit(0)
    os.close(sending)
    with open(receiving) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def watch(
    tasks: Sequence[Task], folder: Path, seconds: float = SECONDS, memory: int = MEMORY, prepare: Task | None = None
) -> list[Outcome]:
    """What became of every task, each run in ``folder`` by a child process.

    ``prepare`` runs first, in the first child, and must succeed.
    """
    outcomes: list[Outcome] = []
    todo = [prepare, *tasks] if prepare else list(tasks)
    total = len(todo)
    while len(outcomes) < total:
        outcomes += _watch_child(todo[len(outcomes) :], folder, seconds, memory)
        if prepare and outcomes[0].status != "ok":
            raise RuntimeError(f"the input could not be made: {outcomes[0].message}")
    return outcomes[1:] if prepare else outcomes


def _watch_child(tasks: Sequence[Task], folder: Path, seconds: float, memory: int) -> list[Outcome]:
    """Outcomes of the tasks up to the first that the child did not survive, if any."""
    receiving, sending = os.pipe()
    trace = folder / ".trace"
    child = os.fork()
    if child == 0:
        os.close(receiving)
        try:
            _run_tasks(tasks, folder, sending, trace)
        finally:
            os._exit(0)
    os.close(sending)
    watched = _Watched(child, trace, seconds, memory)
    try:
        while watched.alive:
            ready, _, _ = select.select([receiving], [], [], 0.02)
            if ready:
                watched.hear(os.read(receiving, 1 << 16))
            if watched.alive and watched.current:
                watched.look()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(receiving)
    if watched.current:  # it died of itself: a fault of a library, or the kernel's out-of-memory killer
        text = trace.read_text(errors="replace") if trace.exists() else ""
        watched.add_fault("crash", f"the process died (status {status})", text)
    if not watched.outcomes:
        raise RuntimeError("a child process ended before its first task")
    return watched.outcomes


class _Watched:
    """A child process: what it said so far, which task it is at, and what it has taken since that started."""

    def __init__(self, child: int, trace: Path, seconds: float, memory: int) -> None:
        self.child, self.trace, self.seconds, self.memory = child, trace, seconds, memory
        self.outcomes: list[Outcome] = []
        self.alive = True
        self.current = ""
        self.started, self.cpu, self.rss = time.monotonic(), 0.0, 0
        self.rest = b""

    def hear(self, block: bytes) -> None:
        """Take in what the child said; nothing means that it has ended."""
        self.alive = bool(block)
        *lines, self.rest = (self.rest + block).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "start" in said:
                self.current, self.started = said["start"], time.monotonic()
                self.cpu, self.rss = _usage(self.child)
                continue
            outcome = _outcome(self.current, said)
            if outcome.grown > self.memory and outcome.finding is None:
                outcome.status = "found"
                outcome.finding = Finding(self.current, "memory", "", f"{outcome.grown >> 20:,} MB more")
            self.outcomes.append(outcome)
            self.current = ""

    def look(self) -> None:
        """Stop the child if it has taken too much."""
        cpu, rss = _usage(self.child)
        cpu, rss = cpu - self.cpu, rss - self.rss
        fault = ""
        if rss > self.memory:
            fault = "memory"
        elif cpu > self.seconds or time.monotonic() - self.started > PATIENCE:
            fault = "hang"
        if fault:
            text = _stopped(self.child, self.trace)
            self.add_fault(fault, f"killed after {cpu:.0f} s of processor with {rss >> 20:,} MB more", text, rss)
            self.current, self.alive = "", False

    def add_fault(self, what: str, message: str, trace: str, grown: int = 0) -> None:
        finding = Finding(self.current, what, _frame_of_dump(trace), message, trace)
        waited = time.monotonic() - self.started
        self.outcomes.append(Outcome(self.current, "found", waited, grown, message, finding))


def _run_tasks(tasks: Sequence[Task], folder: Path, sending: int, trace: Path) -> None:
    """In the child: run tasks one after the other, and say when each starts and how it ended."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    warnings.simplefilter("ignore")
    os.chdir(folder)
    dump = trace.open("w")
    faulthandler.enable(dump, all_threads=False)
    faulthandler.register(signal.SIGUSR1, dump, all_threads=True)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESSES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, call in tasks:
        _say(sending, {"start": name})
        Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
        before, started = _status("VmRSS"), time.monotonic()
        said: dict[str, Any] = {"status": "ok"}
        try:
            call()
        except BaseException as error:
            said = _judged(error)
        said["seconds"] = round(time.monotonic() - started, 3)
        said["grown"] = _status("VmHWM") - before
        _say(sending, said)


def _judged(error: BaseException) -> dict[str, Any]:
    """Whether an exception is a refusal or a finding."""
    from breadth.errors import InputError

    if isinstance(error, InputError):
        if str(error).strip():
            return {"status": "refused", "message": str(error)[:2000]}
        return {"status": "found", "what": "empty message", "frame": _frame(error), "message": ""}
    if isinstance(error, SystemExit):
        return {"status": "ok"}
    trace = "".join(traceback.format_exception(error, limit=-12))[-6000:]
    lines = str(error).strip().splitlines()
    message = lines[0][:300] if lines else ""
    return {"status": "found", "what": type(error).__name__, "frame": _frame(error), "message": message, "trace": trace}


def _frame(error: BaseException) -> str:
    """The innermost line of breadth in a traceback, in a function that has a name: a comprehension has none."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("breadth.") and not frame.f_code.co_name.startswith("<"):
            found = f"{name}:{frame.f_code.co_name}:{line}"
    return found


def _frame_of_dump(text: str) -> str:
    """The same from what ``faulthandler`` wrote, which begins with the innermost line of the current thread."""
    current = text.partition("Current thread")[2] or text
    for file, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', current):
        if "/breadth/" in file and not function.startswith("<"):
            module = file.rpartition("/src/")[2].removesuffix(".py").replace("/", ".")
            return f"{module}:{function}:{line}"
    return ""


def _stopped(child: int, trace: Path) -> str:
    """Where a child is, as it says itself; then it is killed."""
    size = trace.stat().st_size if trace.exists() else 0
    os.kill(child, signal.SIGUSR1)
    for _ in range(20):
        time.sleep(0.05)
        if trace.exists() and trace.stat().st_size > size:
            break
    time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return trace.read_text(errors="replace")[size:] if trace.exists() else ""


def _outcome(verb: str, said: dict[str, Any]) -> Outcome:
    finding = None
    if said["status"] == "found":
        finding = Finding(verb, said["what"], said["frame"], said["message"], said.get("trace", ""))
    return Outcome(verb, said["status"], said["seconds"], said["grown"], said.get("message", ""), finding)


def _usage(child: int) -> tuple[float, int]:
    """Seconds of the processor and bytes in memory that a process has taken."""
    try:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE


def _status(key: str) -> int:
    """A size in bytes from what the kernel says about this process."""
    match = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1]) << 10 if match else 0


def _say(target: int, message: dict[str, Any]) -> None:
    os.write(target, json.dumps(message).encode() + b"\n")
