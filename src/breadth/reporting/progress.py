"""How far a study has come, read from its store again and again: what has not changed is not read again."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.records import RunRecord, RunStore, StudyStore, label_runs, read_answers

#: A run is quiet if it has not written for this many times its usual pace, and for a minute at least.
QUIET = 10

#: A cluster whose driver has not written its status for this many seconds is not shown.
CLUSTER_QUIET = 60.0

#: Seconds between looks at runs that are not finished, and at all runs, which change only if somebody repairs them.
#: Looking takes a twentieth, and a four hundredth, of the time at most. A run that begins is seen at once.
LOOK, LOOK_AT_ALL = 1.0, 30.0
SHARE, SHARE_OF_ALL = 20, 400

#: Numbers in a log are below this; so are infinity and what is not a number left out.
LARGEST = 1e300

#: Runs that the page lists: those that are not finished first.
MOST_RUNS = 500


@dataclass(frozen=True)
class _RunState:
    """What is known about a run since its directory and its log last changed."""

    changed: tuple[int, int]
    store: RunStore
    record: RunRecord
    parts: dict[int, str]
    state: dict[str, Any]


class Progress:
    """The progress of one study; a checkpoint never changes and is read once."""

    def __init__(self, folder: Path) -> None:
        self.store = StudyStore(folder)
        self._scores: dict[str, list[dict[str, Any]]] = {}
        self._runs: dict[str, _RunState] = {}
        self._open: list[str] = []
        self._labels: dict[str, str] = {}
        self._begun = 0
        self._lock = threading.Lock()
        self._next = self._next_all = 0.0
        self._summary: dict[str, Any] = {}

    def state(self, seen: str | None = "", *, now: bool = True) -> dict[str, Any]:
        """Progress of every run, and accuracy at every checkpoint unless ``seen`` is the fingerprint or None.

        The fingerprint changes whenever a checkpoint is added. Without ``now``, what was known a moment ago will do.
        """
        with self._lock:
            if now or time.monotonic() >= self._next or not self._summary:
                self._look(everything=now)
            state = self._summary
            if seen is None or state["fingerprint"] == seen:
                return state
            rows = [
                row | {"model": self._labels[key]}
                for key, run in self._runs.items()
                for step, name in run.parts.items()
                for row in self._accuracy(run.store, run.record, step, name)
            ]
            return state | {"trajectories": rows}

    @property
    def known(self) -> str:
        """How far the study had come when it was last looked at, in words; empty before that."""
        state = self._summary
        done = (
            state and f"{state['done']:,} of {state['planned']:,} checkpoints of {state['run_count']:,} runs are there"
        )
        return done or ""

    def _look(self, everything: bool) -> None:
        """Look at the runs that may have changed: those that are not finished, and now and then all."""
        start = time.monotonic()
        begun = _changed(self.store.folder / "runs")
        everything |= start >= self._next_all or begun != self._begun
        names = self.store.store.names("runs") if everything else self._open
        if names or everything:
            looked = {name: _looked_at(self.store.run(name), self._runs.get(name)) for name in names}
            runs: dict[str, _RunState | None] = looked if everything else {**self._runs, **looked}
            self._runs = {name: run for name, run in runs.items() if run is not None}
            self._open = [name for name, run in runs.items() if run is None or run.state["state"] != "finished"]
            self._summary = self._summarised()
        self._summary = self._summary | {"cluster": _cluster(self.store)}
        spent = time.monotonic() - start
        self._next = time.monotonic() + max(LOOK, SHARE * spent)
        if everything:
            self._begun, self._next_all = begun, time.monotonic() + max(LOOK_AT_ALL, SHARE_OF_ALL * spent)

    def _summarised(self) -> dict[str, Any]:
        names = "\n".join(f"{run}/{name}" for run, known in self._runs.items() for name in known.parts.values())
        self._labels = label_runs({name: run.record for name, run in self._runs.items()})
        runs = [run.state | {"model": self._labels[name]} for name, run in self._runs.items()]
        done, planned = sum(run["done"] for run in runs), sum(run["planned"] or run["done"] for run in runs)
        paces = [run["seconds_per_checkpoint"] for run in runs if run["seconds_per_checkpoint"]]
        left = sum(max(0, (run["planned"] or run["done"]) - run["done"]) for run in runs)
        active = sum(run["state"] == "running" for run in runs)
        shown = runs if len(runs) <= MOST_RUNS else sorted(runs, key=lambda run: str(run["state"]) == "finished")
        return {
            "fingerprint": hashlib.sha256(names.encode()).hexdigest()[:16],
            "runs": shown[:MOST_RUNS],
            "run_count": len(runs),
            "done": done,
            "planned": planned,
            "finished": done >= planned,
            "active": active > 0,
            # Checkpoints left times the mean pace, shared among the running ones; None without a pace or a plan.
            "seconds_left": left * sum(paces) / len(paces) / active if paces and active and left else None,
        }

    def _accuracy(self, run: RunStore, record: RunRecord, step: int, name: str) -> list[dict[str, Any]]:
        """Rows of the table ``trajectories`` for a checkpoint; none if its file is damaged."""
        key = f"{run.key}/{name}"
        if key not in self._scores:
            try:
                content, rows = run.read_sound(name), []
            except InputError:  # it may be sound, and readable later; the analysis names it
                return []
            if content is not None:
                try:
                    means = _accuracy_by_testset(run.folder / name, content)
                except InputError:  # whole, but not one of breadth's; the analysis names it
                    self._scores[key] = []
                    return []
                row = {"run": run.name, "step": step, "ci_low": None, "ci_high": None}
                row |= {key: getattr(record, key) for key in ("model", "train_set", "examples", "seed", "train_level")}
                rows = [row | mean for mean in means.sort("testset").to_dicts()]
            self._scores[key] = rows
        return self._scores[key]


def _accuracy_by_testset(path: Path, content: bytes) -> pl.DataFrame:
    """Accuracy and number of items of every test set in the answers of a checkpoint."""
    part = read_answers(content, path, ["testset", "correct"])
    with reading(path):
        accuracy = pl.col("correct").cast(pl.Float64).fill_nan(None).mean().alias("accuracy")
        return part.group_by("testset").agg(pl.len().alias("n"), accuracy)


def _looked_at(run: RunStore, known: _RunState | None) -> _RunState | None:
    """A run as it is now; None if it has not begun or its record is damaged."""
    log = run.folder / "log.jsonl"
    changed = (_changed(run.folder), _changed(log))
    if known is not None and known.changed == changed and known.state["state"] in ("finished", "quiet"):
        return known
    try:
        same = known is not None and known.changed[0] == changed[0]
        record, parts = (known.record, known.parts) if known and same else (run.record(), run.parts())
    except InputError:
        return None
    return _RunState(changed, run, record, parts, _progress(run, record, parts))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _progress(run: RunStore, record: RunRecord, parts: dict[int, str]) -> dict[str, Any]:
    planned = len(record.checkpoints) or None
    times = sorted(_modified(run.folder / name) for name in parts.values())
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
    # Between checkpoints, a run that trains still writes its log.
    latest = max(times[-1], _modified(run.folder / "log.jsonl", times[-1])) if times else time.time()
    quiet = time.time() - latest > max(60.0, QUIET * (pace or 0))
    finished = planned is not None and len(parts) >= planned
    log = _last_entry(run)
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
    except (InputError, ValueError, AttributeError, TypeError, RecursionError, OverflowError):
        return None
    values = {key: value for key, value in values.items() if math.isfinite(value)}
    return None if values.get("finished", 1.0) or time.time() - values.get("time", 0.0) > CLUSTER_QUIET else values


def _modified(path: Path, otherwise: float | None = None) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time() if otherwise is None else otherwise


def _last_entry(run: RunStore) -> dict[str, Any]:
    """The numbers of the last whole line of a run's log, read from its end; empty if it cannot be read."""
    try:
        lines = (run.store.read(f"{run.key}/log.jsonl", last=4096) or b"").splitlines()
    except InputError:
        return {}
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            numbers = {key: value for key, value in entry.items() if isinstance(value, int | float)}
            return {key: float(value) for key, value in numbers.items() if abs(value) < LARGEST}
    return {}
