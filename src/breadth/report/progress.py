"""How far a study is, from what is there: runs, checkpoints, the last line of a run's log, accuracy so far."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl

from breadth.errors import InputError
from breadth.records import RunStore, StudyStore, read_sound

#: A run that has not written for this long, in multiples of its usual pace (at least a minute), seems to stand still.
STILL = 10


class Follower:
    """Reads a study's directory again and again; a checkpoint is read once, for it never changes."""

    def __init__(self, folder: Path) -> None:
        """Follow the study in ``folder``."""
        self.folder = folder
        self._scores: dict[str, list[dict[str, Any]]] = {}
        self._lock = Lock()

    def fingerprint(self) -> str:
        """Changes whenever a checkpoint is added."""
        names = [f"{run.name}/{path.name}" for run in StudyStore(self.folder).runs() for path in run.parts().values()]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    def state(self, answers: bool = True) -> dict[str, Any]:
        """Progress of every run, and accuracy at every checkpoint unless ``answers`` is false."""
        runs, trajectories = [], []
        for run in StudyStore(self.folder).runs():
            try:
                spec = run.spec()
            except InputError:
                continue
            parts = run.parts()
            runs.append(_progress(run, spec, parts))
            if answers:
                for step, path in parts.items():
                    trajectories += self._accuracy(run.name, spec, step, path)
        done, planned = sum(run["done"] for run in runs), sum(run["planned"] or run["done"] for run in runs)
        found = {
            "fingerprint": self.fingerprint(),
            "runs": runs,
            "done": done,
            "planned": planned,
            "finished": done >= planned,
            "active": any(run["state"] == "running" for run in runs),
            "seconds_left": _seconds_left(runs),
        }
        return found | {"trajectories": trajectories} if answers else found

    def _accuracy(self, run: str, spec: dict[str, Any], step: int, path: Path) -> list[dict[str, Any]]:
        key = str(path)
        with self._lock:
            if key in self._scores:
                return self._scores[key]
        part = read_sound(path)
        rows: list[dict[str, Any]] = []
        if part is not None:
            keys = {name: spec.get(name) for name in ("model", "train_set", "shots", "seed", "train_level")}
            means = part.group_by("testset").agg(pl.len().alias("n"), pl.col("correct").mean()).sort("testset")
            rows = [
                {
                    "run": run,
                    **keys,
                    "step": step,
                    "testset": name,
                    "n": n,
                    "accuracy": mean,
                    "ci_low": None,
                    "ci_high": None,
                }
                for name, n, mean in means.iter_rows()
            ]
        with self._lock:
            return self._scores.setdefault(key, rows)


def _progress(run: RunStore, spec: dict[str, Any], parts: dict[int, Path]) -> dict[str, Any]:
    planned = len(spec["checkpoints"]) if isinstance(spec.get("checkpoints"), list) else None
    log = _last_line(run.folder / "log.jsonl")
    times = sorted(_modified(path) for path in parts.values())
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
    # Between checkpoints a run that trains still writes its log.
    quiet = time.time() - max(times[-1], _modified(run.folder / "log.jsonl", times[-1])) if times else 0.0
    finished = planned is not None and len(parts) >= planned
    still = quiet > max(60.0, STILL * (pace or 0))
    return {
        "run": run.name,
        "model": spec.get("model"),
        "done": len(parts),
        "planned": planned,
        "step": max(parts, default=None),
        "loss": log.get("loss"),
        "items_per_second": log.get("items_per_second"),
        "seconds_per_checkpoint": pace,
        "state": "finished" if finished else "waiting" if not parts else "quiet" if still else "running",
    }


def _seconds_left(runs: list[dict[str, Any]]) -> float | None:
    """Checkpoints left times the usual pace of those running, shared among them; None without a pace or a plan."""
    paces = [run["seconds_per_checkpoint"] for run in runs if run["seconds_per_checkpoint"]]
    left = sum(max(0, (run["planned"] or run["done"]) - run["done"]) for run in runs)
    active = sum(run["state"] == "running" for run in runs)
    return left * sum(paces) / len(paces) / active if paces and active and left else None


def _modified(path: Path, otherwise: float | None = None) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time() if otherwise is None else otherwise


def _last_line(path: Path) -> dict[str, Any]:
    """The last whole line of a log, read from its end; nothing if there is none or it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().splitlines()
        for line in reversed(lines):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return {key: value for key, value in found.items() if isinstance(value, int | float)}
    except OSError:
        pass
    return {}
