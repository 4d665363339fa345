"""Logs of experiment trackers: MLflow's database and its ``mlruns/``, charts of W&B."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from breadth.errors import InputError, listed
from breadth.importers.reading import LogFile
from breadth.importers.score_files import Reading, Run, Score, real

#: A line of a metric's file in ``mlruns/``: milliseconds, value, step.
_MLRUNS_LINE = re.compile(rb"\d{9,17} \S{1,40}( -?\d{1,18}.*)?\r?\n")

#: X axes of W&B charts that are training steps.
_STEPS = frozenset(("Step", "_step", "global_step", "train/global_step", "trainer/global_step"))


def is_mlflow(file: LogFile) -> bool:
    """Whether this is an SQLite database."""
    return file.head.startswith(b"SQLite format 3\0")


_MLFLOW_RUNS = """
SELECT run_uuid,
       COALESCE((SELECT value FROM tags WHERE tags.run_uuid = runs.run_uuid AND key = 'mlflow.runName'), name),
       COALESCE((SELECT name FROM experiments WHERE experiments.experiment_id = runs.experiment_id), ''),
       lifecycle_stage,
       (SELECT value FROM params WHERE params.run_uuid = runs.run_uuid AND key IN ('model', '_name_or_path') LIMIT 1)
FROM runs
"""
_MLFLOW_METRICS = "SELECT run_uuid, key, step, value, timestamp FROM metrics WHERE is_nan = 0"


def read_mlflow(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the metrics in MLflow's database, opened read-only, as it is; its write-ahead log is not seen."""
    try:
        address = f"{file.path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"metrics", "runs"} <= tables:
                return
            runs = {
                str(row[0]): Run(f"{row[2]}/{row[1] or row[0]}", (str(row[0])[:8],), row[4] and str(row[4]))
                for row in database.execute(_MLFLOW_RUNS)
                if row[3] != "deleted"
            }
            for identity, key, step, value, time in database.execute(_MLFLOW_METRICS):
                place, score, run = real(step), real(value), runs.get(str(identity))
                if run is not None and isinstance(key, str) and place is not None and score is not None:
                    yield Score(run, place, key, score, real(time) or 0.0)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file.path}: cannot be read as an MLflow database ({error}); it is damaged, or of a version before 1.0"
        ) from error
    log = Path(f"{file.path}-wal")
    if log.is_file() and log.stat().st_size:
        reading.notes.append(f"{file.path}: is in use; values that are only in {log.name} are not read")


def is_mlruns(file: LogFile) -> bool:
    """Whether this is one metric of one run in MLflow's folder layout."""
    return b"\0" not in file.head and _MLRUNS_LINE.match(file.head) is not None and _run_folder(file) is not None


def _run_folder(file: LogFile) -> Path | None:
    """The folder of the run: the one that holds ``metrics`` and ``meta.yaml``."""
    above = (folder.parent for folder in file.path.resolve().parents if folder.name == "metrics")
    return next((folder for folder in above if (folder / "meta.yaml").is_file()), None)


def read_mlruns(file: LogFile, _: Reading) -> Iterator[Score]:
    """Yield one metric of one run in MLflow's folder layout."""
    folder = _run_folder(file)
    assert folder is not None
    described, experiment = _plain_yaml(folder / "meta.yaml"), _plain_yaml(folder.parent / "meta.yaml")
    if described.get("lifecycle_stage") == "deleted":
        return
    name = described.get("run_name") or _line(folder / "tags" / "mlflow.runName") or folder.name
    model = _line(folder / "params" / "model") or None
    run = Run(f"{experiment.get('name') or folder.parent.name}/{name}", (folder.name[:8],), model)
    key = file.path.resolve().relative_to(folder / "metrics").as_posix()
    for line, text in enumerate(file.read().decode(errors="replace").splitlines(), 1):
        fields = text.split(" ")
        time, step = _decimal(fields[0]), _decimal(fields[2]) if len(fields) > 2 else 0.0
        if time is None or step is None or len(fields) < 2:
            raise InputError(f"{file.path}, line {line}: is not 'time value step'; the file is damaged")
        if (value := _decimal(fields[1])) is not None:
            yield Score(run, step, key, value, time)


def _line(path: Path) -> str:
    """A small file of one line; empty if there is none."""
    try:
        return path.read_text(errors="replace").strip() if path.stat().st_size < 1 << 12 else ""
    except OSError:
        return ""


def _plain_yaml(path: Path) -> dict[str, str]:
    """The plain entries of a ``meta.yaml``; it only names things, so it need not be there."""
    try:
        lines = path.read_text(errors="replace").splitlines() if path.stat().st_size < 1 << 16 else []
    except OSError:
        return {}
    pairs = (line.partition(": ") for line in lines if line[:1].isalpha())
    return {key: value.strip().strip("'\"") for key, _, value in pairs}


def is_wandb(file: LogFile) -> bool:
    """Whether this is a table that W&B exported from a chart."""
    if b"\0" in file.head or file.keys:
        return False
    header, _, rest = file.head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    first, comma, others = header.partition(b",")
    if not comma or b" - " in first or b" - " not in others:
        return False
    if b"__MIN" in others:
        return True
    # W&B quotes every field; a program that saved the file again may not have.
    table = header.startswith(b'"') or _decimal(rest.partition(b",")[0].decode(errors="replace")) is not None
    return table and all(b" - " in name for name in others.split(b","))


class _Column(NamedTuple):
    place: int
    run: Run
    metric: str


def read_wandb(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the table of a W&B chart: a column for the x axis, then ``RUN - METRIC`` with its minimum and maximum."""
    try:
        rows = list(csv.reader(io.StringIO(file.read().decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file.path}: cannot be read as CSV ({error}); export the chart again") from error
    header = rows[0]
    places = {name: k for k, name in enumerate(header)}
    extremes = {
        k: places[name[:-5]] for k, name in enumerate(header) if name[-5:] in ("__MIN", "__MAX") and name[:-5] in places
    }
    columns = list(_columns(header, extremes.keys()))
    spread = [(k, place) for k, place in extremes.items() if " - _" not in header[k]]  # not those of _step, _runtime
    times = Counter((column.run.name, column.metric) for column in columns)
    if repeated := [f"{run!r}" for (run, _), count in times.items() if count > 1]:
        reading.notes.append(f"{file.path}: several runs are called {listed(repeated, 3)}; they are numbered")
    if header[0] not in _STEPS:
        reading.notes.append(f"{file.path}: 'step' is the x axis of the chart, {header[0]!r}")
    binned = False
    for line, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"{file.path}, line {line}: has {len(row)} of {len(header)} fields; the file is damaged")
        step = _decimal(row[0])
        if step is None:
            raise InputError(
                f"{file.path}, line {line}: {row[0][:40]!r} in column {header[0]!r} is not a number; export the chart "
                "with a step as its x axis"
            )
        for k, run, metric in columns:
            if (value := _decimal(row[k])) is not None:
                yield Score(run, step, metric, value)
        binned = binned or any(row[k] and row[k] != row[place] for k, place in spread)
    if binned:
        reading.notes.append(
            f"{file.path}: minima and maxima differ from the values, so these are means over steps or over grouped "
            "runs; W&B thins out long series. scan_history() of its API gives every step of every run"
        )


def _columns(header: list[str], but: Collection[int]) -> Iterator[_Column]:
    """The columns of runs; those of one name, which W&B does not forbid, are numbered."""
    seen: Counter[str] = Counter()
    for k, name in enumerate(header):
        title, dash, metric = name.rpartition(" - ")  # names of runs may hold " - ", those of metrics do not
        if not k or k in but or not dash:
            continue
        seen[name] += 1
        yield _Column(k, Run(title, (f"({seen[name]})",) if seen[name] > 1 else ()), metric)


def _decimal(text: str) -> float | None:
    try:
        return real(float(text))
    except ValueError:
        return None
